/* test_sampler.c: the sampler against PyTorch's own orders. */
#include <check.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/ddp.h"

static void expect_first(uint64_t size, uint64_t seed, uint64_t epoch,
			 const uint32_t *want, int n)
{
	struct ddp_sampler s;

	ck_assert_int_eq(ddp_sampler_init(&s, size, 0, 1, seed, 1, 0), 0);
	ddp_sampler_set_epoch(&s, epoch);
	ck_assert_uint_eq(ddp_sampler_size(&s), size);
	for (int i = 0; i < n; i++)
		ck_assert_uint_eq(ddp_sampler_index(&s, (uint64_t)i), want[i]);
	ddp_sampler_release(&s);
}

/* torch.randperm(n, generator=torch.Generator().manual_seed(seed)) */
START_TEST(orders_match_pytorchs)
{
	static const uint32_t ten_0[] = {4, 1, 7, 5, 3, 9, 0, 8, 6, 2};
	static const uint32_t ten_42[] = {2, 6, 1, 8, 4, 5, 0, 9, 3, 7};
	static const uint32_t mnist_0[] = {36044, 10678, 57327, 55074,
					   21567, 15479, 9481,	43095};
	static const uint32_t mnist_1[] = {35845, 27522, 33254, 23645,
					   11299, 16178, 58355, 27002};
	static const uint32_t cifar_0[] = {36044, 49165, 37807, 11341,
					   6091,  16904, 36293, 28026};

	expect_first(10, 0, 0, ten_0, 10);
	expect_first(10, 42, 0, ten_42, 10);
	expect_first(10, 40, 2, ten_42, 10); /* seed + epoch */
	expect_first(60000, 0, 0, mnist_0, 8);
	expect_first(60000, 1, 0, mnist_1, 8);
	expect_first(60000, 0, 1, mnist_1, 8);
	expect_first(50000, 0, 0, cifar_0, 8);
}
END_TEST

/* FNV-1a over all indices as little-endian u32: of the lists whose md5 are
 * 67b2989d5e0fe0d72e46046148da50f9, bed57fd9507502bfcfdd51ef3549f533 and
 * 45747ba1894cbae330785d3ab2bf8b3c. */
static uint64_t hash_of(uint64_t size, uint64_t seed)
{
	uint64_t h = 0xcbf29ce484222325u;
	struct ddp_sampler s;

	ck_assert_int_eq(ddp_sampler_init(&s, size, 0, 1, seed, 1, 0), 0);
	for (uint64_t i = 0; i < size; i++) {
		uint32_t index = ddp_sampler_index(&s, i);

		for (int k = 0; k < 4; k++)
			h = (h ^ (index >> 8 * k & 0xff)) * 0x100000001b3u;
	}
	ddp_sampler_release(&s);
	return h;
}

START_TEST(whole_orders_match_pytorchs)
{
	ck_assert_uint_eq(hash_of(60000, 0), UINT64_C(0xc39312e48996b4e9));
	ck_assert_uint_eq(hash_of(60000, 1), UINT64_C(0x5807e7423e0b26e5));
	ck_assert_uint_eq(hash_of(50000, 0), UINT64_C(0xf5898cfe88e4ea7d));
}
END_TEST

/* randperm's orders from UINT32_MAX / 20 samples on; these come from a second
 * implementation of ATen's two loops, which agrees with the orders above. */
START_TEST(large_orders_match_pytorchs)
{
	static const uint32_t ten_0[] = {8, 2, 6, 3, 5, 1, 0, 9, 7, 4};
	static const uint32_t ten_42[] = {6, 0, 5, 8, 7, 2, 3, 1, 9, 4};
	static const uint32_t first[] = {5466, 50650, 49772, 43962};
	static uint32_t p[60000];

	ck_assert_uint_eq(DDP__RANDPERM_LARGE, 214748364);
	ddp__randperm(p, 10, 0, 10);
	ck_assert_mem_eq(p, ten_0, sizeof(ten_0));
	ddp__randperm(p, 10, 42, 1);
	ck_assert_mem_eq(p, ten_42, sizeof(ten_42));
	ddp__randperm(p, 60000, 0, 60000);
	ck_assert_mem_eq(p, first, sizeof(first));
	ck_assert_uint_eq(p[59999], 59624);
	/* one fewer than that is shuffled as before */
	ddp__randperm(p, 10, 42, 11);
	ck_assert_uint_eq(p[0], 2);
}
END_TEST

/* As in DistributedSampler, rank r takes indices[r::world]. */
START_TEST(ranks_take_turns)
{
	struct ddp_sampler whole, s;
	int world = 4;

	ck_assert_int_eq(ddp_sampler_init(&whole, 1000, 0, 1, 7, 1, 0), 0);
	for (int r = 0; r < world; r++) {
		ck_assert_int_eq(ddp_sampler_init(&s, 1000, r, world, 7, 1, 0),
				 0);
		ck_assert_uint_eq(ddp_sampler_size(&s), 250);
		for (uint64_t i = 0; i < 250; i++)
			ck_assert_uint_eq(
				ddp_sampler_index(&s, i),
				ddp_sampler_index(&whole,
						  i * 4 + (uint64_t)r));
		ddp_sampler_release(&s);
	}
	ddp_sampler_release(&whole);
}
END_TEST

START_TEST(an_epoch_has_the_order_of_a_later_seed)
{
	struct ddp_sampler s, other;

	ck_assert_int_eq(ddp_sampler_init(&s, 100, 0, 1, 7, 1, 0), 0);
	ck_assert_int_eq(ddp_sampler_init(&other, 100, 0, 1, 10, 1, 0), 0);
	ck_assert_uint_eq(s.epoch, 0);
	ddp_sampler_set_epoch(&s, 3);
	ck_assert_uint_eq(s.epoch, 3);
	ck_assert_mem_eq(s.order, other.order, 100 * sizeof(*s.order));
	ddp_sampler_release(&s);
	ddp_sampler_release(&other);
}
END_TEST

static void expect(uint64_t size, int rank, int world,
		   enum ddp_remainder remainder, uint64_t samples,
		   uint32_t last)
{
	struct ddp_sampler s;

	ck_assert_int_eq(
		ddp_sampler_init(&s, size, rank, world, 0, 0, remainder), 0);
	ck_assert_uint_eq(ddp_sampler_size(&s), samples);
	if (samples)
		ck_assert_uint_eq(ddp_sampler_index(&s, samples - 1), last);
	ddp_sampler_release(&s);
}

START_TEST(padding_and_drop_last)
{
	/* 10 over 4: three each, the last round padded with 0 and 1 */
	expect(10, 0, 4, DDP_PAD, 3, 8);
	expect(10, 1, 4, DDP_PAD, 3, 9);
	expect(10, 2, 4, DDP_PAD, 3, 0);
	expect(10, 3, 4, DDP_PAD, 3, 1);
	expect(10, 3, 4, DDP_DROP, 2, 7);
	/* fewer samples than ranks: the padding wraps around */
	expect(3, 7, 8, DDP_PAD, 1, 1);
	expect(3, 7, 8, DDP_DROP, 0, 0);
	/* even: nothing to pad or drop */
	expect(12, 3, 4, DDP_PAD, 3, 11);
	expect(12, 3, 4, DDP_DROP, 3, 11);
	expect(0, 0, 4, DDP_PAD, 0, 0);
}
END_TEST

START_TEST(exact_gives_each_sample_once)
{
	/* 10 over 4: the first two have one more */
	expect(10, 0, 4, DDP_EXACT, 3, 8);
	expect(10, 1, 4, DDP_EXACT, 3, 9);
	expect(10, 2, 4, DDP_EXACT, 2, 6);
	expect(10, 3, 4, DDP_EXACT, 2, 7);
	expect(3, 2, 8, DDP_EXACT, 1, 2);
	expect(3, 7, 8, DDP_EXACT, 0, 0);
	expect(12, 3, 4, DDP_EXACT, 3, 11);
	expect(0, 0, 4, DDP_EXACT, 0, 0);
}
END_TEST

START_TEST(bad_arguments)
{
	struct ddp_sampler s;

	ck_assert_int_eq(ddp_sampler_init(NULL, 1, 0, 1, 0, 0, 0),
			 DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_sampler_init(&s, 1, 1, 1, 0, 0, 0),
			 DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_sampler_init(&s, 1, -1, 1, 0, 0, 0),
			 DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_sampler_init(&s, 1, 0, 0, 0, 0, 0),
			 DDP_ERR_ARGUMENT);
	ck_assert_int_eq(
		ddp_sampler_init(&s, 1, 0, 1, 0, 0, (enum ddp_remainder)3),
		DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_sampler_init(&s, UINT64_C(1) << 32, 0, 1, 0, 0, 0),
			 DDP_ERR_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(ddp_last_error(), "4294967296"));
	ddp_sampler_release(&s);
	ddp_sampler_release(&s);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("sampler");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, orders_match_pytorchs);
	tcase_add_test(tc, whole_orders_match_pytorchs);
	tcase_add_test(tc, large_orders_match_pytorchs);
	tcase_add_test(tc, ranks_take_turns);
	tcase_add_test(tc, an_epoch_has_the_order_of_a_later_seed);
	tcase_add_test(tc, padding_and_drop_last);
	tcase_add_test(tc, exact_gives_each_sample_once);
	tcase_add_test(tc, bad_arguments);
	return run_case(tc);
}
