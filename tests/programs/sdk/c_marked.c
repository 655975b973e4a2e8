/* c_marked.c: rank 0 broadcasts a text that repeats MARK to all, then sends it
 * to the last rank as a message; each rank checks what it received.
 *
 *   c_marked MARK
 *
 * Prints "rank R: ok". */
#include <string.h>

#include "tests/programs/sdk/ranks.h"

enum { SIZE = 1 << 20 };

static void fill(char *text, const char *mark)
{
	size_t n = strlen(mark);

	for (size_t i = 0; i < SIZE; i++)
		text[i] = mark[i % n];
}

int main(int argc, char **argv)
{
	static char text[SIZE], want[SIZE];
	ddp_comm *c;

	if (argc != 2 || !*argv[1])
		return 2;
	fill(want, argv[1]);
	must(ddp_init(&c, NULL), "ddp_init");
	rank = ddp_rank(c);
	size = ddp_world_size(c);
	if (rank == 0)
		fill(text, argv[1]);
	must(ddp_broadcast(c, text, SIZE, DDP_U8, 0), "ddp_broadcast");
	if (memcmp(text, want, SIZE) != 0)
		DIE("the broadcast is wrong");
	if (rank == 0)
		must(ddp_send(c, text, SIZE, DDP_U8, size - 1), "ddp_send");
	memset(text, 0, SIZE);
	if (rank == size - 1)
		must(ddp_recv(c, text, SIZE, DDP_U8, 0), "ddp_recv");
	if (rank == size - 1 && memcmp(text, want, SIZE) != 0)
		DIE("the message is wrong");
	printf("rank %d: ok\n", rank);
	ddp_finalize(c);
	return 0;
}
