/* probe.h: detects when a host can be reached again: connects to it, over and
 * over, until one attempt is answered, and sends nothing. Where the network was
 * down for seconds, TCP may wait as long again before it retransmits on an old
 * connection; a new one is answered as soon as the network is back. An attempt
 * that fails is tried again; nothing else can fail. */
#ifndef LAUNCHER_PROBE_H
#define LAUNCHER_PROBE_H

#include "base/loop.h"
#include "base/sock.h"

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

/* p must live as long as the loop. */
void probe_init(struct probe *p, uv_loop_t *loop,
		void (*on_reached)(void *owner), void *owner);
/* Idempotent while it runs. */
void probe_start(struct probe *p, const struct sock_addr *addr,
		 uint64_t every_ms);
void probe_stop(struct probe *p);
void probe_close(struct probe *p);

#endif
