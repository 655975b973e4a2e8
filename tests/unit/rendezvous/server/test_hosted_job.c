/* test_hosted_job.c: a server that cannot note that a rank has left ends. If it
 * went on, a gather that misses the rank would wait for it. */
/* replaces: store_rank_left */
#include <check.h>
#include <errno.h>
#include <sysexits.h>

#include "rendezvous/server/hosted_job.h"
#include "tests/unit/rendezvous/server/bare_server.h"
#include "tests/unit/run_case.h"

static int no_memory;
static unsigned noted;
static struct server *s;

int __real_store_rank_left(struct store *st, uint32_t rank, const char *how);
int __wrap_store_rank_left(struct store *st, uint32_t rank, const char *how);

int __wrap_store_rank_left(struct store *st, uint32_t rank, const char *how)
{
	noted++;
	return no_memory ? -ENOMEM : __real_store_rank_left(st, rank, how);
}

/* The server takes a message of the node. */
static void take(struct hosted_job *h, struct job_node **n, struct buf *b)
{
	struct err e = ERR_INIT;
	struct wire_frame f;

	ck_assert_int_gt((int)wire_cut(SLICE(b->data, b->len), 1 << 16, &f, &e),
			 0);
	ck_assert_msg(job_event_take(h, n, NULL, &f, &e) == 0, "%s", e.text);
	hosted_job_act(h);
	buf_reset(b);
}

/* A node has two ranks, and the first one exits. */
static void let_one_exit(void)
{
	const struct wire_join join = {
		.node_id = SLICE_STR("n0"), .host = SLICE_STR("h"),
		.addr = SLICE_STR("127.0.0.1"), .node_rank = -1,
		.min_nodes = 1, .max_nodes = 1, .nproc = 2,
		.role = SLICE_STR("default"),
	};
	const struct wire_exited exited = {.rank = 0};
	struct buf b = BUF_INIT(1 << 16);
	struct job_node *n = NULL;
	struct hosted_job *h;

	s = open_server(memfd_create("journal", MFD_CLOEXEC));
	h = hosted_job_for_join(s, SLICE_STR("j"));
	wire_put_join(&b, WIRE_JOIN, WIRE_REQUEST, 1, &join);
	take(h, &n, &b);
	ck_assert_int_eq(job_state(h->job), JOB_RUNNING);
	ck_assert_uint_eq(noted, 0);
	wire_put_exited(&b, WIRE_EXITED, WIRE_NOTICE, 0, &exited);
	take(h, &n, &b);
	buf_release(&b);
}

START_TEST(a_rank_that_left_is_noted)
{
	let_one_exit();
	ck_assert_uint_eq(noted, 1);
	close_server(s);
}
END_TEST

START_TEST(a_server_that_cannot_note_it_ends)
{
	no_memory = 1;
	let_one_exit();
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("hosted_job");

	tcase_add_test(c, a_rank_that_left_is_noted);
	tcase_add_exit_test(c, a_server_that_cannot_note_it_ends, EX_OSERR);
	return run_case(c);
}
