/* core_file.c: from the kernel's pattern to the file. */
#include "launcher/failure/postmortem.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define PATTERN "/proc/sys/kernel/core_pattern"
#define USES_PID "/proc/sys/kernel/core_uses_pid"

int core_file_is_expected(int signal)
{
	switch (signal) {
	case SIGQUIT: case SIGILL: case SIGABRT: case SIGFPE: case SIGSEGV:
	case SIGBUS: case SIGSYS: case SIGTRAP: case SIGXCPU: case SIGXFSZ:
		return 1;
	default:
		return 0;
	}
}

/* Escapes the characters that are special to glob. */
static void core_file_put_literal(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("*?[]\\{}~", *text))
			buf_put(out, "\\", 1);
		buf_put(out, text, 1);
	}
}

static void core_file_put_number(struct buf *out, long n)
{
	buf_printf(out, "%ld", n);
}

static void core_file_put_specifier(struct buf *out, char c,
				    const struct core_process *of)
{
	switch (c) {
	case 'p':
		core_file_put_number(out, of->pid);
		break;
	case 's':
		core_file_put_number(out, of->signal);
		break;
	case 'u':
		core_file_put_number(out, (long)getuid());
		break;
	case 'g':
		core_file_put_number(out, (long)getgid());
		break;
	case 'h':
		core_file_put_literal(out, of->host);
		break;
	default: /* the program's name or path, the time, a thread id */
		buf_put(out, "*", 1);
	}
}

void core_file_glob(struct buf *out, const char *pattern, int uses_pid,
		    const struct core_process *of)
{
	int pid = 0;

	if (pattern[0] != '/') {
		core_file_put_literal(out, of->cwd);
		buf_put(out, "/", 1);
	}
	for (; *pattern; pattern++) {
		char one[2] = {*pattern, '\0'};

		if (*pattern != '%') {
			core_file_put_literal(out, one);
			continue;
		}
		pattern++;
		if (*pattern == '\0') /* the kernel drops a lone % */
			break;
		if (*pattern == '%') {
			buf_put(out, "%", 1);
			continue;
		}
		pid |= *pattern == 'p';
		core_file_put_specifier(out, *pattern, of);
	}
	if (uses_pid && !pid)
		buf_printf(out, ".%ld", (long)of->pid);
}

int core_file_find(const char *pattern, time_t since, char *path, size_t size)
{
	time_t best = 0;
	glob_t g;

	path[0] = '\0';
	if (glob(pattern, GLOB_NOSORT, NULL, &g) != 0)
		return 0;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		struct stat st;

		if (stat(g.gl_pathv[i], &st) < 0 || !S_ISREG(st.st_mode) ||
		    st.st_mtime < since || st.st_mtime < best)
			continue;
		best = st.st_mtime;
		snprintf(path, size, "%s", g.gl_pathv[i]);
	}
	globfree(&g);
	return path[0] != '\0';
}

static void core_file_describe_piped(struct buf *why, const char *to, pid_t pid)
{
	int n = (int)strcspn(to, " ");

	buf_printf(why, "core dumped, piped to %.*s", n, to);
	if (strstr(to, "systemd-coredump"))
		buf_printf(why, " (coredumpctl info %d)", (int)pid);
}

static void core_file_describe_dumped(struct buf *why,
				      const struct core_process *of)
{
	char pattern[512], uses_pid[16], path[4096];
	struct buf glob_text = BUF_INIT(8 << 10);

	if (file_read_text(PATTERN, pattern, sizeof(pattern)) <= 0) {
		buf_printf(why, "core dumped");
		return;
	}
	pattern[strcspn(pattern, "\n")] = '\0';
	if (pattern[0] == '|') {
		core_file_describe_piped(
			why, pattern + 1 + strspn(pattern + 1, " "), of->pid);
		return;
	}
	file_read_text(USES_PID, uses_pid, sizeof(uses_pid));
	core_file_glob(&glob_text, pattern, uses_pid[0] == '1', of);
	buf_put(&glob_text, "", 1);
	if (glob_text.failed)
		buf_printf(why, "core dumped");
	else if (core_file_find(glob_text.data, of->since, path, sizeof(path)))
		buf_printf(why, "core file %s", path);
	else
		buf_printf(why, "core dumped, but not found at %s",
			   glob_text.data);
	buf_release(&glob_text);
}

void core_file_describe(struct buf *why, int dumped,
			const struct core_process *of)
{
	struct rlimit limit;

	if (dumped)
		core_file_describe_dumped(why, of);
	else if (getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0)
		buf_printf(why, "no core file: ulimit -c is 0");
	else
		buf_printf(why, "no core file was written");
}
