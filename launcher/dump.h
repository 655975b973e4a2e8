/* dump.h: `ddprun dump`: what the workers of this host are doing now, from
 * outside: who waits in which call, for whom, and where in the program. */
#ifndef LAUNCHER_DUMP_H
#define LAUNCHER_DUMP_H

#include "base/buf.h"
#include "base/option.h"
#include "launcher/look.h"

struct dump_options {
	const char *job; /* NULL: all */
	long last;       /* calls of each worker */
	int json, no_stacks;
};

extern const struct option_spec dump_options[];

/* argv[0] is "dump". What ddprun exits with. */
int dump_main(int argc, char **argv);

/* Appends all that l has, as JSON. */
int dump_put_json(struct buf *out, const struct look *l,
		  const struct dump_options *o, struct err *e);

#endif
