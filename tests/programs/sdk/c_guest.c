/* c_guest.c: a worker for any launcher. Prints "rank R of N, local L of M, node
 * K of J: ok" if all sums and the store are right, else "rank R: CODE: TEXT",
 * and exits with 1.
 *
 *   c_guest             once           c_guest twice    two worlds in turn
 *   c_guest kill R      rank R dies of kill -9 between two calls; the others
 *                       ignore SIGTERM, so that they can print the error
 *   c_guest leave R     rank R exits after ddp_finalize; the others get an
 *                       error
 *   c_guest wait FIFO   after its line waits for a writer of FIFO, before it
 *                       leaves the world
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker-sdk/ddp.h"

static char line[2048];

/* In one write: launchers mix the output of their ranks. */
static int say(int rc, int rank)
{
	size_t n;

	if (rc)
		snprintf(line, sizeof(line), "rank %d: %d: %s\n", rank, rc,
			 ddp_last_error());
	n = strlen(line);
	return write(1, line, n) == (ssize_t)n && !rc ? 0 : 1;
}

static int check_sums(ddp_comm *c)
{
	int64_t n = ddp_rank(c) + 1, size = ddp_world_size(c), sum = 0;
	int rc = ddp_all_reduce(c, &n, &sum, 1, DDP_I64, DDP_SUM);

	if (!rc && sum != size * (size + 1) / 2)
		rc = DDP_ERR_DATA;
	if (!rc)
		rc = ddp_store_add(c, "sum", n, NULL);
	if (!rc)
		rc = ddp_barrier(c);
	if (!rc)
		rc = ddp_store_add(c, "sum", 0, &sum);
	return !rc && sum != size * (size + 1) / 2 ? DDP_ERR_DATA : rc;
}

static int misbehave(ddp_comm *c, const char *mode, int culprit)
{
	int rc = 0;

	if (ddp_rank(c) == culprit && !strcmp(mode, "kill"))
		raise(SIGKILL);
	if (ddp_rank(c) == culprit)
		return 0;
	while (!rc)
		rc = ddp_barrier(c);
	return rc;
}

static int run(const char *mode, const char *arg)
{
	ddp_comm *c;
	int rank, rc = ddp_init(&c, NULL);

	if (rc)
		return say(rc, -1);
	rank = ddp_rank(c);
	snprintf(line, sizeof(line),
		 "rank %d of %d, local %d of %d, node %d of %d: ok\n", rank,
		 ddp_world_size(c), ddp_local_rank(c),
		 ddp_local_world_size(c), ddp_node_rank(c), ddp_nodes(c));
	rc = check_sums(c);
	if (!rc && arg && strcmp(mode, "wait"))
		rc = misbehave(c, mode, atoi(arg));
	rc = say(rc, rank);
	if (!rc && arg && !strcmp(mode, "wait"))
		close(open(arg, O_RDONLY)); /* a fifo: until it has a writer */
	ddp_finalize(c);
	return rc;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int rc;

	if (!strcmp(mode, "kill"))
		signal(SIGTERM, SIG_IGN);
	rc = run(mode, argc > 2 ? argv[2] : NULL);
	if (!rc && !strcmp(mode, "twice"))
		rc = run(mode, NULL);
	return rc;
}
