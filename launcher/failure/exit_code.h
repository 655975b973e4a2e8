/* exit_code.h: ddprun's exit codes, for exits that report no worker's own code.
 * Pure. From 64 on they are sysexits.h's. */
#ifndef LAUNCHER_EXIT_CODE_H
#define LAUNCHER_EXIT_CODE_H

#include "base/error.h"

enum {
	EXIT_BAD_USAGE = 2,
	EXIT_NOT_FOUND = 127,      /* the program; a shell's code for it */
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_LOST = 69,            /* the rendezvous server, or another node */
	EXIT_INTERNAL = 70,
	EXIT_OS = 71,              /* this host refused an operation */
	EXIT_TIMED_OUT = 75,
	EXIT_PROTOCOL = 76,        /* the other end is not our ddprdzv */
	EXIT_UNFIT = 78,           /* --preflight found this node unfit; also
				    * ddprun-check's code */
	EXIT_HANGS = 79,           /* a rank; sysexits end with 78 */
	EXIT_REFUSED = 77,         /* the server refused us, or a proof was
				    * missing */
};

/* The exit code for an error other than of the program to run. */
int exit_code_of(const struct err *e);
/* The exit code for an error reply: ERR_REMOTE if the host of the server
 * failed (memory), else ERR_REFUSED. */
int exit_code_refusal(int code);

#endif
