/* signal_set.c: parses lists of signals. */
#include "launcher/worker/signal_set.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/option.h"

enum { WORD_MAX = 32 };

static int signal_set_is_in(const int *numbers, size_t n, int number)
{
	for (size_t i = 0; i < n; i++) {
		if (numbers[i] == number)
			return 1;
	}
	return 0;
}

/* Why the signal cannot be on a list, or NULL. */
static const char *signal_set_objection(int number)
{
	static const int uncaught[] = {SIGKILL, SIGSTOP};
	static const int needed[] = {SIGCHLD, SIGPIPE};
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
				     SIGABRT, SIGSYS};
	static const int control[] = {SIGTSTP, SIGCONT, SIGTTIN, SIGTTOU};

#define IN(list) signal_set_is_in(list, sizeof(list) / sizeof(*list), number)
	if (IN(uncaught))
		return "no program can catch it";
	if (IN(needed) || (number > 31 && number < SIGRTMIN))
		return "ddprun needs it for itself";
	if (IN(faults))
		return "it reports a fault in ddprun itself";
	if (IN(control))
		return "ddprun passes stopping and continuing on anyway";
#undef IN
	return NULL;
}

static int signal_set_by_name(const char *name)
{
	char known[SIGNAL_NAME_MAX];
	long above = 0;

	if (strncasecmp(name, "SIG", 3) == 0)
		name += 3;
	if (strncasecmp(name, "RTMIN", 5) == 0) {
		if (name[5] && (name[5] != '+' ||
				parse_long(name + 6, 0, SIGRTMAX - SIGRTMIN,
					   "", &above, NULL) < 0))
			return 0;
		return SIGRTMIN + (int)above;
	}
	for (int i = 1; i <= SIGNAL_SET_MAX; i++) {
		if (strncmp(signal_name(i, known), "SIG", 3) == 0 &&
		    strcasecmp(known + 3, name) == 0)
			return i;
	}
	return 0;
}

static int signal_set_parse_word(const char *word, const char *option,
				 struct err *e)
{
	char name[SIGNAL_NAME_MAX];
	const char *why;
	long number;

	if (parse_long(word, 1, SIGNAL_SET_MAX, "", &number, NULL) < 0)
		number = signal_set_by_name(word);
	if (!number)
		return err_set(e, ERR_USAGE,
			       "%s: '%s' is not a signal; give names like "
			       "SIGUSR1 or USR1, or numbers (kill -l lists "
			       "them), separated by commas",
			       option, word);
	why = signal_set_objection((int)number);
	if (why)
		return err_set(e, ERR_USAGE, "%s: %s cannot be on this list: "
			       "%s", option, signal_name((int)number, name),
			       why);
	return (int)number;
}

int signal_set_parse(struct signal_set *set, const char *text,
		     const char *option, struct err *e)
{
	char word[WORD_MAX];

	set->bits = 0;
	while (*text) {
		int len = (int)strcspn(text, ","), number;

		/* a longer word names no signal; the error shows its start */
		snprintf(word, sizeof(word), "%.*s", len, text);
		number = signal_set_parse_word(word, option, e);
		if (number < 0)
			return number;
		set->bits |= UINT64_C(1) << (number - 1);
		text += len;
		if (*text && !*++text)
			return err_set(e, ERR_USAGE, "%s: the list ends with a "
				       "comma", option);
	}
	return 0;
}

struct signal_set signal_set_of(int number)
{
	return (struct signal_set){number ? UINT64_C(1) << (number - 1) : 0};
}

int signal_set_has(const struct signal_set *set, int number)
{
	return number >= 1 && number <= SIGNAL_SET_MAX &&
	       (set->bits >> (number - 1) & 1);
}

int signal_set_common(const struct signal_set *a, const struct signal_set *b)
{
	for (int i = 1; i <= SIGNAL_SET_MAX; i++) {
		if (signal_set_has(a, i) && signal_set_has(b, i))
			return i;
	}
	return 0;
}
