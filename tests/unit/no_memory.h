/* no_memory.h: the next no_memory calls of malloc and calloc for something as
 * large as a socket's handle fail; Check's own are smaller. The Makefile wraps
 * both functions. */
#ifndef TESTS_UNIT_NO_MEMORY_H
#define TESTS_UNIT_NO_MEMORY_H

#include <errno.h>
#include <stddef.h>

static int no_memory;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);

enum { NO_MEMORY_FROM = 200 }; /* bytes */

static int fails(size_t bytes)
{
	if (no_memory == 0 || bytes < NO_MEMORY_FROM)
		return 0;
	no_memory--;
	errno = ENOMEM;
	return 1;
}

void *__wrap_malloc(size_t n)
{
	return fails(n) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t each)
{
	return fails(n * each) ? NULL : __real_calloc(n, each);
}

#endif
