/* torch_session.c: one handler for each request. Deviates from PyTorch's server
 * where that errs: a request is applied completely or not at all; waiters are
 * woken only when their keys exist; queues count in any WAIT; a WAIT for no
 * keys is ready; a queued value that a departing client does not take wakes the
 * next waiter. */
#include "rendezvous/torch/torch_session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/store_internal.h"

enum { OWED_MAX = 64 << 10 }; /* bytes of names; further ones are dropped */

typedef int handler(struct torch_session *t, const struct torch_request *r,
		    struct err *e);

/* ---- queued values that woke this client ---- */

/* WAIT was answered: remembers which of its keys are queues with values. */
static void torch_session_add_owed(struct torch_session *t, struct slice items,
				   uint32_t n)
{
	struct reader r;
	struct slice key, value;

	reader_init(&r, items);
	for (uint32_t i = 0; t->store->queues && i < n; i++) {
		key = torch_item(&r);
		if (store_queued(t->store, key, &value) &&
		    t->owed.len + 4 + key.len <= OWED_MAX)
			buf_put_slice(&t->owed, key);
	}
}

/* The client sends another request or leaves: offers the values that it was
 * woken for to other waiters, except taken, which it pops now. */
static void torch_session_reply_ready(struct torch_session *t,
				      struct slice taken)
{
	struct reader r;
	struct slice key;

	reader_init(&r, SLICE(t->owed.data, t->owed.len));
	while (reader_left(&r)) {
		key = reader_slice(&r);
		if (key.len != taken.len ||
		    memcmp(key.data, taken.data, key.len))
			store_nudge(t->store, key);
	}
	buf_reset(&t->owed);
}

/* ---- replies ---- */

static int torch_session_reply_byte(struct torch_session *t, int byte)
{
	buf_put_u8(t->out(t), (uint8_t)byte);
	return 0;
}

static int torch_session_reply_number(struct torch_session *t, int64_t n)
{
	buf_put_u64(t->out(t), (uint64_t)n);
	return 0;
}

static int torch_session_reply_text(struct torch_session *t, struct slice text)
{
	torch_put_text(t->out(t), text);
	return 0;
}

/* ---- requests ---- */

static int torch_session_on_validate(struct torch_session *t,
				     const struct torch_request *r,
				     struct err *e)
{
	return 0;
}

static int torch_session_on_set(struct torch_session *t,
				const struct torch_request *r, struct err *e)
{
	return store_set(t->store, r->text[0], r->text[1], e);
}

/* If the key does not exist and a value was expected, the reply is the expected
 * value, as in PyTorch. */
static int torch_session_on_compare_set(struct torch_session *t,
					const struct torch_request *r,
					struct err *e)
{
	struct slice now = r->text[1];
	int rc = store_compare_set(t->store, r->text[0], r->text[1],
				   r->text[2], e);

	if (rc < 0)
		return rc;
	if (!store_get(t->store, r->text[0], &now))
		now = r->text[1];
	return torch_session_reply_text(t, now);
}

static int torch_session_on_get(struct torch_session *t,
				const struct torch_request *r, struct err *e)
{
	struct slice value;

	store_get(t->store, r->text[0], &value);
	return torch_session_reply_text(t, value);
}

/* As C++'s stoll: ignores leading white space and trailing text. */
static int torch_session_parse_number(struct slice s, long long *out)
{
	char text[64], *end;
	size_t n = s.len < sizeof(text) - 1 ? s.len : sizeof(text) - 1;

	memcpy(text, s.data, n);
	text[n] = '\0';
	errno = 0;
	*out = strtoll(text, &end, 10);
	return end == text || errno ? -1 : 0;
}

static int torch_session_on_add(struct torch_session *t,
				const struct torch_request *r, struct err *e)
{
	struct slice now;
	long long sum = 0;
	char text[STORE_NUMBER_MAX];
	int rc;

	if (store_get(t->store, r->text[0], &now) &&
	    torch_session_parse_number(now, &sum) < 0)
		return err_set(e, ERR_ARGUMENT, "TCPStore: ADD to a key whose "
			       "value is not a number");
	if (__builtin_add_overflow(sum, r->number, &sum))
		return err_set(e, ERR_ARGUMENT, "TCPStore: ADD whose sum does "
			       "not fit in 64 bits");
	rc = store_set(t->store, r->text[0], store_number_text(sum, text), e);
	return rc < 0 ? rc : torch_session_reply_number(t, sum);
}

/* Reads n keys into an array that the caller frees. */
static int torch_session_list(const struct torch_request *r,
			      struct slice **keys, struct slice **values,
			      struct err *e)
{
	struct reader items;

	reader_init(&items, r->items);
	*keys = malloc((r->count + 1) * sizeof(**keys));
	if (values)
		*values = malloc((r->count + 1) * sizeof(**values));
	if (!*keys || (values && !*values))
		return store_no_memory(e);
	for (uint32_t i = 0; i < r->count; i++) {
		(*keys)[i] = torch_item(&items);
		if (values)
			(*values)[i] = torch_item(&items);
	}
	return 0;
}

static int torch_session_on_check(struct torch_session *t,
				  const struct torch_request *r, struct err *e)
{
	struct slice *keys;
	int rc = torch_session_list(r, &keys, NULL, e);

	if (rc == 0)
		torch_session_reply_byte(t, store_has(t->store, keys, r->count)
						    ? TORCH_READY
						    : TORCH_NOT_READY);
	free(keys);
	return rc;
}

static int torch_session_on_wait(struct torch_session *t,
				 const struct torch_request *r, struct err *e)
{
	struct slice *keys;
	int rc = torch_session_list(r, &keys, NULL, e);

	if (rc == 0 && store_has(t->store, keys, r->count)) {
		torch_session_add_owed(t, r->items, r->count);
		torch_session_reply_byte(t, TORCH_STOP_WAITING);
	} else if (rc == 0) {
		rc = store_wait(t->store, keys, r->count, &t->waiter, e);
		t->parked = rc == 0;
	}
	free(keys);
	return rc;
}

static int torch_session_on_getnumkeys(struct torch_session *t,
				       const struct torch_request *r,
				       struct err *e)
{
	return torch_session_reply_number(t, (int64_t)store_keys(t->store));
}

static int torch_session_on_delete_key(struct torch_session *t,
				       const struct torch_request *r,
				       struct err *e)
{
	return torch_session_reply_number(t,
					  store_delete(t->store, r->text[0]));
}

static int torch_session_on_append(struct torch_session *t,
				   const struct torch_request *r, struct err *e)
{
	int64_t len = store_append(t->store, r->text[0], r->text[1], e);

	return len < 0 ? (int)len : 0;
}

/* Whether n texts of `bytes` bytes together fit in one reply. */
static int torch_session_check_reply(const char *op, uint64_t n, uint64_t bytes,
				     struct err *e)
{
	bytes += n * 8;
	if (bytes <= TORCH_REPLY_MAX)
		return 0;
	return err_set(
		e, ERR_REFUSED,
		"TCPStore: the reply to %s of %" PRIu64
		" keys would have %" PRIu64
		" bytes, but the limit is %d: ask for fewer keys at once",
		op, n, bytes, TORCH_REPLY_MAX);
}

static int torch_session_on_multi_get(struct torch_session *t,
				      const struct torch_request *r,
				      struct err *e)
{
	struct reader items;
	struct slice value;
	uint64_t bytes = 0;
	int rc;

	reader_init(&items, r->items);
	for (uint32_t i = 0; i < r->count; i++) {
		store_get(t->store, torch_item(&items), &value);
		bytes += value.len;
	}
	rc = torch_session_check_reply("MULTI_GET", r->count, bytes, e);
	if (rc < 0)
		return rc;
	reader_init(&items, r->items);
	for (uint32_t i = 0; i < r->count; i++) {
		store_get(t->store, torch_item(&items), &value);
		torch_session_reply_text(t, value);
	}
	return 0;
}

static int torch_session_on_multi_set(struct torch_session *t,
				      const struct torch_request *r,
				      struct err *e)
{
	struct slice *keys, *values = NULL;
	int rc = torch_session_list(r, &keys, &values, e);

	if (rc == 0)
		rc = store_multi_set(t->store, keys, values, r->count, e);
	free(keys);
	free(values);
	return rc;
}

static int torch_session_on_cancel_wait(struct torch_session *t,
					const struct torch_request *r,
					struct err *e)
{
	if (t->parked && t->gave_up)
		t->gave_up(t);
	store_waiter_release(&t->waiter);
	t->parked = 0;
	return torch_session_reply_byte(t, TORCH_WAIT_CANCELED);
}

static int torch_session_on_ping(struct torch_session *t,
				 const struct torch_request *r, struct err *e)
{
	buf_put_u32(t->out(t), (uint32_t)r->number);
	return 0;
}

static int torch_session_on_queue_push(struct torch_session *t,
				       const struct torch_request *r,
				       struct err *e)
{
	return store_push(t->store, r->text[0], r->text[1], e);
}

static int torch_session_on_queue_pop(struct torch_session *t,
				      const struct torch_request *r,
				      struct err *e)
{
	struct slice value;
	uint64_t n = store_queued(t->store, r->text[0], &value);

	torch_session_reply_number(t, (int64_t)n);
	if (n) {
		torch_session_reply_text(t, value);
		store_pop(t->store, r->text[0]);
	}
	return 0;
}

static int torch_session_on_queue_len(struct torch_session *t,
				      const struct torch_request *r,
				      struct err *e)
{
	struct slice value;

	return torch_session_reply_number(
		t, (int64_t)store_queued(t->store, r->text[0], &value));
}

static int torch_session_on_list_keys(struct torch_session *t,
				      const struct torch_request *r,
				      struct err *e)
{
	struct hash_item *at = NULL;
	uint64_t bytes = 0;
	struct slice key;
	int rc;

	while (store_next_key(t->store, &at, &key))
		bytes += key.len;
	rc = torch_session_check_reply("LIST_KEYS", store_keys(t->store), bytes,
				       e);
	if (rc < 0)
		return rc;
	torch_session_reply_number(t, (int64_t)store_keys(t->store));
	while (store_next_key(t->store, &at, &key))
		torch_session_reply_text(t, key);
	return 0;
}

static int torch_session_on_barrier(struct torch_session *t,
				    const struct torch_request *r,
				    struct err *e)
{
	int rc = store_arrive(t->store, r->text[0], r->number, &t->waiter, e);

	t->parked = rc == 0;
	return rc;
}

/* PyTorch 1.13 sends it on a separate connection; nothing in PyTorch uses
 * it. */
static int torch_session_on_watch_key(struct torch_session *t,
				      const struct torch_request *r,
				      struct err *e)
{
	return err_set(e, ERR_REFUSED,
		       "TCPStore: WATCH_KEY is not supported; PyTorch itself "
		       "has dropped it");
}

static handler *const handlers[] = {
	[TORCH_VALIDATE] = torch_session_on_validate,
	[TORCH_SET] = torch_session_on_set,
	[TORCH_COMPARE_SET] = torch_session_on_compare_set,
	[TORCH_GET] = torch_session_on_get,
	[TORCH_ADD] = torch_session_on_add,
	[TORCH_CHECK] = torch_session_on_check,
	[TORCH_WAIT] = torch_session_on_wait,
	[TORCH_GETNUMKEYS] = torch_session_on_getnumkeys,
	[TORCH_DELETE_KEY] = torch_session_on_delete_key,
	[TORCH_APPEND] = torch_session_on_append,
	[TORCH_MULTI_GET] = torch_session_on_multi_get,
	[TORCH_MULTI_SET] = torch_session_on_multi_set,
	[TORCH_CANCEL_WAIT] = torch_session_on_cancel_wait,
	[TORCH_PING] = torch_session_on_ping,
	[TORCH_QUEUE_PUSH] = torch_session_on_queue_push,
	[TORCH_QUEUE_POP] = torch_session_on_queue_pop,
	[TORCH_QUEUE_LEN] = torch_session_on_queue_len,
	[TORCH_LIST_KEYS] = torch_session_on_list_keys,
	[TORCH_BARRIER] = torch_session_on_barrier,
	[TORCH_WATCH_KEY] = torch_session_on_watch_key,
};

/* ---- a session ---- */

static void torch_session_on_woken(struct store_waiter *w)
{
	struct torch_session *t = (struct torch_session *)w;

	for (uint32_t i = 0; i < w->nlinks; i++) {
		const struct store_entry *en = w->links[i].entry;

		if (w->links[i].pprev && en->queued &&
		    t->owed.len + 4 + en->item.key.len <= OWED_MAX)
			buf_put_slice(&t->owed, en->item.key);
	}
	store_waiter_release(w);
	t->parked = 0;
	torch_session_reply_byte(t, TORCH_STOP_WAITING);
}

void torch_session_init(struct torch_session *t, struct store *store,
			struct buf *(*out)(struct torch_session *t))
{
	*t = (struct torch_session){.store = store, .out = out};
	t->waiter.answer = torch_session_on_woken;
	buf_init(&t->owed, OWED_MAX);
}

void torch_session_release(struct torch_session *t)
{
	store_waiter_release(&t->waiter);
	torch_session_reply_ready(t, SLICE("", 0));
	buf_release(&t->owed);
}

/* Requests that may arrive while the client waits: writes without a reply, and
 * CANCEL_WAIT. */
static int torch_session_is_complete(const struct torch_session *t,
				     enum torch_op op)
{
	return !t->parked || op == TORCH_CANCEL_WAIT || op == TORCH_SET ||
	       op == TORCH_APPEND || op == TORCH_MULTI_SET ||
	       op == TORCH_QUEUE_PUSH;
}

static const char writes[TORCH_OPS] = {
	[TORCH_SET] = 1, [TORCH_COMPARE_SET] = 1, [TORCH_ADD] = 1,
	[TORCH_DELETE_KEY] = 1, [TORCH_APPEND] = 1, [TORCH_MULTI_SET] = 1,
	[TORCH_QUEUE_PUSH] = 1, [TORCH_QUEUE_POP] = 1, [TORCH_BARRIER] = 1,
};

static int torch_session_handle_request(struct torch_session *t,
					const struct torch_request *r,
					struct err *e)
{
	/* When a wait times out, PyTorch 1.13 does not notify the server. A
	 * late reply would be taken for the reply to its next request. */
	if (t->parked && t->generation == TORCH_OLD) {
		store_waiter_release(&t->waiter);
		t->parked = 0;
	}
	if (!torch_session_is_complete(t, r->op))
		return err_set(e, ERR_PROTOCOL,
			       "TCPStore: %s while an earlier request waits "
			       "for its reply",
			       torch_op_name(r->op));
	if (t->owed.len)
		torch_session_reply_ready(t, r->op == TORCH_QUEUE_POP
						     ? r->text[0]
						     : SLICE("", 0));
	return handlers[r->op](t, r, e);
}

static int torch_session_find_generation(struct torch_session *t,
					 struct slice in, struct err *e)
{
	if (t->generation == TORCH_UNKNOWN)
		t->generation = torch_sniff(in);
	if (t->generation == TORCH_NOT)
		return err_set(e, ERR_PROTOCOL, "this is not PyTorch's TCPStore"
			       " protocol");
	if (t->generation == TORCH_MAGICAL)
		return err_set(
			e, ERR_PROTOCOL,
			"TCPStore: the client's PyTorch is between 2.0 and "
			"2.2; these versions' protocol is not supported");
	return 0;
}

long torch_session_take(struct torch_session *t, struct slice in,
			struct err *e)
{
	struct torch_request r;
	long n = 0, taken = 0;
	int rc = torch_session_find_generation(t, in, e);

	while (rc == 0 && t->generation != TORCH_UNKNOWN && in.len) {
		n = torch_cut(in, t->generation, &t->cursor, &r, e);
		if (n <= 0)
			break;
		rc = torch_session_handle_request(t, &r, e);
		if (rc == 0 && t->changed && writes[r.op])
			t->changed(t, SLICE(in.data, (size_t)n));
		in.data += n;
		in.len -= (size_t)n;
		taken += n;
	}
	if (rc == 0 && n < 0)
		rc = (int)n;
	return rc < 0 ? rc : taken;
}

/* Replies during replay; discarded. */
static struct buf nobody = BUF_INIT(TORCH_REQUEST_MAX);

static struct buf *torch_session_discard(struct torch_session *t)
{
	return &nobody;
}

int torch_session_replay(struct store *store, enum torch_generation g,
			 struct slice request, struct err *e)
{
	struct torch_session t;
	long n;

	torch_session_init(&t, store, torch_session_discard);
	t.generation = g;
	n = torch_session_take(&t, request, e);
	torch_session_release(&t);
	buf_release(&nobody);
	if (n >= 0 && (size_t)n != request.len)
		n = err_set(e, ERR_PROTOCOL, "TCPStore: an incomplete request");
	return n < 0 ? (int)n : 0;
}

size_t torch_session_wants(const struct torch_session *t, struct slice in)
{
	return torch_wants(in, &t->cursor);
}
