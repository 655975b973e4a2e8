/* floor.c: the floor of a launcher: vforks N programs and waits for all.
 * usage: floor N PROGRAM */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	const int n = argc == 3 ? atoi(argv[1]) : 0;
	int status;

	if (n < 1) {
		fprintf(stderr, "usage: floor N PROGRAM\n");
		return 2;
	}
	for (int i = 0; i < n; i++) {
		char *words[] = {argv[2], NULL};
		pid_t pid = vfork();

		if (pid < 0)
			return 1;
		if (pid == 0) {
			execve(argv[2], words, environ);
			_exit(127);
		}
	}
	while (wait(&status) > 0) {
		if (status)
			return 1;
	}
	return 0;
}
