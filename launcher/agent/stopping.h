/* stopping.h: how the workers of this node are made to stop: told, given time,
 * killed; and what they leave behind. Decides nothing: that the time is over is
 * the owner's event. */
#ifndef LAUNCHER_STOPPING_H
#define LAUNCHER_STOPPING_H

#include "base/loop.h"
#include "launcher/worker/recorder.h"
#include "launcher/worker/sweep.h"
#include "launcher/worker/worker.h"

/* A time that does not end. */
#define STOPPING_NO_LIMIT UINT32_MAX

struct stopping {
	void *owner;
	void (*on_over)(void *owner); /* the time is over */
	void (*on_look)(void *owner); /* to call stopping_sweep again */
	struct group *group;
	struct recorder *recorder;
	uv_timer_t timer, look;
	int signal;      /* what workers and leftovers are told */
	int announced;   /* that it takes long */
	int far;         /* other nodes are waited for, too */
	uint64_t left_ms; /* of the time, once that is announced */
	char cause[ERR_TEXT_MAX]; /* in words; the owner's to set */
	struct sweep told; /* leftovers that had their signal */
	const struct sweep_marks *marks; /* that all have; the owner's */
};

void stopping_init(struct stopping *s, uv_loop_t *loop, struct group *group,
		   struct recorder *recorder);
/* The close callbacks are the loop's last. */
void stopping_close(struct stopping *s);
void stopping_release(struct stopping *s);

/* Who asks libddp is told so there, the others get the signal (0: none does).
 * Returns how many were told. */
uint32_t stopping_tell(struct stopping *s, int signal);
/* All must go: who has not had s->signal gets it. */
void stopping_signal(struct stopping *s);
void stopping_kill(struct stopping *s);

/* So long from now, and it is said once that it takes long. */
void stopping_give(struct stopping *s, uint32_t ms);
/* The same, in silence. */
void stopping_wait(struct stopping *s, uint32_t ms);
/* What is given does not end any more. */
void stopping_end(struct stopping *s);
/* Something is given, and not over. */
int stopping_gives(const struct stopping *s);

/* Orphans of the workers have become our children: they go, too. When nobody is
 * left, but those of ours, the group is closed. on_look follows soon if some
 * are in execve, where they cannot be told from strangers. */
void stopping_sweep(struct stopping *s, const pid_t *ours, int nours);
/* Those that come now have not been told. */
void stopping_begin(struct stopping *s);

#endif
