/* client_handshake.c: one connection of a client, up to its authentication. */
#include "rendezvous/auth/client_handshake.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"

enum { GRANT_SIZE = 2 * PROOF_SIZE };

static struct slice handshake_job(const struct handshake *h)
{
	struct reader r;

	reader_init(&r, SLICE(h->hello.data, h->hello.len));
	reader_u8(&r); /* its role */
	return reader_slice(&r);
}

static struct proof_talk handshake_talk(const struct handshake *h)
{
	return (struct proof_talk){
		SLICE(h->greeting, sizeof(h->greeting)),
		SLICE(h->hello.data, h->hello.len)};
}

/* HELLO's body as far as it is known before the greeting: everything but the
 * proof. */
static int handshake_put_hello(struct handshake *h,
			       const struct wire_hello *hello, struct err *e)
{
	unsigned char nonce[WIRE_NONCE_SIZE];
	struct wire_hello full = *hello;
	struct buf *b = &h->hello;
	int rc = random_bytes(nonce, sizeof(nonce), e);

	if (rc >= 0 && !full.session)
		rc = random_bytes(&full.session, sizeof(full.session), e);
	if (rc < 0)
		return rc;
	full.method = (uint8_t)h->auth->methods;
	full.nonce = SLICE((const char *)nonce, sizeof(nonce));
	full.proof = SLICE("", 0);
	wire_put_hello(b, WIRE_HELLO, WIRE_REQUEST, 1, &full);
	if (b->failed)
		return err_set(e, b->failed, "%s",
			       b->failed == -ENOMEM
				       ? "out of memory for the HELLO"
				       : "the job or host name is too long");
	buf_consume(b, WIRE_HEADER_SIZE);
	b->len -= 4; /* the empty proof */
	return 0;
}

int handshake_init(struct handshake *h, const struct auth *auth,
		   const struct wire_hello *hello, struct err *e)
{
	*h = (struct handshake){.auth = auth};
	buf_init(&h->hello, WIRE_HEADER_SIZE + WIRE_HELLO_MAX);
	if (auth->methods == WIRE_BY_SECRET) {
		if (auth->is_key)
			h->key = auth->secret;
		else
			proof_job_key(&h->key, &auth->secret, hello->job);
	}
	return handshake_put_hello(h, hello, e);
}

int handshake_anew(struct handshake *h, struct err *e)
{
	struct buf *b = &h->hello;
	size_t nonce = b->len - WIRE_NONCE_SIZE; /* the last field */
	int rc = random_bytes(b->data + nonce, WIRE_NONCE_SIZE, e);

	cipher_wipe(&h->cipher);
	h->answered = 0;
	return rc < 0 ? rc : 0;
}

void handshake_release(struct handshake *h)
{
	buf_release(&h->hello);
	proof_wipe(&h->key, sizeof(h->key));
	proof_wipe(&h->question, sizeof(h->question));
	cipher_wipe(&h->cipher);
}

/* ---- the client's proof ---- */

static int handshake_is_other_job(const struct handshake *h, unsigned theirs,
				  struct err *e)
{
	unsigned ours = h->auth->methods;

	if (theirs & WIRE_NO_PROOF)
		return err_set(e, ERR_PROOF,
			       "it runs without authentication (--auth none), "
			       "which this program refuses: start both with "
			       "--auth none, or start the server without it");
	if (ours & WIRE_NO_PROOF)
		return err_set(e, ERR_PROOF,
			       "it requires authentication, but it is off here "
			       "(--auth none, or no DDP_JOB_KEY): start all "
			       "nodes the same way");
	if ((theirs & WIRE_BY_MUNGE) && h->auth->without_munge)
		return err_set(e, ERR_PROOF,
			       "it authenticates with munge, but this node "
			       "with %s: make munge work here, or give all "
			       "nodes the same --token-file FILE",
			       h->auth->from);
	if (theirs & WIRE_BY_MUNGE)
		return err_set(e, ERR_PROOF,
			       "it authenticates with munge, which this node "
			       "does not use (%s): is munged down here? Start "
			       "it (systemctl start munge), or give all nodes "
			       "the same --token-file FILE",
			       h->auth->from);
	return err_set(
		e, ERR_PROOF,
		"it authenticates with a secret (a token or the user's key "
		"file), but this node with munge: is munged down or "
		"libmunge.so.2 missing on the server's host? Start or install "
		"it there, or give all nodes the same --token-file FILE");
}

/* A munge server does not know the user's secret, but it knows a secret that
 * the job's starter passed to us. */
static int handshake_check_method(const struct handshake *h, unsigned theirs,
				  struct err *e)
{
	if ((theirs & WIRE_BY_MUNGE) && h->auth->methods == WIRE_BY_SECRET &&
	    !h->auth->handed)
		return handshake_is_other_job(h, theirs, e);
	return theirs & h->auth->methods ? 0
					 : handshake_is_other_job(h, theirs, e);
}

/* Asks h->question unless it is answered: 0 or munge's error; -EAGAIN: the
 * owner must ask. */
static int handshake_ask_credential(struct handshake *h, struct err *e)
{
	struct credential_question *q = &h->question;

	if (!h->answered && h->defers)
		return -EAGAIN;
	if (!h->answered)
		credential_ask(q);
	h->answered = 0;
	return q->rc < 0 ? err_set(e, q->rc, "%s", q->why.text) : 0;
}

static int handshake_make_proof(struct handshake *h, struct err *e)
{
	const struct proof_talk t = handshake_talk(h);
	struct credential_question *q = &h->question;
	struct proof p;
	int rc;

	h->proof_size = 0;
	if (h->auth->methods == WIRE_NO_PROOF)
		return 0;
	if (h->auth->methods == WIRE_BY_SECRET) {
		proof_of_client(&p, &h->key, &t);
		memcpy(h->proof, p.bytes, PROOF_SIZE);
		h->proof_size = PROOF_SIZE;
		return 0;
	}
	proof_hash(&p, &t);
	/* contains no secret, so anyone may decode it: a server of another user
	 * can then report whose it is */
	if (!h->answered)
		credential_to_make(q, SLICE((const char *)p.bytes, PROOF_SIZE),
				   CREDENTIAL_FOR_ALL);
	rc = handshake_ask_credential(h, e);
	if (rc < 0)
		return rc;
	h->proof_size = strlen(q->text);
	memcpy(h->proof, q->text, h->proof_size);
	return 0;
}

/* Whether the greeting is from our job's server. The job's id is in h->hello
 * from the beginning. */
static int handshake_is_credential_ours(const struct handshake *h)
{
	const char *nonce = h->greeting + WIRE_PREFACE_SIZE;
	char which[WIRE_WHICH_SIZE];

	proof_which(which, nonce, handshake_job(h));
	return memcmp(which, nonce + WIRE_NONCE_SIZE, sizeof(which)) == 0;
}

long handshake_greeted(struct handshake *h, struct slice in, struct buf *out,
		       struct err *e)
{
	unsigned methods;
	size_t mark;
	int rc = wire_get_greeting(in, &methods, e);

	/* this part is the same in all versions */
	h->other_version = rc < 0 && in.len > WIRE_MARK_SIZE &&
			   !memcmp(in.data, wire_preface, WIRE_MARK_SIZE);
	if (rc <= 0)
		return rc;
	memcpy(h->greeting, in.data, sizeof(h->greeting));
	h->ours = handshake_is_credential_ours(h);
	rc = handshake_check_method(h, methods, e);
	if (rc == 0)
		rc = handshake_make_proof(h, e);
	if (rc < 0)
		return rc;
	mark = wire_begin(out, WIRE_HELLO, WIRE_REQUEST, 1);
	buf_put(out, h->hello.data, h->hello.len);
	buf_put_slice(out, SLICE(h->proof, h->proof_size));
	wire_end(out, mark);
	if (out->failed)
		return err_set(e, out->failed, "cannot answer its greeting: %s",
			       err_name(out->failed));
	return WIRE_GREETING_SIZE;
}

/* ---- the server's proof ---- */

/* Checks the user of the server's munge credential, which contains the job's
 * key. */
static int handshake_read_key(struct handshake *h, struct err *e)
{
	const struct proof_talk t = handshake_talk(h);
	const struct credential_question *q = &h->question;
	struct proof want;

	if (q->uid != geteuid())
		return err_set(
			e, ERR_PROOF,
			"it runs as user %u and this program as user %u, so it "
			"is not our server; choose another port",
			(unsigned)q->uid, (unsigned)geteuid());
	proof_hash_grant(&want, &t, SLICE(h->proof, h->proof_size));
	if (q->size != GRANT_SIZE ||
	    !proof_same(&want, SLICE((char *)q->payload, PROOF_SIZE)))
		return err_set(e, ERR_PROOF, "it sent the munge credential of "
			       "another connection");
	memcpy(h->key.bytes, q->payload + PROOF_SIZE, PROOF_SIZE);
	return 0;
}

static int handshake_read_grant(struct handshake *h,
				const struct wire_welcome *w, struct err *e)
{
	struct credential_question *q = &h->question;
	int rc = 0;

	if (!h->answered)
		rc = credential_to_read(q, w->grant, e);
	if (rc == 0)
		rc = handshake_ask_credential(h, e);
	if (rc == 0)
		rc = handshake_read_key(h, e);
	if (rc != -EAGAIN)
		proof_wipe(q->payload, sizeof(q->payload));
	return rc;
}

static int handshake_check_server(struct handshake *h,
				  const struct wire_frame *f,
				  const struct wire_welcome *w, struct err *e)
{
	const struct proof_talk t = handshake_talk(h);
	struct proof want;
	int rc = 0;

	if (h->auth->methods == WIRE_NO_PROOF)
		return 0;
	if (h->auth->methods == WIRE_BY_MUNGE)
		rc = handshake_read_grant(h, w, e);
	if (rc < 0)
		return rc;
	proof_of_server(&want, &h->key, &t, SLICE(h->proof, h->proof_size),
			wire_signed(f->body, w->proof));
	if (proof_same(&want, w->proof))
		return 0;
	return err_set(e, ERR_PROOF,
		       "it does not have this job's secret (ours is from %s), "
		       "so another program poses as the server; choose another "
		       "port, and check which process listens there",
		       h->auth->from);
}

/* Turns the cipher on, with keys of this connection alone. */
static void handshake_start_cipher(struct handshake *h,
				   const struct wire_frame *f,
				   const struct wire_welcome *w)
{
	const struct proof_talk t = handshake_talk(h);
	struct proof of_client, of_server;

	if (h->auth->methods == WIRE_NO_PROOF)
		return;
	proof_stream_keys(&of_client, &of_server, &h->key, &t,
			  SLICE(h->proof, h->proof_size),
			  wire_signed(f->body, w->proof));
	cipher_start(&h->cipher, CIPHER_CLIENT, &of_client, &of_server);
	proof_wipe(&of_client, sizeof(of_client));
	proof_wipe(&of_server, sizeof(of_server));
}

int handshake_welcomed(struct handshake *h, const struct wire_frame *f,
		       struct wire_frame *refusal, struct err *e)
{
	struct wire_welcome w;
	int rc;

	if (f->type != WIRE_HELLO || f->kind != WIRE_REPLY || f->id != 1)
		return err_set(e, ERR_PROTOCOL, "it sent %s before its WELCOME",
			       wire_type_name(f->type));
	rc = wire_get_welcome(f, &w, e);
	if (rc == 0)
		rc = handshake_check_server(h, f, &w, e);
	if (rc < 0)
		return rc;
	if (!w.code) {
		handshake_start_cipher(h, f, &w);
		return 1;
	}
	/* code and text have the layout of an error reply */
	*refusal = (struct wire_frame){
		WIRE_HELLO, WIRE_ERROR_REPLY, 1,
		SLICE(w.text.data - 8, w.text.len + 8)};
	return 0;
}

int handshake_elsewhere(const struct wire_frame *refusal,
			struct endpoint *there, struct err *e)
{
	char text[SOCK_TEXT_MAX];
	struct wire_error m;

	if (wire_get_error(refusal, &m, NULL) < 0 ||
	    (m.code != ERR_MOVED && m.code != ERR_NOT_YET &&
	     m.code != ERR_NO_ETCD))
		return 0;
	if (m.code != ERR_MOVED)
		return err_set(e, m.code, "%.*s", SLICE_FMT(m.text));
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(m.text));
	if (endpoint_parse(there, text, 0, NULL) < 0 || !there->port)
		return err_set(e, ERR_PROTOCOL,
			       "it names '%s' as the server, which is not "
			       "ADDRESS:PORT",
			       text);
	return ERR_MOVED;
}

void handshake_explain(const struct handshake *h, char *text, size_t size)
{
	if (h->auth->methods == WIRE_NO_PROOF)
		snprintf(text, size,
			 "it closed the connection without a reply");
	else if (h->auth->methods == WIRE_BY_MUNGE)
		snprintf(text, size,
			 "it rejected our munge credential: it does not run as "
			 "user %u, or munged there is down, or has a different "
			 "clock or key",
			 (unsigned)geteuid());
	else if (h->auth->is_key)
		snprintf(text, size,
			 "it rejected our key (from %s): the key belongs to "
			 "another job or another server",
			 h->auth->from);
	else
		snprintf(
			text, size,
			"it rejected our secret (from %s), because its own is "
			"different; give all nodes the same DDP_TOKEN or "
			"--token-file FILE, or let them share a home directory",
			h->auth->from);
}
