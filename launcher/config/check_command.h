/* check_command.h: `ddprun check [quick|full] [OPTIONS]`: a job like any other,
 * whose program is ddprun-check, once on each node. Knows which options that
 * gets; starts nothing. */
#ifndef LAUNCHER_CHECK_COMMAND_H
#define LAUNCHER_CHECK_COMMAND_H

#include "launcher/plan/wrap.h"

enum { CHECK_COMMAND_WORDS = CHECK_WORDS_MAX + 8 };

struct check_command {
	int argc;
	char **argv; /* ddprun's, with ddprun-check as its program */
	struct check_words words; /* private */
};

/* Whether that is the command line of `ddprun check`. */
int check_command_is(int argc, char **argv);

/* Makes the command line of the job. 0, OPTION_WANT_HELP, ERR_USAGE or -ENOMEM.
 * argv must outlive k. */
int check_command_init(struct check_command *k, int argc, char **argv,
		       struct err *e);
void check_command_release(struct check_command *k); /* also after an error */

void check_command_print_help(void);

#endif
