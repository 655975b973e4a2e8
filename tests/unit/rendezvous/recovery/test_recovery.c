/* test_recovery.c: a server that ddprun started for one job, and that was
 * killed after the job was over: the next one reports how it ended. */
#include <check.h>
#include <string.h>

#include "rendezvous/server/hosted_job.h"
#include "tests/unit/rendezvous/server/bare_server.h"
#include "tests/unit/run_case.h"

static struct server *open_ddpruns_server(int fd)
{
	struct server *s = new_server(1000, 1 << 20);
	struct err e = ERR_INIT;

	s->has_parent = 1;
	s->only_job = "j";
	ck_assert_msg(recovery_start(s, NULL, dup(fd), &e) == 0, "%s", e.text);
	return s;
}

static void take(struct hosted_job *h, struct job_node **n, struct buf *b)
{
	struct err e = ERR_INIT;
	struct wire_frame f;

	ck_assert_int_gt((int)wire_cut(SLICE(b->data, b->len), 1 << 16, &f,
				       &e), 0);
	ck_assert_msg(job_event_take(h, n, NULL, &f, &e) == 0, "%s", e.text);
	hosted_job_act(h);
	buf_release(b);
}

/* Its only rank exits, and its only node leaves. */
static void run_job(struct server *s)
{
	const struct wire_join join = {
		.node_id = SLICE_STR("n"), .host = SLICE_STR("h"),
		.addr = SLICE_STR("127.0.0.1"), .node_rank = -1,
		.min_nodes = 1, .max_nodes = 1, .nproc = 1,
		.role = SLICE_STR("default"),
	};
	const struct wire_exited exited = {.code = 0};
	struct hosted_job *h = hosted_job_for_join(s, SLICE_STR("j"));
	struct buf b = BUF_INIT(1 << 16);
	struct job_node *n = NULL;

	wire_put_join(&b, WIRE_JOIN, WIRE_REQUEST, 1, &join);
	take(h, &n, &b);
	wire_put_exited(&b, WIRE_EXITED, WIRE_NOTICE, 0, &exited);
	take(h, &n, &b);
	ck_assert_int_eq(job_state(h->job), JOB_OVER);
	job_event_lost(h, n, "its connection closed");
	hosted_job_act(h);
	hosted_job_free_if_empty(h);
	ck_assert_int_eq(journal_writer_commit(&s->writer), 0);
}

START_TEST(a_job_that_is_over_and_empty_outlives_its_server)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_ddpruns_server(fd);
	struct hosted_job *h;

	run_job(s);
	for (int death = 0; death < 2; death++) {
		close_server(s);
		s = open_ddpruns_server(fd);
		h = server_find_named_job(s, SLICE_STR("j"));
		ck_assert_ptr_nonnull(h);
		ck_assert_int_eq(job_state(h->job), JOB_OVER);
		ck_assert_int_eq(job_is_empty(h->job), 1);
	}
	close_server(s);
	close(fd);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("recovery");

	tcase_add_test(c, a_job_that_is_over_and_empty_outlives_its_server);
	return run_case(c);
}
