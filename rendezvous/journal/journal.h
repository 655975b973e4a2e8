/* journal.h: what a journal is made of: batches, each whole or not there, of
 * records. Pure: bytes in, batches out.
 * Where they are kept is journal_file.h's, what they mean history.h's. */
#ifndef RENDEZVOUS_JOURNAL_H
#define RENDEZVOUS_JOURNAL_H

#include "base/buf.h"
#include "base/error.h"

enum {
	JOURNAL_HEAD = 24, /* of a batch: u32 length, u32 zero, u64 number,
			    * u64 sum of these and of the body */
	JOURNAL_BATCH_MAX = 1 << 30, /* the body; a round's store fits */
};

/* The head of a batch, into head[JOURNAL_HEAD]. salt is the journal's own: so
 * that nobody who chooses a value can make it look like a batch. */
void journal_seal(char *head, uint64_t salt, uint64_t number,
		  struct slice body);

/* The batch at the start of in, if it is whole and has that number (0: any):
 * its whole size, *body points into it. 0: torn, of another time, or none:
 * here the journal ends. */
size_t journal_cut(struct slice in, uint64_t salt, uint64_t *number,
		   struct slice *body);

struct journal_record {
	uint8_t type;
	struct slice body;
};

/* A record: put its body between the two. */
size_t journal_begin(struct buf *batch, uint8_t type);
void journal_end(struct buf *batch, size_t mark);
/* 1 and the next record, 0 at the end; r->bad where the batch is no list of
 * records, which only another version's can be. */
int journal_next(struct reader *r, struct journal_record *record);

#endif
