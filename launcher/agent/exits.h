/* exits.h: what the server is told of this node's workers that have ended, and
 * when: one that died of a signal which may be on its way to us, too, waits for
 * it a moment, and those that end after it wait behind it. */
#ifndef LAUNCHER_EXITS_H
#define LAUNCHER_EXITS_H

#include "launcher/agent/notice.h"
#include "launcher/failure/failure.h"
#include "launcher/membership/member.h"

struct exits {
	const struct config *config;
	const struct notice *notice; /* the owner's */
	struct failure *failure;
	struct member *member;
	uint32_t round; /* the owner's to set */
	struct worker **held; /* in the order in which they ended */
	uint32_t n;
	uv_timer_t timer;
};

/* The fields of the owner's are set; for so many workers. -ENOMEM. */
int exits_init(struct exits *x, uv_loop_t *loop, uint32_t workers,
	       struct err *e);
/* Once more after the loop has run: exits_release. */
void exits_close(struct exits *x);
void exits_release(struct exits *x);

/* w's fields say how it ended. */
void exits_add(struct exits *x, struct worker *w);
/* What was held is told: a notice is there, or the round is over. */
void exits_flush(struct exits *x);

#endif
