/* test_member.c: a notice that cannot be kept for the server ends the
 * membership: without it, the job would wait for ever. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "launcher/config/config.h"
#include "launcher/membership/member.h"
#include "tests/unit/run_case.h"

static uv_loop_t loop;
static struct config c;
static struct rdzv_options options;
static struct member m;
static struct err lost;

static void on_lost(struct member *of, const struct err *why)
{
	ck_assert_ptr_eq(of, &m);
	lost = *why;
}

static const struct member_events events = {.on_lost = on_lost};

/* A node whose round runs, with room for eight bytes of notices. */
static void set_up(void)
{
	char *argv[] = {"ddprun", "--standalone", "true", NULL};
	struct err e = ERR_INIT;

	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_msg(config_parse(&c, 3, argv, &e) == 0, "%s", e.text);
	options = config_rdzv_options(&c);
	ck_assert_msg(member_init(&m, &loop, &options, "n0", &events, &e) == 0,
		      "%s", e.text);
	m.membership.state = m.membership.place = MEMBER_RUNNING;
	m.has_started = 1;
	m.outbox.frames.max = 8;
	lost = (struct err)ERR_INIT;
}

static void tear_down(void)
{
	member_close(&m);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	config_release(&c);
}

static void is_lost(void)
{
	ck_assert_int_eq(lost.code, -ENOBUFS);
	ck_assert_ptr_nonnull(strstr(lost.text, "cannot keep a notice for the "
						"rendezvous server"));
}

START_TEST(a_lost_exit_ends_the_membership)
{
	const struct wire_exited x = {.rank = 1};

	member_exited(&m, &x);
	is_lost();
}
END_TEST

START_TEST(a_lost_failure_ends_the_membership)
{
	member_failed(&m, 0, 66, "no such file");
	is_lost();
}
END_TEST

START_TEST(a_lost_stop_ends_the_membership)
{
	const struct wire_stop stop = {.level = 1};

	member_stop(&m, &stop);
	is_lost();
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("member");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, a_lost_exit_ends_the_membership);
	tcase_add_test(t, a_lost_failure_ends_the_membership);
	tcase_add_test(t, a_lost_stop_ends_the_membership);
	return run_case(t) != 0;
}
