/* journal.c: encodes and decodes batches and records. */
#include "rendezvous/journal/journal.h"

/* Each step is invertible, so a change of one word always changes the sum.
 * Changes of several words leave it the same with probability 2^-64. */
static uint64_t journal_checksum_mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * 0x9fb21c651e98df25u;
	return h ^ h >> 29;
}

static uint64_t journal_checksum(uint64_t salt, uint64_t number,
				 struct slice body)
{
	uint64_t h = journal_checksum_mix(journal_checksum_mix(salt, number),
					  body.len),
		 word;
	const char *p = body.data;
	size_t n = body.len;

	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&word, p, 8);
		h = journal_checksum_mix(h, word);
	}
	word = 0;
	if (n)
		memcpy(&word, p, n);
	return journal_checksum_mix(h, word);
}

void journal_seal(char *head, uint64_t salt, uint64_t number,
		  struct slice body)
{
	const uint32_t words[2] = {(uint32_t)body.len, 0};
	const uint64_t more[2] = {number, journal_checksum(salt, number, body)};

	memcpy(head, words, sizeof(words));
	memcpy(head + sizeof(words), more, sizeof(more));
}

size_t journal_cut(struct slice in, uint64_t salt, uint64_t *number,
		   struct slice *body)
{
	uint32_t words[2];
	uint64_t more[2];

	if (in.len < JOURNAL_HEAD)
		return 0;
	memcpy(words, in.data, sizeof(words));
	memcpy(more, in.data + sizeof(words), sizeof(more));
	if (words[0] > JOURNAL_BATCH_MAX || words[1] || !words[0] ||
	    words[0] > in.len - JOURNAL_HEAD ||
	    (*number && more[0] != *number))
		return 0;
	*body = SLICE(in.data + JOURNAL_HEAD, words[0]);
	if (more[1] != journal_checksum(salt, more[0], *body))
		return 0;
	*number = more[0];
	return JOURNAL_HEAD + (size_t)words[0];
}

size_t journal_begin(struct buf *batch, uint8_t type)
{
	size_t mark = batch->len;

	buf_put_u32(batch, 0);
	buf_put_u8(batch, type);
	return mark;
}

void journal_end(struct buf *batch, size_t mark)
{
	uint32_t len;

	if (batch->failed)
		return;
	len = (uint32_t)(batch->len - mark - 5);
	for (int i = 0; i < 4; i++)
		batch->data[mark + (size_t)i] = (char)(len >> 8 * i);
}

int journal_next(struct reader *r, struct journal_record *record)
{
	uint32_t len;

	if (r->bad || !reader_left(r))
		return 0;
	len = reader_u32(r);
	record->type = reader_u8(r);
	if (r->bad || len > reader_left(r)) {
		r->bad = 1;
		return 0;
	}
	record->body = SLICE(r->p, len);
	r->p += len;
	return 1;
}
