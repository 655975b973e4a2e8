/* dump.h: `ddprun dump`: what the workers of a job are doing, seen from
 * outside: the call each is in, the ranks it waits for, and its stacks. Reads
 * the workers of this host directly, and asks the server for the others. */
#ifndef LAUNCHER_DUMP_H
#define LAUNCHER_DUMP_H

#include "base/buf.h"
#include "base/option.h"
#include "launcher/inspect/dump_query.h"
#include "launcher/inspect/local_workers.h"

struct dump_options {
	const char *job; /* NULL: all */
	const char *server; /* --rdzv-endpoint, or NULL */
	const char *auth, *token_file; /* for that server */
	const char *merge; /* a folder of recorded calls, or NULL */
	long last;       /* how many calls of each worker */
	long agent;      /* only that ddprun's workers; 0: all */
	double timeout_s; /* for other nodes */
	int json, no_stacks, here;
	int all_nodes; /* all nodes of agent's job */
};

extern const struct option_spec dump_options[];

/* argv[0] is "dump". Returns the exit code. */
int dump_main(int argc, char **argv);

/* Appends all of l as JSON: a node's page. */
int dump_put_json(struct buf *out, const struct local_workers *l,
		  const struct dump_options *o, struct err *e);
/* Appends the answers of n jobs' nodes, the workers of this host, and the lines
 * about all of them. */
int dump_put_nodes_json(struct buf *out, const struct dump_query *queries,
			size_t n, const struct local_workers *l,
			const struct buf *findings,
			const struct dump_options *o, struct err *e);

#endif
