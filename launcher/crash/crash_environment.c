/* crash_environment.c: which programs hand the library on to others. */
#include "launcher/crash/crash_internal.h"

#include <stddef.h>

#include "launcher/crash/crash_kernel.h"

#if defined(__x86_64__) || defined(__aarch64__)

enum { AT_CWD_FD = -100 };

__attribute__((weak)) extern char **environ;

/* By the names of their executables; python3.11 is a python as well. */
static const char wrappers[] =
	"|ash|bash|chrt|dash|env|gdb|ionice|ksh|nice|nohup|nsys|numactl|perf"
	"|prlimit|pypy|python|setarch|setsid|sh|stdbuf|strace|taskset|time"
	"|timeout|uv|zsh|";

/* The rest of text after start, or NULL. */
static char *crash_environment_after(char *text, const char *start)
{
	while (*start && *text == *start) {
		text++;
		start++;
	}
	return *start ? NULL : text;
}

static char *crash_environment_get(char **v, const char *name)
{
	char *value = crash_environment_after(*v, name);

	return value && *value == '=' ? value + 1 : NULL;
}

const char *crash_environment_find(void)
{
	for (char **v = &environ ? environ : NULL; v && *v; v++)
		if (crash_environment_get(v, CRASH_VARIABLE))
			return crash_environment_get(v, CRASH_VARIABLE);
	return NULL;
}

/* name without a version's digits and dots, between bars. */
static int crash_environment_is_listed(const char *name, size_t n)
{
	while (n && ((name[n - 1] >= '0' && name[n - 1] <= '9') ||
		     name[n - 1] == '.'))
		n--;
	for (const char *at = wrappers; n && at[1]; at++) {
		size_t i = 0;

		while (*at == '|' && i < n && at[i + 1] == name[i])
			i++;
		if (i == n && at[i + 1] == '|')
			return 1;
	}
	return 0;
}

static int crash_environment_is_wrapper(void)
{
	char path[4096] = "";
	long n = CALL(SYS_readlinkat, AT_CWD_FD, "/proc/self/exe", path,
		      sizeof(path));
	long name = n;

	while (name > 0 && path[name - 1] != '/')
		name--;
	return n > 0 && crash_environment_is_listed(path + name,
						    (size_t)(n - name));
}

static int crash_environment_ends(char c)
{
	return c == '\0' || c == ':' || c == ' ';
}

/* Whether the path at text is of an open file of the agent. */
static int crash_environment_is_agents(char *text, int32_t agent)
{
	char digits[12];
	size_t n = sizeof(digits) - 1;

	digits[n] = '\0';
	do
		digits[--n] = (char)('0' + agent % 10);
	while (agent /= 10);
	text = crash_environment_after(text, "/proc/");
	text = text ? crash_environment_after(text, digits + n) : NULL;
	return text && crash_environment_after(text, "/fd/");
}

/* Drops the agent's entries of the list, in place. */
static void crash_environment_cut(char *list, int32_t agent)
{
	char *to = list, *from = list;

	while (*from) {
		char *end = from;

		while (!crash_environment_ends(*end))
			end++;
		if (!crash_environment_is_agents(from, agent)) {
			if (to > list)
				*to++ = ':';
			while (from < end)
				*to++ = *from++;
		}
		from = *end ? end + 1 : end;
	}
	*to = '\0';
}

void crash_environment_leave(int32_t agent)
{
	char **to = &environ ? environ : NULL;

	if (!to || crash_environment_is_wrapper())
		return;
	for (char **v = to; *v; v++) {
		char *preload = crash_environment_get(v, "LD_PRELOAD");

		if (preload)
			crash_environment_cut(preload, agent);
		if (!crash_environment_get(v, CRASH_VARIABLE) &&
		    !(preload && !*preload))
			*to++ = *v;
	}
	*to = NULL;
}

#endif
