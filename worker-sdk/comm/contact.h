/* contact.h: what ranks tell each other in ddp_init: who and where they are and
 * what they must agree on. Pure: a record as bytes, and back. */
#ifndef SDK_CONTACT_H
#define SDK_CONTACT_H

#include "base/buf.h"
#include "base/error.h"
#include "worker-sdk/shm/shm.h"

enum { DDP__CONTACT_MAX = 4096 };

struct ddp__contact {
	/* to agree on */
	struct slice version; /* of libddp */
	struct slice backend;
	uint32_t world_size;
	/* who and where */
	struct slice host_id;   /* equal: they can share memory */
	struct slice host_name; /* for people */
	int64_t pid;
	int32_t memory; /* descriptor of a segment of this rank's; -1: none */
	unsigned char cookie[DDP__COOKIE]; /* random: keys are made of it */
	struct slice addr; /* of its listener; empty: it has none */
	uint16_t port;
	uint16_t p2p_port; /* of that for messages between two ranks */
};

void ddp__contact_put(struct buf *b, const struct ddp__contact *c);
/* Slices point into s. ERR_PROTOCOL if it does not parse. */
int ddp__contact_get(struct ddp__contact *c, struct slice s, struct err *e);

/* 0 if rank's record fits mine, else ERR_USAGE, naming what differs. */
int ddp__contact_agree(const struct ddp__contact *mine, int my_rank,
		       const struct ddp__contact *other, int rank,
		       struct err *e);

#endif
