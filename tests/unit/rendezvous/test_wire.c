/* test_wire.c: encodes and decodes each message and every truncation of it;
 * checks limits, and golden bytes that any other implementation must
 * produce. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/wire.h"
#include "tests/unit/run_case.h"

/* ---- filling and comparing any message, field by field ---- */

static uint64_t next_value = 1;

static void fill_bytes(char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(next_value++ * 37);
}

static char text_space[64][16];
static unsigned text_used;

static struct slice some_text(void)
{
	char *p = text_space[text_used++ % 64];
	size_t n = next_value % 16;

	fill_bytes(p, n);
	return SLICE(p, n);
}

static void fill_u8(uint8_t *v) { *v = (uint8_t)(next_value++ * 77); }
static void fill_u16(uint16_t *v) { *v = (uint16_t)(next_value++ * 7919); }
static void fill_u32(uint32_t *v) { *v = (uint32_t)next_value++ * 0x9e3779b1; }
static void fill_u64(uint64_t *v) { *v = next_value++ * 0x9e3779b97f4a7c15; }
static void fill_i32(int32_t *v) { *v = -(int32_t)(next_value++ * 12345); }
static void fill_i64(int64_t *v) { *v = -(int64_t)(next_value++ << 40); }
static void fill_str(struct slice *v) { *v = some_text(); }

/* Items are not decoded: any bytes of a plausible length will do. */
static void fill_list(struct wire_items *v)
{
	static char bytes[40];

	fill_bytes(bytes, sizeof(bytes));
	*v = (struct wire_items){10, SLICE(bytes, sizeof(bytes))};
}

#define same_u8(a, b) ck_assert_uint_eq(a, b)
#define same_u16(a, b) ck_assert_uint_eq(a, b)
#define same_u32(a, b) ck_assert_uint_eq(a, b)
#define same_u64(a, b) ck_assert_uint_eq(a, b)
#define same_i32(a, b) ck_assert_int_eq(a, b)
#define same_i64(a, b) ck_assert_int_eq(a, b)

static void same_str(struct slice a, struct slice b)
{
	ck_assert_uint_eq(a.len, b.len);
	ck_assert(a.len == 0 || !memcmp(a.data, b.data, a.len));
}

static void same_list(struct wire_items a, struct wire_items b)
{
	ck_assert_uint_eq(a.count, b.count);
	same_str(a.bytes, b.bytes);
}

/* A copy that ends where the heap block ends, so that a sanitizer sees a read
 * beyond it. */
static char *exact_copy(const char *p, size_t n)
{
	char *copy = malloc(n ? n : 1);

	memcpy(copy, p, n);
	return copy;
}

#define FILL(kind, name) fill_##kind(&m.name);
#define SAME(kind, name) same_##kind(m.name, got.name);
#define ROUND_TRIP(name, FIELDS)                                              \
	static void check_##name(void)                                        \
	{                                                                     \
		struct wire_##name m, got;                                    \
		struct wire_frame f;                                          \
		struct err e = ERR_INIT;                                      \
		struct buf b = BUF_INIT(1 << 20);                             \
		size_t cut;                                                   \
		FIELDS(FILL)                                                  \
		wire_put_##name(&b, WIRE_SET, WIRE_NOTICE, 7, &m);            \
		ck_assert_int_eq(b.failed, 0);                                \
		ck_assert_int_eq(wire_cut(SLICE(b.data, b.len),               \
					  WIRE_BODY_MAX, &f, &e),             \
				 (long)b.len);                                \
		ck_assert_int_eq(wire_get_##name(&f, &got, &e), 0);           \
		FIELDS(SAME)                                                  \
		for (cut = 0; cut < f.body.len; cut++) {                      \
			char *body = exact_copy(f.body.data, cut);            \
			struct wire_frame torn = f;                           \
			torn.body = SLICE(body, cut);                         \
			ck_assert_int_eq(wire_get_##name(&torn, &got, &e),    \
					 ERR_PROTOCOL);                       \
			ck_assert(strlen(e.text) > 0);                        \
			free(body);                                           \
		}                                                             \
		buf_release(&b);                                              \
	}
WIRE_MESSAGES(ROUND_TRIP)

START_TEST(every_message_round_trips_and_no_truncation_parses)
{
	for (int i = 0; i < 50; i++) {
#define CALL(name, FIELDS) check_##name();
		WIRE_MESSAGES(CALL)
	}
}
END_TEST

/* text_space changes after the copy: its slices must not point there. */
START_TEST(a_copy_of_an_end_has_bytes_of_its_own)
{
	struct wire_end m, got;
	struct buf bytes = BUF_INIT(1024), sent = BUF_INIT(1024);
	struct buf again = BUF_INIT(1024);

	for (int i = 0; i < 20; i++) {
		WIRE_END_FIELDS(FILL)
		ck_assert_int_eq(wire_copy_end(&got, &m, &bytes), 0);
		WIRE_END_FIELDS(SAME)
	}
	wire_put_end(&sent, WIRE_END, WIRE_NOTICE, 0, &m);
	memset(text_space, 'x', sizeof(text_space));
	wire_put_end(&again, WIRE_END, WIRE_NOTICE, 0, &got);
	ck_assert_uint_eq(again.len, sent.len);
	ck_assert_mem_eq(again.data, sent.data, sent.len);
	buf_release(&again);
	buf_release(&sent);
	buf_release(&bytes);
}
END_TEST

START_TEST(a_copy_without_memory_has_no_bytes_but_all_numbers)
{
	struct wire_end m = {.round = 3, .exit_code = 7, .pid = 9,
			     .text = SLICE_STR("a text"),
			     .last = SLICE_STR("a call")};
	struct wire_end got;
	struct buf bytes = BUF_INIT(11); /* a byte too few */

	ck_assert_int_eq(wire_copy_end(&got, &m, &bytes), -ENOBUFS);
	ck_assert_uint_eq(got.round, 3);
	ck_assert_int_eq(got.exit_code, 7);
	ck_assert_int_eq(got.pid, 9);
	ck_assert_uint_eq(got.text.len, 0);
	ck_assert_uint_eq(got.last.len, 0);
	buf_release(&bytes);
	buf_init(&bytes, 12);
	ck_assert_int_eq(wire_copy_end(&got, &m, &bytes), 0);
	ck_assert_mem_eq(got.text.data, "a text", 6);
	ck_assert_mem_eq(got.last.data, "a call", 6);
	buf_release(&bytes);
}
END_TEST

START_TEST(bytes_left_over_are_an_error)
{
	struct wire_key m = {SLICE_STR("k")};
	struct wire_frame f;
	struct err e = ERR_INIT;
	struct buf b = BUF_INIT(1024);

	wire_put_key(&b, WIRE_GET, WIRE_REQUEST, 1, &m);
	buf_put_u8(&b, 0);
	b.data[0]++;
	ck_assert_int_eq(wire_cut(SLICE(b.data, b.len), WIRE_BODY_MAX, &f, &e),
			 (long)b.len);
	ck_assert_int_eq(wire_get_key(&f, &m, &e), ERR_PROTOCOL);
	ck_assert_str_eq(e.text, "GET: the body has 1 excess bytes");
	buf_release(&b);
}
END_TEST

START_TEST(frames_are_cut_only_when_whole)
{
	struct wire_frame f;
	struct err e = ERR_INIT;
	struct buf b = BUF_INIT(1024);
	struct wire_key m = {SLICE_STR("key")};

	wire_put_key(&b, WIRE_GET, WIRE_REQUEST, 9, &m);
	wire_put_empty(&b, WIRE_PING, WIRE_REQUEST, 10);
	for (size_t n = 0; n < 19; n++) {
		char *copy = exact_copy(b.data, n);

		ck_assert_int_eq(wire_cut(SLICE(copy, n), 64, &f, &e), 0);
		free(copy);
	}
	ck_assert_int_eq(wire_cut(SLICE(b.data, b.len), 64, &f, &e), 19);
	ck_assert_int_eq(f.type, WIRE_GET);
	ck_assert_uint_eq(f.id, 9);
	ck_assert_uint_eq(f.body.len, 7);
	ck_assert_int_eq(wire_cut(SLICE(b.data + 19, b.len - 19), 64, &f, &e),
			 WIRE_HEADER_SIZE);
	ck_assert_int_eq(f.type, WIRE_PING);
	ck_assert_uint_eq(f.body.len, 0);
	buf_release(&b);
}
END_TEST

static long cut_header(uint32_t len, int type, int kind, int zero, uint32_t max,
		       struct err *e)
{
	struct wire_frame f;
	struct buf b = BUF_INIT(64);
	long rc;

	buf_put_u32(&b, len);
	buf_put_u8(&b, (uint8_t)type);
	buf_put_u8(&b, (uint8_t)kind);
	buf_put_u16(&b, (uint16_t)zero);
	buf_put_u32(&b, 1);
	rc = wire_cut(SLICE(b.data, b.len), max, &f, e);
	buf_release(&b);
	return rc;
}

START_TEST(impossible_headers_are_refused_at_once)
{
	struct wire_frame f;
	struct err e = ERR_INIT;

	ck_assert_int_eq(cut_header(4097, WIRE_HELLO, 0, 0, 4096, &e),
			 ERR_PROTOCOL);
	ck_assert_str_eq(e.text,
			 "a frame has 4097 bytes, but the limit is 4096");
	ck_assert_int_eq(cut_header(4096, WIRE_HELLO, 0, 0, 4096, &e), 0);
	ck_assert_int_eq(cut_header(0, 99, 0, 0, 4096, &e), ERR_PROTOCOL);
	ck_assert_str_eq(e.text, "there is no message type 99");
	ck_assert_int_eq(cut_header(0, 0, 0, 0, 4096, &e), ERR_PROTOCOL);
	ck_assert_int_eq(cut_header(0, 255, 0, 0, 4096, &e), ERR_PROTOCOL);
	ck_assert_int_eq(cut_header(0, WIRE_SET, 4, 0, 4096, &e), ERR_PROTOCOL);
	ck_assert_int_eq(cut_header(0, WIRE_SET, 0, 1, 4096, &e), ERR_PROTOCOL);
	/* The length alone is enough */
	ck_assert_int_eq(wire_cut(SLICE("\xff\xff\xff\xff", 4), WIRE_BODY_MAX,
				  &f, &e), ERR_PROTOCOL);
}
END_TEST

static int get_key_of(size_t len)
{
	char *key = calloc(1, len);
	struct wire_key m = {SLICE(key, len)};
	struct wire_frame f;
	struct buf b = BUF_INIT(WIRE_BODY_MAX);
	struct err e = ERR_INIT;
	int rc;

	wire_put_key(&b, WIRE_GET, WIRE_REQUEST, 1, &m);
	ck_assert_int_gt(wire_cut(SLICE(b.data, b.len), WIRE_BODY_MAX, &f, &e),
			 0);
	rc = wire_get_key(&f, &m, &e);
	free(key);
	buf_release(&b);
	return rc;
}

static int get_value_of(size_t len)
{
	char *value = calloc(1, len);
	struct wire_key_value m = {SLICE_STR("k"), SLICE(value, len)};
	struct wire_frame f;
	struct buf b = BUF_INIT(WIRE_BODY_MAX);
	struct err e = ERR_INIT;
	int rc;

	wire_put_key_value(&b, WIRE_SET, WIRE_REQUEST, 1, &m);
	ck_assert_int_gt(wire_cut(SLICE(b.data, b.len), WIRE_BODY_MAX, &f, &e),
			 0);
	rc = wire_get_key_value(&f, &m, &e);
	free(value);
	buf_release(&b);
	return rc;
}

START_TEST(keys_and_values_have_their_limits)
{
	ck_assert_int_eq(get_key_of(WIRE_KEY_MAX), 0);
	ck_assert_int_eq(get_key_of(WIRE_KEY_MAX + 1), ERR_PROTOCOL);
	ck_assert_int_eq(get_value_of(WIRE_VALUE_MAX), 0);
	ck_assert_int_eq(get_value_of(WIRE_VALUE_MAX + 1), ERR_PROTOCOL);
}
END_TEST

static int get_list_of(uint32_t count, size_t bytes)
{
	char *items = calloc(1, bytes + 1);
	struct wire_list m = {{count, SLICE(items, bytes)}};
	struct wire_frame f;
	struct buf b = BUF_INIT(WIRE_BODY_MAX);
	struct err e = ERR_INIT;
	int rc;

	wire_put_list(&b, WIRE_MULTI_GET, WIRE_REQUEST, 1, &m);
	ck_assert_int_gt(wire_cut(SLICE(b.data, b.len), WIRE_BODY_MAX, &f, &e),
			 0);
	rc = wire_get_list(&f, &m, &e);
	free(items);
	buf_release(&b);
	return rc;
}

START_TEST(a_list_holds_no_more_than_its_bytes_can)
{
	ck_assert_int_eq(get_list_of(0, 0), 0);
	ck_assert_int_eq(get_list_of(0, 1), ERR_PROTOCOL);
	ck_assert_int_eq(get_list_of(3, 12), 0);
	ck_assert_int_eq(get_list_of(4, 15), ERR_PROTOCOL);
	ck_assert_int_eq(get_list_of(UINT32_MAX, 64), ERR_PROTOCOL);
	ck_assert_int_eq(get_list_of(WIRE_KEYS_MAX, 4 * WIRE_KEYS_MAX), 0);
	ck_assert_int_eq(get_list_of(WIRE_KEYS_MAX + 1,
				     4 * (WIRE_KEYS_MAX + 1)), ERR_PROTOCOL);
}
END_TEST

static void is_golden(const struct buf *b, const char *bytes, size_t n)
{
	ck_assert_uint_eq(b->len, n);
	ck_assert(!memcmp(b->data, bytes, n));
}

START_TEST(golden_bytes)
{
	static const char hello_bytes[] =
		"\x2e\0\0\0" "\x01" "\0" "\0\0" "\x01\0\0\0"
		"\x02" "\x04\0\0\0none" "\x02\0\0\0h1"
		"\x03\0\0\0" "\x05\0\0\0" "\x09\0\0\0\0\0\0\x80" "\x02"
		"\x02\0\0\0no" "\x04\0\0\0push";
	static const char welcome_bytes[] =
		"\x19\0\0\0" "\x01" "\x01" "\0\0" "\x01\0\0\0"
		"\x02\0\0\0gr" "\xd7\xb1\xff\xff" "\x03\0\0\0why"
		"\x04\0\0\0pull";
	static const char greeting_bytes[] =
		"DDPR\x0b\x06\0\0" "0123456789abcdef0123456789abcdef"
		"fedcba9876543210";
	static const char join_bytes[] =
		"\x75\0\0\0" "\x1e" "\0" "\0\0" "\x02\0\0\0"
		"\x02\0\0\0ab" "\x02\0\0\0h1" "\x09\0\0\0" "127.0.0.1"
		"\x41\x9c" "\x01" "\xff\xff\xff\xff"
		"\x01\0\0\0" "\x02\0\0\0" "\x04\0\0\0" "\x03\0\0\0"
		"\x05\0\0\0" "\x06\0\0\0" "\xf4\x01\0\0"
		"\x04\0\0\0role" "\x30\x75\0\0" "\x88\x13\0\0" "\x01"
		"\0" "\x0a\0\0\0\0\0\0\x80"
		"\x0b\0\0\0" "\x01\0\0\0n" "\x02\0\0\0va"
		"\x01\0\0\0" "\x08\0\0\0" "10.0.0.1";
	static const char addr_item[] = "\x08\0\0\0" "10.0.0.1";
	struct wire_hello hello = {WIRE_WORKER, SLICE_STR("none"),
				   SLICE_STR("h1"), 3, 5,
				   UINT64_C(0x8000000000000009),
				   WIRE_BY_SECRET, SLICE_STR("no"),
				   SLICE_STR("push")};
	struct wire_welcome welcome = {SLICE_STR("gr"), ERR_REFUSED,
				       SLICE_STR("why"), SLICE_STR("pull")};
	struct wire_join join = {SLICE_STR("ab"), SLICE_STR("h1"),
				 SLICE_STR("127.0.0.1"), 40001, 1, -1, 1, 2,
				 4, 3, 5, 6, 500, SLICE_STR("role"), 30000,
				 5000, 1, 0, UINT64_C(0x800000000000000a),
				 SLICE("\1\0\0\0n\2\0\0\0va", 11),
				 {1, SLICE(addr_item, sizeof(addr_item) - 1)}};
	struct buf b = BUF_INIT(1024);

	ck_assert(!memcmp(wire_preface, "DDPR\x0b\0\0\0", WIRE_PREFACE_SIZE));
	wire_put_hello(&b, WIRE_HELLO, WIRE_REQUEST, 1, &hello);
	is_golden(&b, hello_bytes, sizeof(hello_bytes) - 1);
	buf_reset(&b);
	wire_put_welcome(&b, WIRE_HELLO, WIRE_REPLY, 1, &welcome);
	is_golden(&b, welcome_bytes, sizeof(welcome_bytes) - 1);
	buf_reset(&b);
	wire_put_greeting(&b, WIRE_BY_SECRET | WIRE_BY_MUNGE,
			  "0123456789abcdef0123456789abcdef",
			  "fedcba9876543210");
	is_golden(&b, greeting_bytes, sizeof(greeting_bytes) - 1);
	buf_reset(&b);
	wire_put_join(&b, WIRE_JOIN, WIRE_REQUEST, 2, &join);
	is_golden(&b, join_bytes, sizeof(join_bytes) - 1);
	buf_release(&b);
}
END_TEST

START_TEST(an_option_is_found_by_its_whole_name)
{
	const struct wire_option long_name = {SLICE_STR("--env-file"),
					      SLICE_STR("f")};
	const struct wire_option env = {SLICE_STR("--env"), SLICE_STR("tf")};
	struct buf b = BUF_INIT(WIRE_ALIKE_MAX);
	struct slice value, torn;

	wire_put_option(&b, &long_name);
	wire_put_option(&b, &env);
	ck_assert_int_eq(wire_find_option(SLICE(b.data, b.len),
					  SLICE_STR("--env"), &value), 1);
	ck_assert_uint_eq(value.len, 2);
	ck_assert(!memcmp(value.data, "tf", 2));
	ck_assert_int_eq(wire_find_option(SLICE(b.data, b.len),
					  SLICE_STR("--mpi"), &value), 0);
	torn = SLICE(b.data, b.len - 1);
	ck_assert_int_eq(wire_find_option(torn, SLICE_STR("--env"), &value), 0);
	ck_assert_int_eq(wire_find_option(SLICE("", 0), SLICE_STR("--env"),
					  &value), 0);
	buf_release(&b);
}
END_TEST

START_TEST(golden_bytes_of_a_share)
{
	static const char share_bytes[] =
		"\x38\0\0\0" "\x15" "\0" "\0\0" "\x02\0\0\0"
		"\x01\0\0\0g" "\x03\0\0\0" "\xff\xff\xff\xff"
		"\x08\0\0\0" "10.0.0.1" "\x41\x9c"
		"\x10\0\0\0" "0123456789abcdef" "\0\0\0\0"
		"\x01" "\x05\0\0\0";
	static const char shared_bytes[] =
		"\x30\0\0\0" "\x15" "\x01" "\0\0" "\x02\0\0\0"
		"\x07\0\0\0" "\x02\0\0\0" "\x11\0\0\0"
		"\x04\0\0\0hash"
		"\x03\0\0\0::1" "\x42\x9c" "\x02\0\0\0to"
		"\x02\0\0\0" "\x01\0\0\0v" "\0\0\0\0";
	static const char items[] = "\x01\0\0\0v" "\0\0\0\0";
	struct wire_share share = {SLICE_STR("g"), 3, WIRE_NO_TIMEOUT,
				   SLICE_STR("10.0.0.1"), 40001,
				   SLICE_STR("0123456789abcdef"),
				   SLICE_STR(""), 1, 5};
	struct wire_shared shared = {7, 2, 17, SLICE_STR("hash"),
				     SLICE_STR("::1"), 40002, SLICE_STR("to"),
				     {2, SLICE(items, sizeof(items) - 1)}};
	struct buf b = BUF_INIT(1024);

	wire_put_share(&b, WIRE_SHARE, WIRE_REQUEST, 2, &share);
	is_golden(&b, share_bytes, sizeof(share_bytes) - 1);
	buf_reset(&b);
	wire_put_shared(&b, WIRE_SHARE, WIRE_REPLY, 2, &shared);
	is_golden(&b, shared_bytes, sizeof(shared_bytes) - 1);
	buf_reset(&b);
	wire_put_empty(&b, WIRE_SHARED_LIST, WIRE_REQUEST, 3);
	is_golden(&b, "\0\0\0\0" "\x16" "\0" "\0\0" "\x03\0\0\0", 12);
	buf_release(&b);
}
END_TEST

START_TEST(types_have_names)
{
	ck_assert_str_eq(wire_type_name(WIRE_JOIN), "JOIN");
	ck_assert_str_eq(wire_type_name(WIRE_NODE), "NODE");
	ck_assert_str_eq(wire_type_name(99), "type 99");
	ck_assert_str_eq(wire_type_name(-1), "type -1");
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("wire");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, every_message_round_trips_and_no_truncation_parses);
	tcase_add_test(t, a_copy_of_an_end_has_bytes_of_its_own);
	tcase_add_test(t, a_copy_without_memory_has_no_bytes_but_all_numbers);
	tcase_add_test(t, bytes_left_over_are_an_error);
	tcase_add_test(t, frames_are_cut_only_when_whole);
	tcase_add_test(t, impossible_headers_are_refused_at_once);
	tcase_add_test(t, keys_and_values_have_their_limits);
	tcase_add_test(t, a_list_holds_no_more_than_its_bytes_can);
	tcase_add_test(t, golden_bytes);
	tcase_add_test(t, golden_bytes_of_a_share);
	tcase_add_test(t, an_option_is_found_by_its_whole_name);
	tcase_add_test(t, types_have_names);
	return run_case(t);
}
