/* fuzz_journal: any bytes are batches, records and a job, or none of these.
 * Reading ends, and a job is the same after it is saved and loaded. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/journal/journal.h"
#include "rendezvous/round/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_job(struct slice bytes)
{
	struct buf b = BUF_INIT(1 << 24), again = BUF_INIT(1 << 24);
	struct job *j = job_load(bytes), *k;

	if (!j)
		return;
	job_save(j, &b);
	k = job_load(SLICE(b.data, b.len));
	if (b.failed || !k)
		abort();
	job_save(k, &again);
	if (again.len != b.len || memcmp(b.data, again.data, b.len) != 0)
		abort();
	job_free(j);
	job_free(k);
	buf_release(&b);
	buf_release(&again);
}

static void try_records(struct slice bytes)
{
	struct journal_record r;
	struct reader in;

	reader_init(&in, bytes);
	while (journal_next(&in, &r))
		if (r.body.data < bytes.data ||
		    r.body.data + r.body.len > bytes.data + bytes.len)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice in = SLICE((const char *)data, size), body;
	char *sealed = malloc(JOURNAL_HEAD + size + 1);
	uint64_t number = 0;
	size_t n;

	try_job(in);
	try_records(in);
	while ((n = journal_cut(in, 1, &number, &body))) {
		in.data += n;
		in.len -= n;
		number++;
	}
	/* sealed bytes open with the same salt, and with no other */
	memcpy(sealed + JOURNAL_HEAD, data, size);
	journal_seal(sealed, 7, 3, SLICE((const char *)data, size));
	number = 3;
	n = journal_cut(SLICE(sealed, JOURNAL_HEAD + size), 7, &number, &body);
	if (n != (size ? JOURNAL_HEAD + size : 0))
		abort();
	if (journal_cut(SLICE(sealed, JOURNAL_HEAD + size), 8, &number, &body))
		abort();
	free(sealed);
	return 0;
}
