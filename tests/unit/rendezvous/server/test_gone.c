/* test_gone.c: the server's memory of nodes that are gone is bounded, and
 * charged to the accounts of their job and tenant. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/recovery/recovery.h"
#include "rendezvous/server/hosted_job.h"
#include "tests/unit/rendezvous/server/bare_server.h"
#include "tests/unit/run_case.h"

enum { NAME = 1000 };

/* The name of host i, about as long as names may be. */
static char *name_of(int i, char *out)
{
	snprintf(out, NAME, "%0*d", NAME - 1, i);
	return out;
}

static struct job_node *come(struct hosted_job *h, int i)
{
	char name[NAME];
	const struct wire_join join = {
		.node_id = SLICE_STR(name_of(i, name)),
		.host = SLICE_STR(name), .addr = SLICE_STR("127.0.0.1"),
		.node_rank = -1, .min_nodes = 1, .max_nodes = 2, .nproc = 1,
		.role = SLICE_STR("default"),
	};
	struct buf b = BUF_INIT(1 << 16);
	struct err e = ERR_INIT;
	struct job_node *n = NULL;
	struct wire_frame f;

	wire_put_join(&b, WIRE_JOIN, WIRE_REQUEST, 1, &join);
	ck_assert_int_gt((int)wire_cut(SLICE(b.data, b.len), 1 << 16, &f, &e),
			 0);
	ck_assert_msg(job_event_take(h, &n, NULL, &f, &e) == 0, "%s", e.text);
	hosted_job_act(h);
	buf_release(&b);
	return n;
}

/* Runs rounds of node 0, which stays, with nodes first to last, each of which
 * is lost. */
static void lose(struct hosted_job *h, int first, int last)
{
	for (int i = first; i <= last; i++) {
		struct job_node *n = come(h, i);

		if (job_state(h->job) == JOB_RESTARTING) /* the next round has
							  * both */
			come(h, 0);
		ck_assert_int_eq(job_state(h->job), JOB_RUNNING);
		job_event_lost(h, n, "its connection closed");
		hosted_job_act(h);
		come(h, 0);
	}
}

START_TEST(records_of_gone_nodes_are_counted_and_bounded)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(dup(fd));
	struct account *tenant;
	struct hosted_job *h;
	size_t one, before;

	s->token_dir = "tokens";
	tenant = account_of_tenant(&s->tenants, SLICE_STR("t"), &s->accounts);
	h = hosted_job_for_join(s, SLICE_STR("t/j"));
	come(h, 0);
	lose(h, 1, 1);
	one = h->account->bytes;
	/* its host, its id and the reason */
	ck_assert_uint_ge(one, 2 * NAME);
	lose(h, 2, 10);
	ck_assert_uint_ge(h->account->bytes, 10 * 2 * NAME);
	ck_assert_uint_eq(tenant->bytes, h->account->bytes);
	lose(h, 11, 600);
	before = h->account->bytes;
	ck_assert_uint_le(before, 256 * one);
	lose(h, 601, 700);
	ck_assert_uint_eq(h->account->bytes, before);
	/* the next server charges the same */
	ck_assert_int_eq(journal_writer_commit(&s->writer), 0);
	account_unref(tenant);
	close_server(s);
	s = open_server(dup(fd));
	h = server_find_named_job(s, SLICE_STR("t/j"));
	ck_assert_uint_eq(h->account->bytes, before);
	close_server(s);
	close(fd);
}
END_TEST

START_TEST(a_gone_job_is_in_no_account)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(fd);
	struct account *tenant;
	struct hosted_job *h;

	s->token_dir = "tokens";
	tenant = account_of_tenant(&s->tenants, SLICE_STR("t"), &s->accounts);
	h = hosted_job_for_join(s, SLICE_STR("t/j"));
	come(h, 0);
	lose(h, 1, 100);
	ck_assert_uint_gt(tenant->bytes, 0);
	hosted_job_drop(h);
	ck_assert_uint_eq(tenant->bytes, 0);
	account_unref(tenant);
	close_server(s);
}
END_TEST

/* As when a server drains whose agents have not come back. */
START_TEST(a_dropped_job_releases_its_nodes_addresses)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct server *s = open_server(fd);
	struct hosted_job *h = hosted_job_for_join(s, SLICE_STR("j"));
	struct addr_owner node = {NULL};
	struct sock_addr a;

	come(h, 0);
	ck_assert_int_eq(sock_addr_number("10.0.0.1", 0, &a), 1);
	ck_assert_int_eq(addr_book_add(&h->vouchers.book, &node, &a), 0);
	addr_book_forget(&h->vouchers.book, &node);
	ck_assert_uint_ne(h->vouchers.book.addrs.size, 0);
	hosted_job_drop(h);
	/* the job itself is freed by the loop */
	ck_assert_uint_eq(h->vouchers.book.addrs.size, 0);
	close_server(s);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("gone");

	tcase_add_test(c,
		records_of_gone_nodes_are_counted_and_bounded);
	tcase_add_test(c, a_gone_job_is_in_no_account);
	tcase_add_test(c, a_dropped_job_releases_its_nodes_addresses);
	return run_case(c);
}
