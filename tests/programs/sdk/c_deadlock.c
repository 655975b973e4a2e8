/* c_deadlock.c: ranks that wait for each other in different communicators must
 * get an error. Prints "rank R: ok", or what was wrong.
 *
 *   c_deadlock order | requests | three | relay | steps | sync | meeting |
 *              root | begun [thread]
 *
 * begun: not a deadlock; all ranks finish. thread: with a progress thread. */
#include <string.h>

#include "tests/programs/sdk/ranks.h"

static ddp_comm *world, *one, *two;
static float data[3000];

/* Two groups; all ranks are in both. */
static void split_twice(void)
{
	must(ddp_comm_split(world, 0, rank, &one), "split");
	must(ddp_comm_split(world, 0, rank, &two), "split");
}

static int has(const char *part)
{
	return strstr(ddp_last_error(), part) != NULL;
}

/* The error names both calls, and that rank 0 and another rank wait for each
 * other. */
static void wants(int rc, const char *first, const char *second)
{
	if (rc != DDP_ERR_ARGUMENT || !has(first) || !has(second) ||
	    !has("rank 0 on ") || !has(", which waits in ") ||
	    !has(": all ranks must make the "))
		DIE("%d, not that %s, and %s: %s", rc, first, second,
		    ddp_last_error());
}

/* Rank 0 takes the groups in another order. */
static void order(void)
{
	split_twice();
	wants(ddp_barrier(rank ? two : one),
	      " waits in barrier #1 of group 1.0 for rank ",
	      " waits in barrier #1 of group 2.0 for rank 0 on ");
}

/* The same with calls that were begun; each rank waits for its last one. */
static void requests(void)
{
	ddp_request *r[2];
	ddp_comm *c;

	split_twice();
	c = rank ? two : one;
	must(ddp_all_reduce_async(c, data, data, 3000, DDP_F32, DDP_SUM, &r[0]),
	     "async");
	must(ddp_barrier_async(c, &r[1]), "async");
	wants(ddp_wait(&r[1]),
	      "waits in all_reduce #1 (f32 x 3000, sum) of group 1.0",
	      "waits in all_reduce #1 (f32 x 3000, sum) of group 2.0");
	if (!ddp_wait(&r[0]))
		DIE("what was before it has ended well");
}

/* Each of three ranks waits in the group that it shares with the next rank,
 * which waits in another group. */
static void three(void)
{
	ddp_comm *next = NULL, *c;

	for (int i = 0; i < 3; i++) {
		int is_in = rank == i || rank == (i + 1) % 3;

		must(ddp_comm_split(world, is_in ? 0 : -1, rank, &c), "split");
		if (rank == i)
			next = c;
	}
	wants(ddp_barrier(rank < 3 ? next : world),
	      "waits in barrier #1 of group 1.0 for rank 1 on ",
	      "waits in barrier #1 of group 2.0 for rank 2 on ");
	wants(DDP_ERR_ARGUMENT, "barrier #1 of group 3.0 for rank 0 on ", "");
}

/* A step, which averages the gradients if sync is not 0. */
static int step(ddp_reducer *r, int sync)
{
	int rc = ddp_reducer_begin(r, sync);

	for (int i = 1; i >= 0 && !rc; i--)
		rc = ddp_reducer_ready(r, i);
	return rc ? rc : ddp_reducer_finish(r);
}

/* Three steps; rank 0 omits the last one, or its sync. */
static void train(int steps, int sync)
{
	static const size_t counts[] = {2000, 1000};
	ddp_reducer *r;
	int rc = 0;

	must(ddp_reducer_new(&r, world, data, DDP_F32, counts, 2, NULL),
	     "reducer_new");
	for (int i = 0; i < 2; i++)
		must(step(r, 1), "a step");
	if (rank || steps == 3)
		rc = step(r, rank || sync);
	if (!rc)
		rc = ddp_barrier(world);
	wants(rc, "waits in all_reduce #3 (f32 x 3000, avg) of reducer 1 for "
	      "rank 0 on ", "waits in barrier #3 for rank ");
	wants(rc, "same steps of a reducer", "with the same sync");
	ddp_reducer_free(r);
}

static void steps(void)
{
	train(2, 1);
}

static void sync_differs(void)
{
	train(3, 0);
}

/* Rank 0 makes a group, the others are in one. */
static void meeting(void)
{
	ddp_comm *third = NULL;
	int rc;

	split_twice();
	rc = rank ? ddp_barrier(one)
		  : ddp_comm_split(world, 0, rank, &third);
	wants(rc, "waits in comm_split #3 for rank ",
	      "waits in barrier #1 of group 1.0 for rank 0 on ");
}

/* Ranks 0 and 3 wait for each other. On two hosts of two ranks, neither leads
 * its host in the group in which the other waits: ranks 1 and 2 have to pass
 * the report on. */
static void relay(void)
{
	ddp_comm *a, *b;

	must(ddp_comm_split(world, rank == 1 ? -1 : 0, rank, &a), "split");
	must(ddp_comm_split(world, rank == 2 ? -1 : 0, rank == 1 ? -1 : rank,
			    &b), "split");
	wants(ddp_barrier(rank == 0 || rank == 2 ? a : b),
	      "rank 0 on ", "waits in barrier #1 of group 1.0 for rank 3 on ");
	wants(DDP_ERR_ARGUMENT, "waits in barrier #1 of group 2.0 for rank 0 ",
	      "");
}

/* A rank that receives from a root waits for the root alone. */
static void root(void)
{
	float seed = 0;

	split_twice();
	wants(rank ? ddp_broadcast(two, &seed, 1, DDP_F32, 0)
		   : ddp_barrier(one),
	      " waits in barrier #1 of group 1.0 for rank ",
	      "waits in broadcast #1 (f32 x 1, root 0) of group 2.0 for "
	      "rank 0 on ");
}

/* Rank 0 waits in the second group after it has begun its call in the first.
 * Rank 1 waits in the first. Both wait for the last rank, which waits elsewhere
 * for a while. */
static void begun(void)
{
	ddp_request *r = NULL, *late;

	split_twice();
	if (rank == size - 1) {
		must(ddp_recv_async(world, data, 1, DDP_F32, 0, &late),
		     "recv");
		if (ddp_wait_timeout(&late, 1500) != DDP_ERR_TIMEOUT)
			DIE("a message that nobody sent has come");
	}
	if (rank == 0)
		must(ddp_barrier_async(one, &r), "async");
	else
		must(ddp_barrier(one), "barrier");
	must(ddp_barrier(two), "barrier");
	must(ddp_wait(&r), "wait");
	if (rank == 0)
		must(ddp_send(world, data, 1, DDP_F32, size - 1), "send");
	if (rank == size - 1)
		must(ddp_wait(&late), "wait");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"order", order},	   {"requests", requests},
		     {"three", three},	   {"relay", relay},
		     {"steps", steps},
		     {"sync", sync_differs}, {"meeting", meeting},
		     {"root", root},	   {"begun", begun}};

	must(ddp_init(&world, NULL), "ddp_init");
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	if (argc > 2 && !strcmp(argv[2], "thread"))
		must(ddp_progress_start(world, -1), "progress_start");
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(argv[1], modes[i].name))
			modes[i].run();
	printf("rank %d: ok\n", rank);
	fflush(stdout);
	ddp_finalize(world);
	return 0;
}
