/* guests.h: the one job of a server that rank 0 started for a world without
 * agents: its ranks are there while their connections are. hosted.c runs it
 * like any other; this knows when a rank comes and goes, and when all have. */
#ifndef RENDEZVOUS_GUESTS_H
#define RENDEZVOUS_GUESTS_H

#include "rendezvous/server/hosted.h"

/* The job of that name with that many ranks runs from now on; s->guests. */
int guests_open(struct server *s, const char *job, uint32_t ranks,
		struct err *e);
/* 0, or why this worker cannot be one: ERR_REFUSED: not here, not
 * now; ERR_USAGE: two are that rank. */
int guests_check(const struct hosted *h, const struct wire_hello *hello,
		 struct err *e);
/* Its worker has come; the connection is watched for a host that vanishes. */
void guests_came(struct member *m, const struct wire_hello *hello);
/* Its worker has gone, with or without a GOODBYE. */
void guests_left(struct hosted *h, struct member *m, const char *how);
/* All have come and gone. */
int guests_all_gone(const struct hosted *h);
/* Nobody is there any more; frees the job. */
void guests_close(struct hosted *h);

#endif
