/* fuzz_remote_frame: any bytes over ssh are noise, records, frames or a clean
 * error. Nothing is read past the end, and bodies have the length that they
 * state. */
#include <stdint.h>
#include <stdlib.h>

#include "launcher/ssh/remote_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct remote_list *l)
{
	const char *text;
	size_t at = 0;

	while ((text = remote_list_next(l, &at))) {
		if (text + strlen(text) >= l->texts.data + l->texts.len)
			abort();
	}
}

static void take_body(struct slice body)
{
	struct remote_job job;
	struct remote_branch branch;
	struct remote_ready ready;
	uint32_t n;

	if (remote_job_get(body, &job) == 0) {
		walk(&job.options);
		walk(&job.words);
		walk(&job.environment);
	}
	if (remote_branch_get(body, &branch) == 0) {
		walk(&branch.args);
		walk(&branch.hosts);
	}
	if (remote_ready_get(body, &ready) == 0 &&
	    ready.text.len + ready.host.len + ready.addr.len > body.len)
		abort();
	(void)!remote_window_get(body, &(struct remote_window){0});
	(void)!remote_u32_get(body, &n);
}

/* The rest, after the records. */
static struct slice skip_records(struct slice in)
{
	struct remote_record r;

	do {
		remote_record_find(in, &r);
		if (r.size > in.len || r.noise > r.size ||
		    (r.word != REMOTE_MORE && !r.size))
			abort();
		in = SLICE(in.data + r.size, in.len - r.size);
	} while (r.word != REMOTE_MORE && r.word != REMOTE_FAR);
	return in;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice in = SLICE((const char *)data, size);
	struct remote_frame f;
	struct err e = ERR_INIT;
	long n;

	take_body(in);
	in = skip_records(in);
	while ((n = remote_frame_cut(in, &f, &e)) > 0) {
		if ((size_t)n > in.len || f.bytes.len != (size_t)n)
			abort();
		take_body(f.body);
		in = SLICE(in.data + n, in.len - (size_t)n);
	}
	if (n < 0 && (e.code != n || !e.text[0]))
		abort();
	return 0;
}
