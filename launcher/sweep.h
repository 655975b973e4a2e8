/* sweep.h: finds processes that workers left behind, in /proc.
 * Two ways: as this process's children (it is a subreaper: the orphans of its
 * workers become its own), and by the mark in their environment. */
#ifndef LAUNCHER_SWEEP_H
#define LAUNCHER_SWEEP_H

#include <sys/types.h>

/* Remembers the children that this process has before it starts any, as after
 * `sidecar & exec ddprun`: sweep_children leaves them alone. Call it once, at
 * the start of main. */
void sweep_note_strangers(void);
/* This child is to be left alone like them: it cannot be signalled. */
void sweep_leave(pid_t pid);
/* That child was reaped: its number may be given to another process. */
void sweep_reaped(pid_t pid);

/* Those that were signalled before. All zeroes to begin with. */
struct sweep {
	pid_t *told;
	size_t n;
};

/* Sends signal to each child of this process that is none of except and has not
 * had one yet; returns how many such children there are, told or not. Zombies
 * count until they are reaped.
 * Orphans of strangers become children of this process as well: where there
 * were strangers, and in process 1, only children with mark (NAME=VALUE) in
 * their environment are swept. A child of another user's, which cannot be
 * signalled, is a warning and does not count. */
int sweep_children(struct sweep *s, const pid_t *except, int nexcept,
		   const char *mark, int signal);

/* All may be told again. */
void sweep_forget(struct sweep *s);
void sweep_release(struct sweep *s);

/* SIGKILLs every process whose environment has NAME=VALUE (given so), but none
 * that is called except (15 bytes at most); returns how many. For when their
 * parent is gone and nobody knows their pids. */
int sweep_kill_marked(const char *variable, const char *except);

#endif
