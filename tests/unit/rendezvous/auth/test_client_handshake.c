/* test_client_handshake.c: a handshake whose owner asks munge itself. The test
 * plays munge: it fills in the answers. */
#include <check.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/rendezvous/auth/proof_sides.h"
#include "tests/unit/run_case.h"

static long greeted(struct sides *s)
{
	return handshake_greeted(&s->h, SLICE(s->greeting, WIRE_GREETING_SIZE),
				 &s->hello, &s->e);
}

static void begin_munge(struct sides *s)
{
	const struct wire_hello hello = {.role = WIRE_AGENT,
					 .job = SLICE_STR("job"),
					 .host = SLICE_STR("h")};

	memset(s, 0, sizeof(*s));
	s->auth = (struct auth){.methods = WIRE_BY_MUNGE, .from = "munge"};
	buf_init(&s->hello, 1 << 16);
	buf_init(&s->welcome, 1 << 16);
	s->key = secret("of the job");
	ck_assert_int_eq(handshake_init(&s->h, &s->auth, &hello, &s->e), 0);
	s->h.defers = 1;
	greet(s->greeting, WIRE_BY_MUNGE, 'n');
}

static void say_hello(struct sides *s)
{
	struct credential_question q;

	ck_assert_int_eq(greeted(s), -EAGAIN);
	ck_assert_uint_eq(s->hello.len, 0);
	q = s->h.question;
	ck_assert_int_eq(q.reads, 0);
	ck_assert_int_eq(q.size, PROOF_SIZE);
	strcpy(q.text, "MUNGE:client:");
	handshake_answer(&s->h, &q);
	ck_assert_int_eq(greeted(s), WIRE_GREETING_SIZE);
	ck_assert_int_gt(wire_cut(SLICE(s->hello.data, s->hello.len),
				  WIRE_HELLO_MAX, &s->f, &s->e), 0);
	ck_assert_int_eq(wire_get_hello(&s->f, &s->m, &s->e), 0);
	ck_assert_uint_eq(s->m.proof.len, strlen("MUNGE:client:"));
}

/* Fills in what munge reads in the server's grant. */
static void grant(struct sides *s, struct credential_question *q)
{
	const struct proof_talk t = {SLICE(s->greeting, WIRE_GREETING_SIZE),
				     wire_signed(s->f.body, s->m.proof)};
	struct proof hash;

	ck_assert_int_eq(q->reads, 1);
	proof_hash_grant(&hash, &t, s->m.proof);
	memcpy(q->payload, hash.bytes, PROOF_SIZE);
	memcpy(q->payload + PROOF_SIZE, s->key.bytes, PROOF_SIZE);
	q->rc = q->size = 2 * PROOF_SIZE;
	q->uid = geteuid();
}

START_TEST(an_owner_asks_munge_and_calls_again)
{
	struct credential_question q;
	struct wire_frame f, refusal;
	struct sides s;

	begin_munge(&s);
	/* asked again while the answer is still missing */
	ck_assert_int_eq(greeted(&s), -EAGAIN);
	say_hello(&s);
	f = answer(&s, &s.key, 0);
	ck_assert_int_eq(handshake_welcomed(&s.h, &f, &refusal, &s.e),
			 -EAGAIN);
	q = s.h.question;
	grant(&s, &q);
	handshake_answer(&s.h, &q);
	ck_assert_int_eq(handshake_welcomed(&s.h, &f, &refusal, &s.e), 1);
	ck_assert(s.h.cipher.on);
	/* the key is in its place, and nowhere else */
	ck_assert(proof_same(&s.key, SLICE((char *)s.h.key.bytes, PROOF_SIZE)));
	for (size_t i = 0; i < sizeof(q.payload); i++)
		ck_assert_uint_eq(s.h.question.payload[i], 0);
	release(&s);
}
END_TEST

START_TEST(a_munge_that_does_not_answer_is_the_error)
{
	struct credential_question q;
	struct wire_frame f, refusal;
	struct sides s;

	begin_munge(&s);
	ck_assert_int_eq(greeted(&s), -EAGAIN);
	q = s.h.question;
	q.rc = err_set(&q.why, ERR_PROOF, "munged is asleep");
	handshake_answer(&s.h, &q);
	ck_assert_int_eq(greeted(&s), ERR_PROOF);
	ck_assert_str_eq(s.e.text, "munged is asleep");
	/* the answer was for that question: the next one is asked again */
	say_hello(&s);
	f = answer(&s, &s.key, 0);
	ck_assert_int_eq(handshake_welcomed(&s.h, &f, &refusal, &s.e),
			 -EAGAIN);
	handshake_answer(&s.h, &q);
	ck_assert_int_eq(handshake_welcomed(&s.h, &f, &refusal, &s.e),
			 ERR_PROOF);
	release(&s);
}
END_TEST

START_TEST(another_users_server_or_grant_is_refused)
{
	struct credential_question q;
	struct wire_frame f, refusal;
	struct sides s;

	begin_munge(&s);
	say_hello(&s);
	f = answer(&s, &s.key, 0);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(handshake_welcomed(&s.h, &f, &refusal, &s.e),
				 -EAGAIN);
		q = s.h.question;
		grant(&s, &q);
		q.uid += i == 0;
		q.size -= i == 1;
		q.payload[0] ^= i == 2;
		handshake_answer(&s.h, &q);
		ck_assert_int_eq(handshake_welcomed(&s.h, &f, &refusal, &s.e),
				 ERR_PROOF);
	}
	release(&s);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("handshake");

	tcase_add_test(tc, an_owner_asks_munge_and_calls_again);
	tcase_add_test(tc, a_munge_that_does_not_answer_is_the_error);
	tcase_add_test(tc, another_users_server_or_grant_is_refused);
	return run_case(tc);
}
