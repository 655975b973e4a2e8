/* test_election.c: a candidate never counts on its place longer than etcd
 * grants it, even if etcd replies late. The test provides the clock and
 * etcd. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/loop.h"
#include "rendezvous/election/election.h"
#include "tests/unit/run_case.h"

enum { TTL_S = 600, LEASE = 77 };

/* How far the clocks that run during sleep are ahead. */
static int64_t ahead_s;

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, t);

	if (clock == CLOCK_BOOTTIME)
		t->tv_sec += ahead_s;
	return rc;
}

/* ---- an etcd of one member, which grants every request ---- */

static uv_loop_t loop;
static uv_tcp_t listener;
static uv_timer_t guard;
static char room[1 << 16];
static int late_s;   /* seconds until KEEPALIVE is answered */
static int answered; /* KEEPALIVEs */

struct client {
	uv_tcp_t tcp;
	struct buf in;
};

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	*b = uv_buf_init(room, sizeof(room));
}

static void on_client_closed(uv_handle_t *h)
{
	struct client *c = h->data;

	buf_release(&c->in);
	free(c);
}

static const char *reply_to(const char *request)
{
	if (strstr(request, ETCD_KEEPALIVE)) {
		ahead_s += late_s;
		answered++;
		return "{\"result\":{\"ID\":\"77\",\"TTL\":\"600\"}}";
	}
	if (strstr(request, ETCD_GRANT))
		return "{\"ID\":\"77\",\"TTL\":\"600\"}";
	if (strstr(request, ETCD_TXN))
		return "{\"header\":{\"revision\":\"5\"},\"succeeded\":true}";
	if (strstr(request, ETCD_RANGE))
		return "{\"header\":{\"revision\":\"4\"}}";
	return NULL; /* a watch: nothing happens */
}

/* Whether in has the headers and a body of their length. */
static int is_whole(struct buf *in)
{
	const char *end, *length;

	buf_put_u8(in, 0);
	in->len--;
	end = strstr(in->data, "\r\n\r\n");
	length = strcasestr(in->data, "content-length:");
	return end && length &&
	       in->len >= (size_t)(end + 4 - in->data) +
				  strtoul(length + 15, NULL, 10);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct client *c = s->data;
	const char *body;
	char reply[512];
	uv_buf_t out;

	if (n < 0) {
		uv_close((uv_handle_t *)s, on_client_closed);
		return;
	}
	buf_put(&c->in, b->base, (size_t)n);
	if (!is_whole(&c->in))
		return;
	body = reply_to(c->in.data);
	buf_reset(&c->in);
	if (!body)
		return;
	out.base = reply;
	out.len = (size_t)snprintf(reply, sizeof(reply),
				   "HTTP/1.1 200 OK\r\n"
				   "Content-Type: application/json\r\n"
				   "Content-Length: %zu\r\n\r\n%s",
				   strlen(body), body);
	ck_assert_int_eq(uv_try_write(s, &out, 1), (int)out.len);
}

static void on_connection(uv_stream_t *s, int status)
{
	struct client *c = calloc(1, sizeof(*c));

	buf_init(&c->in, 1 << 20);
	ck_assert_int_eq(uv_tcp_init(&loop, &c->tcp), 0);
	c->tcp.data = c;
	ck_assert_int_eq(uv_accept(s, (uv_stream_t *)&c->tcp), 0);
	ck_assert_int_eq(
		uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read), 0);
}

/* ---- the candidate ---- */

static struct election *candidate;
static int longer, lost;

static void on_other(void *owner, const char *address)
{
}

static void on_none(void *owner)
{
}

static void on_won(void *owner, int64_t revision)
{
}

static void on_longer(void *owner)
{
	longer++;
}

static void on_lost(void *owner, const struct err *why)
{
	lost++;
}

static const struct election_events events = {
	.on_other = on_other,
	.on_none = on_none,
	.on_won = on_won,
	.on_longer = on_longer,
	.on_lost = on_lost,
};

static void on_guard(uv_timer_t *t)
{
	ck_abort_msg("nothing came of it: %d answered, %d longer, %d lost",
		     answered, longer, lost);
}

static struct etcd *open_etcd(void)
{
	struct sockaddr_in at;
	struct etcd_options o = {0};
	struct etcd *etcd;
	struct err e = ERR_INIT;
	char where[64];
	int len = sizeof(at);

	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(uv_timer_init(&loop, &guard), 0);
	ck_assert_int_eq(uv_timer_start(&guard, on_guard, 30000, 0), 0);
	ck_assert_int_eq(uv_tcp_init(&loop, &listener), 0);
	ck_assert_int_eq(uv_ip4_addr("127.0.0.1", 0, &at), 0);
	ck_assert_int_eq(uv_tcp_bind(&listener, (struct sockaddr *)&at, 0), 0);
	ck_assert_int_eq(uv_listen((uv_stream_t *)&listener, 16, on_connection),
			 0);
	ck_assert_int_eq(
		uv_tcp_getsockname(&listener, (struct sockaddr *)&at, &len), 0);
	snprintf(where, sizeof(where), "127.0.0.1:%d", ntohs(at.sin_port));
	o.endpoints = where;
	ck_assert_msg(etcd_new(&etcd, &loop, &o, &e) == 0, "%s", e.text);
	return etcd;
}

static void close_walked(uv_handle_t *h, void *arg)
{
	if (!uv_is_closing(h))
		uv_close(h, h->type == UV_TCP && h != (uv_handle_t *)&listener
				    ? on_client_closed
				    : NULL);
}

START_TEST(a_lease_counts_from_the_request_not_from_the_reply)
{
	const struct election_options o = {
		.job = "j",
		.address = "127.0.0.1:1",
		.lease = LEASE,
		.ttl_s = TTL_S,
		.within_ms = 20000,
	};
	struct etcd *etcd = open_etcd();
	struct err e = ERR_INIT;

	late_s = 100;
	ck_assert_int_eq(
		election_start(&candidate, etcd, &loop, &o, &events, NULL, &e),
		0);
	while (!longer && !lost)
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_int_eq(longer, 1);
	ck_assert_int_eq(answered, 1);
	/* the lease runs from 100 s ago: etcd keeps it for 500 s more */
	ck_assert_int_eq(election_is_sure(candidate), 1);
	ahead_s += TTL_S - late_s - 60;
	ck_assert_int_eq(election_is_sure(candidate), 1);
	/* its clock may be faster than ours: the last 30 s do not count */
	ahead_s += 29;
	ck_assert_int_eq(election_is_sure(candidate), 1);
	ahead_s += 2;
	ck_assert_int_eq(election_is_sure(candidate), 0);
	election_close(candidate);
	etcd_close(etcd);
	uv_walk(&loop, close_walked, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("candidate");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc,
		       a_lease_counts_from_the_request_not_from_the_reply);
	return run_case(tc);
}
