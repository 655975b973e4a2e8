/* log.c: one log line, formatted, in one write. */
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"

enum { LINE_MAX_BYTES = 4096 };

static const char *program = "ddprun";
static enum log_level threshold = LOG_INFO;
static void (*line_sink)(void *arg, const char *line, unsigned long len);
static void *sink_arg;

static int log_level_parse(const char *text, enum log_level *level)
{
	static const struct {
		const char *name;
		enum log_level level;
	} names[] = {
		{"error", LOG_ERROR}, {"critical", LOG_ERROR},
		{"warn", LOG_WARN},   {"warning", LOG_WARN},
		{"info", LOG_INFO},   {"debug", LOG_DEBUG},
	};

	for (size_t i = 0; text && i < sizeof(names) / sizeof(*names); i++) {
		if (strcasecmp(text, names[i].name) == 0) {
			*level = names[i].level;
			return 1;
		}
	}
	return 0;
}

void log_init(const char *name)
{
	program = name;
	if (!log_level_parse(getenv("DDP_LOG"), &threshold))
		log_level_parse(getenv("LOGLEVEL"), &threshold);
}

void log_set_default(enum log_level level)
{
	threshold = level;
}

void log_set_sink(void (*sink)(void *arg, const char *line, unsigned long len),
		  void *arg)
{
	line_sink = sink;
	sink_arg = arg;
}

int log_enabled(enum log_level level)
{
	return level <= threshold;
}

/* Names and texts of others may contain what a terminal would obey: control
 * characters, and those of Latin-1 in UTF-8. */
static void log_disarm(char *text, int len)
{
	for (int i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		unsigned char next = (unsigned char)text[i + 1];

		if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f)
			text[i] = '?';
		else if (c == 0xc2 && next >= 0x80 && next < 0xa0)
			text[i] = text[i + 1] = '?';
	}
}

void log_at(enum log_level level, const char *fmt, ...)
{
	static const char *const marks[] = {"", "warning: ", "", "debug: "};
	char line[LINE_MAX_BYTES];
	int len, more;
	va_list ap;

	if (!log_enabled(level))
		return;
	len = snprintf(line, sizeof(line), "%s: %s", program, marks[level]);
	va_start(ap, fmt);
	more = vsnprintf(line + len, sizeof(line) - (size_t)len - 1, fmt, ap);
	va_end(ap);
	if (more < 0)
		return;
	len += more;
	if (len > (int)sizeof(line) - 2)
		len = (int)sizeof(line) - 2;
	log_disarm(line, len);
	line[len++] = '\n';
	if (line_sink)
		line_sink(sink_arg, line, (unsigned long)len);
	else if (file_write_all(STDERR_FILENO, line, (size_t)len) < 0)
		return; /* there is nowhere else to report it */
}

/* ---- a crash: only calls that a signal handler may make ---- */

static const struct {
	int number;
	const char *end;
} log_crashes[] = {
	{SIGABRT, " aborted: "},
	{SIGSEGV, " crashed with SIGSEGV: "},
	{SIGBUS, " crashed with SIGBUS: "},
	{SIGILL, " crashed with SIGILL: "},
	{SIGFPE, " crashed with SIGFPE: "},
};
enum { LOG_CRASHES = sizeof(log_crashes) / sizeof(*log_crashes) };

static void log_put_text(char *line, size_t *len, const char *text)
{
	size_t n = strlen(text);

	if (*len + n >= LINE_MAX_BYTES)
		return;
	memcpy(line + *len, text, n);
	*len += n;
}

static void log_put_number(char *line, size_t *len, unsigned long n)
{
	char digits[24];
	size_t at = sizeof(digits);

	digits[--at] = '\0';
	do {
		digits[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	log_put_text(line, len, digits + at);
}

/* libuv aborts at once, so that errno is still that of the call. */
static const char *log_abort_reason(int number, int error)
{
	if (number == SIGABRT && error == EMFILE)
		return "too many open files; raise the limit (ulimit -n)";
	if (number == SIGABRT && error == ENFILE)
		return "too many open files on this host; raise fs.file-max";
	if (number == SIGABRT && error == ENOMEM)
		return "out of memory; start fewer processes there, or raise "
		       "the job's limit of memory";
	if (number == SIGABRT && error == ENOSPC)
		return "too many watched files; raise "
		       "fs.epoll.max_user_watches";
	return "this is a bug; report it with the stack from its core file";
}

static void log_on_crash(int number, siginfo_t *info, void *context)
{
	const int error = errno;
	const char *end = "";
	char line[LINE_MAX_BYTES];
	struct utsname host;
	size_t len = 0;

	for (int i = 0; i < LOG_CRASHES; i++) {
		if (log_crashes[i].number == number)
			end = log_crashes[i].end;
	}
	log_put_text(line, &len, program);
	log_put_text(line, &len, ": error: ");
	log_put_text(line, &len, program);
	if (uname(&host) == 0) {
		log_put_text(line, &len, " on ");
		log_put_text(line, &len, host.nodename);
	}
	log_put_text(line, &len, " (pid ");
	log_put_number(line, &len, (unsigned long)getpid());
	log_put_text(line, &len, ")");
	log_put_text(line, &len, end);
	log_put_text(line, &len, log_abort_reason(number, error));
	log_put_text(line, &len, "\n");
	/* a positive code: the kernel's */
	if ((info->si_code > 0 || info->si_pid == getpid()) &&
	    write(STDERR_FILENO, line, len) < 0)
		len = 0; /* there is nowhere else to report it */
	raise(number); /* SA_RESETHAND: it ends the process */
}

void log_report_crashes(void)
{
	struct sigaction action = {.sa_sigaction = log_on_crash,
				   .sa_flags = SA_SIGINFO | SA_RESETHAND |
					       SA_NODEFER | SA_ONSTACK};
	struct sigaction was;

	for (int i = 0; i < LOG_CRASHES; i++) {
		int number = log_crashes[i].number;

		if (sigaction(number, NULL, &was) == 0 &&
		    was.sa_handler == SIG_DFL)
			sigaction(number, &action, NULL);
	}
}
