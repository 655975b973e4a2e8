/* test_signal_set.c: lists of signals as users write them. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/worker/signal_set.h"
#include "tests/unit/run_case.h"

START_TEST(names_in_each_form_and_numbers)
{
	struct signal_set set;
	struct err e = ERR_INIT;

	ck_assert_int_eq(signal_set_parse(&set, "SIGTERM,usr1,2,Hup,sigrtmin",
					  "--x", &e), 0);
	ck_assert(signal_set_has(&set, SIGTERM));
	ck_assert(signal_set_has(&set, SIGUSR1));
	ck_assert(signal_set_has(&set, SIGINT));
	ck_assert(signal_set_has(&set, SIGHUP));
	ck_assert(signal_set_has(&set, SIGRTMIN));
	ck_assert(!signal_set_has(&set, SIGUSR2));
	ck_assert_int_eq(__builtin_popcountll(set.bits), 5);
}
END_TEST

START_TEST(real_time_signals_up_to_the_last)
{
	struct signal_set set;
	struct err e = ERR_INIT;

	ck_assert_int_eq(signal_set_parse(&set, "RTMIN+1,64", "--x", &e), 0);
	ck_assert(signal_set_has(&set, SIGRTMIN + 1));
	ck_assert(signal_set_has(&set, 64));
	ck_assert(!signal_set_has(&set, 65));
	ck_assert(!signal_set_has(&set, 0));
	ck_assert_int_eq(signal_set_parse(&set, "RTMIN+99", "--x", &e),
			 ERR_USAGE);
}
END_TEST

START_TEST(an_empty_list_is_no_signal)
{
	struct signal_set set = {~UINT64_C(0)};
	struct err e = ERR_INIT;

	ck_assert_int_eq(signal_set_parse(&set, "", "--x", &e), 0);
	ck_assert(set.bits == 0);
}
END_TEST

START_TEST(a_wrong_signal_is_named)
{
	static const struct {
		const char *text, *part;
	} rows[] = {
		{"SIGFOO", "'SIGFOO' is not a signal"},
		{"TERM,,INT", "'' is not a signal"},
		{"TERM,", "ends with a comma"},
		{"0", "'0' is not a signal"},
		{"65", "'65' is not a signal"},
		{"TERM INT", "'TERM INT' is not a signal"},
		{"RTMIN-1", "'RTMIN-1' is not a signal"},
		{"KILL", "SIGKILL cannot be on this list: no program"},
		{"19", "SIGSTOP cannot"},
		{"CHLD", "ddprun needs it"},
		{"33", "ddprun needs it"},
		{"SEGV", "a fault in ddprun"},
		{"TSTP", "on anyway"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct signal_set set;
		struct err e = ERR_INIT;

		ck_assert_int_eq(signal_set_parse(&set, rows[i].text,
						  "--some-list", &e),
				 ERR_USAGE);
		ck_assert_ptr_nonnull(strstr(e.text, "--some-list: "));
		ck_assert_msg(strstr(e.text, rows[i].part), "%s: %s",
			      rows[i].text, e.text);
	}
}
END_TEST

START_TEST(shared_signals_of_two_lists_are_found)
{
	struct signal_set a, b;

	signal_set_parse(&a, "TERM,INT", "--x", NULL);
	signal_set_parse(&b, "USR1,TERM", "--x", NULL);
	ck_assert_int_eq(signal_set_common(&a, &b), SIGTERM);
	signal_set_parse(&b, "USR1", "--x", NULL);
	ck_assert_int_eq(signal_set_common(&a, &b), 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("signal_set");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, names_in_each_form_and_numbers);
	tcase_add_test(c, real_time_signals_up_to_the_last);
	tcase_add_test(c, an_empty_list_is_no_signal);
	tcase_add_test(c, a_wrong_signal_is_named);
	tcase_add_test(c, shared_signals_of_two_lists_are_found);
	return run_case(c);
}
