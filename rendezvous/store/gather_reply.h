/* gather_reply.h: the replies to the callers of a complete gather: the list of
 * all values, or the address of a rank that passes it on. A list that does not
 * fit in a frame becomes an error reply. */
#ifndef RENDEZVOUS_GATHER_REPLY_H
#define RENDEZVOUS_GATHER_REPLY_H

#include "rendezvous/store/store.h"
#include "rendezvous/wire.h"

/* The reply to GATHER or SHARED_LIST. */
void gather_reply_put_list(struct buf *out, enum wire_type type, uint32_t id,
		       const struct barrier_gather *m);
/* The reply to the rank's SHARE. */
void gather_reply_put_shared(struct buf *out, uint32_t id,
			     struct barrier_gather *m, uint32_t rank);

#endif
