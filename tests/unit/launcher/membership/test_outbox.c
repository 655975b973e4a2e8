/* test_outbox.c: the outbox keeps notices and finds those that the server
 * lacks. */
#include <check.h>
#include <errno.h>

#include "launcher/membership/membership.h"
#include "tests/unit/run_case.h"

static struct slice add_exit(struct outbox *o, uint32_t rank, int code)
{
	const struct wire_exited x = {.rank = rank, .code = code};
	struct slice frame;
	struct err e = ERR_INIT;

	ck_assert_int_eq(outbox_add_exited(o, &x, &frame, &e), 0);
	return frame;
}

/* The ranks of the EXITED frames in s. */
static int ranks_of(struct slice s, uint32_t *ranks)
{
	struct wire_frame f;
	struct wire_exited x;
	int n = 0;
	long used;

	while ((used = wire_cut(s, WIRE_BODY_MAX, &f, NULL)) > 0) {
		ck_assert_int_eq(f.type, WIRE_EXITED);
		ck_assert_int_eq(f.kind, WIRE_NOTICE);
		ck_assert_int_eq(wire_get_exited(&f, &x, NULL), 0);
		ranks[n++] = x.rank;
		s = SLICE(s.data + used, s.len - (size_t)used);
	}
	ck_assert_uint_eq(s.len, 0);
	return n;
}

START_TEST(a_notice_is_sent_as_it_is_kept)
{
	struct outbox o;
	uint32_t ranks[4];

	outbox_init(&o);
	add_exit(&o, 3, 0);
	ck_assert_int_eq(ranks_of(add_exit(&o, 5, 0), ranks), 1);
	ck_assert_uint_eq(ranks[0], 5);
	ck_assert_int_eq(ranks_of(outbox_unheard(&o, 0), ranks), 2);
	outbox_release(&o);
}
END_TEST

START_TEST(a_replay_begins_after_what_the_server_has)
{
	struct outbox o;
	uint32_t ranks[4];

	outbox_init(&o);
	for (uint32_t i = 0; i < 3; i++)
		add_exit(&o, i, 0);
	for (uint32_t heard = 0; heard <= 3; heard++) {
		int n = ranks_of(outbox_unheard(&o, heard), ranks);

		ck_assert_int_eq(n, 3 - (int)heard);
		for (int i = 0; i < n; i++)
			ck_assert_uint_eq(ranks[i], heard + (uint32_t)i);
	}
	/* a server that claims more notices than were sent */
	ck_assert_uint_eq(outbox_unheard(&o, UINT32_MAX).len, 0);
	outbox_release(&o);
}
END_TEST

START_TEST(every_notice_but_an_exit_with_code_0_is_urgent)
{
	const struct wire_failed failed = {.text = SLICE_STR("no program")};
	const struct wire_stop stop = {.level = WIRE_STOPPED,
				       .text = SLICE_STR("got SIGTERM")};
	struct slice frame;
	struct err e = ERR_INIT;
	struct outbox o;

	outbox_init(&o);
	add_exit(&o, 0, 0);
	ck_assert(!o.is_urgent);
	add_exit(&o, 1, 2);
	ck_assert(o.is_urgent);
	add_exit(&o, 2, 0);
	ck_assert(o.is_urgent);
	outbox_clear(&o);
	ck_assert(!o.is_urgent);
	ck_assert_uint_eq(outbox_unheard(&o, 0).len, 0);
	ck_assert_int_eq(outbox_add_failed(&o, &failed, &frame, &e), 0);
	ck_assert(o.is_urgent);
	outbox_clear(&o);
	ck_assert_int_eq(outbox_add_stop(&o, &stop, &frame, &e), 0);
	ck_assert(o.is_urgent);
	outbox_release(&o);
}
END_TEST

START_TEST(a_notice_that_does_not_fit_is_an_error)
{
	struct outbox o;
	const struct wire_exited x = {.rank = 1};
	struct slice frame;
	struct err e = ERR_INIT;

	outbox_init(&o);
	o.frames.max = 8;
	ck_assert_int_eq(outbox_add_exited(&o, &x, &frame, &e), -ENOBUFS);
	ck_assert_ptr_nonnull(strstr(e.text, "cannot keep"));
	outbox_release(&o);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("outbox");

	tcase_add_test(c, a_notice_is_sent_as_it_is_kept);
	tcase_add_test(c, a_replay_begins_after_what_the_server_has);
	tcase_add_test(c, every_notice_but_an_exit_with_code_0_is_urgent);
	tcase_add_test(c, a_notice_that_does_not_fit_is_an_error);
	return run_case(c);
}
