/* endpoint_record.h: the record that ranks exchange in ddp_init: each rank's
 * identity and addresses, and the values that all must agree on. Pure: converts
 * the record to bytes and back. */
#ifndef SDK_ENDPOINT_RECORD_H
#define SDK_ENDPOINT_RECORD_H

#include "base/buf.h"
#include "base/error.h"
#include "worker-sdk/core/key.h"

enum { DDP__ENDPOINT_RECORD_MAX = 4096 };

struct ddp__endpoint_record {
	/* all ranks must agree on these */
	struct slice version; /* libddp's */
	struct slice backend;
	uint32_t world_size;
	/* identity and addresses */
	struct slice host_id;	/* ranks with equal ids can share memory */
	struct slice host_name; /* for people */
	int64_t pid;
	int32_t memory; /* descriptor of this rank's segment; -1: none */
	unsigned char cookie[DDP__COOKIE]; /* random; keys are derived from
					    * it */
	struct slice addr; /* this rank's listener's; empty: it has none */
	uint16_t port;
	uint16_t p2p_port; /* port of the listener for messages between two
			    * ranks */
};

void ddp__endpoint_record_put(struct buf *b,
			      const struct ddp__endpoint_record *c);
/* Slices point into s. ERR_PROTOCOL if it does not parse. */
int ddp__endpoint_record_get(struct ddp__endpoint_record *c, struct slice s,
			     struct err *e);

/* 0 if rank's record agrees with mine, else ERR_USAGE, which names the
 * difference. */
int ddp__endpoint_record_agree(const struct ddp__endpoint_record *mine,
			       int my_rank,
			       const struct ddp__endpoint_record *other,
			       int rank, struct err *e);

#endif
