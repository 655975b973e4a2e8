/* sleeper.c: a worker that says its pid and sleeps until it is ended. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	char line[32];
	int n = snprintf(line, sizeof(line), "pid %d\n", (int)getpid());

	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		return 1;
	for (;;)
		pause();
}
