/* test_journal_replay.c: a server reads a journal: invalid records, lowered
 * limits, what a snapshot must include, and a lack of memory. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/journal/journal.h"
#include "rendezvous/server/hosted_job.h"
#include "tests/unit/rendezvous/server/bare_server.h"
#include "tests/unit/run_case.h"

/* ---- a lack of memory; not with sanitizers, which have their own calloc
 * ---- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_FAIL_CALLOC 1
static int calloc_fails_in = -1; /* after that many calls; -1: never */

void *__libc_calloc(size_t n, size_t size);

void *calloc(size_t n, size_t size)
{
	if (calloc_fails_in >= 0 && calloc_fails_in-- == 0) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_calloc(n, size);
}
#endif

/* ---- a job with one node of two ranks, and its store ---- */

struct how {
	uint32_t min, max, call_ms;
};

static struct job_node *come(struct hosted_job *h, const char *id,
			     struct how how)
{
	const struct wire_join join = {
		.node_id = SLICE_STR(id),
		.host = SLICE_STR(id),
		.addr = SLICE_STR("127.0.0.1"),
		.node_rank = -1,
		.min_nodes = how.min,
		.max_nodes = how.max,
		.nproc = 2,
		.last_call_ms = how.call_ms,
		.role = SLICE_STR("default"),
	};
	struct buf b = BUF_INIT(4096);
	struct err e = ERR_INIT;
	struct job_node *n = NULL;
	struct wire_frame f;

	wire_put_join(&b, WIRE_JOIN, WIRE_REQUEST, 1, &join);
	ck_assert_int_gt((int)wire_cut(SLICE(b.data, b.len), 4096, &f, &e), 0);
	ck_assert_msg(job_event_take(h, &n, NULL, &f, &e) == 0, "%s", e.text);
	hosted_job_act(h);
	buf_release(&b);
	return n;
}

static struct hosted_job *begin_job(struct server *s, const char *id)
{
	struct hosted_job *h = hosted_job_for_join(s, SLICE_STR(id));

	come(h, "n", (struct how){1, 1, 0});
	ck_assert_int_eq(job_state(h->job), JOB_RUNNING);
	return h;
}

/* Rank 0 sets a key by a request that is recorded. */
static void set(struct hosted_job *h, const char *key, const char *value)
{
	const struct wire_key_value m = {SLICE_STR(key), SLICE_STR(value)};
	struct buf b = BUF_INIT(1 << 20);
	struct err e = ERR_INIT;
	struct wire_frame f;

	wire_put_key_value(&b, WIRE_SET, WIRE_REQUEST, 1, &m);
	ck_assert_int_gt((int)wire_cut(SLICE(b.data, b.len), 1 << 20, &f, &e),
			 0);
	ck_assert_int_eq(store_set(h->store, m.key, m.value, &e), 0);
	journal_writer_changed(&h->replies, 0, 0, &f);
	buf_release(&b);
}

static void keep(struct server *s)
{
	ck_assert_int_eq(journal_writer_commit(&s->writer), 0);
	ck_assert_int_eq(s->writer.has_complained, 0);
}

static const char *value_of(struct hosted_job *h, const char *key)
{
	static char text[256];
	struct slice v;

	if (!h || !h->store || !store_get(h->store, SLICE_STR(key), &v))
		return "(none)";
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(v));
	return text;
}

/* The next server, from the bytes in this one's file. */
static struct server *restart(struct server *s, int fd)
{
	close_server(s);
	return open_server(dup(fd));
}

/* ---- invalid records ---- */

static struct buf *batch;

static void of_unknown_node(void)
{
	buf_put_slice(batch, SLICE_STR("nobody"));
	buf_put_slice(batch, SLICE_STR("its connection closed"));
}

static void event_of_unknown_node(void)
{
	buf_put_slice(batch, SLICE_STR("nobody"));
	buf_put_u8(batch, WIRE_LEAVE);
	buf_put_slice(batch, SLICE_STR(""));
}

static void event_that_is_torn(void)
{
	buf_put_slice(batch, SLICE_STR("n"));
	buf_put_u8(batch, WIRE_EXITED);
	buf_put_slice(batch, SLICE_STR("xyz"));
}

static void event_that_is_none(void)
{
	buf_put_slice(batch, SLICE_STR("n"));
	buf_put_u8(batch, WIRE_PING);
	buf_put_slice(batch, SLICE_STR(""));
}

static void nothing(void)
{
}

static void request_that_is_none(void)
{
	buf_put_u64(batch, 0);
	buf_put_u32(batch, 0);
	buf_put_u32(batch, 0);
	buf_put_u8(batch, WIRE_JOIN);
	buf_put_slice(batch, SLICE_STR(""));
}

static void past_of_nothing_gathered(void)
{
	buf_put_u64(batch, 7);
	buf_put_u32(batch, 0);
	buf_put_u32(batch, 1);
	buf_put_u8(batch, WIRE_GATHER);
	buf_put_u64(batch, 0);
	buf_put_u32(batch, 99);
}

static void torch_of_no_generation(void)
{
	buf_put_u8(batch, 77);
	buf_put_slice(batch, SLICE_STR(""));
}

static void torch_addresses_that_are_none(void)
{
	buf_put_u16(batch, 1);
	buf_put_u32(batch, 1);
	buf_put_slice(batch, SLICE_STR("not an address"));
}

static void left_that_has_not(void)
{
	buf_put_u32(batch, 1);
}

static void half_a_list(void)
{
	buf_put_u32(batch, 5);
	buf_put_u32(batch, 1000);
}

static const struct {
	enum record_type type;
	void (*fields)(void);
	const char *says; /* part of the job's end */
} bad[] = {
	{RECORD_LOST, of_unknown_node, "(LOST) in the journal"},
	{RECORD_EVENT, event_of_unknown_node, "LEAVE of unknown node nobody"},
	{RECORD_EVENT, event_that_is_torn, "(EVENT)"},
	{RECORD_EVENT, event_that_is_none, "PING is not an event"},
	{RECORD_EVENT, nothing, "(EVENT)"},
	{RECORD_LOST, nothing, "(LOST)"},
	{RECORD_STOPPED, nothing, "(STOPPED)"},
	{RECORD_REQUEST, request_that_is_none, "(REQUEST)"},
	{RECORD_REQUEST, nothing, "(REQUEST)"},
	{RECORD_KEY, nothing, "(KEY)"},
	{RECORD_QUEUED, nothing, "(QUEUED)"},
	{RECORD_GATHERED, half_a_list, "(GATHERED)"},
	{RECORD_PAST, past_of_nothing_gathered, "(PAST)"},
	{RECORD_PAST, nothing, "(PAST)"},
	{RECORD_TORCHED, torch_of_no_generation, "(TORCHED)"},
	{RECORD_TORCH, torch_addresses_that_are_none, "(TORCH)"},
	{RECORD_LEFT, left_that_has_not, "(LEFT)"},
	{RECORD_WAS_LOST, nothing, "(WAS_LOST)"},
};

static void put_bad(struct server *s, int i, uint64_t number)
{
	size_t mark;

	batch = &s->writer.batch;
	mark = journal_begin(batch, (uint8_t)bad[i].type);
	buf_put_u64(batch, number);
	bad[i].fields();
	journal_end(batch, mark);
	keep(s);
}

START_TEST(a_senseless_record_only_costs_its_job)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	struct hosted_job *a = begin_job(s, "a"), *b = begin_job(s, "b");

	set(a, "k", "of a");
	set(b, "k", "of b");
	keep(s);
	put_bad(s, _i, a->number);
	/* later records are applied, except those of that job */
	set(a, "k", "later");
	set(b, "l", "later");
	keep(s);
	for (int restarts = 1; restarts <= 2; restarts++) {
		s = restart(s, fd);
		a = server_find_named_job(s, SLICE_STR("a"));
		b = server_find_named_job(s, SLICE_STR("b"));
		ck_assert_int_eq(job_state(b->job), JOB_RUNNING);
		ck_assert_str_eq(value_of(b, "k"), "of b");
		ck_assert_str_eq(value_of(b, "l"), "later");
		/* its agents reconnect and learn the reason */
		ck_assert_int_eq(job_state(a->job), JOB_OVER);
		ck_assert_ptr_nonnull(
			strstr(job_end(a->job)->text.data, "is invalid"));
		ck_assert_msg(strstr(job_end(a->job)->text.data, bad[_i].says),
			      "%s", job_end(a->job)->text.data);
		ck_assert_ptr_null(a->store);
	}
	close_server(s);
	close(fd);
}
END_TEST

START_TEST(a_record_of_an_unknown_job_costs_nothing)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	struct hosted_job *b = begin_job(s, "b");

	put_bad(s, _i, 4711);
	set(b, "k", "of b");
	keep(s);
	s = restart(s, fd);
	ck_assert_str_eq(
		value_of(server_find_named_job(s, SLICE_STR("b")), "k"),
		"of b");
	close_server(s);
	close(fd);
}
END_TEST

START_TEST(a_job_that_cannot_be_read_leaves_the_others)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	struct hosted_job *b = begin_job(s, "b");
	size_t mark;

	batch = &s->writer.batch;
	mark = journal_begin(batch, RECORD_JOB);
	buf_put_u64(batch, 77);
	buf_put_u8(batch, 1);
	buf_put_slice(batch, SLICE_STR("no job"));
	journal_end(batch, mark);
	put_bad(s, 0, 77);
	set(b, "k", "of b");
	keep(s);
	s = restart(s, fd);
	ck_assert_uint_eq(s->by_number.items, 1);
	ck_assert_str_eq(
		value_of(server_find_named_job(s, SLICE_STR("b")), "k"),
		"of b");
	close_server(s);
	close(fd);
}
END_TEST

/* ---- limits ---- */

START_TEST(lowered_limits_hold_for_new_requests)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	struct hosted_job *h = begin_job(s, "j");
	struct err e = ERR_INIT;
	char name[16], value[1001];
	size_t before;

	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		set(h, name, value);
	}
	keep(s);
	before = store_bytes(h->store);
	close_server(s);
	s = server_at(dup(fd), _i ? 10 : 1000, _i ? 1 << 20 : 9000, &e);
	ck_assert_msg(e.code == 0, "%s", e.text);
	h = server_find_named_job(s, SLICE_STR("j"));
	ck_assert_uint_eq(store_keys(h->store), 20);
	ck_assert_uint_eq(store_bytes(h->store), before);
	ck_assert_int_eq(
		store_set(h->store, SLICE_STR("new"), SLICE_STR("v"), &e),
		ERR_REFUSED);
	ck_assert_uint_eq(store_keys(h->store), 20);
	for (int i = 0; i < 15; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		ck_assert_int_eq(store_delete(h->store, SLICE_STR(name)), 1);
	}
	ck_assert_int_eq(
		store_set(h->store, SLICE_STR("new"), SLICE_STR("v"), &e), 0);
	close_server(s);
	close(fd);
}
END_TEST

/* ---- what a snapshot must include ---- */

static void leave(struct hosted_job *h, uint32_t rank)
{
	const struct wire_exited m = {.round = job_round(h->job),
				      .rank = rank,
				      .local_rank = rank,
				      .pid = 4711};
	struct job_node *n = job_next_node(h->job, NULL);
	struct buf b = BUF_INIT(4096);
	struct err e = ERR_INIT;
	struct wire_frame f;

	wire_put_exited(&b, WIRE_EXITED, WIRE_NOTICE, 0, &m);
	ck_assert_int_gt((int)wire_cut(SLICE(b.data, b.len), 4096, &f, &e), 0);
	ck_assert_int_eq(job_event_take(h, &n, NULL, &f, &e), 0);
	hosted_job_act(h);
	buf_release(&b);
}

/* The error that rank 0 gets from a gather of all ranks. */
static void gather(struct hosted_job *h, uint32_t size, char *text, size_t room)
{
	struct store_waiter w = {.owner = NULL};
	struct err e = ERR_INIT;

	ck_assert_int_eq(store_gather(h->store, SLICE_STR("g"), size, 0,
				      SLICE_STR("v"), &w, &e),
			 0);
	ck_assert_msg(w.state == WAITER_WOKEN, "it waits");
	ck_assert_ptr_eq(store_woken(h->store), &w);
	ck_assert_int_eq(w.code, ERR_REMOTE);
	snprintf(text, room, "%s", store_waiter_text(&w));
	store_waiter_release(&w);
}

START_TEST(ranks_that_have_left_fail_a_gather_after_each_restart)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	struct hosted_job *h = hosted_job_for_join(s, SLICE_STR("j"));
	char live[512], text[512];

	come(h, "n0", (struct how){2, 2, 0});
	come(h, "n1", (struct how){2, 2, 0});
	/* the first rank that left is named, not the lowest */
	h = server_find_named_job(s, SLICE_STR("j"));
	{
		struct job_node *n = job_find_node(h->job, SLICE_STR("n1"));
		const struct wire_exited m = {.round = 0, .rank = 3};
		struct buf b = BUF_INIT(4096);
		struct wire_frame f;

		wire_put_exited(&b, WIRE_EXITED, WIRE_NOTICE, 0, &m);
		ck_assert_int_gt(wire_cut(SLICE(b.data, b.len), 4096, &f, NULL),
				 0);
		ck_assert_int_eq(job_event_take(h, &n, NULL, &f, NULL), 0);
		hosted_job_act(h);
		buf_release(&b);
	}
	leave(h, 1);
	keep(s);
	gather(h, 4, live, sizeof(live));
	ck_assert_ptr_nonnull(strstr(live, "rank 3"));
	for (int restarts = 1; restarts <= 3; restarts++) {
		s = restart(s, fd);
		gather(server_find_named_job(s, SLICE_STR("j")), 4, text,
		       sizeof(text));
		ck_assert_str_eq(text, live);
	}
	close_server(s);
	close(fd);
}
END_TEST

START_TEST(a_last_call_ends_after_each_restart)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	struct hosted_job *h = hosted_job_for_join(s, SLICE_STR("j"));

	come(h, "n", (struct how){1, 2, 30000});
	keep(s);
	for (int restarts = 0; restarts <= 3; restarts++) {
		h = server_find_named_job(s, SLICE_STR("j"));
		ck_assert_int_eq(job_state(h->job), JOB_GATHERING);
		ck_assert_uint_ge(uv_timer_get_due_in(&h->call_timer), 29000);
		s = restart(s, fd);
	}
	/* a job that was over stays over */
	h = server_find_named_job(s, SLICE_STR("j"));
	job_event_called(h);
	hosted_job_act(h);
	keep(s);
	for (int restarts = 0; restarts <= 2; restarts++) {
		s = restart(s, fd);
		h = server_find_named_job(s, SLICE_STR("j"));
		ck_assert_int_eq(job_state(h->job), JOB_RUNNING);
		ck_assert_int_eq(uv_is_active((uv_handle_t *)&h->call_timer),
				 0);
	}
	close_server(s);
	close(fd);
}
END_TEST

START_TEST(a_job_that_the_server_stopped_is_over_after_each_restart)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	struct hosted_job *h = begin_job(s, "j");

	job_event_stopped(h, "it was idle");
	hosted_job_act(h);
	keep(s);
	for (int restarts = 1; restarts <= 2; restarts++) {
		s = restart(s, fd);
		h = server_find_named_job(s, SLICE_STR("j"));
		ck_assert_int_eq(job_state(h->job), JOB_OVER);
		ck_assert_int_eq(job_end(h->job)->verdict, WIRE_ENDED);
		ck_assert_str_eq(job_end(h->job)->text.data,
				 "it was idle");
	}
	close_server(s);
	close(fd);
}
END_TEST

START_TEST(the_sealed_key_outlives_each_restart)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));

	begin_job(s, "j");
	strcpy(s->sealed_key, "sealed");
	journal_writer_sealed(&s->writer, s->sealed_key);
	keep(s);
	for (int restarts = 1; restarts <= 2; restarts++) {
		s = restart(s, fd);
		ck_assert_str_eq(s->sealed_key, "sealed");
	}
	close_server(s);
	close(fd);
}
END_TEST

/* ---- memory ---- */

START_TEST(a_job_without_memory_leaves_nothing)
{
#ifdef CAN_FAIL_CALLOC
	int made = 0;

	for (int at = 0; !made; at++) {
		int fd = memfd_create("journal", MFD_CLOEXEC);
		struct server *s = open_server(fd);

		calloc_fails_in = at;
		made = hosted_job_for_join(s, SLICE_STR("j")) != NULL;
		calloc_fails_in = -1;
		if (!made) {
			ck_assert_uint_eq(s->by_number.items, 0);
			ck_assert_uint_eq(s->jobs.items, 0);
			begin_job(s, "j");
		}
		ck_assert_int_lt(at, 20);
		close_server(s);
	}
#endif
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("journal_replay");
	const int rows = sizeof(bad) / sizeof(*bad);

	tcase_add_loop_test(
		tc, a_senseless_record_only_costs_its_job, 0, rows);
	tcase_add_loop_test(
		tc, a_record_of_an_unknown_job_costs_nothing, 0, rows);
	tcase_add_test(tc, a_job_that_cannot_be_read_leaves_the_others);
	tcase_add_loop_test(tc, lowered_limits_hold_for_new_requests, 0,
			    2);
	tcase_add_test(tc,
		       ranks_that_have_left_fail_a_gather_after_each_restart);
	tcase_add_test(tc, a_last_call_ends_after_each_restart);
	tcase_add_test(
		tc, a_job_that_the_server_stopped_is_over_after_each_restart);
	tcase_add_test(tc, the_sealed_key_outlives_each_restart);
	tcase_add_test(tc, a_job_without_memory_leaves_nothing);
	return run_case(tc);
}
