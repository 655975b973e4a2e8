/* reconnect.h: what is known of a server that was lost: since when, why, for
 * how long it is looked for, and which lines people read about it. Also notices
 * when only the network is in the way, and probes the server's host then.
 * Decides nothing: member.c does. */
#ifndef LAUNCHER_RECONNECT_H
#define LAUNCHER_RECONNECT_H

#include "base/loop.h"
#include "base/sock.h"
#include "launcher/membership/connection.h"

/* ---- the probe ----
 *
 * Detects when a host can be reached again: connects to it, over and over,
 * until one attempt is answered, and sends nothing. Where the network was down
 * for seconds, TCP may wait as long again before it retransmits on an old
 * connection; a new one is answered as soon as the network is back. An attempt
 * that fails is tried again; nothing else can fail. */

/* Attempts at the same time: an answer may take as many intervals. */
enum { PROBE_TRIES = 8 };

struct probe {
	uv_timer_t timer;
	struct probe_try {
		uv_tcp_t tcp;
		uv_connect_t connect;
		struct probe *probe;
		int open; /* until its handle is closed */
	} tries[PROBE_TRIES];
	unsigned next;
	int running;
	struct sock_addr addr;
	/* Its kernel has answered, if only by refusing; once a start. */
	void (*on_reached)(void *owner);
	void *owner;
};

/* ---- the loss ---- */

struct reconnect_events {
	/* Nobody came within --rdzv-conf reconnect_timeout; why says so. */
	void (*on_timeout)(void *owner, const struct err *why);
	/* A stalled connection's host can be reached again. */
	void (*on_reachable)(void *owner);
};

struct reconnect {
	const struct reconnect_events *events;
	void *owner;
	const struct rdzv_options *options;
	struct connection *connection;
	struct err why;
	uint64_t lost_ms;
	char when[16];	 /* lost_ms by the clock on the wall, for people */
	int has_workers; /* when it was lost: they go on meanwhile */
	int is_logged;	 /* people know of the loss */
	int is_silent;	 /* it sent nothing for too long. Perhaps it heard
			  * nothing either, and counted this node as lost. */
	uv_timer_t timer;
	struct probe probe;
	unsigned stalled; /* pings at which the connection was stalled, since
			   * something was heard and it was not */
};

void reconnect_init(struct reconnect *r, uv_loop_t *loop,
		    struct connection *connection,
		    const struct reconnect_events *events, void *owner);
void reconnect_close(struct reconnect *r);

/* A loss begins: logs it, at once or when it lasts, and starts the time after
 * which on_timeout is called. */
void reconnect_start(struct reconnect *r, const struct err *why,
		     int has_workers);
/* The same without a log line: a stalled connection is replaced. */
void reconnect_start_quietly(struct reconnect *r);
/* The server is back: logs that, unless the loss was not logged. */
void reconnect_stop(struct reconnect *r, int is_quiet);
/* It is looked for no longer; text is added to why. */
void reconnect_give_up(struct reconnect *r, const char *text);
/* Neither on_timeout nor on_reachable after this. */
void reconnect_stop_timers(struct reconnect *r);

/* The error of a node that needs the server that was lost. */
void reconnect_error(struct reconnect *r, struct err *e);
/* Where etcd chooses the server, the other nodes may have found the next one
 * and count this node as lost. */
int reconnect_is_left_behind(const struct reconnect *r);

/* Called for each ping: `unanswered` of them in a row have no answer. Probes
 * the server's host where the connection is stalled: TCP doubles the time
 * between its tries, and the lease might end before it finds the network
 * back. */
void reconnect_check_stall(struct reconnect *r, unsigned unanswered,
			   uint64_t ping_ms);
/* The server was heard. That its data arrives again does not mean that ours
 * does: both directions wait for their own next try. */
void reconnect_on_heard(struct reconnect *r);
/* The connection is gone: there is nothing to probe. */
void reconnect_on_gone(struct reconnect *r);

#endif
