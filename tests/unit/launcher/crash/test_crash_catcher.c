/* test_crash_catcher.c: what workers have written about their children and
 * about senders of signals, garbage included. */
#include <check.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "launcher/crash/crash_catcher.h"
#include "tests/unit/run_case.h"

enum { PID = 812, SENDER = 900, UID = 1000 };

static struct crash_catcher c;

static void begin(void)
{
	crash_catcher_init(&c);
	crash_catcher_begin(&c, 2);
	ck_assert_int_ge(c.records, 0);
}

static void end(void)
{
	crash_catcher_release(&c);
}

static void put(uint32_t local_rank, uint32_t at, const void *bytes, size_t n)
{
	off_t to = (off_t)crash_slot_at(local_rank, CRASH_OWN) + at;

	ck_assert_int_eq(pwrite(c.records, bytes, n, to), (ssize_t)n);
}

START_TEST(a_killed_child_is_of_the_worker_that_recorded_it)
{
	struct crash_child in = {.magic = CRASH_MAGIC, .ns = 7, .pid = PID,
				 .signal = SIGKILL, .parent = 811}, out;

	ck_assert(!crash_catcher_read_child(&c, 1, &out));
	memset(in.name, 'x', sizeof(in.name)); /* it has no end */
	put(1, CRASH_CHILD_AT, &in, sizeof(in));
	ck_assert(!crash_catcher_read_child(&c, 0, &out));
	ck_assert(!crash_catcher_read_child(&c, 2, &out));
	ck_assert(crash_catcher_read_child(&c, 1, &out));
	ck_assert_int_eq(out.pid, PID);
	ck_assert_uint_eq(strlen(out.name), sizeof(out.name) - 1);
	in.signal = -1;
	put(1, CRASH_CHILD_AT, &in, sizeof(in));
	ck_assert(!crash_catcher_read_child(&c, 1, &out));
	in = (struct crash_child){.magic = 1, .pid = PID, .signal = SIGKILL};
	put(1, CRASH_CHILD_AT, &in, sizeof(in));
	ck_assert(!crash_catcher_read_child(&c, 1, &out));
}
END_TEST

START_TEST(a_sender_is_of_that_process_and_that_signal)
{
	struct crash_sent in = {.magic = CRASH_MAGIC, .pid = PID,
				.signal = SIGTERM, .sender = SENDER}, out;

	put(0, crash_sent_at(PID), &in, sizeof(in));
	ck_assert(crash_catcher_read_sent(&c, 0, PID, SIGTERM, &out));
	ck_assert_int_eq(out.sender, SENDER);
	ck_assert(!crash_catcher_read_sent(&c, 0, PID, SIGHUP, &out));
	ck_assert(!crash_catcher_read_sent(&c, 1, PID, SIGTERM, &out));
	/* in the same place */
	ck_assert(!crash_catcher_read_sent(&c, 0, PID + CRASH_SENT_MAX,
					   SIGTERM, &out));
	ck_assert(!crash_catcher_read_sent(&c, 0, -PID, SIGTERM, &out));
}
END_TEST

static void check_words(const struct crash_sent *s, const char *words)
{
	struct buf out = BUF_INIT(200);

	crash_catcher_put_sender(s, &out);
	buf_put(&out, "", 1);
	ck_assert_str_eq(out.data, words);
	buf_release(&out);
}

START_TEST(a_sender_has_its_name_and_its_user)
{
	struct crash_sent s = {.pid = PID, .sender = SENDER, .uid = UID,
			       .name = "scancel"};

	check_words(&s, "sent by process 900 (scancel) of uid 1000");
	s.name[0] = '\0'; /* it had ended */
	check_words(&s, "sent by process 900 of uid 1000");
	s.sender = PID;
	check_words(&s, "sent by the process itself");
	s.sender = 0;
	check_words(&s, "sent by a process outside its PID namespace");
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("crash_catcher");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, a_killed_child_is_of_the_worker_that_recorded_it);
	tcase_add_test(tc, a_sender_is_of_that_process_and_that_signal);
	tcase_add_test(tc, a_sender_has_its_name_and_its_user);
	return run_case(tc);
}
