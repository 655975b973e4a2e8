/* old_glibc.h: calls of Linux that glibc 2.28 has no function for. `make wheel`
 * includes it before each source. */
#ifndef PYTHON_OLD_GLIBC_H
#define PYTHON_OLD_GLIBC_H

/* its headers may be newer than its functions */
#define DDP_OLD_GLIBC 1

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !__GLIBC_PREREQ(2, 34)
static inline int close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}
#endif
#if !__GLIBC_PREREQ(2, 32)
/* "KILL", or NULL */
static inline const char *old_sigabbrev(int signal)
{
	static const char *const names[] = {
		[SIGHUP] = "HUP", [SIGINT] = "INT", [SIGQUIT] = "QUIT",
		[SIGILL] = "ILL", [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT",
		[SIGBUS] = "BUS", [SIGFPE] = "FPE", [SIGKILL] = "KILL",
		[SIGUSR1] = "USR1", [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
		[SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
		[SIGSTKFLT] = "STKFLT", [SIGCHLD] = "CHLD",
		[SIGCONT] = "CONT", [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
		[SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU", [SIGURG] = "URG",
		[SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ",
		[SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF",
		[SIGWINCH] = "WINCH", [SIGIO] = "POLL", [SIGPWR] = "PWR",
		[SIGSYS] = "SYS",
	};
	const int n = sizeof(names) / sizeof(*names);

	return signal > 0 && signal < n ? names[signal] : NULL;
}
#define sigabbrev_np old_sigabbrev
#endif

#endif
