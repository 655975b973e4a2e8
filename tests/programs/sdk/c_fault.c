/* c_fault.c: one rank misbehaves, and the others print what libddp reports: a
 * line "rank R: CODE in MS ms: TEXT". The others ignore SIGTERM, because the
 * agent sends it as soon as the first rank ends. If the culprit ends at once,
 * the ranks must already be started with SIGTERM ignored.
 *
 *   c_fault MODE CULPRIT [TIMEOUT_MS [FORM]]
 *   exit    exits with 0 before ddp_init       fail    exits with 3 before it
 *   kill    dies of kill -9 during all_reduce calls; kill-first: before any
 *   late    never makes the third call         leave   ddp_finalize, then waits
 *   early   exits with 0 between the calls; done: after ddp_finalize
 *   unwind  ddp_finalize, and 3 s later an error and exit code 3, like an
 *           interpreter that unwinds after an exception
 *   fork    its child calls ddp_finalize, which must not matter
 *   differ  calls broadcast where the others call all_reduce; differ-type and
 *           differ-count: all_reduce with another type or count
 *   stop    stops itself and never continues
 *   on      no rank misbehaves; prints "rank R goes on" after the third call
 *
 * FORM: `async`, begins the third call and two more together, then waits for
 * them; `thread`, with a progress thread; `store`, with one too, while the
 * program waits in the store for a key that no rank sets.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "worker-sdk/ddp.h"

static float data[3][40000];
static const char *form = "";

static int let_child_finalize(ddp_comm *world)
{
	pid_t child = fork();

	if (child < 0)
		return -1;
	if (child == 0) {
		ddp_finalize(world);
		_exit(0);
	}
	if (waitpid(child, NULL, 0) != child)
		return -1;
	return ddp_all_reduce(world, data[0], data[0], 40000, DDP_F32,
			      DDP_AVG);
}

/* The culprit's part before the third call. */
static int misbehave(const char *mode, ddp_comm *world)
{
	if (!strncmp(mode, "kill", 4))
		raise(SIGKILL);
	if (!strcmp(mode, "stop"))
		raise(SIGSTOP);
	if (!strcmp(mode, "differ"))
		return ddp_broadcast(world, data[0], 7, DDP_I64, 0);
	if (!strcmp(mode, "differ-type"))
		return ddp_all_reduce(world, data[0], data[0], 40000, DDP_I32,
				      DDP_SUM);
	if (!strcmp(mode, "differ-count"))
		return ddp_all_reduce(world, data[0], data[0], 39999, DDP_F32,
				      DDP_AVG);
	if (!strcmp(mode, "fork"))
		return let_child_finalize(world);
	if (!strcmp(mode, "early"))
		exit(0);
	if (!strcmp(mode, "leave") || !strcmp(mode, "done") ||
	    !strcmp(mode, "unwind"))
		ddp_finalize(world);
	if (!strcmp(mode, "unwind")) {
		/* like an interpreter that unwinds for seconds */
		sleep(3);
		fprintf(stderr, "cannot open shard 7\n");
		exit(3);
	}
	if (!strcmp(mode, "done"))
		exit(0);
	for (;;)
		pause();
}

/* The others' third call, and what they have under way besides. */
static int be_many(ddp_comm *world)
{
	ddp_request *r[3];
	int rc = 0, all;

	for (int i = 0; i < 3; i++) {
		r[i] = NULL;
		if (!rc)
			rc = ddp_all_reduce_async(world, data[i], data[i],
						  40000, DDP_F32, DDP_AVG,
						  &r[i]);
	}
	if (!strcmp(form, "store"))
		ddp_store_get(world, "never", NULL, 0, -1);
	all = ddp_wait_all(r, 3);
	return all ? all : rc;
}

int main(int argc, char **argv)
{
	const char *mode = argv[1], *rank = getenv("RANK");
	int culprit = !strcmp(argv[2], rank), rc = 0;
	int on = !strcmp(mode, "on");
	struct ddp_options options = {NULL, argc > 3 ? atoi(argv[3]) : 0};
	ddp_comm *world = NULL;
	uint64_t start;

	if (argc > 4)
		form = argv[4];
	if (on)
		culprit = 0;
	if (culprit && !strcmp(mode, "exit"))
		return 0;
	if (culprit && !strcmp(mode, "fail"))
		return 3;
	signal(SIGTERM, culprit && strncmp(mode, "differ", 6) ? SIG_DFL
							      : SIG_IGN);
	start = clock_ms();
	rc = ddp_init(&world, &options);
	if (!rc && (!strcmp(form, "thread") || !strcmp(form, "store")))
		rc = ddp_progress_start(world, -1);
	for (int i = 0; (on || i < 1000) && !rc; i++) {
		if (on && i == 3) {
			printf("rank %s goes on\n", rank);
			fflush(stdout);
		}
		start = clock_ms();
		if (culprit && i == (strcmp(mode, "kill-first") ? 2 : 0))
			rc = misbehave(mode, world);
		else if (form[0] && i == 2)
			rc = be_many(world);
		else
			rc = ddp_all_reduce(world, data[0], data[0], 40000,
					    DDP_F32, DDP_AVG);
	}
	printf("rank %s: %d in %llu ms: %s\n", rank, rc,
	       (unsigned long long)(clock_ms() - start), ddp_last_error());
	fflush(stdout);
	if (rc && !strncmp(mode, "differ", 6))
		ddp_record_error(ddp_last_error());
	ddp_finalize(world);
	return rc ? 1 : 0;
}
