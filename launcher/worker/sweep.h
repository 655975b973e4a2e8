/* sweep.h: finds processes that workers left behind, in /proc.
 * Two ways: as this process's children (it is a subreaper: the orphans of its
 * workers become its own), and by marks that all they start inherits. */
#ifndef LAUNCHER_SWEEP_H
#define LAUNCHER_SWEEP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What tells a descendant of workers whose parents are gone, and whose pids
 * nobody knows. Each mark is enough: a process may drop one of them. */
struct sweep_marks {
	const char *variable; /* NAME=VALUE, in its environment */
	/* Its hard limit of file locks (RLIMIT_LOCKS), which Linux has ignored
	 * since 2.4.25. fork and execve hand it on, and nothing that detaches
	 * a process touches it: not a new session, an empty environment,
	 * closed files or another user. 0: none */
	uint64_t locks;
	/* pipes that workers write to, by their inode numbers (0: none): it can
	 * write to one, and was started after this process */
	const volatile ino_t *pipes;
	size_t npipes;
};

/* A limit to mark workers with: below ours, so that no privilege is needed,
 * and from as large a range as random can choose from. 0: ours is too low for
 * one that no other process has. */
uint64_t sweep_choose_locks(uint64_t random);

/* Remembers the children that this process has before it starts any, as after
 * `sidecar & exec ddprun`: sweep_children leaves them alone. Call it once, at
 * the start of main. */
void sweep_note_strangers(void);
/* This child is to be left alone like them: it cannot be signalled. */
void sweep_leave(pid_t pid);
/* That child was reaped: its number may be given to another process. */
void sweep_reaped(pid_t pid);

/* How soon to look at processes in execve again, and how often. */
enum { SWEEP_LOOK_MS = 10, SWEEP_LOOKS = 500 };

/* Those that were signalled before. All zeroes to begin with. */
struct sweep {
	pid_t *told;
	size_t n;
	int in_exec; /* how many the last sweep found in execve */
	int looks;   /* how often the caller swept again because of them */
};

/* Sends signal to each child of this process that is none of except and has not
 * had one yet; returns how many such children there are, told or not. Zombies
 * count until they are reaped.
 * Orphans of strangers become children of this process as well: where there
 * were strangers, and in process 1, only children with a mark are swept, but
 * their pipes are not looked at. If marks->locks is 0: a process in execve has
 * no environment for a moment: such a child counts, but is not signalled. No
 * SIGCHLD follows when that moment ends, so while s->in_exec is not 0 the
 * caller sweeps again every SWEEP_LOOK_MS and counts these sweeps in s->looks.
 * After SWEEP_LOOKS of them (the file server of its program does not answer)
 * it is a warning and does not count.
 * Nor does a child of another user's, which cannot be signalled: a warning. */
int sweep_children(struct sweep *s, const pid_t *except, int nexcept,
		   const struct sweep_marks *marks, int signal);

/* All may be told again. */
void sweep_forget(struct sweep *s);
void sweep_release(struct sweep *s);

/* SIGKILLs every process that has one of these marks, but none that is called
 * except (15 bytes at most); returns how many. *in_exec is the number of
 * processes in execve, which have no environment to read yet; 0 where
 * marks->locks tells them from others. */
int sweep_kill_marked(const struct sweep_marks *marks, const char *except,
		      int *in_exec);

#endif
