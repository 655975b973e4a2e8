/* place.h: this server's place in etcd: whether it is its job's server, or who
 * is, or why that is not known. It has the candidate and the journal, and is
 * the only one who knows both; what the journal says is history.h's, what
 * clients are told meanwhile standby.h's. */
#ifndef RENDEZVOUS_PLACE_H
#define RENDEZVOUS_PLACE_H

#include "etcd/etcd.h"

struct place;
struct server;

struct place_options {
	struct etcd_options etcd;
	const char *job; /* these two outlive the place */
	const char *address; /* where clients would reach us */
	int64_t lease; /* the same for each process of one agent; + 1 is, too */
	uint32_t ttl_s;  /* after our death the others wait so long */
	uint32_t keep_s; /* the job without any of us */
};

enum {
	PLACE_EXIT_LOST = 75, /* sysexits' EX_TEMPFAIL: start it again */
	PLACE_EXIT_CUT_OFF,   /* the same; nor has it heard of other nodes */
};

/* It becomes s->place. ERR_USAGE, ERR_SYSTEM: there can be none. */
int place_open(struct server *s, const struct place_options *o, struct err *e);

/* 0: this is the server; ERR_MOVED with its address, ERR_NOT_YET or ERR_NO_ETCD
 * with why. */
int place_check(const struct place *p, struct err *e);
/* There is something better to say than that it is not known yet. */
int place_is_known(const struct place *p);
/* It is the server, and nobody else is, at this moment. */
int place_is_sure(const struct place *p);

/* The server goes. Its place is given away, once the journal has all; or, where
 * over, nothing of the job is left in etcd. One that is not the server waits
 * for that where the job is over, and does it if the server is gone. Then place
 * is closed, and left is called; it may be at once. Idempotent. */
void place_leave(struct place *p, int over, void (*left)(struct server *s));
/* Cannot go on as the server: says why and ends the process; not before it
 * knows whether it is cut off, and nothing is said until then. */
void place_fail(struct place *p, const struct err *why);
/* Without a word to anybody. NULL is fine; the memory goes from the loop. */
void place_close(struct place *p);

#endif
