/* w_held.c: starts a sibling that hangs in execve until this process's standard
 * input ends; prints both pids. Both are in a session of their own. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/held_exec.h"

static int fail(const char *what)
{
	perror(what);
	return 1;
}

int main(void)
{
	int ends[2], fd = held_exec_file();
	pid_t pid;
	char byte;

	if (fd < 0 || pipe(ends) < 0)
		return fail("w_held: no file, or no pipe");
	setsid();
	pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		close(0);
		close(1);
		close(2);
		close(ends[1]);
		held_exec_enter(fd, ends[0]);
	}
	close(ends[0]);
	if (pid < 0 || held_exec_trace(pid, ends[1]) < 0)
		return fail("w_held: no sibling, or it cannot be traced");
	printf("%d %d\n", (int)getpid(), (int)pid);
	fflush(stdout);
	close(1);
	close(2);
	while (read(0, &byte, 1) > 0)
		continue;
	_exit(0);
}
