/* conn_internal.h: the insides of a connection, for conn.c, conn_records.c,
 * conn_marked.c and conn_write.c. */
#ifndef RENDEZVOUS_CONN_INTERNAL_H
#define RENDEZVOUS_CONN_INTERNAL_H

#include "rendezvous/net/conn.h"

enum {
	CONN_RESERVE = 4096,
	CONN_RESERVE_MAX = 1 << 20, /* output that is worth a write alone */
};

/* conn_write.c: what is put out goes as far as the kernel takes it. */
void conn_write_out(struct conn *c);
/* It has nothing to say: the pool may have its buffer. */
void conn_give_spare(struct conn *c);

/* conn.c: the same, and what follows from that, up to the close of one that has
 * finished. */
void conn_flush(struct conn *c);
/* It reads again, so more of it is read. */
void conn_take_more(struct conn *c);

/* conn_account.c: its buffers may be others than before; it may be closed. */
void conn_count(struct conn *c);

/* It is closed, and its owner told why. */
void conn_gone(struct conn *c, const char *why);
/* Hands on the whole frames in `in`, up to that whose answer brought the keys;
 * returns what is left. */
struct slice conn_take_frames(struct conn *c, struct slice in);
/* What is left of b, or of bytes that lie elsewhere, is kept in b. */
void conn_keep(struct conn *c, struct buf *b, struct slice left, int elsewhere);

/* conn_records.c: hands on the frames in the whole records in `in`; returns
 * what is left. */
struct slice conn_take_records(struct conn *c, struct slice in);

/* conn_marked.c: it is not in the pool's list, or not any more. */
void conn_unmark(struct conn *c);
void conn_go_on(struct conn *c);
/* Until conn_release_held: a client that asks on while its answers wait. */
void conn_stop_reading(struct conn *c);

#endif
