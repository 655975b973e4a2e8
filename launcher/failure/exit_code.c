/* exit_code.c: the exit code for the party that an error blames. */
#include "launcher/failure/exit_code.h"

int exit_code_of(const struct err *e)
{
	switch (e->code) {
	case ERR_USAGE:
	case ERR_ARGUMENT:
		return EXIT_BAD_USAGE;
	case ERR_REFUSED:
	case ERR_PROOF:
		return EXIT_REFUSED;
	case ERR_TIMEOUT:
		return EXIT_TIMED_OUT;
	case ERR_PROTOCOL:
		return EXIT_PROTOCOL;
	case ERR_REMOTE:
	case ERR_ABORTED:
	case ERR_MOVED:
	case ERR_NOT_YET:
	case ERR_NO_ETCD:
		return EXIT_LOST;
	case ERR_INTERNAL:
		return EXIT_INTERNAL;
	default:
		return EXIT_OS;
	}
}

int exit_code_refusal(int code)
{
	int is_system = code == ERR_SYSTEM || code > ERR_ARGUMENT;

	return is_system ? ERR_REMOTE : ERR_REFUSED;
}
