/* crash_fork.c: the fork of --preload's template process (launcher/preload).
 * Its worker is to be a child of ddprun, so the process that forks it ends. */
#include "launcher/crash/crash_internal.h"
#include "launcher/crash/crash_kernel.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include <errno.h>
#include <sys/types.h>

#define KEPT __attribute__((visibility("default")))

enum { SHARES_MEMORY = 0x100, PARENT_WAITS = 0x4000 }; /* sched.h's */

WEAK pid_t fork(void);
WEAK int *__errno_location(void);

/* Forks as libc does, from a process that shares our memory and ends at once.
 * A copy of the memory for that process would take as long as the worker's,
 * and its end even longer. 0: this is the new process; -1: impossible; else the
 * process between them, for waitpid: its exit code is an errno or 0.
 *
 * The process uses our stack below this frame while the kernel keeps us
 * waiting, and leaves by a system call. After that only rc is used, which the
 * kernel has put into a register. */
KEPT __attribute__((noinline)) int ddprun_fork_orphan(void);
KEPT __attribute__((noinline)) int ddprun_fork_orphan(void)
{
	long rc = -1;

	if (!fork || !__errno_location)
		return -1;
	rc = CALL(SYS_clone, SHARES_MEMORY | PARENT_WAITS | SIGCHLD, 0);
	if (rc != 0)
		return (int)(rc < 0 ? -1 : rc);
	rc = fork();
	if (rc == 0)
		return 0;
	CALL(SYS_exit_group, rc < 0 ? *__errno_location() : 0);
	__builtin_unreachable();
}

#endif
