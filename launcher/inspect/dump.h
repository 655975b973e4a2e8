/* dump.h: `ddprun dump`: what the workers of a job are doing now, from outside:
 * who waits in which call, for whom, and where in the program. Those of other
 * nodes are asked for; those of this one are looked at. */
#ifndef LAUNCHER_DUMP_H
#define LAUNCHER_DUMP_H

#include "base/buf.h"
#include "base/option.h"
#include "launcher/inspect/ask.h"
#include "launcher/inspect/look.h"

struct dump_options {
	const char *job; /* NULL: all */
	const char *server; /* --rdzv-endpoint, or NULL */
	const char *auth, *token_file; /* as ddprun's, for that one */
	long last;       /* calls of each worker */
	long agent;      /* only this ddprun's; 0: all */
	double timeout_s; /* for other nodes */
	int json, no_stacks, here;
};

extern const struct option_spec dump_options[];

/* argv[0] is "dump". What ddprun exits with. */
int dump_main(int argc, char **argv);

/* Appends all that l has, as JSON: a node's page. */
int dump_put_json(struct buf *out, const struct look *l,
		  const struct dump_options *o, struct err *e);
/* The nodes of n jobs that were asked, and what was looked at besides. */
int dump_put_nodes_json(struct buf *out, const struct ask *asked, size_t n,
			const struct look *l, const struct dump_options *o,
			struct err *e);

#endif
