/* talker.c: talker COUNT [RATE]: writes COUNT lines of about 64 bytes, one
 * write(2) each, RATE a second (without: as fast as it can). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TICK_NS = 10 * 1000 * 1000, TICKS = 100, LINE_BYTES = 64 };

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1;
	long rate = argc > 2 ? atol(argv[2]) : 0;
	struct timespec next;
	char line[LINE_BYTES + 1];

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long i = 0; i < count; i++) {
		int n = snprintf(line, sizeof(line), "step %8ld loss ", i);

		memset(line + n, '0' + (int)(i % 10), LINE_BYTES - (size_t)n);
		line[LINE_BYTES - 1] = '\n';
		if (write(STDOUT_FILENO, line, LINE_BYTES) != LINE_BYTES)
			return 1;
		if (!rate || (i + 1) % (rate / TICKS) != 0)
			continue;
		next.tv_nsec += TICK_NS;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	return 0;
}
