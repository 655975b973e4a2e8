/* c_pause.c: all ranks make all_reduce calls. One rank pauses before the third
 * one; it prints its pid first.
 *
 *   c_pause HOW CULPRIT [MS]   pauses for MS ms, then all ranks continue for a
 *                              second or two. Without MS: for ever, or, if it
 *                              sleeps, until the file `go` exists
 *   loop    computes                             sleep   in nanosleep
 *   write   appends to the file `checkpoint`     step    reports a step for
 *   alone   all ranks compute, without calls             each call, then sleeps
 *   read    reads the file `checkpoint` again and again
 *   fault   writes to a forbidden page; the handler waits
 *   again   the same, but the handler returns
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "worker-sdk/ddp.h"

static volatile uint64_t sum;

static void compute(void)
{
	for (int i = 0; i < 1000000; i++)
		sum += (uint64_t)i;
}

static void nap(void)
{
	const struct timespec t = {0, 50000000};

	nanosleep(&t, NULL);
}

static void append(void)
{
	static char block[1 << 20];
	int fd = open("checkpoint", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, block, sizeof(block)) < 0)
		exit(2);
	close(fd);
	nap();
}

static void read_again(void)
{
	static char block[1 << 20];
	static int fd = -1;

	if (fd < 0) {
		append();
		fd = open("checkpoint", O_RDONLY);
	}
	sum++;
	if (fd < 0 || lseek(fd, (off_t)(sum * 7919 % 100000), SEEK_SET) < 0 ||
	    read(fd, block, sizeof(block) / 2) < 0)
		exit(2);
	nap();
}

static void on_fault(int number)
{
	for (;;)
		pause();
}

static void on_fault_again(int number)
{
}

static void fault(const char *how)
{
	/* a null pointer would be UBSan's to report */
	volatile char *page = mmap(NULL, 1, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	signal(SIGSEGV, strcmp(how, "again") ? on_fault : on_fault_again);
	*page = 1;
}

static void rest(const char *how, uint64_t ms)
{
	uint64_t end = clock_ms() + ms;

	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	if (!strcmp(how, "fault") || !strcmp(how, "again"))
		fault(how);
	while (!ms || clock_ms() < end) {
		if (!strcmp(how, "write")) {
			append();
		} else if (!strcmp(how, "read")) {
			read_again();
		} else if (!strcmp(how, "loop") || !strcmp(how, "alone")) {
			compute();
		} else {
			nap();
			if (access("go", F_OK) == 0)
				break;
		}
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[1] : "";
	int culprit = argc > 2 && !strcmp(argv[2], getenv("RANK"));
	uint64_t ms = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	ddp_comm *world;
	float x = 1;
	int rc = ddp_init(&world, NULL);

	for (int i = 0; i < 30 && !rc; i++) {
		if (i == 2 && (culprit || !strcmp(how, "alone")))
			rest(how, ms);
		else if (i > 2)
			nap();
		if (!strcmp(how, "step"))
			rc = ddp_step(world, i);
		if (!rc && strcmp(how, "alone"))
			rc = ddp_all_reduce(world, &x, &x, 1, DDP_F32, DDP_AVG);
	}
	if (rc)
		fprintf(stderr, "%s\n", ddp_last_error());
	else
		ddp_finalize(world);
	return rc ? 1 : 0;
}
