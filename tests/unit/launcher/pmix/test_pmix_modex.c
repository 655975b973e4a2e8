/* test_pmix_modex.c: the data of a rank that another node asks for, or that
 * this one asks another for (direct modex). */
/* replaces: helper_link_start helper_link_send helper_link_poll */
/* replaces: helper_link_is_dead helper_link_close pmi_exchange_start */
/* replaces: pmi_exchange_begin pmi_exchange_close */
/* replaces: node_mail_start node_mail_send node_mail_close */
#include "tests/unit/launcher/pmix/pmix_round.h"

enum { LETTER_WANT = 1, LETTER_DATA = 2 };

static void letter(uint8_t what, uint32_t node, uint32_t id, uint32_t n,
		   const char *data)
{
	struct buf b = BUF_INIT(1000);

	buf_put_u8(&b, what);
	buf_put_u32(&b, node);
	buf_put_u32(&b, id);
	buf_put_u32(&b, n);
	buf_put_slice(&b, SLICE_STR(data));
	mail_events->on_letter(&s->mail, SLICE(b.data, b.len));
	buf_release(&b);
}

static void expect_letter(uint8_t what, uint32_t id, uint32_t n,
			  const char *data)
{
	const struct sent *f = next_sent(0, 0); /* to node 0 */
	struct reader r;
	struct slice bytes;

	reader_init(&r, SLICE(f->data.data, f->data.len));
	ck_assert_uint_eq(reader_u8(&r), what);
	ck_assert_uint_eq(reader_u32(&r), 1); /* from this node */
	ck_assert_uint_eq(reader_u32(&r), id);
	ck_assert_uint_eq(reader_u32(&r), n);
	bytes = reader_slice(&r);
	ck_assert_uint_eq(bytes.len, strlen(data));
	ck_assert_mem_eq(bytes.data, data, bytes.len);
	ck_assert(!r.bad && !reader_left(&r));
}

START_TEST(the_data_of_a_rank_comes_from_its_node)
{
	begin_ready(2);
	say(HELPER_WANT, 9, 2, "");
	expect_letter(LETTER_WANT, 9, 2, "");
	letter(LETTER_DATA, 0, 9, 5, "data");
	expect_data(next_sent(HELPER_FOUND, 9), 5, "data");
	say(HELPER_WANT, 10, 5, ""); /* on no node */
	expect_data(next_sent(HELPER_FOUND, 10), PMIX_ABI_ERROR, "");
	no_more_sent();
	end();
}

START_TEST(on_one_node_there_is_nobody_to_ask)
{
	begin_ready(1);
	say(HELPER_WANT, 9, 0, "");
	expect_data(next_sent(HELPER_FOUND, 9), PMIX_ABI_ERROR, "");
	no_more_sent();
	end();
}

START_TEST(another_node_gets_the_data_of_the_rank_that_it_names)
{
	const struct sent *f;
	uint32_t first;

	begin_ready(2);
	letter(LETTER_WANT, 0, 20, 3, "");
	f = &sent[nread];
	first = f->id;
	expect_data(next_sent(HELPER_WANTED, first), 3, "");
	letter(LETTER_WANT, 0, 21, 4, "");
	ck_assert_uint_ne(sent[nread].id, first);
	expect_data(next_sent(HELPER_WANTED, sent[nread].id), 4, "");
	say(HELPER_DATA, 99, 0, "of nobody");
	no_more_sent();
	say(HELPER_DATA, first, 6, "of 3");
	expect_letter(LETTER_DATA, 20, 6, "of 3");
	say(HELPER_DATA, first, 6, "again");
	no_more_sent();
	letter(LETTER_WANT, 0, 22, 2, ""); /* not here */
	expect_letter(LETTER_DATA, 22, (uint32_t)PMIX_ABI_ERROR, "");
	letter(LETTER_WANT, 0, 23, 5, "");
	expect_letter(LETTER_DATA, 23, (uint32_t)PMIX_ABI_ERROR, "");
	end();
}

/* Ranks 3 and 4 are asked for. The one ends without MPI_Init, and the other
 * after it. */
START_TEST(data_that_never_comes_is_given_up)
{
	begin_ready(2);
	say(HELPER_CONNECTED, 4, 0, "");
	letter(LETTER_WANT, 0, 20, 3, "");
	letter(LETTER_WANT, 0, 21, 4, "");
	letter(LETTER_WANT, 0, 22, 3, "");
	nread = nsent;
	pmix_service_ended(s, 1, 0);
	no_more_sent(); /* libpmix has what rank 4 put */
	pmix_service_ended(s, 0, 0);
	expect_letter(LETTER_DATA, 22, (uint32_t)PMIX_ABI_ERROR, "");
	expect_letter(LETTER_DATA, 20, (uint32_t)PMIX_ABI_ERROR, "");
	next_sent(PART, 0);
	no_more_sent();
	letter(LETTER_WANT, 0, 24, 4, "");
	ck_assert_uint_eq(sent[nread].type, HELPER_WANTED);
	nread++;
	letter(LETTER_WANT, 0, 25, 3, "");
	expect_letter(LETTER_DATA, 25, (uint32_t)PMIX_ABI_ERROR, "");
	end();
}

START_TEST(letters_that_are_torn_are_refused)
{
	begin_ready(2);
	if (_i == 0)
		letter(LETTER_WANT, 2, 20, 3, ""); /* from no node */
	else
		mail_events->on_letter(&s->mail, SLICE("\1\0\0\0\0", 5));
	expect_failure("a message between the nodes' PMIx is malformed");
	no_more_sent();
	end();
}

START_TEST(letters_that_cannot_be_sent_are_a_failure)
{
	begin_ready(2);
	sending_fails = 1;
	say(HELPER_WANT, 9, 2, "");
	expect_failure("no memory for a letter");
	sending_fails = 0;
	end();
}

START_TEST(mail_that_fails_is_a_failure)
{
	struct err e = {.text = "no mail any more"};

	begin_ready(2);
	mail_events->on_failed(&s->mail, &e);
	expect_failure("no mail any more");
	end();
}

int main(int argc, char **argv)
{
	TCase *c = tcase_create("modex");

	/* see test_pmix_service.c */
	if (argc > 1 && !strcmp(argv[1], "--pmix-helper"))
		return 97;
	tcase_add_checked_fixture(c, set_up, NULL);
	tcase_add_test(c, the_data_of_a_rank_comes_from_its_node);
	tcase_add_test(c, on_one_node_there_is_nobody_to_ask);
	tcase_add_test(c, another_node_gets_the_data_of_the_rank_that_it_names);
	tcase_add_test(c, data_that_never_comes_is_given_up);
	tcase_add_loop_test(c, letters_that_are_torn_are_refused, 0, 2);
	tcase_add_test(c, letters_that_cannot_be_sent_are_a_failure);
	tcase_add_test(c, mail_that_fails_is_a_failure);
	return run_case(c);
}
