/* test_remote_frame.c: frames and records over ssh, and noise among them. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/ssh/remote_frame.h"
#include "tests/unit/run_case.h"

/* The record that is found in text, and the noise and the rest around it. */
static struct remote_record find(const char *text, size_t n)
{
	struct remote_record r;

	remote_record_find(SLICE(text, n), &r);
	return r;
}

#define FIND(text) find(text, sizeof(text) - 1)

START_TEST(records_are_found_among_what_start_up_files_print)
{
	struct remote_record r = FIND("\2ddprun far\3\1\0\0\0");

	ck_assert_int_eq(r.word, REMOTE_FAR);
	ck_assert_uint_eq(r.noise, 0);
	ck_assert_uint_eq(r.size, 12);
	r = FIND("Welcome to h2!\nno newline\2ddprun need ddprdzv\3");
	ck_assert_int_eq(r.word, REMOTE_NEED);
	ck_assert_uint_eq(r.noise, 25);
	ck_assert_uint_eq(r.rest.len, 7);
	ck_assert_mem_eq(r.rest.data, "ddprdzv", 7);
	ck_assert_int_eq(FIND("\2ddprun copied\3").word, REMOTE_COPIED);
	ck_assert_int_eq(FIND("\2ddprun machine riscv64\3").word,
			 REMOTE_MACHINE);
	ck_assert_int_eq(FIND("\2ddprun fail no\nroom\3").word, REMOTE_FAIL);
}
END_TEST

START_TEST(a_partial_record_is_kept_and_noise_before_it_is_not)
{
	static const char text[] = "hello\2ddprun far\3";

	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		struct remote_record r = find(text, n);

		ck_assert_int_eq(r.word, REMOTE_MORE);
		ck_assert_uint_eq(r.size, n < 5 ? n : 5);
		ck_assert_uint_eq(r.noise, r.size);
	}
}
END_TEST

START_TEST(bytes_that_only_look_like_a_record_are_noise)
{
	char text[REMOTE_RECORD_MAX + 64];
	struct remote_record r = FIND("\2ddprun what\3\2ddprun far\3");

	ck_assert_int_eq(r.word, REMOTE_FAR);
	ck_assert_uint_eq(r.noise, 13);
	/* a record that never ends */
	memset(text, 'x', sizeof(text));
	memcpy(text, "\2ddprun fail ", 13);
	r = find(text, sizeof(text));
	ck_assert_int_eq(r.word, REMOTE_MORE);
	ck_assert_uint_eq(r.size, sizeof(text));
	memcpy(text + sizeof(text) - 12, "\2ddprun far\3", 12);
	r = find(text, sizeof(text));
	ck_assert_int_eq(r.word, REMOTE_FAR);
	ck_assert_uint_eq(r.noise, sizeof(text) - 12);
}
END_TEST

START_TEST(frames_survive_their_encoding)
{
	struct buf b = BUF_INIT(1 << 20);
	struct remote_frame f;
	struct err e = ERR_INIT;
	long n;

	remote_frame_put(&b, REMOTE_OUT, 7, SLICE_STR("[0] line\n"));
	remote_frame_put(&b, REMOTE_PING, 0xfffffffe, SLICE("", 0));
	for (size_t part = 0; part < REMOTE_HEAD + 9; part++)
		ck_assert_int_eq(remote_frame_cut(SLICE(b.data, part), &f, &e),
				 0);
	n = remote_frame_cut(SLICE(b.data, b.len), &f, &e);
	ck_assert_int_eq(n, REMOTE_HEAD + 9);
	ck_assert_int_eq(f.type, REMOTE_OUT);
	ck_assert_uint_eq(f.host, 7);
	ck_assert_uint_eq(f.body.len, 9);
	ck_assert_mem_eq(f.body.data, "[0] line\n", 9);
	ck_assert_uint_eq(f.bytes.len, REMOTE_HEAD + 9);
	n = remote_frame_cut(SLICE(b.data + n, b.len - (size_t)n), &f, &e);
	ck_assert_int_eq(n, REMOTE_HEAD);
	ck_assert_int_eq(f.type, REMOTE_PING);
	ck_assert_uint_eq(f.host, 0xfffffffe);
	buf_release(&b);
}
END_TEST

START_TEST(an_invalid_frame_is_an_error)
{
	struct buf b = BUF_INIT(1 << 20);
	struct remote_frame f;
	struct err e = ERR_INIT;

	buf_put_u32(&b, REMOTE_BODY_MAX + 1);
	buf_put_u8(&b, REMOTE_OUT);
	buf_put_u32(&b, 0);
	ck_assert_int_eq(remote_frame_cut(SLICE(b.data, b.len), &f, &e),
			 ERR_PROTOCOL);
	buf_reset(&b);
	buf_put_u32(&b, 0);
	buf_put_u8(&b, REMOTE_TYPES);
	buf_put_u32(&b, 0);
	ck_assert_int_eq(remote_frame_cut(SLICE(b.data, b.len), &f, &e),
			 ERR_PROTOCOL);
	ck_assert_ptr_nonnull(strstr(e.text, "not from ddprun"));
	buf_release(&b);
}
END_TEST

START_TEST(a_window_survives_its_encoding)
{
	struct buf b = BUF_INIT(64);
	struct remote_window again;

	remote_window_put(&b, &(struct remote_window){24, 80});
	ck_assert_int_eq(remote_window_get(SLICE(b.data, b.len), &again), 0);
	ck_assert_uint_eq(again.rows, 24);
	ck_assert_uint_eq(again.columns, 80);
	ck_assert_int_eq(remote_window_get(SLICE(b.data, b.len - 1), &again),
			 -1);
	buf_release(&b);
}
END_TEST

START_TEST(a_job_survives_its_encoding)
{
	struct buf b = BUF_INIT(1 << 20), list = b;
	struct remote_job job = {.check = 1, .silent_ms = 15000,
				 .grace_ms = 30000, .lends_terminal = 1,
				 .window = {24, 80},
				 .dir = SLICE_STR("/work")};
	struct remote_job again;
	const char *text;
	size_t at = 0;

	remote_list_add(&list, "A=1");
	remote_list_add(&list, "");
	remote_list_add(&list, "B=two words");
	job.environment.texts = SLICE(list.data, list.len);
	remote_job_put(&b, &job);
	ck_assert_int_eq(remote_job_get(SLICE(b.data, b.len), &again), 0);
	ck_assert_uint_eq(again.silent_ms, 15000);
	ck_assert_uint_eq(again.lends_terminal, 1);
	ck_assert_uint_eq(again.window.rows, 24);
	ck_assert_uint_eq(again.window.columns, 80);
	ck_assert_uint_eq(again.dir.len, 5);
	text = remote_list_next(&again.environment, &at);
	ck_assert_str_eq(text, "A=1");
	ck_assert_str_eq(remote_list_next(&again.environment, &at), "");
	ck_assert_str_eq(remote_list_next(&again.environment, &at),
			 "B=two words");
	ck_assert_ptr_null(remote_list_next(&again.environment, &at));
	at = 0;
	ck_assert_ptr_null(remote_list_next(&again.words, &at));
	/* truncated anywhere it is no job */
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_eq(remote_job_get(SLICE(b.data, n), &again), -1);
	buf_release(&b);
	buf_release(&list);
}
END_TEST

START_TEST(a_list_must_end_its_last_text)
{
	struct buf b = BUF_INIT(1 << 20);
	struct remote_branch m = {.width = 2, .ssh = SLICE_STR("ssh"),
				  .hosts.texts = SLICE("0 a\0" "1 b", 7)};
	struct remote_branch again;

	remote_branch_put(&b, &m);
	ck_assert_int_eq(remote_branch_get(SLICE(b.data, b.len), &again), -1);
	m.hosts.texts.len = 4;
	buf_reset(&b);
	remote_branch_put(&b, &m);
	ck_assert_int_eq(remote_branch_get(SLICE(b.data, b.len), &again), 0);
	buf_release(&b);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("remote_frame");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, records_are_found_among_what_start_up_files_print);
	tcase_add_test(c, a_partial_record_is_kept_and_noise_before_it_is_not);
	tcase_add_test(c, bytes_that_only_look_like_a_record_are_noise);
	tcase_add_test(c, frames_survive_their_encoding);
	tcase_add_test(c, an_invalid_frame_is_an_error);
	tcase_add_test(c, a_window_survives_its_encoding);
	tcase_add_test(c, a_job_survives_its_encoding);
	tcase_add_test(c, a_list_must_end_its_last_text);
	return run_case(c);
}
