/* nudge.c: sends a signal or runs a command, and prints when it began, in
 * monotonic nanoseconds: `nudge SIGNAL PID` or `nudge COMMAND...` */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec t;

	if (argc < 3)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("%lld\n", (long long)t.tv_sec * 1000000000 + t.tv_nsec);
	fflush(stdout);
	if (atoi(argv[1]))
		return kill(atoi(argv[2]), atoi(argv[1])) < 0;
	execvp(argv[1], argv + 1);
	return 127;
}
