/* crash_threads.c: is called in place of the libc function pthread_create. */
#include "launcher/crash/crash_internal.h"
#include "launcher/crash/crash_kernel.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include <errno.h>
#include <pthread.h>

enum {
	GUARD = 64 << 10, /* a page, of any size that kernels have */
	THREAD_MAP = GUARD + CRASH_ALT_STACK + GUARD,
	MAP_READ_WRITE = 3, MAP_PRIVATE_ANONYMOUS = 0x22, PROTECT_NONE = 0,
};

typedef void *start_fn(void *);
typedef int create_fn(pthread_t *, const pthread_attr_t *, start_fn *, void *);

/* At the end of the mapping: a guard, the stack, and this. */
struct crash_thread {
	char *map;
	start_fn *start;
	void *arg;
};

WEAK int pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
WEAK int pthread_setspecific(pthread_key_t key, const void *value);

static struct {
	int is_on;
	pthread_key_t key;
	create_fn *next;
} threads;

/* The thread ends, perhaps by pthread_exit. A library that has replaced the
 * stack may have unmapped it, as AddressSanitizer does: what is mapped there
 * now may be another's, but not what is beside it. */
static void crash_thread_on_end(void *arg)
{
	struct crash_thread *t = arg;
	stack_t none = {.ss_flags = SS_DISABLE};
	stack_t was = {.ss_flags = 0};

	if (CALL(SYS_sigaltstack, NULL, &was) < 0)
		return;
	if (was.ss_sp != t->map + GUARD) {
		char *map = t->map;

		CALL(SYS_munmap, map + GUARD + CRASH_ALT_STACK, GUARD);
		CALL(SYS_munmap, map, GUARD);
	} else if (CALL(SYS_sigaltstack, &none, NULL) == 0) {
		CALL(SYS_munmap, t->map, THREAD_MAP);
	}
}

static void *crash_thread_start(void *arg)
{
	struct crash_thread *t = arg;
	start_fn *start = t->start;
	void *its_arg = t->arg;
	stack_t own = {.ss_sp = t->map + GUARD, .ss_size = CRASH_ALT_STACK};

	if (pthread_setspecific(threads.key, t) == 0)
		CALL(SYS_sigaltstack, &own, NULL);
	else
		CALL(SYS_munmap, t->map, THREAD_MAP);
	return start(its_arg);
}

/* NULL: no memory; the thread starts without. */
static struct crash_thread *crash_thread_new(start_fn *start, void *arg)
{
	long at = CALL(SYS_mmap, NULL, THREAD_MAP, MAP_READ_WRITE,
		       MAP_PRIVATE_ANONYMOUS, -1, 0);
	struct crash_thread *t;

	if (at < 0 && at > -4096)
		return NULL;
	CALL(SYS_mprotect, at, GUARD, PROTECT_NONE);
	t = (struct crash_thread *)(at + GUARD + CRASH_ALT_STACK);
	*t = (struct crash_thread){(char *)at, start, arg};
	return t;
}

__attribute__((visibility("default"))) int pthread_create(
	pthread_t *thread, const pthread_attr_t *attr, start_fn *start,
	void *arg)
{
	create_fn *next = __atomic_load_n(&threads.next, __ATOMIC_RELAXED);
	struct crash_thread *t;
	int rc;

	if (!next)
		next = (create_fn *)crash_find_next("pthread_create");
	if (!next)
		next = (create_fn *)crash_find_in_pthread("pthread_create");
	if (!next)
		return EAGAIN;
	__atomic_store_n(&threads.next, next, __ATOMIC_RELAXED);
	t = threads.is_on ? crash_thread_new(start, arg) : NULL;
	rc = t ? next(thread, attr, crash_thread_start, t)
	       : next(thread, attr, start, arg);
	if (rc && t)
		CALL(SYS_munmap, t->map, THREAD_MAP);
	return rc;
}

void crash_threads_begin(void)
{
	threads.is_on = pthread_key_create && pthread_setspecific &&
			pthread_key_create(&threads.key,
					   crash_thread_on_end) == 0;
}

#endif
