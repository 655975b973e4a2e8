/* etcd.c: chooses the member to ask, retries at others, logs in, watches. */
#include "etcd/etcd.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/sock.h"

enum {
	ATTEMPT_MS = 3000, /* for one member to answer, at most */
	ATTEMPT_MIN_MS = 250,
	CONNECT_MS = 1000,
	BACKOFF_MIN_MS = 20,
	BACKOFF_MAX_MS = 1000,
	BODY_MAX = 8 << 20,
	URL_MAX = SOCK_TEXT_MAX + 64,
	WHERE_MAX = 1024,
	TOKEN_MAX = 4096,
};

#define LOGIN "/v3/auth/authenticate"

struct etcd {
	uv_loop_t *loop;
	struct http *http;
	char *endpoints[ETCD_ENDPOINTS_MAX]; /* "http://h1:2379" */
	size_t nendpoints, current;          /* the member to ask first */
	char where[WHERE_MAX];
	char *cacert, *cert, *key, *user, *password;
	char *token; /* from a login; NULL: none yet */
	int answered; /* some member has answered a request */
	struct etcd_call *calls;
	struct etcd_watch *watches;
};

/* One request, at one member after another. */
struct etcd_call {
	struct etcd *etcd;
	struct etcd_call *next, **pprev;
	const char *path;
	struct buf body;
	uint64_t until; /* loop time */
	uint64_t backoff_ms;
	struct http_call *http; /* running; NULL: the timer waits */
	uv_timer_t timer;
	int over;    /* done was called, or must not be called */
	int logging_in; /* http is a login, not the request */
	size_t refusals; /* consecutive members that refused to talk to us */
	size_t member; /* the one asked last */
	etcd_done *done;
	void *owner;
};

struct etcd_watch {
	struct etcd *etcd;
	struct etcd_watch *next, **pprev;
	struct buf body;
	struct http_call *http;
	uv_timer_t timer;
	uint64_t backoff_ms;
	size_t member;
	int over;
	void (*changed)(void *owner);
	void *owner;
};

static void etcd_call_attempt(struct etcd_call *k);
static void etcd_watch_retry(struct etcd_watch *w);

/* ---- members ---- */

/* Moves on to the next member, unless another call has done so. */
static void etcd_next_member(struct etcd *c, size_t member)
{
	if (c->current == member)
		c->current = (member + 1) % c->nendpoints;
}

static uint64_t etcd_next_backoff(uint64_t *ms)
{
	uint64_t was = *ms;

	*ms = was * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : was * 2;
	return was;
}

/* ---- a call ---- */

static void etcd_on_call_closed(uv_handle_t *t)
{
	struct etcd_call *k = t->data;

	buf_release(&k->body);
	free(k);
}

static void etcd_call_end(struct etcd_call *k)
{
	if (k->over)
		return;
	k->over = 1;
	*k->pprev = k->next;
	if (k->next)
		k->next->pprev = k->pprev;
	if (k->http)
		http_cancel(k->http);
	uv_close((uv_handle_t *)&k->timer, etcd_on_call_closed);
}

void etcd_cancel(struct etcd_call *k)
{
	etcd_call_end(k);
}

static void etcd_call_fail(struct etcd_call *k, const struct err *why)
{
	etcd_done *done = k->done;
	void *owner = k->owner;

	etcd_call_end(k);
	done(owner, NULL, why);
}

static void etcd_on_backoff(uv_timer_t *t)
{
	etcd_call_attempt(t->data);
}

/* That member failed; tries another if there is time. */
static void etcd_try_next(struct etcd_call *k, const struct err *why)
{
	uint64_t now = uv_now(k->etcd->loop), wait;
	struct err e = ERR_INIT;
	int hopeless;

	etcd_next_member(k->etcd, k->member);
	log_debug("etcd: %s", why->text);
	wait = etcd_next_backoff(&k->backoff_ms);
	k->refusals = why->code == ERR_REFUSED ? k->refusals + 1 : 0;
	/* if a member has answered before, it may just be restarting */
	hopeless = !k->etcd->answered &&
		   k->refusals >= k->etcd->nendpoints;
	if (hopeless || now + wait >= k->until) {
		err_set(&e, hopeless ? ERR_REFUSED : ERR_TIMEOUT, "no member "
			"of etcd (%s) answers: %.700s%s", k->etcd->where,
			why->text, why->code == ERR_REFUSED ? "" :
			"; is it up, and is this its client port?");
		etcd_call_fail(k, &e);
		return;
	}
	uv_timer_start(&k->timer, etcd_on_backoff, wait, 0);
}

static int etcd_is_for_other_member(long status, const struct etcd_reply *r)
{
	return status >= 500 || r->code == ETCD_UNAVAILABLE;
}

/* 1 for a wrong user name or password, whose gRPC code is that of any bad
 * argument. */
static int etcd_is_about_user(const struct etcd_reply *r)
{
	return slice_has(r->error, "user name");
}

/* Writes the error, with etcd's message. */
static void etcd_describe_refusal(struct etcd_call *k,
				  const struct etcd_reply *r, struct err *e)
{
	int is_who = r->code != ETCD_UNAVAILABLE &&
		     (k->logging_in || r->code == ETCD_DENIED ||
		      r->code == ETCD_UNAUTHENTICATED || etcd_is_about_user(r));

	err_set(e, is_who ? ERR_REFUSED : ERR_REMOTE,
		"etcd at %s refused the request (%s): %.*s%s",
		k->etcd->endpoints[k->member], k->logging_in ? LOGIN : k->path,
		(int)(r->error.len > 400 ? 400 : r->error.len), r->error.data,
		is_who ? "; give the name and password of a user with this "
			 "permission in ETCDCTL_USER=name:password"
		       : "");
}

static void etcd_read_login(struct etcd_call *k, const struct etcd_reply *r)
{
	struct err e = ERR_INIT;

	free(k->etcd->token);
	k->etcd->token = r->token.len ? strndup(r->token.data, r->token.len)
				      : NULL;
	if (k->etcd->token) {
		etcd_call_attempt(k);
		return;
	}
	etcd_describe_refusal(k, r, &e);
	etcd_call_fail(k, &e);
}

static void etcd_handle_reply(struct etcd_call *k, long status,
			      const struct etcd_reply *r)
{
	struct etcd *c = k->etcd;
	etcd_done *done = k->done;
	void *owner = k->owner;
	struct err e = ERR_INIT;

	if (etcd_is_for_other_member(status, r)) {
		etcd_describe_refusal(k, r, &e);
		etcd_try_next(k, &e);
	} else if (k->logging_in) {
		etcd_read_login(k, r);
	} else if (r->code == ETCD_UNAUTHENTICATED && c->user) {
		free(c->token); /* it has expired: log in again */
		c->token = NULL;
		etcd_call_attempt(k);
	} else if (r->error.len) {
		etcd_describe_refusal(k, r, &e);
		etcd_call_end(k);
		done(owner, r, &e);
	} else {
		c->answered = 1;
		etcd_call_end(k);
		done(owner, r, &e);
	}
}

/* Parses a reply. An HTTP error without etcd's message is not from etcd, and
 * must not be taken for an answer without keys. */
static int etcd_read_reply(struct etcd_reply *r, long status, struct slice body,
			   struct err *e)
{
	int rc = etcd_reply_parse(r, body, e);

	if (rc < 0 || status < 400 || r->error.len)
		return rc;
	etcd_reply_release(r);
	return err_set(e, ERR_PROTOCOL,
		       "unexpected reply, is this an etcd endpoint? %.*s",
		       (int)(body.len > 200 ? 200 : body.len), body.data);
}

static void etcd_on_reply(void *owner, long status, struct slice body,
			  const struct err *why)
{
	struct etcd_call *k = owner;
	struct etcd_reply r;
	struct err e = ERR_INIT;

	k->http = NULL;
	if (status < 0) {
		etcd_try_next(k, why);
	} else if (etcd_read_reply(&r, status, body, &e) < 0) {
		struct err at = ERR_INIT;

		err_set(&at, e.code, "%s (HTTP %ld): %.800s",
			k->etcd->endpoints[k->member], status, e.text);
		etcd_try_next(k, &at);
	} else {
		etcd_handle_reply(k, status, &r);
		etcd_reply_release(&r);
	}
}

static const struct http_events call_events = {.on_done = etcd_on_reply};

/* The time for one attempt: a member that hangs leaves time to ask another. */
static long etcd_attempt_time(const struct etcd *c, uint64_t left)
{
	if (c->nendpoints > 1 && left > 2 * ATTEMPT_MIN_MS)
		left /= 2;
	return (long)(left < ATTEMPT_MS ? left : ATTEMPT_MS);
}

static void etcd_call_attempt(struct etcd_call *k)
{
	struct etcd *c = k->etcd;
	uint64_t now = uv_now(c->loop);
	uint64_t left = k->until > now ? k->until - now : 1;
	struct buf login = BUF_INIT(BODY_MAX);
	char url[URL_MAX];
	struct err e = ERR_INIT;

	k->logging_in = c->user && !c->token;
	k->member = c->current;
	snprintf(url, sizeof(url), "%s%s", c->endpoints[k->member],
		 k->logging_in ? LOGIN : k->path);
	if (k->logging_in)
		etcd_put_login(&login, c->user, c->password);
	const struct http_request r = {
		.url = url,
		.token = k->logging_in ? NULL : c->token,
		.body = k->logging_in ? SLICE(login.data, login.len)
				      : SLICE(k->body.data, k->body.len),
		.connect_ms = CONNECT_MS,
		.timeout_ms = etcd_attempt_time(c, left),
		.events = &call_events,
		.owner = k,
	};

	if (http_post(c->http, &r, &k->http, &e) < 0)
		etcd_try_next(k, &e);
	buf_release(&login);
}

struct etcd_call *etcd_send(struct etcd *c, const char *path,
			    struct slice body, uint64_t within_ms,
			    etcd_done *done, void *owner)
{
	struct etcd_call *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	buf_init(&k->body, BODY_MAX);
	buf_put(&k->body, body.data, body.len);
	if (k->body.failed) {
		free(k);
		return NULL;
	}
	k->etcd = c;
	k->path = path;
	k->done = done;
	k->owner = owner;
	k->backoff_ms = BACKOFF_MIN_MS;
	uv_update_time(c->loop);
	k->until = uv_now(c->loop) + within_ms;
	uv_timer_init(c->loop, &k->timer);
	k->timer.data = k;
	k->next = c->calls;
	if (k->next)
		k->next->pprev = &k->next;
	k->pprev = &c->calls;
	c->calls = k;
	etcd_call_attempt(k);
	return k;
}

/* ---- watches ---- */

/* Runs from the loop, not from libcurl's callback: the owner may send requests,
 * which libcurl refuses in its callbacks. */
static void etcd_watch_notify(uv_timer_t *t)
{
	struct etcd_watch *w = t->data;

	w->changed(w->owner);
}

static void etcd_on_watch_line(void *owner, struct slice line)
{
	struct etcd_watch *w = owner;
	struct etcd_reply r;
	struct err e = ERR_INIT;

	if (etcd_reply_parse(&r, line, &e) < 0) {
		log_debug("etcd's watch: %s", e.text);
		return;
	}
	w->backoff_ms = BACKOFF_MIN_MS;
	/* the first line says that the watch began; earlier changes are unknown
	 * to us, so it counts as a change as well */
	if (!r.error.len)
		uv_timer_start(&w->timer, etcd_watch_notify, 0, 0);
	etcd_reply_release(&r);
}

static void etcd_on_watch_end(void *owner, long status, struct slice body,
			      const struct err *why)
{
	struct etcd_watch *w = owner;

	w->http = NULL;
	log_debug("etcd's watch at %s ended: %s", w->etcd->endpoints[w->member],
		  status < 0 ? why->text : "etcd closed it");
	etcd_next_member(w->etcd, w->member);
	etcd_watch_retry(w);
}

static const struct http_events watch_events = {
	.on_line = etcd_on_watch_line, .on_done = etcd_on_watch_end,
};

static void etcd_watch_begin(uv_timer_t *t)
{
	struct etcd_watch *w = t->data;
	struct etcd *c = w->etcd;
	char url[URL_MAX];
	struct err e = ERR_INIT;

	w->member = c->current;
	snprintf(url, sizeof(url), "%s/v3/watch", c->endpoints[w->member]);
	const struct http_request r = {
		.url = url, .token = c->token,
		.body = SLICE(w->body.data, w->body.len),
		.connect_ms = CONNECT_MS, .events = &watch_events, .owner = w,
	};

	if (http_post(c->http, &r, &w->http, &e) < 0)
		etcd_watch_retry(w);
}

static void etcd_watch_retry(struct etcd_watch *w)
{
	uv_timer_start(&w->timer, etcd_watch_begin,
		       etcd_next_backoff(&w->backoff_ms), 0);
}

struct etcd_watch *etcd_watch(struct etcd *c, struct slice key,
			      struct slice end, void (*changed)(void *owner),
			      void *owner)
{
	struct etcd_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	buf_init(&w->body, BODY_MAX);
	etcd_put_watch(&w->body, key, end, 0);
	if (w->body.failed) {
		free(w);
		return NULL;
	}
	w->etcd = c;
	w->changed = changed;
	w->owner = owner;
	w->backoff_ms = BACKOFF_MIN_MS;
	uv_timer_init(c->loop, &w->timer);
	w->timer.data = w;
	w->next = c->watches;
	if (w->next)
		w->next->pprev = &w->next;
	w->pprev = &c->watches;
	c->watches = w;
	etcd_watch_begin(&w->timer);
	return w;
}

static void etcd_on_watch_closed(uv_handle_t *t)
{
	struct etcd_watch *w = t->data;

	buf_release(&w->body);
	free(w);
}

void etcd_unwatch(struct etcd_watch *w)
{
	if (w->over)
		return;
	w->over = 1;
	*w->pprev = w->next;
	if (w->next)
		w->next->pprev = w->pprev;
	if (w->http)
		http_cancel(w->http);
	uv_close((uv_handle_t *)&w->timer, etcd_on_watch_closed);
}

/* ---- begin and end ---- */

static int etcd_add_endpoint(struct etcd *c, const char *text, size_t n,
			     int https, struct err *e)
{
	char one[SOCK_TEXT_MAX], url[URL_MAX];
	struct endpoint ep;
	size_t len = strlen(c->where);

	if (n >= sizeof(one) || c->nendpoints == ETCD_ENDPOINTS_MAX)
		return err_set(e, ERR_USAGE, "'%.*s...': at most %d members of "
			       "etcd, HOST:PORT,HOST:PORT", 80, text,
			       ETCD_ENDPOINTS_MAX);
	snprintf(one, sizeof(one), "%.*s", (int)n, text);
	if (endpoint_parse(&ep, one, ETCD_PORT, e) < 0)
		return e ? e->code : ERR_USAGE;
	endpoint_text(&ep, one);
	snprintf(url, sizeof(url), "%s://%s", https ? "https" : "http", one);
	snprintf(c->where + len, sizeof(c->where) - len, "%s%s",
		 len ? ", " : "", one);
	c->endpoints[c->nendpoints] = strdup(url);
	if (!c->endpoints[c->nendpoints])
		return err_no_memory(e, "the etcd client");
	c->nendpoints++;
	return 0;
}

static int etcd_parse_endpoints(struct etcd *c, const struct etcd_options *o,
				struct err *e)
{
	const char *p = o->endpoints;
	size_t n;
	int rc = 0;

	do {
		n = strcspn(p, ",");
		rc = etcd_add_endpoint(c, p, n, o->https, e);
		p += n;
	} while (rc == 0 && *p++);
	return rc;
}

static char *etcd_copy_string(const char *text, int *failed)
{
	char *s = text ? strdup(text) : NULL;

	*failed |= text && !s;
	return s;
}

static void etcd_free(struct etcd *c)
{
	char *const strings[] = {c->cacert, c->cert, c->key, c->user,
				 c->password, c->token};

	for (size_t i = 0; i < sizeof(strings) / sizeof(*strings); i++)
		free(strings[i]);
	for (size_t i = 0; i < c->nendpoints; i++)
		free(c->endpoints[i]);
	free(c);
}

int etcd_new(struct etcd **out, uv_loop_t *loop, const struct etcd_options *o,
	     struct err *e)
{
	struct etcd *c = calloc(1, sizeof(*c));
	int failed = 0, rc;

	if (!c)
		return err_no_memory(e, "the etcd client");
	c->loop = loop;
	c->cacert = etcd_copy_string(o->tls.cacert, &failed);
	c->cert = etcd_copy_string(o->tls.cert, &failed);
	c->key = etcd_copy_string(o->tls.key, &failed);
	c->user = etcd_copy_string(o->user, &failed);
	c->password = etcd_copy_string(o->password ? o->password : "", &failed);
	rc = failed ? err_no_memory(e, "the etcd client")
		    : etcd_parse_endpoints(c, o, e);
	if (rc == 0) {
		const struct http_tls tls = {c->cacert, c->cert, c->key};

		rc = http_new(&c->http, loop, &tls, e);
	}
	if (rc < 0) {
		etcd_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

const char *etcd_where(const struct etcd *c)
{
	return c->where;
}

void etcd_close(struct etcd *c)
{
	while (c->calls)
		etcd_call_end(c->calls);
	while (c->watches)
		etcd_unwatch(c->watches);
	http_close(c->http);
	etcd_free(c);
}
