/* test_proof.c: keys and proofs: golden values, a change of every proved bit,
 * and attacks: replay, reflection, another job, downgrade. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rendezvous/auth/proof_sides.h"
#include "tests/unit/run_case.h"

static void is_hex(const struct proof *p, const char *hex)
{
	char text[PROOF_HEX_SIZE];

	proof_to_hex(text, p);
	ck_assert_str_eq(text, hex);
}

/* Golden values, made by an independent implementation (python3:
 * hashlib.blake2b, hmac). */
START_TEST(golden)
{
	const struct proof s = secret("correct horse battery staple");
	char greeting[WIRE_GREETING_SIZE] = "DDPR\13\2\0\0";
	const struct proof_talk t = {SLICE(greeting, sizeof(greeting)),
				     SLICE_STR("hello")};
	struct proof key, p, q;

	memset(greeting + WIRE_PREFACE_SIZE, 'n', WIRE_NONCE_SIZE);
	proof_which(greeting + WIRE_PREFACE_SIZE + WIRE_NONCE_SIZE,
		    greeting + WIRE_PREFACE_SIZE, SLICE_STR("job"));
	ck_assert_mem_eq(greeting + WIRE_PREFACE_SIZE + WIRE_NONCE_SIZE,
			 "\xc7\x07\x4d\x8d\xb5\x78\xb7\x56\xe6\xfa\x3f\x44"
			 "\xdc\xf4\x17\xc4", WIRE_WHICH_SIZE);
	is_hex(&s, "547be3afe17c697e1cb1edcd5696e3c8"
	       "c3760ffd1b0c7fbe865bf6d5e539eec2");
	proof_job_key(&key, &s, SLICE_STR("job"));
	is_hex(&key, "0f9c8722c6bc82a764b15c70d6f6001a"
	       "41fde5f79e2afb46557ce11ee1d2406d");
	proof_of_client(&p, &key, &t);
	is_hex(&p, "9a5b5e6ac3342f1315c69d0f7691c5b9"
	       "eef28570455baf164248f59e9ceb8cb0");
	proof_of_server(&p, &key, &t, SLICE_STR("mine"), SLICE_STR("yours"));
	is_hex(&p, "d5a09714a1bde29a6466ee619761dea5"
	       "7b01719b259f01ff29af67e7af214e3c");
	proof_hash(&p, &t);
	is_hex(&p, "8ee4aa0a7483e3376c5399d274f0c42b"
	       "f977a48b4a8ad63ef52694ddc3916676");
	proof_stream_keys(&p, &q, &key, &t, SLICE_STR("mine"),
			  SLICE_STR("yours"));
	is_hex(&p, "952d0ed06af47c0ad9db2c210c902d63"
	       "d0d08b3508bf12940dc554965d9c5bd3");
	is_hex(&q, "338fa86c5fb839ee3a24c485529a7a82"
	       "3133f03fff1346f39146a61cadc599ee");
	proof_hash_grant(&p, &t, SLICE_STR("mine"));
	is_hex(&p, "dce944c38161980df10a6b831eadb038"
	       "35117a02e449ee14606a2235338b8ca5");
}
END_TEST

START_TEST(hex_survives_its_encoding)
{
	struct proof p = secret("0123456789abcdef"), q;
	char text[PROOF_HEX_SIZE + 1];

	proof_to_hex(text, &p);
	ck_assert_int_eq(proof_from_hex(&q, text), 0);
	ck_assert(proof_same(&p, SLICE((char *)q.bytes, PROOF_SIZE)));
	ck_assert(!proof_same(&p, SLICE((char *)q.bytes, PROOF_SIZE - 1)));
	text[10] = 'x';
	ck_assert_int_eq(proof_from_hex(&q, text), -1);
	proof_to_hex(text, &p);
	text[2 * PROOF_SIZE - 1] = '\0';
	ck_assert_int_eq(proof_from_hex(&q, text), -1);
	proof_to_hex(text, &p);
	strcat(text, "0");
	ck_assert_int_eq(proof_from_hex(&q, text), -1);
}
END_TEST

START_TEST(each_job_has_its_own_key)
{
	const struct proof s = secret("correct horse battery staple");
	struct proof a, b;

	proof_job_key(&a, &s, SLICE_STR("a"));
	proof_job_key(&b, &s, SLICE_STR("b"));
	ck_assert(memcmp(&a, &b, sizeof(a)) != 0);
	ck_assert(memcmp(&a, &s, sizeof(a)) != 0);
}
END_TEST

/* Bytes that move from one part to the next change the proof. */
START_TEST(parts_of_a_proof_are_delimited)
{
	const struct proof key = secret("correct horse battery staple");
	const struct proof_talk t = {SLICE(zeros, 8), SLICE_STR("hello")};
	const struct proof_talk u = {SLICE(zeros, 9), SLICE_STR("hello")};
	struct proof a, b;

	proof_of_server(&a, &key, &t, SLICE_STR("ab"), SLICE_STR("c"));
	proof_of_server(&b, &key, &t, SLICE_STR("a"), SLICE_STR("bc"));
	ck_assert(memcmp(&a, &b, sizeof(a)) != 0);
	proof_of_client(&a, &key, &t);
	proof_of_client(&b, &key, &u);
	ck_assert(memcmp(&a, &b, sizeof(a)) != 0);
}
END_TEST

static long begin(struct sides *s, struct auth auth, unsigned methods)
{
	const struct wire_hello hello = {.role = WIRE_AGENT,
					 .job = SLICE_STR("job"),
					 .host = SLICE_STR("h")};
	long n;

	memset(s, 0, sizeof(*s));
	s->auth = auth;
	buf_init(&s->hello, 1 << 16);
	buf_init(&s->welcome, 1 << 16);
	proof_job_key(&s->key, &auth.secret, SLICE_STR("job"));
	ck_assert_int_eq(handshake_init(&s->h, &s->auth, &hello, &s->e), 0);
	greet(s->greeting, methods, 'n');
	n = handshake_greeted(&s->h, SLICE(s->greeting, WIRE_GREETING_SIZE),
			      &s->hello, &s->e);
	if (n > 0) {
		ck_assert_int_eq(wire_cut(SLICE(s->hello.data, s->hello.len),
					  WIRE_HELLO_MAX, &s->f, &s->e),
				 (long)s->hello.len);
		ck_assert_int_eq(wire_get_hello(&s->f, &s->m, &s->e), 0);
	}
	return n;
}

static struct auth auth_by(const char *text)
{
	const struct proof p = secret(text);
	struct auth a;

	auth_of_secret(&a, &p, "a test");
	return a;
}

/* Checks the proof as the server does, with its own greeting. */
static int is_client(const struct sides *s, const struct proof *key,
		     const char *greeting, struct slice body)
{
	const struct proof_talk t = {SLICE(greeting, WIRE_GREETING_SIZE),
				     wire_signed(body, s->m.proof)};
	struct proof want;

	proof_of_client(&want, key, &t);
	return proof_same(&want, s->m.proof);
}

START_TEST(each_bit_of_what_the_client_proves_counts)
{
	struct sides s;
	char *body;

	ck_assert_int_eq(begin(&s, auth_by("correct horse battery"),
			       WIRE_BY_SECRET), WIRE_GREETING_SIZE);
	ck_assert_uint_eq(s.m.nonce.len, WIRE_NONCE_SIZE);
	ck_assert(is_client(&s, &s.key, s.greeting, s.f.body));
	body = malloc(s.f.body.len);
	memcpy(body, s.f.body.data, s.f.body.len);
	for (size_t i = 0; i < (s.f.body.len - 4 - PROOF_SIZE) * 8; i++) {
		body[i / 8] ^= (char)(1 << i % 8);
		ck_assert_msg(!is_client(&s, &s.key, s.greeting,
					 SLICE(body, s.f.body.len)),
			      "bit %zu of HELLO", i);
		body[i / 8] ^= (char)(1 << i % 8);
	}
	for (size_t i = 0; i < sizeof(s.greeting) * 8; i++) {
		s.greeting[i / 8] ^= (char)(1 << i % 8);
		ck_assert_msg(!is_client(&s, &s.key, s.greeting, s.f.body),
			      "bit %zu of the greeting", i);
		s.greeting[i / 8] ^= (char)(1 << i % 8);
	}
	for (size_t i = 0; i < PROOF_SIZE * 8; i++) {
		s.key.bytes[i / 8] ^= (unsigned char)(1 << i % 8);
		ck_assert_msg(!is_client(&s, &s.key, s.greeting, s.f.body),
			      "bit %zu of the key", i);
		s.key.bytes[i / 8] ^= (unsigned char)(1 << i % 8);
	}
	free(body);
	release(&s);
}
END_TEST

START_TEST(each_bit_of_what_the_server_proves_counts)
{
	struct wire_frame f, refusal;
	struct wire_error why;
	struct sides s;

	begin(&s, auth_by("correct horse battery"), WIRE_BY_SECRET);
	f = answer(&s, &s.key, 0);
	ck_assert_int_eq(handshake_welcomed(&s.h, &f, &refusal, &s.e), 1);
	f = answer(&s, &s.key, ERR_ABORTED);
	ck_assert_int_eq(handshake_welcomed(&s.h, &f, &refusal, &s.e), 0);
	ck_assert_int_eq(wire_get_error(&refusal, &why, &s.e), 0);
	ck_assert_int_eq(why.code, ERR_ABORTED);
	ck_assert_uint_eq(why.text.len, 3);
	/* a refusal is proved like an acceptance */
	for (size_t i = 0; i < f.body.len * 8; i++) {
		char *byte = s.welcome.data + WIRE_HEADER_SIZE + i / 8;
		int rc;

		*byte ^= (char)(1 << i % 8);
		rc = handshake_welcomed(&s.h, &f, &refusal, &s.e);
		*byte ^= (char)(1 << i % 8);
		ck_assert_msg(rc == ERR_PROOF || rc == ERR_PROTOCOL,
			      "bit %zu of WELCOME: %d", i, rc);
	}
	release(&s);
}
END_TEST

START_TEST(a_server_without_the_secret_is_rejected)
{
	const struct proof other = secret("something else entirely");
	struct wire_frame f, refusal;
	struct proof key;
	struct sides s;

	begin(&s, auth_by("correct horse battery"), WIRE_BY_SECRET);
	proof_job_key(&key, &other, SLICE_STR("job"));
	f = answer(&s, &key, 0);
	ck_assert_int_eq(handshake_welcomed(&s.h, &f, &refusal, &s.e),
			 ERR_PROOF);
	ck_assert_ptr_ne(strstr(s.e.text, "not have this job's secret"), NULL);
	/* nor an error reply without any proof */
	f = answer(&s, &key, 0);
	f.kind = WIRE_ERROR_REPLY;
	ck_assert_int_eq(handshake_welcomed(&s.h, &f, &refusal, &s.e),
			 ERR_PROTOCOL);
	release(&s);
}
END_TEST

START_TEST(our_own_proof_is_not_accepted_back)
{
	struct wire_frame f, refusal;
	struct sides s;

	begin(&s, auth_by("correct horse battery"), WIRE_BY_SECRET);
	f = answer(&s, &s.key, 0);
	memcpy(s.welcome.data + s.welcome.len - PROOF_SIZE, s.m.proof.data,
	       PROOF_SIZE);
	ck_assert_int_eq(handshake_welcomed(&s.h, &f, &refusal, &s.e),
			 ERR_PROOF);
	release(&s);
}
END_TEST

START_TEST(a_recorded_proof_is_useless)
{
	struct wire_frame old, f, refusal;
	struct sides first, second;
	char other[WIRE_GREETING_SIZE];

	begin(&first, auth_by("correct horse battery"), WIRE_BY_SECRET);
	begin(&second, auth_by("correct horse battery"), WIRE_BY_SECRET);
	/* replay HELLO to a server with another greeting */
	greet(other, WIRE_BY_SECRET, 'm');
	ck_assert(!is_client(&first, &first.key, other, first.f.body));
	/* replay greeting and WELCOME to a client with another nonce */
	old = answer(&first, &first.key, 0);
	ck_assert_int_eq(handshake_welcomed(&first.h, &old, &refusal,
					    &first.e), 1);
	f = old;
	ck_assert_int_eq(handshake_welcomed(&second.h, &f, &refusal,
					    &second.e), ERR_PROOF);
	release(&first);
	release(&second);
}
END_TEST

START_TEST(a_client_proves_no_less_than_required)
{
	struct auth none;
	struct sides s;

	auth_none(&none);
	ck_assert_int_eq(begin(&s, auth_by("correct horse battery"),
			       WIRE_NO_PROOF), ERR_PROOF);
	ck_assert_ptr_ne(strstr(s.e.text, "--auth none"), NULL);
	ck_assert_uint_eq(s.hello.len, 0);
	release(&s);
	/* also if it claims to accept both */
	ck_assert_int_eq(begin(&s, auth_by("correct horse battery"),
			       WIRE_NO_PROOF | WIRE_BY_SECRET),
			 WIRE_GREETING_SIZE);
	ck_assert_uint_eq(s.m.method, WIRE_BY_SECRET);
	ck_assert_uint_eq(s.m.proof.len, PROOF_SIZE);
	release(&s);
	ck_assert_int_eq(begin(&s, none, WIRE_BY_SECRET), ERR_PROOF);
	ck_assert_ptr_ne(strstr(s.e.text, "requires authentication"), NULL);
	release(&s);
	ck_assert_int_eq(begin(&s, none, WIRE_NO_PROOF), WIRE_GREETING_SIZE);
	ck_assert_uint_eq(s.m.proof.len, 0);
	release(&s);
}
END_TEST

START_TEST(munges_server_rejects_a_users_secret)
{
	struct auth own = auth_by("correct horse battery");
	struct sides s;

	ck_assert_int_eq(begin(&s, own, WIRE_BY_SECRET | WIRE_BY_MUNGE),
			 WIRE_GREETING_SIZE);
	release(&s);
	own.handed = 0;
	ck_assert_int_eq(begin(&s, own, WIRE_BY_SECRET | WIRE_BY_MUNGE),
			 ERR_PROOF);
	ck_assert_ptr_ne(strstr(s.e.text, "is munged down here"),
			 NULL);
	release(&s);
}
END_TEST

START_TEST(a_greeting_that_cannot_be_answered_is_an_error)
{
	struct sides s;
	struct buf out = BUF_INIT(WIRE_HEADER_SIZE);

	begin(&s, auth_by("correct horse battery"), WIRE_BY_SECRET);
	ck_assert_int_eq(handshake_greeted(&s.h, SLICE(s.greeting,
						       WIRE_GREETING_SIZE),
					   &out, &s.e), -ENOBUFS);
	ck_assert_ptr_ne(strstr(s.e.text, "cannot answer"), NULL);
	buf_release(&out);
	release(&s);
}
END_TEST

START_TEST(a_greeting_comes_in_any_pieces)
{
	struct sides s;
	struct buf out = BUF_INIT(1 << 16);

	begin(&s, auth_by("correct horse battery"), WIRE_BY_SECRET);
	for (size_t n = 0; n < WIRE_GREETING_SIZE; n++)
		ck_assert_int_eq(handshake_greeted(&s.h, SLICE(s.greeting, n),
						   &out, &s.e), 0);
	ck_assert_uint_eq(out.len, 0);
	s.greeting[4] = 1;
	ck_assert_int_eq(handshake_greeted(&s.h, SLICE(s.greeting, 8), &out,
					   &s.e), ERR_PROTOCOL);
	ck_assert_ptr_ne(strstr(s.e.text, "version 1"), NULL);
	ck_assert_int_eq(handshake_greeted(&s.h, SLICE_STR("HTTP/1.1 400"),
					   &out, &s.e), ERR_PROTOCOL);
	ck_assert_ptr_ne(strstr(s.e.text, "not a ddprdzv"), NULL);
	buf_release(&out);
	release(&s);
}
END_TEST

START_TEST(a_greeting_says_which_job_it_serves)
{
	static const struct {
		const char *job;
		char nonce; /* from which its job's mark is made */
		int ours;
	} rows[] = {{NULL, 'n', 0}, {"job", 'n', 1}, {"jo", 'n', 0},
		    {"job ", 'n', 0}, {"", 'n', 0}, {"job", 'm', 0}};
	char nonce[WIRE_NONCE_SIZE], which[WIRE_WHICH_SIZE];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct buf out = BUF_INIT(1 << 16), in = BUF_INIT(100);
		struct sides s;

		begin(&s, auth_by("correct horse battery"), WIRE_BY_SECRET);
		ck_assert_int_eq(s.h.ours, 0);
		memset(nonce, rows[i].nonce, sizeof(nonce));
		if (rows[i].job)
			proof_which(which, nonce, SLICE_STR(rows[i].job));
		memset(nonce, 'n', sizeof(nonce));
		wire_put_greeting(&in, WIRE_BY_SECRET, nonce,
				  rows[i].job ? which : NULL);
		ck_assert_int_eq(handshake_greeted(&s.h, SLICE(in.data, in.len),
						   &out, &s.e),
				 WIRE_GREETING_SIZE);
		ck_assert_int_eq(s.h.ours, rows[i].ours);
		buf_release(&out);
		buf_release(&in);
		release(&s);
	}
}
END_TEST

START_TEST(auth_survives_a_pipe)
{
	struct auth a = auth_by("correct horse battery"), b;
	unsigned char bytes[AUTH_BYTES];

	a.methods |= WIRE_BY_MUNGE;
	auth_to_bytes(bytes, &a);
	auth_from_bytes(&b, bytes);
	ck_assert_uint_eq(b.methods, WIRE_BY_SECRET | WIRE_BY_MUNGE);
	ck_assert_int_eq(b.is_key, 0);
	ck_assert(proof_same(&a.secret, SLICE((char *)b.secret.bytes,
					      PROOF_SIZE)));
	a.is_key = 1;
	auth_to_bytes(bytes, &a);
	auth_from_bytes(&b, bytes);
	ck_assert_uint_eq(b.methods, WIRE_BY_SECRET | WIRE_BY_MUNGE);
	ck_assert_int_eq(b.is_key, 1);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("proof");

	tcase_add_test(tc, golden);
	tcase_add_test(tc, hex_survives_its_encoding);
	tcase_add_test(tc, each_job_has_its_own_key);
	tcase_add_test(tc, parts_of_a_proof_are_delimited);
	tcase_add_test(tc, each_bit_of_what_the_client_proves_counts);
	tcase_add_test(tc, each_bit_of_what_the_server_proves_counts);
	tcase_add_test(tc, a_server_without_the_secret_is_rejected);
	tcase_add_test(tc, our_own_proof_is_not_accepted_back);
	tcase_add_test(tc, a_recorded_proof_is_useless);
	tcase_add_test(tc, a_client_proves_no_less_than_required);
	tcase_add_test(tc, munges_server_rejects_a_users_secret);
	tcase_add_test(tc, a_greeting_that_cannot_be_answered_is_an_error);
	tcase_add_test(tc, a_greeting_comes_in_any_pieces);
	tcase_add_test(tc, a_greeting_says_which_job_it_serves);
	tcase_add_test(tc, auth_survives_a_pipe);
	return run_case(tc);
}
