/* test_cipher.c: records: golden bytes, and every way in which the input may
 * differ from what was sent. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/auth/cipher.h"
#include "tests/unit/run_case.h"

static struct proof hex(const char *text)
{
	struct proof p;

	ck_assert_int_eq(proof_from_hex(&p, text), 0);
	return p;
}

static struct slice of(const struct buf *b)
{
	return SLICE(b->data, b->len);
}

/* Makes both ends of one connection. */
static void ends(struct cipher *client, struct cipher *server)
{
	const struct proof a = hex("6ee97d9c799bf9cac773491985c69db8"
				   "c4088919a0ee861e17de908a1c1f3f8b");
	const struct proof b = hex("4e5f742a47eb6807561ae30e59276ca7"
				   "8a6ee2eb560bbb970546d914c8b8a70c");

	cipher_start(client, CIPHER_CLIENT, &a, &b);
	cipher_start(server, CIPHER_SERVER, &a, &b);
}

/* Golden bytes, made by an independent implementation
 * (tests/programs/peers/rdzv_cipher.py). */
START_TEST(golden)
{
	static const unsigned char records[] =
		"\x05\0\0\0\x6c\xc2\xdd\x08\x35\xe8\x85\x3b\xeb\xfe\x4f"
		"\x49\x49\xa8\xc0\x3a\x3f\x4b\x94\x89\x4a"
		"\x05\0\0\0\x4c\x14\x8f\x51\xdc\xd4\x26\xf3\x6d\x38\x5d"
		"\xa6\x4b\xbe\x00\xf0\xf0\x8b\x80\xad\x2e";
	struct cipher client, server;
	struct buf out = BUF_INIT(1000);

	ends(&client, &server);
	cipher_seal(&client.out, SLICE_STR("hello"), &out);
	cipher_seal(&client.out, SLICE_STR("hello"), &out);
	ck_assert_uint_eq(out.len, sizeof(records) - 1);
	ck_assert_mem_eq(out.data, records, out.len);
	buf_release(&out);
}
END_TEST

/* Text of any length survives, with its records arriving in portions of any
 * size. */
static void there_and_back(size_t n, size_t portion)
{
	struct cipher client, server;
	struct buf out = BUF_INIT(1 << 20), raw = out, in = out;
	char *text = malloc(n + 1);
	struct err e = ERR_INIT;

	for (size_t i = 0; i < n; i++)
		text[i] = (char)(i * 2654435761u >> 20);
	ends(&client, &server);
	cipher_seal(&server.out, SLICE(text, n), &out);
	ck_assert_uint_le(out.len, CIPHER_SEALED_MAX(n));
	for (size_t at = 0; at < out.len; at += portion) {
		size_t left = out.len - at;

		buf_put(&raw, out.data + at, left < portion ? left : portion);
		ck_assert_int_eq(cipher_take(&client.in, &raw, &in, &e), 0);
		ck_assert_uint_lt(raw.len, CIPHER_RECORD_MAX);
	}
	ck_assert_uint_eq(raw.len, 0);
	ck_assert_uint_eq(in.len, n);
	ck_assert(n == 0 || memcmp(in.data, text, n) == 0);
	free(text);
	buf_release(&out);
	buf_release(&raw);
	buf_release(&in);
}

START_TEST(sealed_text_opens_again)
{
	static const size_t sizes[] = {0, 1, 2, 100, CIPHER_TEXT_MAX - 1,
				       CIPHER_TEXT_MAX, CIPHER_TEXT_MAX + 1,
				       5 * CIPHER_TEXT_MAX + 7};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		there_and_back(sizes[i], 1 << 20);
		there_and_back(sizes[i], CIPHER_RECORD_MAX);
		there_and_back(sizes[i], 1000);
	}
	there_and_back(300, 1);
}
END_TEST

/* In place, as the server reads. */
START_TEST(a_record_is_opened_in_place)
{
	struct cipher client, server;
	struct buf out = BUF_INIT(1 << 20);
	struct err e = ERR_INIT;

	ends(&client, &server);
	cipher_seal(&client.out, SLICE_STR("0123456789"), &out);
	ck_assert_int_eq(cipher_size(&server.in, of(&out), &e), (long)out.len);
	ck_assert_int_eq(cipher_open(&server.in, of(&out),
				     out.data + CIPHER_HEADER, &e), 0);
	ck_assert_mem_eq(out.data + CIPHER_HEADER, "0123456789", 10);
	buf_release(&out);
}
END_TEST

/* ---- altered input ---- */

/* Three records of this size, in out. */
enum { TEXT = 20, RECORD = TEXT + CIPHER_EXTRA, RECORDS = 3 };

struct sent {
	struct cipher client, server;
	struct buf out, in;
};

static void send_three(struct sent *s)
{
	char text[TEXT];

	buf_init(&s->out, 1 << 16);
	buf_init(&s->in, 1 << 16);
	ends(&s->client, &s->server);
	for (int i = 0; i < RECORDS; i++) {
		memset(text, 'a' + i, sizeof(text));
		cipher_seal(&s->client.out, SLICE(text, sizeof(text)),
			    &s->out);
	}
	ck_assert_uint_eq(s->out.len, RECORDS * RECORD);
}

/* The server reads out: `good` records authenticate, then the error names the
 * next one. */
static void is_found_at(struct sent *s, unsigned long good)
{
	char want[64];
	struct err e = ERR_INIT;

	ck_assert_int_eq(cipher_take(&s->server.in, &s->out, &s->in, &e),
			 ERR_REMOTE);
	ck_assert_uint_eq(s->in.len, good * TEXT);
	snprintf(want, sizeof(want), "the connection was tampered with: record "
		 "%lu ", good);
	ck_assert_msg(strncmp(e.text, want, strlen(want)) == 0, "%s", e.text);
	buf_release(&s->out);
	buf_release(&s->in);
}

START_TEST(each_bit_counts)
{
	struct sent s;

	for (int bit = 0; bit < RECORD * 8; bit++) {
		send_three(&s);
		s.out.data[RECORD + bit / 8] ^= (char)(1 << bit % 8);
		/* a length that is merely too long waits for more bytes */
		for (int i = 0; bit < 32 && i < 1200; i++)
			buf_put(&s.out, "0123456789abcdef", 16);
		is_found_at(&s, 1);
	}
}
END_TEST

START_TEST(a_repeated_record_is_detected)
{
	struct sent s;
	char first[RECORD];

	send_three(&s);
	memcpy(first, s.out.data, RECORD);
	buf_put(&s.out, first, RECORD);
	is_found_at(&s, RECORDS);
}
END_TEST

START_TEST(reordered_records_are_detected)
{
	struct sent s;
	char second[RECORD];

	send_three(&s);
	memcpy(second, s.out.data + RECORD, RECORD);
	memcpy(s.out.data + RECORD, s.out.data + 2 * RECORD, RECORD);
	memcpy(s.out.data + 2 * RECORD, second, RECORD);
	is_found_at(&s, 1);
}
END_TEST

START_TEST(a_missing_record_is_detected_at_the_next)
{
	struct sent s;

	send_three(&s);
	memmove(s.out.data + RECORD, s.out.data + 2 * RECORD, RECORD);
	s.out.len -= RECORD;
	is_found_at(&s, 1);
}
END_TEST

START_TEST(a_part_cut_out_of_a_record_is_detected)
{
	struct sent s;

	for (size_t n = 1; n < RECORD; n++) {
		send_three(&s);
		memmove(s.out.data + RECORD, s.out.data + RECORD + n,
			2 * RECORD - n);
		s.out.len -= n;
		for (int i = 0; i < 1200; i++)
			buf_put(&s.out, "0123456789abcdef", 16);
		is_found_at(&s, 1);
	}
}
END_TEST

/* Records of the other direction, or of another connection, do not
 * authenticate. */
START_TEST(records_of_the_other_direction_are_detected)
{
	struct sent s;

	send_three(&s);
	s.server.in = s.client.in;
	is_found_at(&s, 0);
	send_three(&s);
	s.server.in.key.bytes[31] ^= 1;
	is_found_at(&s, 0);
}
END_TEST

START_TEST(a_strangers_length_is_not_waited_for)
{
	static const uint32_t bad[] = {0, CIPHER_TEXT_MAX + 1, 1 << 20,
				       UINT32_MAX};
	struct sent s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		send_three(&s);
		buf_put_u32(&s.out, bad[i]);
		is_found_at(&s, RECORDS);
	}
}
END_TEST

START_TEST(no_room_is_an_error_and_no_half_record_is_sent)
{
	struct cipher client, server;
	struct buf out = BUF_INIT(2 * CIPHER_RECORD_MAX);
	char text[2 * CIPHER_TEXT_MAX + 1] = "";

	ends(&client, &server);
	cipher_seal(&client.out, SLICE(text, sizeof(text)), &out);
	ck_assert(out.failed);
	buf_release(&out);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("cipher");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, golden);
	tcase_add_test(tc, sealed_text_opens_again);
	tcase_add_test(tc, a_record_is_opened_in_place);
	tcase_add_test(tc, each_bit_counts);
	tcase_add_test(tc, a_repeated_record_is_detected);
	tcase_add_test(tc, reordered_records_are_detected);
	tcase_add_test(tc, a_missing_record_is_detected_at_the_next);
	tcase_add_test(tc, a_part_cut_out_of_a_record_is_detected);
	tcase_add_test(tc, records_of_the_other_direction_are_detected);
	tcase_add_test(tc, a_strangers_length_is_not_waited_for);
	tcase_add_test(tc, no_room_is_an_error_and_no_half_record_is_sent);
	return run_case(tc);
}
