/* proof_sides.h: both sides of a handshake; the server's is written by hand. */
#ifndef TESTS_PROOF_SIDES_H
#define TESTS_PROOF_SIDES_H

#include <check.h>
#include <string.h>

#include "rendezvous/auth/client_handshake.h"
#include "rendezvous/auth/proof.h"

static const char zeros[WIRE_NONCE_SIZE];

static inline struct proof secret(const char *text)
{
	struct proof p;

	proof_secret(&p, SLICE_STR(text));
	return p;
}

struct sides {
	struct auth auth;
	struct handshake h;
	struct proof key;
	char greeting[WIRE_GREETING_SIZE];
	struct buf hello, welcome; /* whole frames */
	struct wire_frame f;
	struct wire_hello m;
	struct err e;
};

static inline void greet(char *greeting, unsigned methods, char nonce)
{
	char random[WIRE_NONCE_SIZE];
	struct buf b = BUF_INIT(100);

	memset(random, nonce, sizeof(random));
	wire_put_greeting(&b, methods, random, NULL);
	memcpy(greeting, b.data, WIRE_GREETING_SIZE);
	buf_release(&b);
}

static inline void release(struct sides *s)
{
	handshake_release(&s->h);
	buf_release(&s->hello);
	buf_release(&s->welcome);
}

/* Puts the server's reply into s->welcome and returns its frame. */
static inline struct wire_frame answer(struct sides *s, const struct proof *key,
				int code)
{
	const struct proof_talk t = {SLICE(s->greeting, WIRE_GREETING_SIZE),
				     wire_signed(s->f.body, s->m.proof)};
	struct wire_welcome w = {.code = code,
				 .text = SLICE_STR(code ? "why" : ""),
				 .proof = SLICE(zeros, PROOF_SIZE)};
	struct wire_frame f;
	struct proof p;

	buf_reset(&s->welcome);
	wire_put_welcome(&s->welcome, WIRE_HELLO, WIRE_REPLY, 1, &w);
	ck_assert_int_gt(wire_cut(SLICE(s->welcome.data, s->welcome.len),
				  WIRE_WELCOME_MAX, &f, &s->e), 0);
	proof_of_server(&p, key, &t, s->m.proof,
			SLICE(f.body.data, f.body.len - 4 - PROOF_SIZE));
	memcpy(s->welcome.data + s->welcome.len - PROOF_SIZE, p.bytes,
	       PROOF_SIZE);
	return f;
}

#endif
