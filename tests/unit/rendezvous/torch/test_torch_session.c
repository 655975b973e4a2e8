/* test_torch_session.c: PyTorch's protocol, both generations, byte for byte:
 * requests of several clients, cut at every place, and their replies. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/torch/torch_session.h"
#include "tests/twin_store.h"
#include "tests/unit/run_case.h"

enum { CLIENTS = 4 };

static const struct store_limits roomy = {1 << 20, 1 << 30,
					  TORCH_VALUE_MAX, 8};
static struct store *s;
static struct torch_session sessions[CLIENTS];
static struct buf outs[CLIENTS], ins[CLIENTS];
static struct err e;

static struct buf *out_of(struct torch_session *t)
{
	return &outs[t - sessions];
}

static void begin_with(const struct store_limits *limits)
{
	s = store_new(limits);
	twin = store_new(limits);
	e = (struct err)ERR_INIT;
	for (int i = 0; i < CLIENTS; i++) {
		buf_init(&outs[i], 1 << 20);
		buf_init(&ins[i], 1 << 20);
		torch_session_init(&sessions[i], s, out_of);
		sessions[i].changed = twin_follows;
	}
}

static void begin(void)
{
	begin_with(&roomy);
}

static void leave(int who)
{
	torch_session_release(&sessions[who]);
	store_answer_all(s);
}

static void end(void)
{
	for (int i = 0; i < CLIENTS; i++) {
		leave(i);
		buf_release(&outs[i]);
		buf_release(&ins[i]);
	}
	ck_assert(twin_is(s));
	store_free(twin);
	store_free(s);
}

/* "01 0200... 2f6b": hex digits; blanks and '|' are ignored. */
static void put_hex(struct buf *b, const char *text)
{
	unsigned byte;

	for (; *text; text++) {
		if (*text == ' ' || *text == '|')
			continue;
		ck_assert_int_eq(sscanf(text, "%2x", &byte), 1);
		buf_put_u8(b, (uint8_t)byte);
		text++;
	}
}

/* Feeds bytes as a connection does: what is not taken stays. Uses a copy that
 * ends where its heap block ends, to catch reads beyond it. */
static long feed(int who, const char *data, size_t n)
{
	struct buf *in = &ins[who];
	char *copy;
	long taken;

	buf_put(in, data, n);
	copy = malloc(in->len ? in->len : 1);
	memcpy(copy, in->data, in->len);
	taken = torch_session_take(&sessions[who], SLICE(copy, in->len), &e);
	free(copy);
	store_answer_all(s);
	if (taken > 0)
		buf_consume(in, (size_t)taken);
	return taken;
}

static int step = 1; /* bytes in a segment */

static void say(int who, const char *hex)
{
	struct buf b = BUF_INIT(1 << 20);

	put_hex(&b, hex);
	for (size_t i = 0; i < b.len; i += (size_t)step)
		ck_assert_int_ge(feed(who, b.data + i, b.len - i < (size_t)step
				      ? b.len - i : (size_t)step), 0);
	buf_release(&b);
}

static void hears(int who, const char *hex)
{
	struct buf b = BUF_INIT(1 << 20);

	put_hex(&b, hex);
	ck_assert_uint_eq(outs[who].len, b.len);
	ck_assert(!b.len || !memcmp(outs[who].data, b.data, b.len));
	buf_reset(&outs[who]);
	buf_release(&b);
}

#define Z7 "00000000000000"
#define HELLO "00 cef7853c"
#define SET_K "01 02" Z7 "2f6b 01" Z7 "76"
#define GET_K "03 02" Z7 "2f6b"
#define WAIT_K "06 01" Z7 "02" Z7 "2f6b"
#define PUSH_Q "0e 02" Z7 "2f71 01" Z7 "78"
#define POP_Q "0f 02" Z7 "2f71"
#define WAIT_Q "06 01" Z7 "02" Z7 "2f71"
#define BARRIER_B "12 02" Z7 "2f62 02" Z7

/* The golden bytes, in segments of every size. */
static void golden(int size)
{
	step = size;
	begin();
	for (int i = 0; i < CLIENTS; i++)
		say(i, HELLO);
	hears(0, "");
	say(0, "0d 34120000");
	hears(0, "34120000");
	say(0, "04 05" Z7 "696e69742f 01" Z7);
	hears(0, "01" Z7);
	say(1, WAIT_K);
	hears(1, "");
	say(0, SET_K);
	hears(0, "");
	hears(1, "00");
	say(1, GET_K);
	hears(1, "01" Z7 "76");
	say(0, "02 02" Z7 "2f63 00" Z7 "01" Z7 "6e");
	hears(0, "01" Z7 "6e");
	say(0, "05 02" Z7 "02" Z7 "2f6b 02" Z7 "2f7a");
	hears(0, "01");
	say(0, "0c");
	hears(0, "01");
	say(0, "0b 01" Z7 "02" Z7 "2f6d 01" Z7 "31");
	say(0, "0a 02" Z7 "02" Z7 "2f6d 02" Z7 "2f6b");
	hears(0, "01" Z7 "31 01" Z7 "76");
	say(0, "08 02" Z7 "2f6b");
	hears(0, "01" Z7);
	say(0, "08 02" Z7 "2f6b");
	hears(0, "00" Z7);
	say(0, PUSH_Q POP_Q);
	hears(0, "01" Z7 "01" Z7 "78");
	say(0, POP_Q);
	hears(0, "00" Z7);
	say(0, BARRIER_B);
	hears(0, "");
	say(1, BARRIER_B);
	hears(0, "00");
	hears(1, "00");
	say(2, BARRIER_B); /* a third caller of two */
	hears(2, "00");
	end();
}

START_TEST(golden_bytes)
{
	for (int size = 1; size <= 64; size++)
		golden(size);
	step = 1;
}
END_TEST

/* Counted are init/, /k and a barrier's counter, but not queues and awaited
 * keys. */
START_TEST(keys_are_counted_and_listed)
{
	begin();
	say(0, HELLO SET_K PUSH_Q);
	say(1, HELLO "06 01" Z7 "02" Z7 "2f7a");
	say(0, "07");
	hears(0, "01" Z7);
	say(0, "11");
	hears(0, "01" Z7 "02" Z7 "2f6b");
	end();
}
END_TEST

START_TEST(compare_set_returns_the_present_value)
{
	begin();
	/* missing, but a value was expected: replies with that and stores
	 * nothing */
	say(0, HELLO "02 02" Z7 "2f63 01" Z7 "61 01" Z7 "62");
	hears(0, "01" Z7 "61");
	say(0, "05 01" Z7 "02" Z7 "2f63");
	hears(0, "01");
	say(0, "02 02" Z7 "2f63 00" Z7 "01" Z7 "62");
	hears(0, "01" Z7 "62");
	say(0, "02 02" Z7 "2f63 01" Z7 "61 01" Z7 "63"); /* another value */
	hears(0, "01" Z7 "62");
	say(0, "02 02" Z7 "2f63 01" Z7 "62 01" Z7 "63");
	hears(0, "01" Z7 "63");
	end();
}
END_TEST

START_TEST(a_refused_compare_set_wakes_nobody)
{
	begin();
	say(0, HELLO WAIT_K);
	say(1, HELLO "02 02" Z7 "2f6b 01" Z7 "61 01" Z7 "62");
	hears(1, "01" Z7 "61");
	hears(0, "");
	say(1, SET_K);
	hears(0, "00");
	end();
}
END_TEST

START_TEST(add_reads_numbers_as_stoll_does)
{
	begin();
	/* " 12x" */
	say(0, HELLO "01 02" Z7 "2f6e 04" Z7 "20313278");
	say(0, "04 02" Z7 "2f6e 03" Z7);
	hears(0, "0f" Z7);
	say(0, "04 02" Z7 "2f6e f1ffffffffffffff");
	hears(0, "00" Z7);
	say(0, SET_K);
	ck_assert_int_eq(feed(0, "\4\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0", 19),
			 ERR_ARGUMENT);
	end();
}
END_TEST

START_TEST(a_wait_may_be_cancelled_and_asked_again)
{
	begin();
	say(0, HELLO WAIT_K "0c");
	hears(0, "01");
	say(1, HELLO SET_K);
	hears(0, "");
	say(0, WAIT_K);
	hears(0, "00");
	say(0, "0c"); /* too late: both are answered */
	hears(0, "01");
	end();
}
END_TEST

START_TEST(a_wait_for_no_key_is_ready)
{
	begin();
	say(0, HELLO "06 00" Z7);
	hears(0, "00");
	say(0, "05 00" Z7);
	hears(0, "00");
	end();
}
END_TEST

START_TEST(a_push_wakes_the_first_waiter)
{
	begin();
	say(0, HELLO WAIT_Q);
	say(1, HELLO WAIT_Q);
	say(2, HELLO PUSH_Q);
	hears(0, "00");
	hears(1, "");
	say(2, PUSH_Q);
	hears(1, "00");
	say(0, POP_Q);
	hears(0, "02" Z7 "01" Z7 "78");
	say(1, POP_Q);
	hears(1, "01" Z7 "01" Z7 "78");
	say(1, "10 02" Z7 "2f71");
	hears(1, "00" Z7);
	end();
}
END_TEST

START_TEST(a_leaving_waiters_item_goes_to_the_next)
{
	begin();
	say(0, HELLO WAIT_Q);
	say(1, HELLO WAIT_Q);
	say(3, HELLO WAIT_Q);
	say(2, HELLO PUSH_Q);
	hears(0, "00");
	leave(0);
	hears(1, "00");
	/* and if it sends another request instead */
	say(1, "07");
	hears(1, "00" Z7);
	hears(3, "00");
	say(3, POP_Q);
	hears(3, "01" Z7 "01" Z7 "78");
	end();
}
END_TEST

START_TEST(a_queue_counts_in_a_wait_for_more)
{
	begin();
	say(0, HELLO PUSH_Q "06 02" Z7 "02" Z7 "2f71 02" Z7 "2f6b");
	hears(0, "");
	say(1, HELLO SET_K);
	hears(0, "00");
	/* in the other order */
	say(0, POP_Q);
	hears(0, "01" Z7 "01" Z7 "78");
	say(0, "06 02" Z7 "02" Z7 "2f71 02" Z7 "2f6b");
	hears(0, "");
	say(1, PUSH_Q);
	hears(0, "00");
	end();
}
END_TEST

START_TEST(a_barrier_waits_for_all_callers)
{
	struct store_awaited what;

	begin();
	say(0, HELLO "12 02" Z7 "2f62 03" Z7);
	store_awaited(&sessions[0].waiter, &what);
	ck_assert_int_eq(what.kind, STORE_AWAITS_BARRIER);
	ck_assert_uint_eq(what.of, 3);
	ck_assert_uint_eq(what.missing, 2);
	ck_assert(what.key.len == 2 && !memcmp(what.key.data, "/b", 2));
	say(1, HELLO "12 02" Z7 "2f62 03" Z7);
	store_awaited(&sessions[0].waiter, &what);
	ck_assert_uint_eq(what.missing, 1);
	/* a counter that was decreased or deleted: all are missing */
	say(2, HELLO "04 02" Z7 "2f62 f6ffffffffffffff");
	store_awaited(&sessions[1].waiter, &what);
	ck_assert_uint_eq(what.missing, 3);
	say(3, HELLO "08 02" Z7 "2f62");
	store_awaited(&sessions[1].waiter, &what);
	ck_assert_uint_eq(what.missing, 3);
	end();
}
END_TEST

START_TEST(only_writes_may_follow_a_wait)
{
	begin();
	say(0, HELLO WAIT_K SET_K);
	hears(0, "00");
	say(0, WAIT_Q);
	ck_assert_int_eq(feed(0, "\7", 1), ERR_PROTOCOL);
	end();
}
END_TEST

/* PyTorch 1.13: no handshake, and numbers of its own. */
START_TEST(the_old_protocol_works)
{
	for (step = 1; step < 40; step++) {
		begin();
		say(0, "00 02" Z7 "2f6b 01" Z7 "76");       /* SET */
		say(1, "03 05" Z7 "696e69742f 01" Z7);      /* ADD */
		hears(1, "01" Z7);
		say(1, "05 01" Z7 "02" Z7 "2f6b");          /* WAIT */
		hears(1, "00");
		say(1, "02 02" Z7 "2f6b");                  /* GET */
		hears(1, "01" Z7 "76");
		say(1, "01 02" Z7 "2f6b 01" Z7 "76 01" Z7 "77");
		hears(1, "01" Z7 "77");
		say(1, "04 01" Z7 "02" Z7 "2f6b");          /* CHECK */
		hears(1, "00");
		say(1, "06");                               /* GETNUMKEYS */
		hears(1, "02" Z7);
		say(1, "09 02" Z7 "2f6b 01" Z7 "78");       /* APPEND, of 2.0 */
		say(1, "08 02" Z7 "2f6b");                  /* DELETE_KEY */
		hears(1, "01" Z7);
		end();
	}
	step = 1;
}
END_TEST

/* The old client's waits time out on its side, and it sends another request. */
START_TEST(in_the_old_protocol_a_new_request_cancels_a_wait)
{
	begin();
	say(0, "05 01" Z7 "02" Z7 "2f6b");
	say(0, "06");
	hears(0, "00" Z7);
	say(1, "00 02" Z7 "2f6b 01" Z7 "76");
	hears(0, "");
	/* it sets the key that it waited for */
	say(0, "05 01" Z7 "02" Z7 "2f6c" "00 02" Z7 "2f6c 01" Z7 "76");
	hears(0, "");
	end();
}
END_TEST

START_TEST(protocols_differ_in_their_first_bytes)
{
	static const struct {
		const char *hex;
		enum torch_generation is;
	} cases[] = {
		{"", TORCH_UNKNOWN}, {"00", TORCH_UNKNOWN},
		{"00ce", TORCH_UNKNOWN}, {"00cef7", TORCH_MODERN},
		{"00ce00", TORCH_OLD}, {"0005", TORCH_OLD},
		{"03", TORCH_OLD}, {"0c", TORCH_OLD}, {"0d", TORCH_NOT},
		{"44", TORCH_NOT}, {"ce", TORCH_UNKNOWN},
		{"cef7", TORCH_MAGICAL}, {"ce01", TORCH_NOT},
		{"ff", TORCH_NOT},
	};
	struct buf b = BUF_INIT(64);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_reset(&b);
		put_hex(&b, cases[i].hex);
		ck_assert_int_eq(torch_sniff(SLICE(b.data, b.len)),
				 cases[i].is);
	}
	buf_release(&b);
}
END_TEST

/* Requests that no PyTorch client sends end the connection at the first byte
 * that shows it. */
START_TEST(requests_over_a_limit_are_refused)
{
	static const char *const bad[] = {
		"00 cef7853d", "13", "ff",
		"03 0120000000000000",   /* a key of 8193 bytes */
		"01 01" Z7 "6b 0100800000000000", /* a value of 8 MiB and 1 */
		"03 0000000000000080",   /* a key of 2^63 bytes */
		"03 ffffffffffffffff",
		"06 0100020000000000",   /* 131073 keys */
		"0b ffffffffffffffff",
	};
	struct buf b = BUF_INIT(64);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin();
		if (i)
			say(0, HELLO);
		buf_reset(&b);
		put_hex(&b, bad[i]);
		for (size_t n = 0; n < b.len - 1; n++)
			ck_assert_int_ge(feed(0, b.data + n, 1), 0);
		ck_assert_int_eq(feed(0, b.data + b.len - 1, 1), ERR_PROTOCOL);
		ck_assert_ptr_nonnull(strstr(e.text, "TCPStore"));
		end();
	}
	buf_release(&b);
}
END_TEST

/* A MULTI_GET's reply is complete, or there is none. */
START_TEST(a_reply_has_a_limit)
{
	enum { VALUE = 8 << 20, TIMES = TORCH_REPLY_MAX / VALUE };
	char *value = calloc(1, VALUE - 8);
	struct buf b = BUF_INIT(1 << 10);

	begin();
	ck_assert_int_eq(store_set(s, SLICE_STR("k"), SLICE(value, VALUE - 8),
				   &e), 0);
	ck_assert_int_eq(store_set(twin, SLICE_STR("k"),
				   SLICE(value, VALUE - 8), &e), 0);
	buf_release(&outs[0]);
	buf_init(&outs[0], TORCH_REPLY_MAX);
	say(0, HELLO);
	for (uint64_t n = TIMES; n <= TIMES + 1; n++) {
		buf_reset(&b);
		buf_put_u8(&b, 10);
		buf_put_u64(&b, n);
		for (uint64_t i = 0; i < n; i++) {
			buf_put_u64(&b, 1);
			buf_put(&b, "k", 1);
		}
		buf_reset(&outs[0]);
		ck_assert_int_eq(feed(0, b.data, b.len),
				 n == TIMES ? (int)b.len : ERR_REFUSED);
		ck_assert_uint_eq(outs[0].len,
				  n == TIMES ? TORCH_REPLY_MAX : 0);
	}
	ck_assert_str_eq(e.text, "TCPStore: the reply to MULTI_GET of 9 keys "
				 "would have 75497472 bytes, but the limit is "
				 "67108864: ask for fewer keys at once");
	end();
	buf_release(&b);
	free(value);
}
END_TEST

/* All or nothing, even if it arrives in pieces. */
START_TEST(a_multi_set_is_applied_whole)
{
	struct store_limits small = {2, 1 << 20, 1 << 20, 8};

	begin();
	say(0, HELLO);
	say(1, HELLO "06 01" Z7 "02" Z7 "2f61");
	say(0, "0b 02" Z7 "02" Z7 "2f61 01" Z7 "31 02" Z7 "2f62 01" Z7);
	hears(1, "");
	say(0, "32");
	hears(1, "00");
	end();
	begin_with(&small);
	say(0, HELLO SET_K);
	ck_assert_int_eq(feed(0, "\13\2\0\0\0\0\0\0\0"
				 "\2\0\0\0\0\0\0\0/a\0\0\0\0\0\0\0\0"
				 "\2\0\0\0\0\0\0\0/b\0\0\0\0\0\0\0\0", 45),
			 ERR_REFUSED);
	ck_assert_uint_eq(store_keys(s), 1);
	end();
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("torch_session");

	tcase_add_test(c, golden_bytes);
	tcase_add_test(c, a_reply_has_a_limit);
	tcase_add_test(c, keys_are_counted_and_listed);
	tcase_add_test(c, compare_set_returns_the_present_value);
	tcase_add_test(c, a_refused_compare_set_wakes_nobody);
	tcase_add_test(c, add_reads_numbers_as_stoll_does);
	tcase_add_test(c, a_wait_may_be_cancelled_and_asked_again);
	tcase_add_test(c, a_wait_for_no_key_is_ready);
	tcase_add_test(c, a_push_wakes_the_first_waiter);
	tcase_add_test(c, a_leaving_waiters_item_goes_to_the_next);
	tcase_add_test(c, a_queue_counts_in_a_wait_for_more);
	tcase_add_test(c, a_barrier_waits_for_all_callers);
	tcase_add_test(c, only_writes_may_follow_a_wait);
	tcase_add_test(c, the_old_protocol_works);
	tcase_add_test(c, in_the_old_protocol_a_new_request_cancels_a_wait);
	tcase_add_test(c, protocols_differ_in_their_first_bytes);
	tcase_add_test(c, requests_over_a_limit_are_refused);
	tcase_add_test(c, a_multi_set_is_applied_whole);
	return run_case(c) ? 1 : 0;
}
