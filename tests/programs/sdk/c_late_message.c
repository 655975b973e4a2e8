/* c_late_message.c: a large all_reduce; then the last rank waits for a message
 * from rank 0, which sends it after reading a byte from the named FIFO:
 *
 *   c_late_message FIFO
 *
 * Prints "waiting" when the last rank is about to wait, and "got 42". */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker-sdk/ddp.h"

enum { COUNT = 4 << 20 };

static void must(int rc, const char *what)
{
	if (rc) {
		fprintf(stderr, "%s: %d: %s\n", what, rc, ddp_last_error());
		exit(1);
	}
}

static void await_byte(const char *path)
{
	int fd = open(path, O_RDONLY);
	char c;

	if (fd < 0 || read(fd, &c, 1) != 1) {
		perror(path);
		exit(1);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	float *v = calloc(COUNT, sizeof(*v));
	ddp_comm *c;
	int value = 42;

	if (argc != 2 || !v)
		return 2;
	must(ddp_init(&c, NULL), "ddp_init");
	must(ddp_all_reduce(c, v, v, COUNT, DDP_F32, DDP_SUM),
	     "ddp_all_reduce");
	if (ddp_rank(c) == 0) {
		await_byte(argv[1]);
		must(ddp_send(c, &value, 1, DDP_I32, ddp_world_size(c) - 1),
		     "ddp_send");
	} else if (ddp_rank(c) == ddp_world_size(c) - 1) {
		puts("waiting");
		fflush(stdout);
		must(ddp_recv(c, &value, 1, DDP_I32, 0), "ddp_recv");
		printf("got %d\n", value);
	}
	free(v);
	ddp_finalize(c);
	return 0;
}
