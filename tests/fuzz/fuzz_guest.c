/* fuzz_guest: any line of a launcher, and any record of rank 0, is accepted or
 * a clean error. An accepted record is printed again in the same words. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pmi/bootstrap_record.h"
#include "pmi/pmi.h"
#include "slurm/step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_place(const char *text)
{
	char again[BOOTSTRAP_TEXT_MAX];
	struct bootstrap_record p, q;
	struct err e = ERR_INIT;
	int rc = bootstrap_record_get(&p, text, &e);

	if (rc) {
		if (e.code != rc || !e.text[0])
			abort();
		return;
	}
	bootstrap_record_put(&p, again);
	if (bootstrap_record_get(&q, again, &e) || q.n != p.n ||
	    q.why.code != p.why.code || strcmp(q.job, p.job))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice line = SLICE((const char *)data, size), value;
	struct err e = ERR_INIT;
	char *text;
	long n = -1;
	int rc = pmi_check(line, "get_result", &e);

	if (rc && (e.code != rc || !e.text[0]))
		abort();
	if (pmi_field(line, "value", &value) &&
	    (value.data < line.data ||
	     value.data + value.len > line.data + line.len))
		abort();
	text = strndup((const char *)data, size);
	if (!text)
		return 0;
	try_place(text);
	rc = step_tasks_on(text, 3, &n, &e);
	if (rc ? e.code != rc : n < 0)
		abort();
	free(text);
	return 0;
}
