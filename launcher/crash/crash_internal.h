/* crash_internal.h: the parts of the library that workers preload, for
 * crash_handler.c. */
#ifndef LAUNCHER_CRASH_INTERNAL_H
#define LAUNCHER_CRASH_INTERNAL_H

#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

/* ---- crash_environment.c ----
 *
 * The library's two variables in the environment of the program that has loaded
 * it, for crash_handler.c, whose library it is in. */

/* CRASH_VARIABLE's value, or NULL. */
const char *crash_environment_find(void);

/* Takes the library of that agent out of LD_PRELOAD, and CRASH_VARIABLE out of
 * the environment, unless this program is known to start others in its place:
 * a shell, Python, env, numactl and their like. What other programs start may
 * run as another user, in another container or on another host, where the
 * dynamic loader would complain that it cannot preload the library. Call it
 * before main. */
void crash_environment_leave(int32_t agent);

/* ---- crash_python.c ----
 *
 * The frames of Python of a thread that dies, for crash_handler.c, whose
 * library it is in. */

/* Writes them, as faulthandler prints them, to the record of the slot at that
 * offset of fd; nothing if the process has no Python. tid is the caller's. A
 * damaged interpreter costs the frames, and half a second at most. Leaves the
 * actions of SIGSEGV, SIGBUS and SIGALRM changed. */
void crash_python_put(int fd, uint64_t slot, int32_t tid);

/* ---- crash_threads.c ----
 *
 * An alternate signal stack for each thread that the program starts, for
 * crash_handler.c, whose library it is in: without one, the kernel cannot run a
 * handler when the thread's stack has overflowed. */

enum { CRASH_ALT_STACK = 64 << 10 };

/* From now on, pthread_create prepares its threads; until then, it only passes
 * the call on. Called once, before main. */
void crash_threads_begin(void);

/* ---- crash_bus.c ----
 *
 * The mapped file that a SIGBUS is about, for crash_handler.c, whose library it
 * is in. */

struct crash_file;

/* Fills in f, which is zero, if a file is mapped at address. */
void crash_bus_put(struct crash_file *f, uint64_t address);

/* ---- crash_children.c ----
 *
 * The children that this process waits for, for crash_handler.c, whose library
 * it is in: which of them a signal killed. Their parent may reap them at once,
 * and go on without them. */

/* Looks for the functions that it is called in place of. Called once, before
 * main: they may be called in handlers of signals, where dlsym may not. */
void crash_children_begin(void);

/* ---- crash_outer.c ----
 *
 * A handler of the program may set the default action and raise its signal
 * again, as Python's faulthandler does. For crash_handler.c, whose library it
 * is in. */

struct kernel_frame;

/* What the kernel has left for that handler, if it runs on the alternate stack:
 * the context of the fault itself. NULL: there is none. */
const struct kernel_frame *crash_outer_find(const ucontext_t *u);
/* Its siginfo. */
siginfo_t crash_outer_info(const struct kernel_frame *f, int number);
/* 1 and the siginfo of the thread's last fault, if the process has sent the
 * signal to itself after that. The kernel delivers it when the handler returns
 * to the instruction that faulted. */
int crash_outer_repeats(int number, const siginfo_t *info, const ucontext_t *u,
			siginfo_t *fault);

/* ---- crash_masks.c ----
 *
 * No thread blocks the signals of its own faults, as long as the program leaves
 * their default action, for crash_handler.c, whose library it is in. */

/* As crash_children_begin. */
void crash_masks_begin(void);
/* Lets the thread that calls it get them. */
void crash_masks_unblock(void);

/* ---- crash_handler.c ---- */

/* The signals that it catches, as the kernel's bits. */
uint64_t crash_caught(void);

/* Writes n bytes to the worker's own slot, at that offset of it, if it is
 * there. Async-signal-safe, as the next. */
void crash_put_part(uint32_t at, const void *bytes, uint64_t n);
/* The name of that process, or of its zombie; "" if it cannot be read. */
void crash_read_name(int32_t pid, char name[16]);
/* 1: this process leaves records. */
int crash_is_on(void);
/* The library's dlsym(RTLD_NEXT, name), or NULL. */
void *crash_find_next(const char *name);
/* The function of that name in the libpthread of a glibc before 2.34, or NULL.
 */
void *crash_find_in_pthread(const char *name);

#endif
