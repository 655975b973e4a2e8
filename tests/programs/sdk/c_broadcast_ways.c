/* c_broadcast_ways.c: small broadcasts of all sizes from each rank in turn, in
 * which some ranks block and others begin and wait: all get the root's bytes.
 * Prints "right". */
#include <stdio.h>
#include <stdlib.h>

#include "worker-sdk/ddp.h"

enum { ROUNDS = 5000, MOST = 64 };

static void must(int rc, const char *what)
{
	if (rc) {
		fprintf(stderr, "%s: %d: %s\n", what, rc, ddp_last_error());
		exit(1);
	}
}

static unsigned char byte_of(int round, int i)
{
	return (unsigned char)(31 * round + 7 * i + 1);
}

static void one(ddp_comm *c, int round)
{
	unsigned char v[MOST] = {0};
	int root = round % ddp_world_size(c), size = round % (MOST + 1);
	ddp_request *r;

	for (int i = 0; ddp_rank(c) == root && i < size; i++)
		v[i] = byte_of(round, i);
	if ((round / 3 + ddp_rank(c)) % 3) {
		must(ddp_broadcast(c, v, (size_t)size, DDP_U8, root),
		     "ddp_broadcast");
	} else {
		must(ddp_broadcast_async(c, v, (size_t)size, DDP_U8, root, &r),
		     "ddp_broadcast_async");
		must(ddp_wait(&r), "ddp_wait");
	}
	for (int i = 0; i < MOST; i++) {
		if (v[i] != (i < size ? byte_of(round, i) : 0)) {
			fprintf(stderr, "round %d: byte %d of %d is wrong\n",
				round, i, size);
			exit(1);
		}
	}
}

int main(void)
{
	ddp_comm *c;

	must(ddp_init(&c, NULL), "ddp_init");
	for (int round = 0; round < ROUNDS; round++)
		one(c, round);
	if (ddp_rank(c) == 0)
		puts("right");
	ddp_finalize(c);
	return 0;
}
