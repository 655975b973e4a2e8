/* journal.h: the format of a journal: batches of records, each complete or
 * absent. Pure: bytes in, batches out. journal_file.h and journal_etcd.h store
 * them; journal_writer.h knows what the records mean. */
#ifndef RENDEZVOUS_JOURNAL_H
#define RENDEZVOUS_JOURNAL_H

#include "base/buf.h"

enum {
	JOURNAL_HEAD = 24, /* a batch's head: u32 length, u32 zero, u64 number,
			    * u64 sum of these and of the body */
	JOURNAL_BATCH_MAX = 1 << 30, /* the body; a round's store fits */
};

/* Makes the head of a batch in head[JOURNAL_HEAD]. The salt is the journal's
 * own, so that a client cannot choose a value that looks like a batch. */
void journal_seal(char *head, uint64_t salt, uint64_t number,
		  struct slice body);

/* The batch at the start of in, if it is complete and has that number (0: any):
 * its size, and *body points into it. 0: torn, old, or absent: the journal ends
 * here. */
size_t journal_cut(struct slice in, uint64_t salt, uint64_t *number,
		   struct slice *body);

struct journal_record {
	uint8_t type;
	struct slice body;
};

/* Begins and ends a record; put its body between the two. */
size_t journal_begin(struct buf *batch, uint8_t type);
void journal_end(struct buf *batch, size_t mark);
/* 1 and the next record, or 0 at the end; r->bad if the batch is not a list of
 * records, which only another version can write. */
int journal_next(struct reader *r, struct journal_record *record);

#endif
