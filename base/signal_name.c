/* signal_name.c: the C library's names with their "SIG". */
#include "base/signal_name.h"

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
