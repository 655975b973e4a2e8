/* gathered.h: the replies to who came to a gather that is complete: the list of
 * all values, or where it is to be had. What is more than a reply can hold is
 * an error reply. */
#ifndef RENDEZVOUS_GATHERED_H
#define RENDEZVOUS_GATHERED_H

#include "rendezvous/store/store.h"
#include "rendezvous/wire.h"

/* Of a GATHER, or a SHARED_LIST. */
void gathered_put_list(struct buf *out, enum wire_type type, uint32_t id,
		       const struct meeting *m);
/* Of rank's SHARE. */
void gathered_put_shared(struct buf *out, uint32_t id, struct meeting *m,
			 uint32_t rank);

#endif
