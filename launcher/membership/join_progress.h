/* join_progress.h: what a node that waits for others knows of them, and the
 * lines about it: which are missing, since when, and what brings them. Owns the
 * counts of the last STATE and the text of the last WAITING; decides nothing,
 * and cannot fail. */
#ifndef LAUNCHER_JOIN_PROGRESS_H
#define LAUNCHER_JOIN_PROGRESS_H

#include "launcher/membership/connection.h"

enum { JOIN_PROGRESS_AWAITED_MAX = 640, JOIN_PROGRESS_FIRST_MS = 1000 };

struct join_progress {
	const struct rdzv_options *options;
	const struct connection *connection;
	int has_started; /* a round has been: the others know the way */
	uint64_t began_ms;
	uint32_t joined;
	uint64_t starts_ms; /* the last call ends then; 0: it has not begun */
	char awaited[JOIN_PROGRESS_AWAITED_MAX]; /* "" until WAITING comes */
};

/* A wait begins. */
void join_progress_begin(struct join_progress *p, int has_started);
void join_progress_set_state(struct join_progress *p,
			     const struct wire_state *state);
/* The wait is long enough for a line. */
int join_progress_is_due(const struct join_progress *p);

/* While no server has greeted us, or a last call is out. Otherwise silent: the
 * server's WAITING says who is missing, and when. */
void join_progress_log(const struct join_progress *p, int is_spare);
/* Keeps and logs WAITING's text, after s seconds. */
void join_progress_log_awaited(struct join_progress *p, struct slice text,
			       unsigned long long s);
void join_progress_log_spare(const struct join_progress *p);
/* In a last call the job will start without more nodes: how long --rdzv-timeout
 * should wait for that, in ms; 0: there is no last call, or it is long over. */
uint64_t join_progress_last_call_ms(const struct join_progress *p);
/* --rdzv-timeout is over. */
void join_progress_timeout_error(const struct join_progress *p, struct err *e);

#endif
