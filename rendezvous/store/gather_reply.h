/* gather_reply.h: the replies to who came to a gather that is complete: the
 * list of all values, or where it is to be had. What is more than a reply can
 * hold is an error reply. */
#ifndef RENDEZVOUS_GATHER_REPLY_H
#define RENDEZVOUS_GATHER_REPLY_H

#include "rendezvous/store/store.h"
#include "rendezvous/wire.h"

/* Of a GATHER, or a SHARED_LIST. */
void gather_reply_put_list(struct buf *out, enum wire_type type, uint32_t id,
		       const struct barrier_gather *m);
/* Of rank's SHARE. */
void gather_reply_put_shared(struct buf *out, uint32_t id,
			     struct barrier_gather *m, uint32_t rank);

#endif
