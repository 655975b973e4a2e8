/* test_agent.c: the agent's state table and exit codes. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "launcher/agent/agent_internal.h"
#include "launcher/config/config.h"
#include "launcher/failure/exit_code.h"
#include "launcher/membership/member_internal.h"
#include "tests/unit/run_case.h"

/* A change here changes what ddprun does: change the man page as well. */
static const char states[] =
	"JOINING    wait     -> PRELOADING\n"
	"JOINING    start    -> RUNNING\n"
	"JOINING    end      -> LEAVING\n"
	"JOINING    lost     -> LEAVING\n"
	"JOINING    signal   -> LEAVING\n"
	"JOINING    stop     -> NOTIFIED\n"
	"JOINING    kill     -> LEAVING\n"
	"PRELOADING start    -> RUNNING\n"
	"PRELOADING end      -> LEAVING\n"
	"PRELOADING restart  -> BACKOFF\n"
	"PRELOADING lost     -> LEAVING\n"
	"PRELOADING stop     -> LEAVING\n"
	"PRELOADING kill     -> LEAVING\n"
	"RUNNING    end      -> STOPPING\n"
	"RUNNING    restart  -> RESTARTING\n"
	"RUNNING    lost     -> STOPPING\n"
	"RUNNING    stop     -> NOTIFIED\n"
	"RUNNING    kill     -> KILLING\n"
	"NOTIFIED   start    -> LEAVING\n"
	"NOTIFIED   end      -> STOPPING\n"
	"NOTIFIED   restart  -> STOPPING\n"
	"NOTIFIED   lost     -> STOPPING\n"
	"NOTIFIED   stop     -> NOTIFIED\n"
	"NOTIFIED   kill     -> KILLING\n"
	"NOTIFIED   grace    -> KILLING\n"
	"KILLING    start    -> LEAVING\n"
	"KILLING    end      -> STOPPING\n"
	"KILLING    restart  -> STOPPING\n"
	"KILLING    lost     -> STOPPING\n"
	"KILLING    kill     -> STOPPING\n"
	"KILLING    grace    -> STOPPING\n"
	"RESTARTING end      -> STOPPING\n"
	"RESTARTING lost     -> STOPPING\n"
	"RESTARTING signal   -> STOPPING\n"
	"RESTARTING empty    -> BACKOFF\n"
	"RESTARTING grace    -> RESTARTING\n"
	"BACKOFF    end      -> LEAVING\n"
	"BACKOFF    lost     -> LEAVING\n"
	"BACKOFF    signal   -> LEAVING\n"
	"BACKOFF    kill     -> LEAVING\n"
	"BACKOFF    due      -> JOINING\n"
	"STOPPING   signal   -> STOPPING\n"
	"STOPPING   kill     -> STOPPING\n"
	"STOPPING   empty    -> LEAVING\n"
	"STOPPING   grace    -> STOPPING\n"
	"LEAVING    signal   -> LEAVING\n"
	"LEAVING    kill     -> LEAVING\n"
	"LEAVING    grace    -> LEAVING\n";

START_TEST(the_table_as_printed)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	agent_print_states(f);
	fclose(f);
	ck_assert_str_eq(text, states);
	free(text);
}
END_TEST

START_TEST(each_kind_of_error_has_its_exit_code)
{
	static const struct {
		int code, status;
	} rows[] = {
		{ERR_USAGE, 2},     {ERR_REMOTE, 69},   {ERR_ABORTED, 69},
		{ERR_INTERNAL, 70}, {ERR_SYSTEM, 71},   {-EMFILE, 71},
		{ERR_TIMEOUT, 75},  {ERR_PROTOCOL, 76}, {ERR_REFUSED, 77},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct err e = {rows[i].code, ""};

		ck_assert_int_eq(exit_code_of(&e), rows[i].status);
	}
}
END_TEST

START_TEST(a_server_without_memory_is_lost_and_refuses_nobody)
{
	ck_assert_int_eq(exit_code_refusal(-ENOMEM), ERR_REMOTE);
	ck_assert_int_eq(exit_code_refusal(-ENOSPC), ERR_REMOTE);
	ck_assert_int_eq(exit_code_refusal(ERR_SYSTEM), ERR_REMOTE);
	ck_assert_int_eq(exit_code_refusal(ERR_REFUSED), ERR_REFUSED);
	ck_assert_int_eq(exit_code_refusal(ERR_ARGUMENT), ERR_REFUSED);
}
END_TEST

/* A node whose server has answered; its frames stay in the buffer. */
static void agent_is_joined(struct agent *a, uv_loop_t *loop,
			    const struct rdzv_options *o)
{
	static const struct member_events events = {.on_lost = NULL};
	struct err e = ERR_INIT;

	ck_assert_int_eq(uv_loop_init(loop), 0);
	ck_assert_msg(member_init(&a->member, loop, o, "n0", &events, &e) == 0,
		      "%s", e.text);
	a->member.connection.phase = CONNECTION_IN;
	buf_init(member_out(&a->member), 4096);
}

/* The loop does not run while the folders of a round are made. */
START_TEST(a_long_start_renews_the_lease_and_a_short_one_sends_nothing)
{
	static struct agent a;
	static struct config c;
	char *argv[] = {"ddprun", "--standalone", "true", NULL};
	struct err e = ERR_INIT;
	struct rdzv_options o;
	uv_loop_t loop;
	uint64_t due, ping;
	size_t one;

	ck_assert_int_eq(config_parse(&c, 3, argv, &e), 0);
	o = config_rdzv_options(&c);
	agent_is_joined(&a, &loop, &o);
	ping = member_ping_ms(&a.member) * 1000000;
	ck_assert_uint_gt(ping, 0);
	a.alive_ns = clock_ns();
	agent_extend_lease(&a);
	ck_assert_uint_eq(member_out(&a.member)->len, 0);
	due = a.alive_ns = clock_ns() - ping;
	agent_extend_lease(&a);
	one = member_out(&a.member)->len;
	ck_assert_uint_gt(one, 0);
	ck_assert_uint_ge(a.alive_ns, due + ping);
	/* one PING is enough for a while */
	agent_extend_lease(&a);
	ck_assert_uint_eq(member_out(&a.member)->len, one);
	a.member.connection.phase = CONNECTION_OUT;
	buf_release(member_out(&a.member));
	member_close(&a.member);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	config_release(&c);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("agent");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, the_table_as_printed);
	tcase_add_test(c, each_kind_of_error_has_its_exit_code);
	tcase_add_test(c,
		a_long_start_renews_the_lease_and_a_short_one_sends_nothing);
	tcase_add_test(c, a_server_without_memory_is_lost_and_refuses_nobody);
	return run_case(c);
}
