/* test_agent.c: the agent's state table and exit codes. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "launcher/agent/agent_internal.h"
#include "launcher/failure/exit_code.h"
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

int main(void)
{
	TCase *c = tcase_create("agent");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, the_table_as_printed);
	tcase_add_test(c, each_kind_of_error_has_its_exit_code);
	tcase_add_test(c, a_server_without_memory_is_lost_and_refuses_nobody);
	return run_case(c);
}
