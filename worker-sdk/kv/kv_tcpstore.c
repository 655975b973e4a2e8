/* kv_tcpstore.c: the store in torchrun's agent: a blocking client of PyTorch's
 * TCPStore protocol (torch/csrc/distributed/c10d/TCPStore.cpp), of 2.2 and
 * later and of 1.13. All integers are little-endian. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "worker-sdk/kv/kv.h"
#include "worker-sdk/kv/tcpstore.h"

enum { KEY_MAX = 8 << 10, VALUE_MAX = 8 << 20 };

enum op { SET, COMPARE_SET, GET, ADD, CHECK, WAIT, DELETE, APPEND, MULTI_GET,
	  CANCEL_WAIT, OPS };

/* The operations' numbers in both generations of the protocol; 0xff: not
 * supported. */
static const unsigned char numbers[2][OPS] = {
	{0, 1, 2, 3, 4, 5, 8, 0xff, 0xff, 0xff},
	{1, 2, 3, 4, 5, 6, 8, 9, 10, 12},
};

struct torch_kv {
	struct ddp__kv kv;
	struct ddp__torch t;
	char prefix[320];
	char *values; /* the values that the last call returned point here */
	size_t values_len, values_cap;
	int gathers;
};

static struct torch_kv *torch_kv(struct ddp__kv *kv)
{
	return (struct torch_kv *)kv;
}

static uint64_t torch_deadline(int ms)
{
	return ms < 0 ? UINT64_MAX : clock_ms() + (uint64_t)ms;
}

/* Receives a length and that many bytes, appended to s->values. */
static int torch_receive_value(struct torch_kv *s, size_t *len, struct err *e)
{
	uint64_t size;
	int rc = ddp__torch_answer(&s->t, &size, sizeof(size), e);

	if (rc)
		return rc;
	if (size > VALUE_MAX)
		return ddp__torch_broke(&s->t, ERR_PROTOCOL,
					"a value of more than 8 MiB", e);
	if (s->values_len + size + 1 > s->values_cap) {
		size_t cap = (s->values_len + size + 1) * 2;
		char *p = realloc(s->values, cap);

		if (!p)
			return ddp__torch_broke(&s->t, -ENOMEM, "no memory", e);
		s->values = p;
		s->values_cap = cap;
	}
	rc = ddp__torch_answer(&s->t, s->values + s->values_len, size, e);
	s->values_len += size;
	*len = size;
	return rc;
}

static int torch_receive_one(struct torch_kv *s, struct slice *value,
			     struct err *e)
{
	size_t len = 0;
	int rc;

	s->values_len = 0;
	rc = torch_receive_value(s, &len, e);
	*value = SLICE(s->values, len);
	return rc;
}

/* ---- requests ---- */

static void torch_put_bytes(struct torch_kv *s, struct slice v)
{
	buf_put_u64(&s->t.out, v.len);
	buf_put(&s->t.out, v.data, v.len);
}

static void torch_put_key(struct torch_kv *s, struct slice key)
{
	size_t len = strlen(s->prefix);

	buf_put_u64(&s->t.out, len + key.len);
	buf_put(&s->t.out, s->prefix, len);
	buf_put(&s->t.out, key.data, key.len);
}

static int torch_begin(struct torch_kv *s, enum op op, struct slice key,
		       struct err *e)
{
	if (key.len + strlen(s->prefix) > KEY_MAX)
		return err_set(e, ERR_ARGUMENT,
			       "PyTorch's store at %s: a key has at most %zu "
			       "bytes there", s->t.at,
			       KEY_MAX - strlen(s->prefix));
	buf_reset(&s->t.out);
	buf_put_u8(&s->t.out, numbers[s->t.modern][op]);
	if (op == CHECK || op == WAIT)
		buf_put_u64(&s->t.out, 1);
	torch_put_key(s, key);
	return 0;
}

static int torch_set(struct ddp__kv *kv, struct slice key, struct slice value,
		     struct err *e)
{
	struct torch_kv *s = torch_kv(kv);
	int rc = torch_begin(s, SET, key, e);

	if (rc)
		return rc;
	torch_put_bytes(s, value);
	return ddp__torch_send(&s->t, e);
}

/* 1: the key exists. */
static int torch_check(struct torch_kv *s, struct slice key, struct err *e)
{
	unsigned char not_ready = 1;
	int rc = torch_begin(s, CHECK, key, e);

	if (!rc)
		rc = ddp__torch_send(&s->t, e);
	if (!rc)
		rc = ddp__torch_answer(&s->t, &not_ready, 1, e);
	return rc ? rc : !not_ready;
}

/* The request has been sent. 0 once the store answers; ERR_TIMEOUT: not in
 * time, but the connection can be used again. */
static int torch_wait_answer(struct torch_kv *s, uint64_t deadline,
			     struct err *e)
{
	unsigned char byte;
	int rc = ddp__torch_receive(&s->t, &byte, 1, deadline, e), last;

	if (rc != ERR_TIMEOUT || s->t.fd < 0)
		return rc;
	if (!s->t.modern) {
		/* 1.13 cannot cancel a wait: its answer would come late */
		last = ddp__torch_reopen(&s->t, e);
		return last ? last : rc;
	}
	buf_reset(&s->t.out);
	buf_put_u8(&s->t.out, numbers[1][CANCEL_WAIT]);
	last = ddp__torch_send(&s->t, e);
	if (!last)
		last = ddp__torch_answer(&s->t, &byte, 1, e);
	if (!last && byte == 0) { /* the first answer came after all; this is
				   * the second */
		rc = 0;
		last = ddp__torch_answer(&s->t, &byte, 1, e);
	}
	return last ? last : rc;
}

static int torch_get(struct ddp__kv *kv, struct slice key, int timeout_ms,
		     struct slice *value, struct err *e)
{
	struct torch_kv *s = torch_kv(kv);
	uint64_t start = clock_ms();
	int rc = torch_check(s, key, e);

	if (rc < 0 || (rc == 0 && timeout_ms == 0))
		return rc;
	if (rc == 0) {
		rc = torch_begin(s, WAIT, key, e);
		if (!rc)
			rc = ddp__torch_send(&s->t, e);
		if (!rc)
			rc = torch_wait_answer(s, torch_deadline(timeout_ms),
					       e);
		if (rc == ERR_TIMEOUT && s->t.fd >= 0)
			return err_set(e, rc, "waited %.1f s for the key "
				       "'%.*s', which nobody has set",
				       (double)(clock_ms() - start) / 1e3,
				       SLICE_FMT(key));
		if (rc)
			return rc;
	}
	rc = torch_begin(s, GET, key, e);
	if (!rc)
		rc = ddp__torch_send(&s->t, e);
	if (!rc)
		rc = torch_receive_one(s, value, e);
	return rc ? rc : 1;
}

/* Replaces the error of an add to a value that is not a number: the store
 * closes the connection of such a client. */
static int torch_explain_add(struct torch_kv *s, struct slice key, int rc,
			     struct err *e)
{
	struct err why;
	struct slice value = {"", 0};
	char text[24] = "", *end;

	if ((rc != ERR_REMOTE && rc != -ECONNRESET) ||
	    ddp__torch_reopen(&s->t, &why) ||
	    torch_get(&s->kv, key, 0, &value, &why) != 1)
		return rc;
	memcpy(text, value.data, value.len < 23 ? value.len : 23);
	strtoll(text, &end, 10);
	if (end > text && !*end)
		return rc;
	return err_set(e, ERR_ARGUMENT,
		       "ddp_store_add: the value of %.*s is not a number",
		       SLICE_FMT(key));
}

static int torch_add(struct ddp__kv *kv, struct slice key, int64_t delta,
		     int64_t *sum, struct err *e)
{
	struct torch_kv *s = torch_kv(kv);
	int rc = torch_begin(s, ADD, key, e);

	if (rc)
		return rc;
	buf_put_u64(&s->t.out, (uint64_t)delta);
	rc = ddp__torch_send(&s->t, e);
	if (!rc)
		rc = ddp__torch_answer(&s->t, sum, sizeof(*sum), e);
	return rc ? torch_explain_add(s, key, rc, e) : 0;
}

/* The store answers with the key's value. If the key is missing and expected is
 * not empty, it answers with expected, as if the key held that value. */
static int torch_compare_set(struct ddp__kv *kv, struct slice key,
			     struct slice expected, struct slice desired,
			     struct slice *now, struct err *e)
{
	struct torch_kv *s = torch_kv(kv);
	int rc = torch_begin(s, COMPARE_SET, key, e);

	if (rc)
		return rc;
	torch_put_bytes(s, expected);
	torch_put_bytes(s, desired);
	rc = ddp__torch_send(&s->t, e);
	if (!rc)
		rc = torch_receive_one(s, now, e);
	if (rc)
		return rc;
	if (!expected.len || !slice_is_equal(*now, expected))
		return 1;
	return slice_is_equal(expected, desired) ? torch_check(s, key, e) : 0;
}

static int torch_append(struct ddp__kv *kv, struct slice key,
			struct slice value, struct err *e)
{
	struct torch_kv *s = torch_kv(kv);
	int rc;

	if (!s->t.modern)
		return err_set(
			e, ERR_USAGE,
			"PyTorch's store at %s is PyTorch 1.13's, which cannot "
			"append: use ddp_store_set, or start with ddprun",
			s->t.at);
	rc = torch_begin(s, APPEND, key, e);
	if (rc)
		return rc;
	torch_put_bytes(s, value);
	return ddp__torch_send(&s->t, e);
}

static int torch_delete(struct ddp__kv *kv, struct slice key, struct err *e)
{
	struct torch_kv *s = torch_kv(kv);
	int64_t n = 0;
	int rc = torch_begin(s, DELETE, key, e);

	if (!rc)
		rc = ddp__torch_send(&s->t, e);
	if (!rc)
		rc = ddp__torch_answer(&s->t, &n, sizeof(n), e);
	return rc ? rc : n != 0;
}

/* ---- gather ---- */

/* Each gather has its own set of keys, with one key for each rank. */
static void torch_rank_key(char *out, size_t size, const struct torch_kv *s,
			   struct slice key, int rank)
{
	snprintf(out, size, "%.*s/%d/%d", (int)(key.len < 200 ? key.len : 200),
		 key.data, s->gathers, rank);
}

static void torch_put_rank_keys(struct torch_kv *s, enum op op,
				struct slice key, int size)
{
	char name[300];

	buf_reset(&s->t.out);
	buf_put_u8(&s->t.out, numbers[s->t.modern][op]);
	buf_put_u64(&s->t.out, (uint64_t)size);
	for (int r = 0; r < size; r++) {
		torch_rank_key(name, sizeof(name), s, key, r);
		torch_put_key(s, SLICE_STR(name));
	}
}

/* Sets the error "1 of 4 ranks have not arrived: 3", with the first three
 * missing ranks. */
static int torch_missing_error(struct torch_kv *s, struct slice key, int size,
			       uint64_t waited, struct err *e)
{
	char name[300], who[80] = "";
	int missing = 0, rc;
	size_t at = 0;

	for (int r = 0; r < size; r++) {
		torch_rank_key(name, sizeof(name), s, key, r);
		rc = torch_check(s, SLICE_STR(name), e);
		if (rc < 0)
			return rc;
		if (rc == 0 && missing++ < 3)
			at += (size_t)snprintf(who + at, sizeof(who) - at,
					       "%s%d", at ? ", " : "", r);
	}
	return err_set(e, ERR_TIMEOUT,
		       "waited %.1f s for '%.*s': %d of %d ranks have not "
		       "arrived: %s%s", (double)waited / 1e3, SLICE_FMT(key),
		       missing, size, who, missing > 3 ? ", ..." : "");
}

static int torch_receive_all(struct torch_kv *s, struct slice key, int size,
			     struct slice *values, struct err *e)
{
	char name[300];
	size_t at = 0;
	int rc = 0;

	s->values_len = 0;
	if (s->t.modern) {
		torch_put_rank_keys(s, MULTI_GET, key, size);
		rc = ddp__torch_send(&s->t, e);
	}
	for (int r = 0; r < size && !rc; r++) {
		torch_rank_key(name, sizeof(name), s, key, r);
		if (!s->t.modern) {
			rc = torch_begin(s, GET, SLICE_STR(name), e);
			if (!rc)
				rc = ddp__torch_send(&s->t, e);
		}
		if (!rc)
			rc = torch_receive_value(s, &values[r].len, e);
	}
	/* only after all have arrived: until then the memory moves */
	for (int r = 0; r < size && !rc; at += values[r++].len)
		values[r].data = s->values + at;
	return rc;
}

static int torch_gather(struct ddp__kv *kv, struct slice key, int rank,
			int size, int timeout_ms, struct slice mine,
			struct slice *values, struct err *e)
{
	struct torch_kv *s = torch_kv(kv);
	uint64_t start = clock_ms();
	char name[300];
	int rc;

	s->gathers++;
	torch_rank_key(name, sizeof(name), s, key, rank);
	rc = torch_set(kv, SLICE_STR(name), mine, e);
	if (rc)
		return rc;
	torch_put_rank_keys(s, WAIT, key, size);
	rc = ddp__torch_send(&s->t, e);
	if (!rc)
		rc = torch_wait_answer(s, torch_deadline(timeout_ms), e);
	if (rc == ERR_TIMEOUT && s->t.fd >= 0)
		return torch_missing_error(s, key, size, clock_ms() - start, e);
	return rc ? rc : torch_receive_all(s, key, size, values, e);
}

static void torch_free(struct ddp__kv *kv)
{
	struct torch_kv *s = torch_kv(kv);

	ddp__torch_close(&s->t);
	free(s->values);
	free(s);
}

static const struct ddp__kv_ops torch_ops = {
	.free = torch_free,
	.set = torch_set,
	.get = torch_get,
	.add = torch_add,
	.compare_set = torch_compare_set,
	.append = torch_append,
	.delete = torch_delete,
	.gather = torch_gather,
};

int ddp__kv_tcpstore(struct ddp__kv **out, const struct endpoint *where,
		     const char *prefix, int ranks, int timeout_ms,
		     struct err *e)
{
	struct torch_kv *s = calloc(1, sizeof(*s));
	int64_t opened;
	int rc;

	if (!s)
		return err_no_memory(e, "ddp_init");
	s->kv.ops = &torch_ops;
	snprintf(s->prefix, sizeof(s->prefix), "%s", prefix);
	rc = ddp__torch_open(&s->t, where, timeout_ms, e);
	/* A worker may be a shell that starts one such program after another.
	 * No rank begins the next program before all ranks have begun this
	 * one. */
	if (!rc)
		rc = torch_add(&s->kv, SLICE_STR("opened"), 1, &opened, e);
	if (rc) {
		torch_free(&s->kv);
		return rc;
	}
	snprintf(s->prefix, sizeof(s->prefix), "%.290s%lld/", prefix,
		 (long long)((opened - 1) / ranks));
	*out = &s->kv;
	return 0;
}
