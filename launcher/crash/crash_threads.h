/* crash_threads.h: an alternate signal stack for each thread that the program
 * starts, for crash_handler.c, whose library it is in: without one, the kernel
 * cannot run a handler when the thread's stack has overflowed. */
#ifndef LAUNCHER_CRASH_THREADS_H
#define LAUNCHER_CRASH_THREADS_H

enum { CRASH_ALT_STACK = 64 << 10 };

/* From now on, pthread_create prepares its threads; until then, it only passes
 * the call on. Called once, before main. */
void crash_threads_begin(void);

/* The library's dlsym(RTLD_NEXT, name), or NULL. In crash_handler.c. */
void *crash_find_next(const char *name);
/* The function of that name in the libpthread of a glibc before 2.34, or NULL.
 * In crash_handler.c. */
void *crash_find_in_pthread(const char *name);

#endif
