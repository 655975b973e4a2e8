/* admission.c: checks proofs. Asks munge in libuv's threads, because it may be
 * slow and all agents of a job connect at once. */
#include "rendezvous/admission/admission.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "base/sock.h"
#include "rendezvous/auth/credential.h"
#include "rendezvous/auth/secret.h"
#include "rendezvous/election/leadership.h"

enum { GRANT_SIZE = 2 * PROOF_SIZE };

/* ---- connections without proof ---- */

static void admission_peer_addr(const struct peer *p, struct sock_addr *a)
{
	int len = sizeof(a->ss);

	memset(a, 0, sizeof(*a));
	if (uv_tcp_getpeername(&p->conn.tcp, (struct sockaddr *)&a->ss, &len) <
	    0)
		len = 0; /* it is gone: no address family */
	a->len = (socklen_t)len;
}

static void admission_drop(struct peer *p, const char *why)
{
	log_debug("closed an unauthenticated connection: %s", why);
	admission_leave(p);
	conn_drop(&p->conn);
}

/* A number for a network that one host may own: an IPv4 address, all of
 * loopback, or an IPv6 network (the address's first half). */
static uint64_t admission_network_of_v4(uint32_t address)
{
	return ntohl(address) >> 24 == IN_LOOPBACKNET ? htonl(INADDR_LOOPBACK)
						      : address;
}

static uint64_t admission_network_of(const struct peer *p)
{
	struct in6_addr six;
	struct sock_addr a;
	uint64_t n = 0;

	admission_peer_addr(p, &a);
	if (a.ss.ss_family != AF_INET6)
		return admission_network_of_v4(
			((struct sockaddr_in *)&a.ss)->sin_addr.s_addr);
	six = ((struct sockaddr_in6 *)&a.ss)->sin6_addr;
	if (IN6_IS_ADDR_V4MAPPED(&six))
		return admission_network_of_v4(six.s6_addr32[3]);
	memcpy(&n, &six, sizeof(n));
	return n;
}

/* Counts the network's unproven connections that are not being checked, and
 * finds the oldest. */
static unsigned admission_count_network(const struct applicants *d,
					uint64_t network, struct peer **oldest)
{
	unsigned n = 0;

	*oldest = NULL;
	for (struct peer *x = d->first; x; x = x->applicant.next) {
		if (x->applicant.check || x->applicant.network != network)
			continue;
		*oldest = *oldest ? *oldest : x;
		n++;
	}
	return n;
}

/* How long the oldest may stay while another waits. */
static uint64_t admission_grace_ms(const struct applicants *d,
				   const struct peer *idle)
{
	struct peer *oldest;

	if (idle->conn.state != CONN_OPEN)
		return ADMISSION_MUTE_MS;
	return admission_count_network(d, idle->applicant.network, &oldest) >
			       ADMISSION_MAX_ADDRESS
		       ? ADMISSION_CROWD_MS
		       : ADMISSION_GRACE_MS;
}

int admission_has_room(struct server *s)
{
	struct applicants *d = &s->applicants;
	struct peer *idle = d->first;
	uint64_t ends;

	if (d->count < ADMISSION_MAX)
		return 1;
	while (idle && idle->applicant.check) /* its check is under way */
		idle = idle->applicant.next;
	ends = idle ? idle->applicant.came_ms + admission_grace_ms(d, idle) : 0;
	if (idle && uv_now(s->loop) >= ends) {
		admission_drop(idle, "newer connections take its place");
		return 1;
	}
	d->is_full = 1;
	if (idle)
		conn_due(&idle->conn, ends);
	return 0;
}

/* Drops the oldest connections if one address has too many. */
static void admission_limit_address(struct applicants *d, uint64_t network,
				    uint64_t now)
{
	struct peer *oldest;
	unsigned n = admission_count_network(d, network, &oldest);

	while (n > ADMISSION_MAX_ADDRESS &&
	       now - oldest->applicant.came_ms >= ADMISSION_GRACE_MS) {
		admission_drop(oldest, "its address has too many connections");
		n = admission_count_network(d, network, &oldest);
	}
}

void admission_on_due(struct peer *p)
{
	struct applicants *d = &p->server->applicants;

	if (!p->applicant.is_listed)
		return;
	if ((d->is_full || p->is_refused) && !p->applicant.check)
		admission_drop(p, "others wait");
	else if (d->count > ADMISSION_MAX_ADDRESS)
		admission_limit_address(d, p->applicant.network,
					uv_now(p->server->loop));
}

void admission_enter(struct peer *p)
{
	struct applicants *d = &p->server->applicants;
	struct applicant *c = &p->applicant;

	c->is_listed = 1;
	c->came_ms = uv_now(p->server->loop);
	c->network = admission_network_of(p);
	c->previous = d->last;
	*(d->last ? &d->last->applicant.next : &d->first) = p;
	d->last = p;
	d->count++;
	/* check the limit when the grace time is over, not for each of a host's
	 * workers that connect at once */
	if (d->count > ADMISSION_MAX_ADDRESS)
		conn_due(&p->conn, c->came_ms + ADMISSION_GRACE_MS);
}

static void admission_munge_check_forget(struct applicant *c);

void admission_leave(struct peer *p)
{
	struct applicants *d = &p->server->applicants;
	struct applicant *c = &p->applicant;

	if (!c->is_listed)
		return;
	c->is_listed = 0;
	*(c->previous ? &c->previous->applicant.next : &d->first) = c->next;
	*(c->next ? &c->next->applicant.previous : &d->last) = c->previous;
	d->count--;
	admission_munge_check_forget(c);
	if (d->is_full) {
		d->is_full = 0;
		d->on_room(p->server);
	}
}

void admission_on_gone(struct peer *p)
{
	const struct server *s = p->server;
	struct err e = ERR_INIT;

	if (p->applicant.check &&
	    uv_now(s->loop) - p->applicant.came_ms >= s->pool.hello_ms) {
		credential_is_late(&e);
		admission_log_strange(p, e.text);
	}
	admission_leave(p);
}

void admission_log_strange(struct peer *p, const char *why)
{
	char address[SOCK_TEXT_MAX], who[256] = "", others[64] = "";
	struct server *s = p->server;
	struct sock_addr a;
	unsigned more = 0;

	admission_peer_addr(p, &a);
	sock_addr_host(&a, address);
	if (!log_limiter_check(&s->limiter, address, uv_now(s->loop), &more))
		return;
	if (more)
		snprintf(others, sizeof(others), " (and %u more before)", more);
	if (p->hosted && p->role == WIRE_WORKER)
		snprintf(who, sizeof(who), " (rank %u, job '%.100s')",
			 p->session.rank, job_id(p->hosted->job));
	else if (p->job_id)
		snprintf(who, sizeof(who), " (host %.100s, job '%.100s')",
			 p->host ? p->host : "", p->job_id);
	log_warn("%s%s: %s%s", sock_addr_text(&a, address), who, why, others);
}

/* ---- the greeting ---- */

void admission_greet(struct peer *p)
{
	struct buf *out = conn_out(&p->conn);
	unsigned char nonce[WIRE_NONCE_SIZE], which[WIRE_WHICH_SIZE];
	const char *job = p->server->only_job;
	struct err e = ERR_INIT;
	size_t at = out->len;

	if (random_bytes(nonce, sizeof(nonce), &e) < 0) {
		log_error("no greeting: %s", e.text);
		admission_drop(p, e.text);
		return;
	}
	if (job)
		proof_which(which, nonce, SLICE_STR(job));
	wire_put_greeting(out, p->server->auth.methods, nonce,
			  job ? which : NULL);
	if (!out->failed)
		memcpy(p->applicant.greeting, out->data + at,
		       WIRE_GREETING_SIZE);
}

/* ---- refused clients ---- */

/* Copies what a client claims to be: unproven, so it is shortened and made
 * harmless to terminals. */
static void admission_put_claim(char *out, size_t size, struct slice text)
{
	size_t n = 0;

	for (size_t i = 0; i < text.len && n + 1 < size && n < 60; i++)
		out[n++] = text.data[i] >= 0x20 && text.data[i] < 0x7f
				   ? text.data[i]
				   : '?';
	out[n] = '\0';
}

static void admission_log_refusal(struct peer *p,
				  const struct wire_hello *hello,
				  const char *why)
{
	char host[64], job[64], address[SOCK_TEXT_MAX], others[64] = "";
	struct server *s = p->server;
	struct sock_addr a;
	unsigned more = 0;

	admission_peer_addr(p, &a);
	sock_addr_host(&a, address);
	if (log_limiter_check(&s->limiter, address, uv_now(s->loop), &more)) {
		admission_put_claim(host, sizeof(host), hello->host);
		admission_put_claim(job, sizeof(job), hello->job);
		if (more)
			snprintf(others, sizeof(others),
				 " (%u more refused since the last message)",
				 more);
		log_warn("refused %s (claims host %s, job '%s'): %s%s",
			 sock_addr_text(&a, address), host, job, why, others);
	}
	admission_drop(p, why);
}

/* ---- WELCOME ---- */

static int admission_job_key(const struct peer *p,
			     const struct wire_hello *hello, struct proof *key,
			     struct err *e)
{
	const struct auth *a = &p->server->auth;
	const char *tokens = p->server->token_dir;
	struct proof own;
	int rc = tokens ? secret_of_tenant(tokens, hello->job, &own, e) : 0;

	if (rc < 0)
		return rc;
	if (rc == 0 && a->is_key)
		*key = a->secret;
	else
		proof_job_key(key, rc ? &own : &a->secret, hello->job);
	proof_wipe(&own, sizeof(own));
	return 0;
}

static struct proof_talk admission_talk(const struct peer *p,
					const struct wire_frame *f,
					const struct wire_hello *hello)
{
	return (struct proof_talk){
		SLICE(p->applicant.greeting, WIRE_GREETING_SIZE),
		wire_signed(f->body, hello->proof)};
}

static void admission_encrypt(struct peer *p, const struct proof_talk *t,
			      const struct proof *key,
			      struct slice client_proof, struct slice welcome)
{
	struct proof of_client, of_server;
	struct cipher keys;

	proof_stream_keys(&of_client, &of_server, key, t, client_proof,
			  welcome);
	cipher_start(&keys, CIPHER_SERVER, &of_client, &of_server);
	conn_encrypt(&p->conn, &keys);
	cipher_wipe(&keys);
	proof_wipe(&of_client, sizeof(of_client));
	proof_wipe(&of_server, sizeof(of_server));
}

/* Encrypts everything after WELCOME if the client is accepted and has proved
 * itself. */
static void admission_put_welcome(struct peer *peer, const struct wire_frame *f,
				  const struct wire_hello *hello,
				  const struct wire_welcome *w,
				  const struct proof *key)
{
	const struct proof_talk t = admission_talk(peer, f, hello);
	struct buf *out = conn_out(&peer->conn);
	struct wire_welcome welcome = *w;
	size_t mark = out->len;
	struct slice body;
	struct proof p = {{0}};

	if (hello->method != WIRE_NO_PROOF)
		welcome.proof = SLICE((const char *)p.bytes, PROOF_SIZE);
	wire_put_welcome(out, WIRE_HELLO, WIRE_REPLY, f->id, &welcome);
	if (out->failed || !welcome.proof.len)
		return;
	/* the bytes that the proof covers are there now */
	body = SLICE(out->data + mark + WIRE_HEADER_SIZE,
		     out->len - mark - WIRE_HEADER_SIZE);
	body = wire_signed(body, welcome.proof);
	proof_of_server(&p, key, &t, hello->proof, body);
	memcpy(out->data + out->len - PROOF_SIZE, p.bytes, PROOF_SIZE);
	if (w->code == 0)
		admission_encrypt(peer, &t, key, hello->proof, body);
}

/* The client's key was granted before this server learned the job's key
 * (elected_server.c). */
static int admission_is_outdated(const struct peer *p,
				 const struct wire_hello *hello,
				 const struct proof *granted)
{
	struct proof key;
	int same;

	if (!p->server->leadership || hello->method != WIRE_BY_MUNGE ||
	    leadership_check(p->server->leadership, NULL) < 0)
		return 0;
	same = admission_job_key(p, hello, &key, NULL) == 0 &&
	       proof_same(&key,
			  SLICE((const char *)granted->bytes, PROOF_SIZE));
	proof_wipe(&key, sizeof(key));
	return !same;
}

int admission_admit(struct peer *p, const struct wire_frame *f,
		    const struct wire_hello *hello, const char *grant,
		    const struct proof *key, struct err *e)
{
	struct wire_welcome w = {.grant = SLICE_STR(grant)};
	int rc = admission_is_outdated(p, hello, key)
			 ? err_set(e, ERR_NOT_YET,
				   "the rendezvous server at %s has only just "
				   "received the job's key: try again",
				   p->server->endpoint)
			 : request_admit(p, hello, e);

	if (rc == ERR_PROTOCOL)
		return rc;
	w.code = rc;
	w.text = SLICE_STR(rc < 0 ? e->text : "");
	admission_put_welcome(p, f, hello, &w, key);
	admission_leave(p);
	if (rc < 0)
		conn_finish(&p->conn);
	return 0;
}

static int admission_admit_or_hold(struct peer *p, const struct wire_frame *f,
				   const struct wire_hello *hello,
				   const char *grant, const struct proof *key,
				   struct err *e)
{
	if (p->server->leadership && standby_hold(p, f, grant, key))
		return 0;
	return admission_admit(p, f, hello, grant, key, e);
}

/* ---- munge ---- */

struct munge_check {
	uv_work_t work;
	struct peer *peer; /* NULL: it is gone */
	struct buf body; /* its HELLO's */
	struct wire_frame frame;
	struct wire_hello hello;
	struct proof want, key;
	struct proof grant_hash;
	char grant[CREDENTIAL_MAX];
	int rc;
	struct err why;
};

static void admission_munge_check_free(struct munge_check *x)
{
	buf_release(&x->body);
	proof_wipe(x, sizeof(*x));
	free(x);
}

static void admission_munge_check_forget(struct applicant *c)
{
	if (c->check)
		c->check->peer = NULL;
	c->check = NULL;
}

static int admission_make_grant(struct munge_check *x, uid_t uid)
{
	char payload[GRANT_SIZE];
	int rc;

	memcpy(payload, x->grant_hash.bytes, PROOF_SIZE);
	memcpy(payload + PROOF_SIZE, x->key.bytes, PROOF_SIZE);
	rc = credential_make(x->grant, SLICE(payload, GRANT_SIZE), uid,
			     &x->why);
	proof_wipe(payload, sizeof(payload));
	return rc;
}

/* Runs in a thread: touches only x. */
static void admission_munge_check_run(uv_work_t *work)
{
	struct munge_check *x = work->data;
	unsigned char payload[128];
	uid_t uid = 0;
	int n = credential_read(x->hello.proof, &uid, payload, &x->why);

	if (n < 0)
		x->rc = n;
	else if (uid != geteuid())
		x->rc = err_set(&x->why, ERR_PROOF,
				"munge identifies it as user %u, but this "
				"server runs as user %u",
				(unsigned)uid, (unsigned)geteuid());
	else if (!proof_same(&x->want, SLICE((char *)payload, (size_t)n)))
		x->rc = err_set(
			&x->why, ERR_PROOF,
			"it sent the munge credential of another connection");
	else
		x->rc = admission_make_grant(x, uid);
}

static void admission_on_munge_checked(uv_work_t *work, int status)
{
	struct munge_check *x = work->data;
	struct peer *p = x->peer;
	struct err e = ERR_INIT;

	if (p) {
		p->applicant.check = NULL;
		if (x->rc < 0)
			admission_log_refusal(p, &x->hello, x->why.text);
		else if (admission_admit_or_hold(p, &x->frame, &x->hello,
						 x->grant, &x->key, &e) < 0)
			admission_drop(p, e.text);
		conn_flush_all(&p->server->pool);
	}
	admission_munge_check_free(x);
}

static int admission_check_munge(struct peer *p, const struct wire_frame *f,
				 struct err *e)
{
	struct munge_check *x = calloc(1, sizeof(*x));
	struct proof_talk t;
	int rc;

	if (!x)
		return err_no_memory(e, "checking a munge credential");
	buf_init(&x->body, WIRE_HELLO_MAX);
	buf_put(&x->body, f->body.data, f->body.len);
	x->frame = *f;
	x->frame.body = SLICE(x->body.data, x->body.len);
	if (x->body.failed || wire_get_hello(&x->frame, &x->hello, e) < 0) {
		admission_munge_check_free(x);
		return err_no_memory(e, "checking a munge credential");
	}
	t = admission_talk(p, &x->frame, &x->hello);
	proof_hash(&x->want, &t);
	proof_hash_grant(&x->grant_hash, &t, x->hello.proof);
	if (admission_job_key(p, &x->hello, &x->key, &x->why) < 0) {
		admission_log_refusal(p, &x->hello, x->why.text);
		admission_munge_check_free(x);
		return 0;
	}
	x->peer = p;
	x->work.data = x;
	rc = loop_check(uv_queue_work(p->server->loop, &x->work,
				      admission_munge_check_run,
				      admission_on_munge_checked),
			e, "cannot start a query to munge");
	if (rc < 0)
		admission_munge_check_free(x);
	else
		p->applicant.check = x;
	return rc;
}

/* ---- HELLO ---- */

static int admission_check_secret(struct peer *p, const struct wire_frame *f,
				  const struct wire_hello *hello, struct err *e)
{
	const struct proof_talk t = admission_talk(p, f, hello);
	struct proof key, want;
	struct err why = ERR_INIT;
	int rc = 0;

	if (admission_job_key(p, hello, &key, &why) < 0) {
		admission_log_refusal(p, hello, why.text);
		return 0;
	}
	proof_of_client(&want, &key, &t);
	if (proof_same(&want, hello->proof))
		rc = admission_admit_or_hold(p, f, hello, "", &key, e);
	else
		admission_log_refusal(p, hello,
				      "it does not have this job's secret");
	proof_wipe(&key, sizeof(key));
	proof_wipe(&want, sizeof(want));
	return rc;
}

int admission_hello(struct peer *p, const struct wire_frame *f, struct err *e)
{
	struct wire_hello hello;
	int rc = wire_get_hello(f, &hello, e);

	if (rc < 0)
		return rc;
	if (p->applicant.check || p->applicant.waits)
		return err_set(e, ERR_PROTOCOL, "HELLO again");
	if (hello.nonce.len != WIRE_NONCE_SIZE)
		return err_set(e, ERR_PROTOCOL,
			       "HELLO: the nonce has %zu bytes",
			       hello.nonce.len);
	if (!(p->server->auth.methods & hello.method)) {
		admission_log_refusal(
			p, &hello,
			hello.method == WIRE_NO_PROOF
				? "it does not authenticate (--auth none)"
				: "it uses an authentication method that this "
				  "server does not accept");
		return 0;
	}
	switch (hello.method) {
	case WIRE_NO_PROOF:
		return admission_admit_or_hold(p, f, &hello, "", NULL, e);
	case WIRE_BY_SECRET:
		return admission_check_secret(p, f, &hello, e);
	case WIRE_BY_MUNGE:
		return admission_check_munge(p, f, e);
	default:
		return err_set(e, ERR_PROTOCOL,
			       "HELLO: method %u does not "
			       "exist",
			       hello.method);
	}
}
