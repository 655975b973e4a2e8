/* signal_name.c: the C library's names, with what they lack. */
#include "base/signal_name.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

const char *signal_name(int number, char *out)
{
	const char *abbreviated = sigabbrev_np(number);

	if (abbreviated)
		snprintf(out, SIGNAL_NAME_MAX, "SIG%s", abbreviated);
	else
		snprintf(out, SIGNAL_NAME_MAX, "signal %d", number);
	return out;
}

int signal_number(const char *name)
{
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	for (int i = 1; i < NSIG; i++) {
		const char *known = sigabbrev_np(i);

		if (known && strcmp(known, name) == 0)
			return i;
	}
	return 0;
}
