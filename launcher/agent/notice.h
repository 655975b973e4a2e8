/* notice.h: that the job is to stop, as one ddprun hears it: what a signal or
 * the end of Slurm's time says; how long there is; which ends of workers are as
 * it was asked. Pure. */
#ifndef LAUNCHER_NOTICE_H
#define LAUNCHER_NOTICE_H

#include "launcher/config/config.h"
#include "launcher/worker/worker.h"
#include "rendezvous/wire.h"

enum {
	NOTICE_MARGIN_S = 5, /* of the time limit, for all that follows */
	NOTICE_ECHO_MS = 2000, /* Slurm may say one thing twice within it */
	NOTICE_HOLD_MS = 500,  /* from a worker's death of a signal to ours */
};

struct notice {
	uint8_t level, cause; /* wire.h's; level 0: none */
	int signal;           /* for workers that do not ask; 0: none */
	uint32_t grace_ms;    /* STOPPING_NO_LIMIT: Slurm will say */
	int warned;           /* the first was of the end of the time */
	struct signal_set signals; /* of all notices so far */
	int exit_code;        /* of a job that ends so: the first one's */
};

/* What this signal says, of which c has on one of its lists; now: unix time. */
struct notice notice_of_signal(const struct config *c, int number,
			       uint64_t now);
/* The time of Slurm's job ends. */
struct notice notice_of_limit(const struct config *c, uint64_t now);
struct notice notice_of_wire(const struct wire_stop *m);

/* The ms from now until notice_of_limit is due, 0 if it never is. */
uint64_t notice_due_ms(const struct config *c, uint64_t now);

/* n is heard after old: 1 if it says more, and old becomes it. */
int notice_add(struct notice *old, const struct notice *n);

/* w has ended: as n wants it, if w was told. What else it does is a failure;
 * but what ends by a key of a terminal may end as it likes. */
int notice_is_obeyed(const struct notice *n, const struct worker *w, int told);
/* No notice yet: w ended as of a signal that may be on its way to us, too. */
int notice_may_come(const struct config *c, const struct worker *w);

#endif
