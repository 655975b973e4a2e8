/* test_stage_aead.c: libcrypto and libsodium make the same bytes, and read each
 * other's. */
#include <check.h>
#include <string.h>

#include "launcher/stage/stage_aead.h"
#include "tests/unit/run_case.h"

enum { SIZE = 5000 };

static unsigned char text[SIZE], back[SIZE];
static const unsigned char key[STAGE_AEAD_KEY] = {1, 2, 3};
static const unsigned char nonce[STAGE_AEAD_NONCE] = {[5] = 4, [20] = 5};
static const struct stage_aead_input in = {key, nonce,
					   (const unsigned char *)"head", 4};

START_TEST(both_libraries_make_the_same_bytes)
{
	static const size_t sizes[] = {0, 1, 63, 64, 65, 1000, SIZE};
	unsigned char a[SIZE + STAGE_AEAD_TAG], b[SIZE + STAGE_AEAD_TAG];
	struct stage_aead crypto, sodium = {NULL};

	stage_aead_open(&crypto);
	for (size_t i = 0; i < SIZE; i++)
		text[i] = (unsigned char)(i * 7);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = sizes[i];

		stage_aead_encrypt(&crypto, &in, a, text, n);
		stage_aead_encrypt(&sodium, &in, b, text, n);
		ck_assert_mem_eq(a, b, n + STAGE_AEAD_TAG);
		ck_assert_int_eq(stage_aead_decrypt(&crypto, &in, back, b, n),
				 0);
		ck_assert_int_eq(memcmp(back, text, n), 0);
		ck_assert_int_eq(stage_aead_decrypt(&sodium, &in, back, a, n),
				 0);
		a[n] ^= 1; /* the tag */
		ck_assert_int_eq(stage_aead_decrypt(&crypto, &in, back, a, n),
				 -1);
		ck_assert_int_eq(stage_aead_decrypt(&sodium, &in, back, a, n),
				 -1);
	}
	stage_aead_close(&crypto);
}
END_TEST

START_TEST(another_head_nonce_or_key_does_not_fit)
{
	const unsigned char other[STAGE_AEAD_KEY] = {9};
	struct stage_aead_input inputs[3] = {in, in, in};
	unsigned char sealed[SIZE + STAGE_AEAD_TAG];
	struct stage_aead a;

	stage_aead_open(&a);
	inputs[0].head = (const unsigned char *)"Head";
	inputs[1].nonce = other;
	inputs[2].key = other;
	stage_aead_encrypt(&a, &in, sealed, text, SIZE);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(stage_aead_decrypt(&a, &inputs[i], back,
						    sealed, SIZE), -1);
	ck_assert_int_eq(stage_aead_decrypt(&a, &in, back, sealed, SIZE), 0);
	stage_aead_close(&a);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("stage_aead");

	tcase_add_test(c, both_libraries_make_the_same_bytes);
	tcase_add_test(c, another_head_nonce_or_key_does_not_fit);
	return run_case(c);
}
