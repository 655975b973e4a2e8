/* fuzz_pmix: PMIx messages of another node's agent (its part of the map of
 * nodes, its part of a fence, letters about a rank's data), and of the helper.
 * The first byte chooses. An accepted message fits the world, and is the same
 * when it is written and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/pmix/pmix_frame.h"
/* only node_mail.c calls the functions for its letters */
#include "launcher/pmix/pmix_modex.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NODES = 3, WORLD = 6 };

static void require(int ok)
{
	if (!ok)
		abort();
}

/* ---- the map of nodes ---- */

static void check_map(const struct pmix_job *j)
{
	struct buf b = BUF_INIT(PMIX_JOB_TEXT_MAX), again = b;
	char name[PMIX_JOB_NAME_MAX];
	struct err e = ERR_INIT;
	struct pmix_job copy;
	uint64_t ranks = 0;

	for (uint32_t i = 0; i < j->nnodes; i++) {
		pmix_job_put_peers(j, i, &b);
		pmix_job_node_name(j, i, name, sizeof(name));
		ranks += j->ranks[i];
	}
	pmix_job_put_procs(j, &b);
	require(ranks == j->world_size && !b.failed);
	require(pmix_job_node_of(j, j->world_size) == j->nnodes);
	require(pmix_job_node_of(j, j->base_rank) == j->node_rank);
	buf_reset(&b);
	pmix_job_put(&b, j);
	require(pmix_job_get(&copy, SLICE(b.data, b.len), &e) == 0);
	pmix_job_put(&again, &copy);
	require(again.len == b.len && !memcmp(again.data, b.data, b.len));
	pmix_job_release(&copy);
	buf_release(&b);
	buf_release(&again);
}

/* Parts: a length of one byte, then the bytes. */
static void learn(struct slice in)
{
	struct pmix_job j = {.base_rank = 2, .nproc = 1, .world_size = WORLD,
			     .node_rank = 1, .nnodes = NODES};
	struct slice parts[NODES] = {{NULL, 0}};
	struct err e = ERR_INIT;

	for (int i = 0; i < NODES && in.len; i++) {
		size_t n = (uint8_t)in.data[0];

		n = n < in.len - 1 ? n : in.len - 1;
		parts[i] = SLICE(in.data + 1, n);
		in = SLICE(in.data + 1 + n, in.len - 1 - n);
	}
	if (pmix_job_learn(&j, parts, &e) == 0)
		check_map(&j);
	else
		require(e.text[0]);
	pmix_job_release(&j);
}

static void begin(struct slice in)
{
	struct err e = ERR_INIT;
	struct pmix_job j;

	if (pmix_job_get(&j, in, &e) < 0) {
		require(e.text[0]);
		return;
	}
	/* its size is trusted: the agent on this host sends it */
	if (j.world_size <= 1000)
		check_map(&j);
	pmix_job_release(&j);
}

/* ---- fences, and the helper ---- */

static void read_fence(struct slice in)
{
	struct attendance_ended ended = {0};
	struct attendance a;
	struct err e = ERR_INIT;
	struct reader r;
	int rc;

	require(attendance_init(&a, 2, 1, &e) == 0);
	a.ranks[0].state = ATTENDANCE_WAITS;
	reader_init(&r, in);
	attendance_read(&r, &ended);
	rc = r.bad ? 0 : attendance_check(&a, &ended, &e);
	require(r.bad || (ended.n ? rc == ERR_REMOTE && e.text[0] : rc == 1));
	attendance_release(&a);
}

static void cut_frames(struct slice in)
{
	struct err e = ERR_INIT;
	struct pmix_frame f;
	long n;

	while ((n = pmix_frame_cut(in, &f, &e)) > 0) {
		struct buf b = BUF_INIT(PMIX_FRAME_MAX);

		pmix_frame_put(&b, &f);
		require((size_t)n <= in.len && (size_t)n == b.len &&
			!memcmp(b.data, in.data, b.len));
		buf_release(&b);
		in = SLICE(in.data + n, in.len - (size_t)n);
	}
	require(n == 0 || (n == ERR_PROTOCOL && e.text[0]));
}

static void get_vars(struct slice in)
{
	struct err e = ERR_INIT;
	struct pmix_vars v;

	if (pmix_vars_get(&v, in, 2, &e) < 0) {
		require(e.text[0]);
		return;
	}
	for (uint32_t i = 0; i < 2 * v.n; i++)
		require(strlen(v.vars[i]) <= in.len);
	pmix_vars_release(&v);
}

/* ---- letters ---- */

static int has_failed;
static uint32_t last_asked;

void pmix_service_fail(struct pmix_service *s, const struct err *why)
{
	require(why->text[0]);
	has_failed = 1;
}

void pmix_service_send(struct pmix_service *s, uint8_t type, uint32_t id,
		       int32_t code, struct slice data)
{
	require(type == HELPER_WANTED || type == HELPER_FOUND);
	if (type == HELPER_WANTED) {
		require(code == 2 || code == 3);
		last_asked = id;
	}
}

void pmix_service_part_closed(struct pmix_service *s)
{
}

int node_mail_start(struct node_mail *m, uv_loop_t *l,
		    const struct round_client_self *self, uint32_t node_rank,
		    const struct node_mail_events *events, void *owner,
		    struct err *e)
{
	m->owner = owner;
	m->events = events;
	return 0;
}

int node_mail_send(struct node_mail *m, uint32_t node, struct slice letter,
		   struct err *e)
{
	require(node < NODES);
	return 0;
}

void node_mail_close(struct node_mail *m)
{
}

/* Letters: a length of one byte, then the bytes; 0: the helper answers. */
static void read_letters(struct slice in)
{
	static uint32_t ranks[NODES] = {2, 2, 2};
	struct pmix_service s = {
		.job = {.base_rank = 2, .nproc = 2, .world_size = WORLD,
			.node_rank = 1, .nnodes = NODES, .ranks = ranks}};
	struct err e = ERR_INIT;

	has_failed = 0;
	require(attendance_init(&s.attendance, 2, 2, &e) == 0);
	require(pmix_modex_start(&s, NULL, &e) == 0);
	while (in.len && !has_failed) {
		size_t n = (uint8_t)in.data[0];
		struct pmix_frame found = {HELPER_DATA, last_asked, 0,
					   SLICE("data", 4)};

		n = n < in.len - 1 ? n : in.len - 1;
		if (n)
			s.mail.events->on_letter(&s.mail,
						 SLICE(in.data + 1, n));
		else
			pmix_modex_found(&s, &found);
		in = SLICE(in.data + 1 + n, in.len - 1 - n);
	}
	pmix_modex_give_up(&s, 2);
	pmix_modex_release(&s);
	attendance_release(&s.attendance);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[])(struct slice) = {
		learn, begin, read_fence, cut_frames, get_vars, read_letters};

	if (size && data[0] < sizeof(readers) / sizeof(*readers))
		readers[data[0]](SLICE((const char *)data + 1, size - 1));
	return 0;
}
