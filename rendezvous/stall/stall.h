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
	/* the numbers of its last report, and of the first that had it in this
	 * call */
	uint64_t report, changed;
};

struct stall {
	uint32_t world;
	struct stall_rank *ranks;
	uint64_t patience_ms;
	uint64_t reports; /* so far */
	/* The longest pause, by what the awaited rank did, after which the job
	 * went on: a rank that pauses like this is given twice as long. */
	uint64_t learned_ms[RANK_DOINGS];
	/* the current pause; and how old it was when the awaited rank was last
	 * seen to do each of these */
	uint64_t pause_ms, shown_ms;
	uint64_t paused_ms[RANK_DOINGS];
	int is_start; /* the awaiting rank is in one of its first calls */
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
 * victim's last report counts, even if it has ended. Ranks that its error, why,
 * names come first. */
void stall_find_culprit(const struct stall *s, uint32_t victim,
			struct slice why, struct stall_news *out);

/* Whether the cause that a worker gives is a peer that did not arrive in time;
 * a peer that libddp found dead or unreachable, so it does not hang; an error
 * that a peer has reported to all, so it does not hang either; or, in the words
 * of other libraries, a peer that closed its connections. */
int stall_is_timeout(struct slice why);
int stall_is_loss(struct slice why);
int stall_is_reported(struct slice why);
int stall_is_disconnect(struct slice why);

/* Appends the items of all ranks that are known; returns how many. */
uint32_t stall_put_ranks(const struct stall *s, struct buf *items);

/* ---- slow.c ----
 *
 * Which rank or node slows a round down: the rank that waits least in
 * collectives of all ranks, or of one of its groups, if the others wait much
 * longer for it. Pure. */

enum {
	/* In thousandths of the time. A line is due when the share has been
	 * above the first for a minute, and a line that it is over when it is
	 * below the second. */
	SLOW_SHARE = 200,
	SLOW_SHARE_OVER = 100,
	SLOW_PATIENCES = 2, /* in that minute, which is also the agents' */
};

struct slow {
	int has_rank; /* that is above the first */
	int is_shown; /* a line has named it */
	uint32_t rank;
	uint64_t since_ms;
};

struct slow_news {
	int is_slow, is_over; /* a line is due: the fields below are set */
	uint32_t rank;
	uint32_t share; /* its share of the time for which the others wait */
	char text[STALL_TEXT_MAX];
	/* always: the rank that waits least, and its share */
	int has_slowest; /* 0: not known yet */
	uint32_t slowest, slowest_share;
};

/* Call it after reports. s begins as {0} with each round. */
void slow_check(struct slow *s, const struct stall *ranks, uint64_t now_ms,
		struct slow_news *out);

/* ---- odd_call.c ----
 *
 * Finds the rank whose call differs from the call that most ranks made, after
 * a worker failed because two calls differ: the worker that fails first may be
 * either of the two. Pure. */

/* Fills in rank, local_rank, pid and why of the rank that made the rarer of the
 * two calls, by what the ranks' last reports say, and returns 1. 0: why is
 * about something else; no call has two ranks, or both have equally many; or
 * nothing is known about that rank. */
int odd_call_find(const struct stall *s, struct slice why,
		  struct stall_news *out);
/* If odd_call_find has returned 0: 1 if it may find that rank once more ranks
 * have reported. */
int odd_call_needs_reports(const struct stall *s, struct slice why);

/* ---- wrong_data.c ----
 *
 * Finds the rank whose numbers are wrong, after a worker failed because a
 * check of libddp found them: all ranks fail with the same sentence. Pure. */

/* Fills in rank, local_rank, pid and why of that rank and returns 1. 0: why is
 * about something else, or nothing is known about that rank. */
int wrong_data_find(const struct stall *s, struct slice why,
		    struct stall_news *out);

#endif
