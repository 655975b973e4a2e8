/* error.c: fills in a struct err; names for codes and signals. */
#include "base/error.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Writes decimal points whatever locale libddp's program has set. */
__attribute__((format(printf, 3, 0)))
static void err_format(struct err *e, int code, const char *fmt, va_list ap)
{
	/* "C" for all categories is a static object: it needs no freelocale */
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	locale_t old = uselocale(c);

	e->code = code;
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	uselocale(old);
}

int err_put(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (code >= 0)
		code = ERR_INTERNAL;
	if (!e)
		return code;
	va_start(ap, fmt);
	err_format(e, code, fmt, ap);
	va_end(ap);
	return code;
}

int err_put_no_memory(struct err *e, const char *what, ...)
{
	va_list ap;
	size_t n;

	if (!e)
		return -ENOMEM;
	va_start(ap, what);
	err_format(e, -ENOMEM, what, ap);
	va_end(ap);
	n = strlen(e->text);
	snprintf(e->text + n, sizeof(e->text) - n, ": out of memory");
	return -ENOMEM;
}

void err_note(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return;
	va_start(ap, fmt);
	err_format(e, 0, fmt, ap);
	va_end(ap);
}

const char *err_name(int code)
{
	switch (code) {
#define X(name, number, text)                                                 \
	case ERR_##name:                                                      \
		return text;
		ERR_LIST(X)
#undef X
	default:
		if (code == 0)
			return "success";
		if (code < 0 && code > -4096)
			return strerror(-code);
		return "unknown error";
	}
}

/* sigabbrev_np is neither in musl nor in glibc before 2.32. */
const char *signal_name(int number, char *out)
{
	static const char *const names[] = {
		[SIGHUP] = "HUP", [SIGINT] = "INT", [SIGQUIT] = "QUIT",
		[SIGILL] = "ILL", [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT",
		[SIGBUS] = "BUS", [SIGFPE] = "FPE", [SIGKILL] = "KILL",
		[SIGUSR1] = "USR1", [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
		[SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
#ifdef SIGSTKFLT
		[SIGSTKFLT] = "STKFLT",
#endif
		[SIGCHLD] = "CHLD", [SIGCONT] = "CONT", [SIGSTOP] = "STOP",
		[SIGTSTP] = "TSTP", [SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU",
		[SIGURG] = "URG", [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ",
		[SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF",
		[SIGWINCH] = "WINCH", [SIGPOLL] = "POLL", [SIGPWR] = "PWR",
		[SIGSYS] = "SYS",
	};
	const int n = sizeof(names) / sizeof(*names);

	if (number > 0 && number < n && names[number])
		snprintf(out, SIGNAL_NAME_MAX, "SIG%s", names[number]);
	else
		snprintf(out, SIGNAL_NAME_MAX, "signal %d", number);
	return out;
}
