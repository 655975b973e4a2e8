/* test_end_cause.c: which line a round ends with, and which rank it blames. */
#include "tests/unit/rendezvous/round/rounds.h"
#include "tests/unit/run_case.h"

/* ---- the reason ---- */

/* The length of the reason in the line of a job that ends for it. */
static size_t reason_len(const char *why, size_t len)
{
	struct wire_exited x = {.signal = 9, .why = SLICE(why, len)};
	const char *text;

	join(1, 1, (struct how){0});
	ck_assert_int_eq(job_exited(j, node[1], &x, &e), 0);
	drain();
	ck_assert_uint_eq(job_end(j)->why.len, len);
	text = strstr(job_end(j)->text.data, "(SIGKILL): ");
	ck_assert_ptr_nonnull(text);
	return strlen(text + 11);
}

START_TEST(a_long_reason_is_cut_between_characters)
{
	char why[400];

	/* two bytes each, from an odd place on */
	for (int i = 1; i + 1 < 400; i += 2)
		memcpy(why + i, "\303\244", 2);
	why[0] = 'x';
	ck_assert_uint_eq(reason_len(why, 399), 299 + 4);
	ck_assert_ptr_nonnull(strstr(job_end(j)->text.data, "\244 ..."));
}
END_TEST

START_TEST(a_long_reason_is_cut_between_words)
{
	char why[400];

	memset(why, 'y', sizeof(why));
	why[290] = ' ';
	why[302] = ' ';
	ck_assert_uint_eq(reason_len(why, 400), 290 + 4);
	ck_assert_ptr_nonnull(strstr(job_end(j)->text.data, "y ..."));
}
END_TEST

START_TEST(a_reason_that_just_fits_is_whole)
{
	char why[400];

	memset(why, 'y', sizeof(why));
	why[290] = ' ';
	why[300] = '\n';
	ck_assert_uint_eq(reason_len(why, 400), 300);
}
END_TEST

/* ---- a rank that exited with 0 as the cause ---- */

/* Rank `rank` of node i exits early, or after it missed a call. */
static void exits(int i, uint32_t rank, int code, int early, const char *missed)
{
	struct wire_exited m = {
		.round = job_round(j), .rank = rank, .local_rank = rank % 2,
		.pid = 4000 + rank, .code = code, .early = (uint8_t)early,
		.missed = SLICE_STR(missed), .last = SLICE_STR("its last"),
		.why = SLICE_STR(code ? "its own words" : ""),
	};

	ck_assert_int_eq(job_exited(j, node[i], &m, &e), 0);
	drain();
}

/* Ranks 0 and 1 on h0, 2 and 3 on h1. */
static void start_two(uint32_t restarts)
{
	for (int i = 0; i < 2; i++)
		join(i, 2, (struct how){.rank = i + 1, .nproc = 2,
					.restarts = restarts});
	ck_assert_int_eq(starts, 1);
}

static int says(struct slice s, const char *text)
{
	return s.len == strlen(text) && !memcmp(s.data, text, s.len);
}

START_TEST(the_early_leaver_is_to_blame_not_its_victim)
{
	const struct wire_end *end;

	/* on another node, with a restart and without */
	for (int attempt = 0; attempt < 2; attempt++) {
		start_two(1);
		exits(1, 3, 0, 1, "");
		exits(0, 0, 0, 1, ""); /* another, later */
		exits(0, 1, 5, 0, "all_reduce #1 (f32 x 1, sum)");
		end = job_end(j);
		ck_assert_int_eq(end->verdict,
				 attempt ? WIRE_FAILURE : WIRE_RESTART);
		ck_assert(says(end->text,
			       "rank 3 (local rank 1) on h1, pid 4003, left "
			       "early with code 0 while others were in "
			       "all_reduce #1 (f32 x 1, sum)"));
		ck_assert_int_eq(end->rank, 3);
		ck_assert_int_eq(end->pid, 4003);
		ck_assert_int_eq(end->code, 0);
		ck_assert_uint_eq(end->node_rank, 1);
		ck_assert(says(end->host, "h1"));
		ck_assert(says(end->last, "its last"));
		ck_assert(says(end->why,
			       "it exited without ddp_finalize while others "
			       "were in all_reduce #1 (f32 x 1, sum)"));
		/* the code of the rank whose call failed: 0 would be success */
		ck_assert_int_eq(end->exit_code, 5);
	}
}
END_TEST

START_TEST(a_rank_that_exits_while_others_are_in_ddp_init_is_to_blame)
{
	start_two(0);
	exits(1, 3, 0, 0, "");
	exits(0, 0, 5, 0, "ddp_init");
	ck_assert_int_eq(job_end(j)->rank, 3);
	ck_assert(says(job_end(j)->text,
		       "rank 3 (local rank 1) on h1, pid 4003, exited with "
		       "code 0 while others were in ddp_init"));
	ck_assert(says(job_end(j)->why,
		       "it exited without ddp_init, which returns once all "
		       "ranks have called it"));
	ck_assert_int_eq(job_end(j)->exit_code, 5);
}
END_TEST

START_TEST(a_worker_that_finalized_too_soon_is_to_blame)
{
	start_two(0);
	exits(1, 3, 0, 0, "");
	exits(0, 0, 5, 0, "barrier #1");
	ck_assert_int_eq(job_end(j)->rank, 3);
	ck_assert_int_eq(job_end(j)->exit_code, 5);
}
END_TEST

START_TEST(workers_that_finalized_are_not_to_blame_if_most_have)
{
	start_two(0);
	for (uint32_t rank = 3; rank > 0; rank--)
		exits(rank / 2, rank, 0, 0, "");
	exits(0, 0, 5, 0, "barrier #1");
	ck_assert_int_eq(job_end(j)->rank, 0);
}
END_TEST

START_TEST(an_early_exit_does_not_explain_another_failure)
{
	start_two(0);
	exits(1, 3, 0, 1, "");
	exits(0, 0, 5, 0, "");
	ck_assert_int_eq(job_end(j)->rank, 0);
	ck_assert(says(job_end(j)->why, "its own words"));
}
END_TEST

START_TEST(all_that_leave_early_with_0_are_a_success)
{
	start_two(0);
	for (int rank = 0; rank < 4; rank++)
		exits(rank / 2, (uint32_t)rank, 0, 1, "");
	ck_assert_int_eq(job_end(j)->verdict, WIRE_SUCCESS);
}
END_TEST

START_TEST(an_early_exit_in_an_earlier_attempt_is_ignored)
{
	start_two(1);
	exits(1, 3, 0, 1, "");
	exits(0, 0, 5, 0, "barrier #1");
	ck_assert_int_eq(job_end(j)->rank, 3);
	start_two(1);
	exits(0, 0, 5, 0, "barrier #1");
	ck_assert_int_eq(job_end(j)->rank, 0);
}
END_TEST

static void add_all(TCase *c)
{
	tcase_add_test(c, a_long_reason_is_cut_between_characters);
	tcase_add_test(c, a_long_reason_is_cut_between_words);
	tcase_add_test(c, a_reason_that_just_fits_is_whole);
	tcase_add_test(c, the_early_leaver_is_to_blame_not_its_victim);
	tcase_add_test(c,
		a_rank_that_exits_while_others_are_in_ddp_init_is_to_blame);
	tcase_add_test(c, a_worker_that_finalized_too_soon_is_to_blame);
	tcase_add_test(c, workers_that_finalized_are_not_to_blame_if_most_have);
	tcase_add_test(c, an_early_exit_does_not_explain_another_failure);
	tcase_add_test(c, all_that_leave_early_with_0_are_a_success);
	tcase_add_test(c, an_early_exit_in_an_earlier_attempt_is_ignored);
}

int main(void)
{
	TCase *c = tcase_create("end_cause");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, begin, end);
	add_all(c);
	return run_case(c);
}
