/* session.c: one handler for each request of protocol.txt section 4.2, and
 * FATE. A handler returns 0 when it has answered or parked, or an error that
 * becomes the error reply. */
#include "rendezvous/server/peer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "rendezvous/journal/journal_writer.h"
#include "rendezvous/round/wait_text.h"
#include "rendezvous/store/gather_fanout.h"

typedef int handler(struct session *, const struct wire_frame *, struct err *);

/* ---- replies ---- */

static int session_reply_empty(struct session *s, const struct wire_frame *f)
{
	wire_put_empty(conn_out(s->conn), f->type, WIRE_REPLY, f->id);
	return 0;
}

static int session_reply_int(struct session *s, const struct wire_frame *f,
			     int64_t v)
{
	struct wire_int m = {v};

	wire_put_int(conn_out(s->conn), f->type, WIRE_REPLY, f->id, &m);
	return 0;
}

static int session_reply_value(struct session *s, const struct wire_frame *f,
			       int found, struct slice value)
{
	struct wire_value m = {(uint8_t)found, value};

	wire_put_value(conn_out(s->conn), f->type, WIRE_REPLY, f->id, &m);
	return 0;
}

static void session_reply_error(struct session *s, enum wire_type type,
				uint32_t id, int code, const char *text)
{
	struct wire_error m = {code, SLICE_STR(text)};

	wire_put_error(conn_out(s->conn), type, WIRE_ERROR_REPLY, id, &m);
}

/* ---- repeated requests ---- */

/* After a change of the store: keeps the reply (its number) and records it. */
static void session_record_change(struct session *s, const struct wire_frame *f,
				  int64_t value)
{
	struct cached_reply *p = s->reply;

	journal_writer_changed(s->replies, s->id, s->rank, f);
	if (p)
		reply_cache_set(s->replies, p, s->store, f->id,
				(uint8_t)f->type, value, NULL);
}

/* Keeps and records the result of a complete barrier or gather. */
static void session_record_gather(struct session *s, struct parked *p)
{
	struct cached_reply *past = s->reply;

	if (!past)
		return;
	reply_cache_set(s->replies, past, s->store, p->id, (uint8_t)p->type, 0,
			reply_cache_is_gather((uint8_t)p->type)
				? store_hold(&p->waiter)
				: NULL);
	journal_writer_met(s->replies, past);
}

/* ---- parking ---- */

static void session_answer_parked(struct store_waiter *w);

static uint64_t session_now_ms(const struct session *s)
{
	return uv_now(s->conn->pool->loop);
}

static void session_unpark(struct parked *p)
{
	store_waiter_release(&p->waiter);
	job_fate_release(&p->fate);
	*p->pprev = p->next;
	if (p->next)
		p->next->pprev = p->pprev;
	p->session->nparked--;
	store_memory_free(p->session->store, p, sizeof(*p));
}

static int session_park(struct session *s, const struct wire_frame *f,
			uint32_t timeout_ms, struct parked **out_p,
			struct err *e)
{
	struct parked *p;

	if (s->nparked == SESSION_PARKED_MAX)
		return err_set(e, ERR_REFUSED,
			       "rank %u already has %d waiting requests on one "
			       "connection, the maximum",
			       s->rank, SESSION_PARKED_MAX);
	p = store_memory_new(s->store, sizeof(*p), e);
	if (!p)
		return err_negative(e->code);
	p->waiter.owner = p->fate.owner = p;
	p->waiter.answer = session_answer_parked;
	p->session = s;
	p->type = f->type;
	p->id = f->id;
	p->waiter.rank = s->rank;
	p->waited.since = session_now_ms(s);
	p->due = timeout_ms == WIRE_NO_TIMEOUT ? CONN_NEVER :
		 p->waited.since + timeout_ms;
	p->next = s->parked;
	if (p->next)
		p->next->pprev = &p->next;
	p->pprev = &s->parked;
	s->parked = p;
	s->nparked++;
	*out_p = p;
	return 0;
}

static void session_reply_timeout(struct parked *p)
{
	uint64_t waited = session_now_ms(p->session) - p->waited.since;
	struct wait_text a = {.hash = 0};
	struct err e = ERR_INIT;

	wait_text_init(&a);
	p->session->explain(p, &a);
	wait_text_timed_out(&a, waited, &e);
	wait_text_release(&a);
	session_reply_error(p->session, p->type, p->id, e.code, e.text);
	session_unpark(p);
}

/* After a call that may have parked p: handles an error or a deadline of 0. */
static int session_end_park(int rc, struct parked *p)
{
	struct session *s = p->session;

	if (rc < 0) {
		session_unpark(p);
		return rc;
	}
	if (p->waiter.state == WAITER_WOKEN || p->due == CONN_NEVER)
		return 0;
	if (p->due <= p->waited.since)
		session_reply_timeout(p);
	else if (p->due < s->conn->user_due)
		conn_due(s->conn, p->due);
	return 0;
}

void session_on_due(struct session *s)
{
	uint64_t now = session_now_ms(s), due = CONN_NEVER;
	struct parked *p, *next;

	for (p = s->parked; p; p = next) {
		next = p->next;
		if (p->due <= now && p->type == WIRE_FATE && s->fate_due)
			p->due = s->fate_due(p);
		if (p->due <= now && p->waiter.state != WAITER_WOKEN)
			session_reply_timeout(p);
		else if (p->due < due)
			due = p->due;
	}
	conn_due(s->conn, due);
}

void session_abort(struct session *s, int code, const char *text)
{
	for (struct parked *p; (p = s->parked); assert(s->parked != p)) {
		session_reply_error(s, p->type, p->id, code, text);
		session_unpark(p);
	}
}

void session_release(struct session *s)
{
	for (struct parked *p; (p = s->parked); assert(s->parked != p))
		session_unpark(p);
}

/* ---- lists ---- */

/* Reads count items of n strings each into keys (and values, if n is 2). The
 * arrays are the caller's to free. */
static int session_read_list(const struct wire_frame *f, struct wire_items list,
			     struct slice **keys, struct slice **values,
			     struct err *e)
{
	struct reader r;
	int wrong = 0;

	*keys = malloc((list.count + 1) * sizeof(**keys));
	if (values)
		*values = malloc((list.count + 1) * sizeof(**values));
	if (!*keys || (values && !*values))
		return err_set(e, -ENOMEM,
			       "the rendezvous server is out of memory");
	reader_init(&r, list.bytes);
	for (uint32_t i = 0; i < list.count; i++) {
		(*keys)[i] = reader_slice(&r);
		wrong |= (*keys)[i].len > WIRE_KEY_MAX;
		if (values) {
			(*values)[i] = reader_slice(&r);
			wrong |= (*values)[i].len > WIRE_VALUE_MAX;
		}
	}
	if (wrong || r.bad || reader_left(&r))
		return err_set(e, ERR_PROTOCOL,
			       "%s: its list is malformed or exceeds a limit",
			       wire_type_name(f->type));
	return 0;
}

/* ---- requests ---- */

static int session_on_set(struct session *s, const struct wire_frame *f,
			  struct err *e)
{
	struct wire_key_value m;
	int rc = wire_get_key_value(f, &m, e);

	if (rc == 0)
		rc = store_set(s->store, m.key, m.value, e);
	if (rc < 0)
		return rc;
	session_record_change(s, f, 0);
	return session_reply_empty(s, f);
}

static int session_on_get(struct session *s, const struct wire_frame *f,
			  struct err *e)
{
	struct slice value;
	struct wire_key m;
	int rc = wire_get_key(f, &m, e);

	if (rc < 0)
		return rc;
	rc = store_get(s->store, m.key, &value);
	return session_reply_value(s, f, rc, value);
}

static int session_on_wait(struct session *s, const struct wire_frame *f,
			   struct err *e)
{
	struct slice *keys = NULL;
	struct parked *p;
	struct wire_wait m;
	int rc = wire_get_wait(f, &m, e);

	if (rc < 0)
		return rc;
	rc = session_read_list(f, m.keys, &keys, NULL, e);
	if (rc == 0 && store_has(s->store, keys, m.keys.count)) {
		rc = session_reply_empty(s, f);
	} else if (rc == 0) {
		rc = session_park(s, f, m.timeout_ms, &p, e);
		if (rc == 0)
			rc = session_end_park(store_wait(s->store, keys,
							 m.keys.count,
							 &p->waiter, e), p);
	}
	free(keys);
	return rc;
}

static int session_on_add(struct session *s, const struct wire_frame *f,
			  struct err *e)
{
	struct wire_add m;
	int64_t sum;
	int rc = wire_get_add(f, &m, e);

	if (rc == 0)
		rc = store_add(s->store, m.key, m.delta, &sum, e);
	if (rc)
		return rc;
	session_record_change(s, f, sum);
	return session_reply_int(s, f, sum);
}

static int session_on_compare_set(struct session *s, const struct wire_frame *f,
				  struct err *e)
{
	struct wire_compare_set m;
	struct slice value;
	int rc = wire_get_compare_set(f, &m, e);

	if (rc == 0)
		rc = store_compare_set(s->store, m.key, m.expected, m.desired,
				       e);
	if (rc < 0)
		return rc;
	if (rc)
		session_record_change(s, f, 0);
	rc = store_get(s->store, m.key, &value);
	return session_reply_value(s, f, rc, value);
}

static int session_on_append(struct session *s, const struct wire_frame *f,
			     struct err *e)
{
	struct wire_key_value m;
	int64_t len = wire_get_key_value(f, &m, e);

	if (len == 0)
		len = store_append(s->store, m.key, m.value, e);
	if (len < 0)
		return (int)len;
	session_record_change(s, f, len);
	return session_reply_int(s, f, len);
}

static int session_on_delete(struct session *s, const struct wire_frame *f,
			     struct err *e)
{
	struct wire_key m;
	int rc = wire_get_key(f, &m, e);

	if (rc < 0)
		return rc;
	rc = store_delete(s->store, m.key);
	if (rc)
		session_record_change(s, f, rc);
	return session_reply_int(s, f, rc);
}

static int session_reply_values(struct session *s, const struct wire_frame *f,
				const struct slice *keys, uint32_t n,
				struct err *e)
{
	struct slice value;
	size_t mark, size = 4;

	for (uint32_t i = 0; i < n; i++) {
		store_get(s->store, keys[i], &value);
		size += 5 + value.len;
	}
	if (size > WIRE_BODY_MAX)
		return err_set(
			e, ERR_ARGUMENT,
			"the values of these %u keys have %zu bytes, more than "
			"a reply can hold: ask for fewer at a time",
			n, size);
	mark = wire_begin(conn_out(s->conn), f->type, WIRE_REPLY, f->id);
	buf_put_u32(conn_out(s->conn), n);
	for (uint32_t i = 0; i < n; i++) {
		buf_put_u8(conn_out(s->conn),
			   (uint8_t)store_get(s->store, keys[i], &value));
		buf_put_slice(conn_out(s->conn), value);
	}
	wire_end(conn_out(s->conn), mark);
	return 0;
}

static int session_on_multi_get(struct session *s, const struct wire_frame *f,
				struct err *e)
{
	struct slice *keys = NULL;
	struct wire_list m;
	int rc = wire_get_list(f, &m, e);

	if (rc < 0)
		return rc;
	rc = session_read_list(f, m.items, &keys, NULL, e);
	if (rc == 0)
		rc = session_reply_values(s, f, keys, m.items.count, e);
	free(keys);
	return rc;
}

static int session_on_multi_set(struct session *s, const struct wire_frame *f,
				struct err *e)
{
	struct slice *keys = NULL, *values = NULL;
	struct wire_list m;
	int rc = wire_get_list(f, &m, e);

	if (rc < 0)
		return rc;
	rc = session_read_list(f, m.items, &keys, &values, e);
	if (rc == 0)
		rc = store_multi_set(s->store, keys, values, m.items.count, e);
	free(keys);
	free(values);
	if (rc < 0)
		return rc;
	session_record_change(s, f, 0);
	return session_reply_empty(s, f);
}

static int session_on_barrier(struct session *s, const struct wire_frame *f,
			      struct err *e)
{
	struct wire_barrier m;
	struct parked *p;
	int rc = wire_get_barrier(f, &m, e);

	if (rc == 0)
		rc = session_park(s, f, m.timeout_ms, &p, e);
	if (rc)
		return rc;
	return session_end_park(
		store_barrier(s->store, m.key, m.size, &p->waiter, e), p);
}

static int session_on_gather(struct session *s, const struct wire_frame *f,
			     struct err *e)
{
	struct wire_gather m;
	struct parked *p;
	int rc = wire_get_gather(f, &m, e);

	if (rc == 0)
		rc = session_park(s, f, m.timeout_ms, &p, e);
	if (rc)
		return rc;
	rc = store_gather(s->store, m.key, m.size, s->rank, m.value,
			  &p->waiter, e);
	return session_end_park(rc, p);
}

static int session_on_share(struct session *s, const struct wire_frame *f,
			    struct err *e)
{
	struct wire_share m;
	struct parked *p;
	int rc = wire_get_share(f, &m, e);

	if (rc == 0)
		rc = session_park(s, f, m.timeout_ms, &p, e);
	if (rc)
		return rc;
	rc = gather_fanout_join(s->store, &m, s->rank, &p->waiter, e);
	return session_end_park(rc, p);
}

static int session_on_shared_list(struct session *s, const struct wire_frame *f,
				  struct err *e)
{
	const struct cached_reply *p = s->reply;

	if (!p || p->type != WIRE_SHARE)
		return err_set(e, ERR_ARGUMENT,
			       "rank %u asks for the list of a SHARE, but its "
			       "last request was not a SHARE", s->rank);
	gather_fanout_put_list(conn_out(s->conn), f->type, f->id, p->met);
	return 0;
}

static int session_on_fate(struct session *s, const struct wire_frame *f,
			   struct err *e)
{
	const char *text;
	struct wire_fate m;
	struct parked *p;
	int rc = wire_get_fate(f, &m, e);

	if (rc == 0)
		rc = session_park(s, f, m.timeout_ms, &p, e);
	if (rc)
		return rc;
	p->rank = m.rank;
	rc = job_fate(s->job, m.rank, &p->fate, &text, e);
	if (rc == 0)
		session_send_fate(&p->fate, text);
	else
		rc = session_end_park(rc, p);
	return rc;
}

static handler *const handlers[] = {
	[WIRE_SET] = session_on_set,
	[WIRE_GET] = session_on_get,
	[WIRE_WAIT] = session_on_wait,
	[WIRE_ADD] = session_on_add,
	[WIRE_COMPARE_SET] = session_on_compare_set,
	[WIRE_APPEND] = session_on_append,
	[WIRE_DELETE] = session_on_delete,
	[WIRE_MULTI_GET] = session_on_multi_get,
	[WIRE_MULTI_SET] = session_on_multi_set,
	[WIRE_BARRIER] = session_on_barrier,
	[WIRE_GATHER] = session_on_gather,
	[WIRE_SHARE] = session_on_share,
	[WIRE_SHARED_LIST] = session_on_shared_list,
	[WIRE_FATE] = session_on_fate,
};

int session_takes(enum wire_type type)
{
	return (size_t)type < sizeof(handlers) / sizeof(handlers[0]) &&
	       handlers[type];
}

/* A repeated request, whose reply was lost: sends the same reply again. */
static int session_reply_from_cache(struct session *s,
				    const struct wire_frame *f, struct err *e)
{
	const struct cached_reply *p = s->reply;
	struct wire_compare_set m;
	struct wire_share share;

	if (p->id != f->id || p->type != f->type)
		return 0;
	switch (f->type) {
	case WIRE_ADD:
	case WIRE_APPEND:
	case WIRE_DELETE:
		session_reply_int(s, f, p->value);
		return 1;
	case WIRE_COMPARE_SET: /* it stored the desired value */
		if (wire_get_compare_set(f, &m, e) < 0)
			return ERR_PROTOCOL;
		session_reply_value(s, f, 1, m.desired);
		return 1;
	case WIRE_GATHER:
		gather_fanout_put_list(conn_out(s->conn), f->type, f->id,
				       p->met);
		return 1;
	case WIRE_SHARE:
		if (wire_get_share(f, &share, e) < 0)
			return ERR_PROTOCOL;
		gather_fanout_put_shared(conn_out(s->conn), f->id, p->met,
					 gather_fanout_place(&share,
							     s->rank));
		return 1;
	default:
		session_reply_empty(s, f);
		return 1;
	}
}

int session_replay(struct session *s, const struct wire_frame *f, struct err *e)
{
	if (!session_takes(f->type))
		return err_set(e, ERR_PROTOCOL, "no request");
	return handlers[f->type](s, f, e);
}

int session_request(struct session *s, const struct wire_frame *f,
		    struct err *e)
{
	int rc = s->reply ? session_reply_from_cache(s, f, e) : 0;

	if (rc)
		return rc < 0 ? rc : 0;
	rc = handlers[f->type](s, f, e);
	if (rc >= 0 || rc == ERR_PROTOCOL)
		return rc;
	session_reply_error(s, f->type, f->id, rc, e->text);
	return 0;
}

/* ---- replies to parked requests ---- */

static void session_answer_parked(struct store_waiter *w)
{
	struct parked *p = w->owner;

	if (w->code)
		session_reply_error(p->session, p->type, p->id, w->code,
				    store_waiter_text(w));
	else if (p->type == WIRE_GATHER)
		gather_fanout_put_list(conn_out(p->session->conn), p->type,
				       p->id, w->meeting);
	else if (p->type == WIRE_SHARE)
		gather_fanout_put_shared(conn_out(p->session->conn), p->id,
					 w->meeting, w->rank);
	else
		wire_put_empty(conn_out(p->session->conn), p->type, WIRE_REPLY,
			       p->id);
	if (!w->code && p->type != WIRE_WAIT)
		session_record_gather(p->session, p);
	session_unpark(p);
}

void session_send_fate(struct job_fate *f, const char *text)
{
	struct parked *p = f->owner;
	struct wire_text m = {SLICE_STR(text)};

	wire_put_text(conn_out(p->session->conn), p->type, WIRE_REPLY, p->id,
		      &m);
	session_unpark(p);
}
