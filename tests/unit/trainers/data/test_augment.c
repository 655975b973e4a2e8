/* test_augment.c: the crop and flip of an image depend only on seed, epoch and
 * sample, and all possible ones are drawn. */
#include <check.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "trainers/data/augment.h"

enum { PLACES = 2 * AUGMENT_PADDING + 1, ALL = PLACES * PLACES * 2 };

static int which(struct augment a)
{
	return ((a.dy + AUGMENT_PADDING) * PLACES + a.dx + AUGMENT_PADDING) *
		       2 + a.flip;
}

START_TEST(crops_and_flips_are_equally_likely)
{
	enum { EACH = 500 };
	int count[ALL] = {0};

	for (uint32_t i = 0; i < ALL * EACH; i++) {
		struct augment a = augment_draw(7, 3, i);

		ck_assert_int_le(a.dy, AUGMENT_PADDING);
		ck_assert_int_ge(a.dy, -AUGMENT_PADDING);
		ck_assert_int_le(a.dx, AUGMENT_PADDING);
		ck_assert_int_ge(a.dx, -AUGMENT_PADDING);
		ck_assert(a.flip == 0 || a.flip == 1);
		count[which(a)]++;
	}
	/* allow six deviations of a fair draw */
	for (int i = 0; i < ALL; i++) {
		ck_assert_int_gt(count[i], EACH - 135);
		ck_assert_int_lt(count[i], EACH + 135);
	}
}
END_TEST

/* How many of 10,000 pairs of draws are equal; there are 162 possible draws. */
static int alike(uint64_t seed, uint64_t epoch, uint32_t more)
{
	int n = 0;

	for (uint32_t i = 0; i < 10000; i++)
		n += which(augment_draw(1, 1, i)) ==
		     which(augment_draw(seed, epoch, i + more));
	return n;
}

START_TEST(another_seed_epoch_or_sample_draws_other_values)
{
	ck_assert_int_eq(alike(1, 1, 0), 10000);
	ck_assert_int_lt(alike(2, 1, 0), 150);
	ck_assert_int_lt(alike(1, 2, 0), 150);
	ck_assert_int_lt(alike(1, 1, 1), 150);
	/* seed and epoch are not merely added */
	ck_assert_int_lt(alike(2, 0, 0), 150);
}
END_TEST

/* The GPU's kernels use the same header, so these values hold for both
 * twins. */
START_TEST(the_same_on_every_machine)
{
	ck_assert_uint_eq(augment_mix(0), 0xe220a8397b1dcdafu);
	ck_assert_uint_eq(augment_mix(1), 0x910a2dec89025cc1u);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("augment");

	tcase_add_test(t, crops_and_flips_are_equally_likely);
	tcase_add_test(t, another_seed_epoch_or_sample_draws_other_values);
	tcase_add_test(t, the_same_on_every_machine);
	return run_case(t);
}
