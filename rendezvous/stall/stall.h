/* stall.h: what each rank of a round does, as its agent reports it, and what
 * follows: which rank the others wait for, for how long, and whether that is
 * worth a line. Learns the job's own pace. Pure: no clock, no sockets. */
#ifndef RENDEZVOUS_STALL_H
#define RENDEZVOUS_STALL_H

#include "rendezvous/wire.h"

enum {
	STALL_PATIENCE_MS = 30000, /* without progress until the first line */
	STALL_TEXT_MAX = 1024,
};

struct stall_rank {
	struct wire_rank at; /* its texts and groups are copies */
	int known, ended;
};

struct stall {
	uint32_t world;
	struct stall_rank *ranks;
	uint64_t patience_ms;
	/* The longest pause after which the job went on: a job that pauses for
	 * its checkpoints is given twice as long. */
	uint64_t learned_ms;
	/* the current pause */
	uint64_t pause_ms, shown_ms;
	/* The host of a rank, set by the owner; never NULL. */
	const char *(*host)(void *arg, uint32_t rank);
	void *arg;
};

struct stall_news {
	int is_stalled; /* the fields below are set */
	int show;	/* it is time for a line */
	int is_over;	/* a pause that was shown has ended: text says so */
	uint32_t rank, local_rank; /* the rank that the others wait for */
	int64_t pid;
	enum wire_doing doing;
	uint64_t ms;
	char text[STALL_TEXT_MAX]; /* the line */
	char why[STALL_TEXT_MAX];  /* what is wrong with the rank */
};

/* -ENOMEM. patience_ms: STALL_PATIENCE_MS. */
int stall_init(struct stall *s, uint32_t world, uint64_t patience_ms);
void stall_release(struct stall *s);

/* A report on a rank. 0; ERR_PROTOCOL: there is no such rank; -ENOMEM. */
int stall_set(struct stall *s, const struct wire_rank *r);
/* A rank has exited: nobody waits for it any more. */
void stall_set_ended(struct stall *s, uint32_t rank);

/* Call it after reports, at most once a second. */
void stall_check(struct stall *s, struct stall_news *out);

/* A worker failed because of a peer: finds the rank that hangs, if one does.
 * victim's last report counts, even if it has ended. */
void stall_find_culprit(const struct stall *s, uint32_t victim,
			struct stall_news *out);

/* Whether the cause that a worker gives is a peer that did not arrive in time;
 * a peer that libddp found dead or unreachable, so it does not hang; or, in the
 * words of other libraries, a peer that closed its connections. */
int stall_is_timeout(struct slice why);
int stall_is_loss(struct slice why);
int stall_is_disconnect(struct slice why);

/* Appends the items of all ranks that are known; returns how many. */
uint32_t stall_put_ranks(const struct stall *s, struct buf *items);

#endif
