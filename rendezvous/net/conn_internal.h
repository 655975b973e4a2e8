/* conn_internal.h: what conn.c, conn_records.c and conn_write.c share. */
#ifndef RENDEZVOUS_CONN_INTERNAL_H
#define RENDEZVOUS_CONN_INTERNAL_H

#include "rendezvous/net/conn.h"

enum {
	CONN_RESERVE = 4096,
	CONN_RESERVE_MAX = 1 << 20, /* larger output is written at once */
	/* the buffer for records, which all connections share, stays as large:
	 * a job's nodes get large replies one after the other */
	CONN_SEALED_MAX = 4 << 20,
};

/* conn_write.c: writes the output, as much as the kernel takes. */
void conn_write_out(struct conn *c);
/* Its output is empty: returns the buffer to the pool. */
void conn_return_spare(struct conn *c);

/* conn.c: writes the output, and closes the connection if it has finished. */
void conn_flush(struct conn *c);
/* The client reads again, so we read from it again. */
void conn_take_more(struct conn *c);

/* Charges its buffers, whose size has changed; may close it. */
void conn_count(struct conn *c);

/* Closes it and notifies its owner. */
void conn_gone(struct conn *c, const char *why);
/* Delivers the complete frames in `in`, up to the one whose reply brought the
 * keys; returns the rest. */
struct slice conn_take_frames(struct conn *c, struct slice in);
/* Keeps the rest, `left`, in b; elsewhere: the bytes lie outside b. */
void conn_keep(struct conn *c, struct buf *b, struct slice left, int elsewhere);

/* conn_records.c: opens the complete records in `in` and delivers their frames;
 * returns what is left. */
struct slice conn_take_records(struct conn *c, struct slice in);

/* conn_write.c: remove it from the pool's list of held or stopped connections.
 * Idempotent. */
void conn_unmark(struct conn *c);
void conn_unlink_stopped(struct conn *c);
/* Stops reading until conn_release_held: the client sends requests while
 * replies wait for the journal. */
void conn_stop_reading(struct conn *c);

#endif
