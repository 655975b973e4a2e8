/* test_etcd_text.c: requests to etcd, and its replies. */
#include "etcd/etcd_text.h"
#include "tests/unit/run_case.h"

static struct buf out = BUF_INIT(1 << 20);
static struct etcd_reply r;
static struct err e;

static void says(const char *json)
{
	ck_assert_int_eq(out.failed, 0);
	ck_assert_uint_eq(out.len, strlen(json));
	ck_assert_mem_eq(out.data, json, out.len);
	buf_release(&out);
}

static void reads(const char *json)
{
	e = (struct err)ERR_INIT;
	ck_assert_msg(etcd_reply_parse(&r, SLICE_STR(json), &e) == 0, "%s",
		      e.text);
}

static void is(struct slice s, const char *text)
{
	ck_assert_uint_eq(s.len, strlen(text));
	ck_assert_mem_eq(s.data, text, s.len);
}

START_TEST(requests)
{
	etcd_put_range(&out, SLICE_STR("/a"), SLICE("", 0), 1, 7);
	says("{\"key\":\"L2E=\",\"limit\":\"1\",\"revision\":\"7\","
	     "\"sort_order\":\"ASCEND\",\"sort_target\":\"KEY\"}");
	etcd_put_range(&out, SLICE("\0", 1), SLICE("\xff\xfe", 2), 0, 0);
	says("{\"key\":\"AA==\",\"range_end\":\"//4=\",\"limit\":\"0\","
	     "\"revision\":\"0\",\"sort_order\":\"ASCEND\","
	     "\"sort_target\":\"KEY\"}");
	etcd_put_grant(&out, INT64_MAX, 5);
	says("{\"ID\":\"9223372036854775807\",\"TTL\":\"5\"}");
	etcd_put_lease(&out, 77);
	says("{\"ID\":\"77\"}");
	etcd_put_watch(&out, SLICE_STR("/a"), SLICE("", 0), 3);
	says("{\"create_request\":{\"key\":\"L2E=\","
	     "\"start_revision\":\"3\"}}");
	etcd_put_login(&out, "me", "\"\\\n\xc3\xbc");
	says("{\"name\":\"me\",\"password\":"
	     "\"\\u0022\\u005c\\u000a\xc3\xbc\"}");
}
END_TEST

START_TEST(a_transaction)
{
	struct etcd_txn t;

	etcd_txn_init(&t, 1 << 20);
	etcd_txn_if_modified(&t, SLICE_STR("/a"), 0);
	etcd_txn_if_modified(&t, SLICE_STR("/b"), 12);
	etcd_txn_put(&t, SLICE_STR("/a"), SLICE_STR("x"), 77);
	etcd_txn_delete(&t, SLICE_STR("/c"), SLICE_STR("/d"));
	etcd_txn_else_get(&t, SLICE_STR("/a"), SLICE("", 0), 0);
	etcd_put_txn(&out, &t);
	etcd_txn_release(&t);
	says("{\"compare\":["
	     "{\"target\":\"MOD\",\"result\":\"EQUAL\",\"key\":\"L2E=\","
	     "\"mod_revision\":\"0\"},"
	     "{\"target\":\"MOD\",\"result\":\"EQUAL\",\"key\":\"L2I=\","
	     "\"mod_revision\":\"12\"}],\"success\":["
	     "{\"request_put\":{\"key\":\"L2E=\",\"value\":\"eA==\","
	     "\"lease\":\"77\"}},"
	     "{\"request_delete_range\":{\"key\":\"L2M=\","
	     "\"range_end\":\"L2Q=\"}}],\"failure\":["
	     "{\"request_range\":{\"key\":\"L2E=\",\"limit\":\"0\","
	     "\"revision\":\"0\",\"sort_order\":\"ASCEND\","
	     "\"sort_target\":\"KEY\"}}]}");
}
END_TEST

/* A text that does not fit counts as none: half of it could pass for all. */
START_TEST(a_transaction_over_its_limit)
{
	struct etcd_txn t;

	etcd_txn_init(&t, 64);
	etcd_txn_put(&t, SLICE_STR("/a"), SLICE_STR("0123456789"), 77);
	etcd_put_txn(&out, &t);
	etcd_txn_release(&t);
	ck_assert_int_ne(out.failed, 0);
	buf_release(&out);
}
END_TEST

#define HEADER "\"header\":{\"cluster_id\":\"14841639068965178418\"," \
	"\"member_id\":\"10276657743932975437\",\"revision\":\"2\"," \
	"\"raft_term\":\"2\"}"

START_TEST(replies)
{
	reads("{" HEADER ",\"kvs\":[{\"key\":\"L2E=\",\"create_revision\":"
	      "\"2\",\"mod_revision\":\"3\",\"version\":\"1\",\"value\":"
	      "\"aGVsbG8=\",\"lease\":\"77\"},{\"key\":\"L2I=\"}],"
	      "\"more\":true,\"count\":\"3\"}");
	ck_assert_int_eq(r.revision, 2);
	ck_assert_uint_eq(r.nkvs, 2);
	is(r.kvs[0].key, "/a");
	is(r.kvs[0].value, "hello");
	ck_assert_int_eq(r.kvs[0].created, 2);
	ck_assert_int_eq(r.kvs[0].modified, 3);
	ck_assert_int_eq(r.kvs[0].lease, 77);
	is(r.kvs[1].key, "/b");
	is(r.kvs[1].value, "");
	ck_assert_int_eq(r.more, 1);
	etcd_reply_release(&r);
	reads("{" HEADER ",\"succeeded\":true,\"responses\":["
	      "{\"response_put\":{\"header\":{\"revision\":\"2\"}}}]}");
	ck_assert_int_eq(r.succeeded, 1);
	ck_assert_uint_eq(r.nkvs, 0);
	etcd_reply_release(&r);
	reads("{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":["
	      "{\"key\":\"L2E=\",\"value\":\"aGVsbG8=\"}]}}]}");
	ck_assert_int_eq(r.succeeded, 0);
	ck_assert_uint_eq(r.nkvs, 1);
	is(r.kvs[0].value, "hello");
	etcd_reply_release(&r);
	reads("{\"result\":{" HEADER ",\"ID\":\"77\",\"TTL\":\"5\"}}");
	ck_assert_int_eq(r.lease, 77);
	ck_assert_int_eq(r.ttl_s, 5);
	etcd_reply_release(&r);
	reads("{" HEADER ",\"token\":\"WqPQ.9\"}");
	is(r.token, "WqPQ.9");
	etcd_reply_release(&r);
}
END_TEST

START_TEST(a_watch_reply_is_parsed)
{
	reads("{\"result\":{" HEADER ",\"created\":true}}");
	ck_assert_uint_eq(r.nkvs, 0);
	etcd_reply_release(&r);
	reads("{\"result\":{" HEADER ",\"events\":[{\"kv\":{\"key\":\"L2E=\","
	      "\"value\":\"aGVsbG8=\"}},{\"type\":\"DELETE\",\"kv\":"
	      "{\"key\":\"L2I=\",\"mod_revision\":\"5\"}}]}}");
	ck_assert_uint_eq(r.nkvs, 2);
	ck_assert_int_eq(r.kvs[0].deleted, 0);
	ck_assert_int_eq(r.kvs[1].deleted, 1);
	is(r.kvs[1].key, "/b");
	etcd_reply_release(&r);
	reads("{\"result\":{" HEADER ",\"canceled\":true,"
	      "\"compact_revision\":\"9\"}}");
	ck_assert_int_eq(r.canceled, 1);
	ck_assert_int_eq(r.compacted, 9);
	etcd_reply_release(&r);
}
END_TEST

START_TEST(refusals)
{
	reads("{\"error\":\"etcdserver: requested lease not found\","
	      "\"code\":5,\"message\":\"etcdserver: requested lease not "
	      "found\"}");
	is(r.error, "etcdserver: requested lease not found");
	ck_assert_int_eq(r.code, ETCD_NOT_FOUND);
	etcd_reply_release(&r);
	reads("{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":"
	      "\"etcdserver: no leader\",\"http_status\":\"x\"}}");
	is(r.error, "etcdserver: no leader");
	ck_assert_int_eq(r.code, ETCD_UNAVAILABLE);
	etcd_reply_release(&r);
	/* Debian 13's 3.5.16, and 3.6 */
	reads("{\"code\":9, \"message\":\"etcdserver: lease already "
	      "exists\"}");
	is(r.error, "etcdserver: lease already exists");
	ck_assert_int_eq(r.code, ETCD_PRECONDITION);
	etcd_reply_release(&r);
	reads("{\"error\":{\"code\":14,\"message\":\"etcdserver: no "
	      "leader\",\"details\":[]}}");
	is(r.error, "etcdserver: no leader");
	ck_assert_int_eq(r.code, ETCD_UNAVAILABLE);
	etcd_reply_release(&r);
}
END_TEST

START_TEST(an_invalid_reply_is_an_error)
{
	static const char *const bad[] = {
		"", "<html>", "[]", "7", "{\"kvs\":[{\"key\":\"*\"}]}",
		"{\"kvs\":[{\"key\":7}]}", "{\"error\":{}}", "{\"code\":9}",
		"{\"ID\":\"99999999999999999999\"}", "{\"ID\":\"\"}",
		"{\"ID\":\"1x\"}", "{\"kvs\":[{\"key\":\"L2E=\"}",
		"{\"ID\":1e53}", "{\"ID\":-1e19}",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		e = (struct err)ERR_INIT;
		ck_assert_msg(etcd_reply_parse(&r, SLICE_STR(bad[i]), &e) ==
			      ERR_PROTOCOL, "%s", bad[i]);
		ck_assert(strstr(e.text, "is this an etcd endpoint"));
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("etcd_text");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, requests);
	tcase_add_test(c, a_transaction);
	tcase_add_test(c, a_transaction_over_its_limit);
	tcase_add_test(c, replies);
	tcase_add_test(c, a_watch_reply_is_parsed);
	tcase_add_test(c, refusals);
	tcase_add_test(c, an_invalid_reply_is_an_error);
	return run_case(c);
}
