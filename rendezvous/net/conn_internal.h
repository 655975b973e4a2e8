/* conn_internal.h: the insides of a connection, for conn.c, conn_records.c,
 * conn_hold.c and conn_write.c. */
#ifndef RENDEZVOUS_CONN_INTERNAL_H
#define RENDEZVOUS_CONN_INTERNAL_H

#include "rendezvous/net/conn.h"

enum {
	CONN_RESERVE = 4096,
	CONN_RESERVE_MAX = 1 << 20, /* output worth a write of its own */
};

/* conn_write.c: writes the output, as much as the kernel takes. */
void conn_write_out(struct conn *c);
/* Its output is empty: returns the buffer to the pool. */
void conn_give_spare(struct conn *c);

/* conn.c: writes the output, and closes the connection if it has finished. */
void conn_flush(struct conn *c);
/* The client reads again, so we read from it again. */
void conn_take_more(struct conn *c);

/* conn_account.c: charges its buffers, whose size has changed; may close it. */
void conn_count(struct conn *c);

/* Closes it and notifies its owner. */
void conn_gone(struct conn *c, const char *why);
/* Delivers the complete frames in `in`, up to the one whose reply brought the
 * keys; returns the rest. */
struct slice conn_take_frames(struct conn *c, struct slice in);
/* What is left of b, or of bytes that lie elsewhere, is kept in b. */
void conn_keep(struct conn *c, struct buf *b, struct slice left, int elsewhere);

/* conn_records.c: hands on the frames in the whole records in `in`; returns
 * what is left. */
struct slice conn_take_records(struct conn *c, struct slice in);

/* conn_hold.c: it is not in the pool's list, or not any more. */
void conn_unmark(struct conn *c);
void conn_go_on(struct conn *c);
/* Until conn_release_held: a client that asks on while its answers wait. */
void conn_stop_reading(struct conn *c);

#endif
