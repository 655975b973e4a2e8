/* fuzz_torch_trace: any file that begins like a trace of PyTorch is read
 * without harm, and its text fits. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/traces/torch_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_call(void *arg, const struct torch_call *c)
{
	struct trace *t = arg;
	struct trace_call call = {
		.rank = (uint32_t)(t->n % 3), .group = c->group,
		.number = c->number, .same = c->same,
		.words = (char *)c->words, .where = (char *)c->where,
	};

	if (!memchr(c->words, '\0', sizeof(c->words)) ||
	    !memchr(c->where, '\0', sizeof(c->where)) ||
	    !memchr(c->library, '\0', sizeof(c->library)) ||
	    (c->state != FLIGHT_DONE && c->state != FLIGHT_ENTERED) ||
	    (c->is_collective && c->message))
		abort();
	for (const char *p = c->words; *p; p++) {
		if ((unsigned char)*p < ' ')
			abort();
	}
	if (t->n < 1000 && trace_add(t, &call) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf out = BUF_INIT(64 << 20);
	struct trace t = {NULL};
	struct pickle p;

	if (pickle_read(&p, SLICE((const char *)data, size), NULL) == 0 &&
	    torch_trace_is(&p)) {
		torch_trace_world_size(&p);
		torch_trace_each_call(&p, check_call, &t);
		trace_put_mismatches(&out, &t);
	}
	buf_release(&out);
	trace_release(&t);
	pickle_release(&p);
	return 0;
}
