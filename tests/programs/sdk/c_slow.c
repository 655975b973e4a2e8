/* c_slow.c: all ranks make all_reduce calls, which take nearly all their time,
 * so the job is balanced. While the file `slow` exists, one rank sleeps for
 * 100 ms before each call; on busy CPUs a call takes as long. When `end`
 * exists, all ranks leave.
 *
 *   c_slow RANK [HOW]   RANK is the slow rank
 *   small   calls of a few bytes      async   with a request
 *   poll    with a request, in a loop of ddp_test
 *   compute computes instead of sleeping
 *   groups  the calls are those of rows and columns, each of two ranks
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "worker-sdk/ddp.h"

enum { COUNT = 1 << 15, MS = 100 };

static float x[COUNT];

static void be_slow(const char *how)
{
	static volatile uint64_t sum;
	const struct timespec t = {0, MS * 1000000};
	uint64_t end = clock_ms() + MS;

	if (strcmp(how, "compute")) {
		nanosleep(&t, NULL);
		return;
	}
	while (clock_ms() < end)
		for (int i = 0; i < 1000; i++)
			sum = sum + (uint64_t)i;
}

static int meet_groups(ddp_comm *world)
{
	static ddp_comm *groups[2];
	int rank = ddp_rank(world), rc = 0;

	if (!groups[0])
		rc = ddp_comm_split(world, rank / 2, 0, &groups[0]);
	if (!rc && !groups[1])
		rc = ddp_comm_split(world, rank % 2, 0, &groups[1]);
	for (int i = 0; !rc && i < 2; i++)
		rc = ddp_all_reduce(groups[i], x, x, COUNT, DDP_F32, DDP_MAX);
	return rc;
}

static int meet(ddp_comm *world, const char *how)
{
	size_t count = strcmp(how, "small") ? COUNT : 1;
	ddp_request *request;
	int rc;

	if (!strcmp(how, "groups"))
		return meet_groups(world);
	if (strcmp(how, "async") && strcmp(how, "poll"))
		return ddp_all_reduce(world, x, x, count, DDP_F32, DDP_MAX);
	rc = ddp_all_reduce_async(world, x, x, count, DDP_F32, DDP_MAX,
				  &request);
	if (!rc && !strcmp(how, "poll")) {
		while (!(rc = ddp_test(request)))
			;
		rc = rc < 0 ? rc : 0;
	}
	return rc ? rc : ddp_wait(&request);
}

int main(int argc, char **argv)
{
	int is_slow = argc > 1 && !strcmp(argv[1], getenv("RANK"));
	const char *how = argc > 2 ? argv[2] : "";
	ddp_comm *world;
	int rc = ddp_init(&world, NULL);

	while (!rc && x[0] == 0) {
		if (is_slow && !access("slow", F_OK))
			be_slow(how);
		x[0] = !access("end", F_OK);
		rc = meet(world, how);
	}
	if (rc)
		fprintf(stderr, "%s\n", ddp_last_error());
	else
		ddp_finalize(world);
	return rc ? 1 : 0;
}
