/* sweep.h: finds processes that workers left behind, in /proc, in two ways: as
 * children of this process (a subreaper, which inherits its workers' orphans),
 * and by marks that all of a worker's descendants inherit. */
#ifndef LAUNCHER_SWEEP_H
#define LAUNCHER_SWEEP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Marks that identify a worker's descendant of unknown pid whose parents have
 * exited. One mark is enough: a process may drop the others. */
struct sweep_marks {
	const char *variable; /* NAME=VALUE, in its environment */
	/* Its hard limit of file locks (RLIMIT_LOCKS), which Linux has ignored
	 * since 2.4.25. It survives fork, execve, and every way to detach a
	 * process: a new session, an empty environment, closed files, another
	 * user. 0: none */
	uint64_t locks;
	/* inode numbers of the pipes that workers write to (0: none): marks a
	 * process that can write to one and was started after this process */
	const volatile ino_t *pipes;
	size_t npipes;
};

/* Chooses a lock limit to mark workers with: below ours, so that setting it
 * needs no privilege, and from a range so large that no other process has it.
 * 0: our own limit is too low. */
uint64_t sweep_choose_locks(uint64_t random);

/* Remembers the children that this process has before it starts any, as after
 * `sidecar & exec ddprun`: sweep_children leaves them alone. Call it once, at
 * the start of main. */
void sweep_note_strangers(void);
/* From now on sweep_children also leaves this child alone: it is no worker's,
 * or we may not signal it. */
void sweep_leave(pid_t pid);
/* That child was reaped: the kernel may reuse its pid. */
void sweep_reaped(pid_t pid);

/* How soon to look at processes in execve again, and how often. */
enum { SWEEP_LOOK_MS = 10, SWEEP_LOOKS = 500 };

/* The state of repeated sweeps. All zeroes to begin with. */
struct sweep {
	pid_t *signalled; /* by earlier sweeps */
	size_t n;
	int in_exec; /* how many the last sweep found in execve */
	int looks;   /* how often the caller swept again because of them */
};

/* Sends signal to each child of this process that is not in except and was not
 * signalled before. Returns the number of children not in except, signalled now
 * or before; zombies count until they are reaped.
 *
 * This process also inherits the orphans of strangers. So if there were
 * strangers, and in process 1, only children with a mark are swept; their pipes
 * are not examined.
 *
 * A process in execve has no environment for a moment. If marks->locks is 0,
 * such a child counts but is not signalled. No SIGCHLD follows when that moment
 * ends, so while s->in_exec is not 0 the caller sweeps again every
 * SWEEP_LOOK_MS and counts these sweeps in s->looks. After SWEEP_LOOKS of them
 * (its program's file server does not answer) the child no longer counts, and a
 * warning is logged. The same holds for a child of another user, which cannot
 * be signalled. */
int sweep_children(struct sweep *s, const pid_t *except, int nexcept,
		   const struct sweep_marks *marks, int signal);

/* Forgets which children were signalled. */
void sweep_forget(struct sweep *s);
void sweep_release(struct sweep *s);

/* Kills (SIGKILL) every process that has one of these marks, unless its name is
 * except (15 bytes at most); returns how many. *in_exec is the number of
 * processes in execve, whose environment cannot be read yet; 0 if marks->locks
 * identifies them. */
int sweep_kill_marked(const struct sweep_marks *marks, const char *except,
		      int *in_exec);

#endif
