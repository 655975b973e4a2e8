/* test_account.c: memory is charged to a job and its tenant, and nothing stays
 * charged when the job is gone. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/account.h"
#include "rendezvous/store/store.h"
#include "tests/unit/run_case.h"

static const struct account_limits limits = {
	.job_bytes = 10000, .tenant_bytes = 15000};
static struct hash_table tenants;
static struct account *tenant, *job, *other;
static struct err e;

static void begin(void)
{
	tenant = account_of_tenant(&tenants, SLICE_STR("alice"), &limits);
	job = account_of_job(SLICE_STR("alice/x"), tenant, &limits);
	other = account_of_job(SLICE_STR("alice/y"), tenant, &limits);
	e = (struct err)ERR_INIT;
}

static void end(void)
{
	ck_assert_uint_eq(tenant->bytes, 0);
	account_unref(tenant);
	account_unref(job);
	account_unref(other);
	/* the last of its jobs is gone, so it is forgotten */
	ck_assert_uint_eq(tenants.items, 0);
	hash_table_release(&tenants);
}

START_TEST(a_jobs_name_says_its_tenant)
{
	struct slice t = account_tenant_of(SLICE_STR("alice/x/y"));

	ck_assert_uint_eq(t.len, 5);
	ck_assert_uint_eq(account_tenant_of(SLICE_STR("x")).len, 0);
	ck_assert_uint_eq(account_tenant_of(SLICE_STR("")).len, 0);
}
END_TEST

START_TEST(a_tenant_has_one_account)
{
	struct account *again = account_of_tenant(&tenants, SLICE_STR("alice"),
						  &limits);

	ck_assert_ptr_eq(again, tenant);
	ck_assert_uint_eq(tenants.items, 1);
	account_unref(again);
}
END_TEST

START_TEST(the_jobs_limit_is_exact_to_the_byte)
{
	ck_assert_int_eq(account_charge(job, 10000, &e), 0);
	ck_assert_int_eq(account_charge(job, 1, &e), ERR_REFUSED);
	ck_assert_str_eq(e.text, "the rendezvous server holds 10000 bytes for "
			 "job 'alice/x', and its limit is 10000, too few for 1 "
			 "more (--max-memory of that ddprdzv)");
	ck_assert_uint_eq(tenant->bytes, 10000);
	ck_assert_ptr_null(account_over(job));
	account_sub(job, 10000);
}
END_TEST

START_TEST(the_tenants_limit_is_enforced)
{
	ck_assert_int_eq(account_charge(job, 9000, &e), 0);
	ck_assert_int_eq(account_charge(other, 6001, &e), ERR_REFUSED);
	ck_assert_ptr_ne(
		strstr(e.text,
		       "9000 bytes for tenant 'alice', and its limit is 15000"),
		NULL);
	ck_assert_ptr_ne(strstr(e.text, "--tenant-memory"), NULL);
	/* and is not charged in part */
	ck_assert_uint_eq(other->bytes, 0);
	ck_assert_int_eq(account_charge(other, 6000, &e), 0);
	account_sub(job, 9000);
	account_sub(other, 6000);
}
END_TEST

START_TEST(existing_bytes_count_beyond_the_limit)
{
	account_add(job, 10001);
	ck_assert_ptr_eq(account_over(job), job);
	account_add(other, 5000);
	ck_assert_ptr_eq(account_over(other), tenant);
	ck_assert_int_eq(account_charge(job, 1, &e), ERR_REFUSED);
	account_sub(job, 10001);
	account_sub(other, 5000);
	ck_assert_ptr_null(account_over(other));
}
END_TEST

START_TEST(an_account_without_owner_counts_nothing)
{
	ck_assert_int_eq(account_charge(NULL, SIZE_MAX, &e), 0);
	account_add(NULL, 1);
	account_sub(NULL, 1);
	account_unref(account_ref(NULL));
	ck_assert_ptr_null(account_over(NULL));
}
END_TEST

/* ---- a store's memory ---- */

static struct store *store_of(struct account *a)
{
	const struct store_limits l = {1000, 1 << 20, 1 << 20, 8, "alice/x", a};

	return store_new(&l);
}

/* Everything that a store can hold; then the store is freed. */
START_TEST(a_freed_store_leaves_nothing_counted)
{
	static const struct slice twice[] = {{"a", 1}, {"b", 1}};
	struct store_waiter w[3] = {{.owner = NULL}};
	struct store *s = store_of(job);
	size_t before, values = 0;
	void *lent;

	ck_assert_int_eq(store_set(s, SLICE_STR("k"), SLICE_STR("value"), &e),
			 0);
	ck_assert_int_eq(store_push(s, SLICE_STR("q"), SLICE_STR("v"), &e), 0);
	ck_assert_int_gt(store_append(s, SLICE_STR("l"), SLICE_STR("v"), &e),
			 0);
	before = job->bytes;
	values = store_bytes(s);
	ck_assert_uint_gt(before, values);
	ck_assert_int_eq(store_wait(s, twice, 2, &w[0], &e), 0);
	ck_assert_int_eq(store_barrier(s, SLICE_STR("m"), 2, &w[1], &e), 0);
	ck_assert_int_eq(store_gather(s, SLICE_STR("g"), 8, 3,
				      SLICE_STR("mine"), &w[2], &e), 0);
	lent = store_memory_new(s, 100, &e);
	ck_assert_ptr_nonnull(lent);
	ck_assert_uint_gt(job->bytes, before + 100 + 2 * sizeof(void *));
	store_memory_free(s, lent, 100);
	for (int i = 0; i < 3; i++)
		store_waiter_release(&w[i]);
	/* a released waiter is no longer charged */
	ck_assert_uint_eq(job->bytes, before);
	ck_assert_uint_eq(store_bytes(s), values);
	store_free(s);
	ck_assert_uint_eq(job->bytes, 0);
}
END_TEST

/* Makes as many as fit; those refused leave nothing behind. */
static uint32_t fill_with_gathers(struct store *s, struct store_waiter *w,
				  uint32_t n)
{
	size_t before;
	char key[16];

	for (uint32_t i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%u", i);
		before = job->bytes;
		if (store_gather(s, SLICE_STR(key), 8, 0, SLICE_STR("v"),
				 &w[i], &e) == 0)
			continue;
		ck_assert_int_eq(e.code, ERR_REFUSED);
		ck_assert_uint_eq(job->bytes, before);
		return i;
	}
	return n;
}

START_TEST(gathers_with_a_single_caller_are_limited)
{
	static struct store_waiter w[1000];
	struct store *s = store_of(job);
	uint32_t n = fill_with_gathers(s, w, 1000);

	ck_assert_uint_gt(n, 0);
	ck_assert_uint_lt(n, 100);
	ck_assert_uint_le(job->bytes, limits.job_bytes);
	while (n--)
		store_waiter_release(&w[n]);
	ck_assert_uint_eq(job->bytes, 0);
	store_free(s);
}
END_TEST

/* PyTorch's clients may still use it when its job is freed. */
START_TEST(a_store_outlives_the_job_that_it_is_counted_for)
{
	struct account *a = account_of_job(SLICE_STR("alice/z"), tenant,
					   &limits);
	struct store *s = store_of(a);

	account_unref(a);
	ck_assert_int_eq(store_set(s, SLICE_STR("k"), SLICE_STR("v"), &e), 0);
	ck_assert_uint_gt(tenant->bytes, 2);
	store_free(s);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("account");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, a_jobs_name_says_its_tenant);
	tcase_add_test(tc, a_tenant_has_one_account);
	tcase_add_test(tc, the_jobs_limit_is_exact_to_the_byte);
	tcase_add_test(tc, the_tenants_limit_is_enforced);
	tcase_add_test(tc, existing_bytes_count_beyond_the_limit);
	tcase_add_test(tc, an_account_without_owner_counts_nothing);
	tcase_add_test(tc, a_freed_store_leaves_nothing_counted);
	tcase_add_test(tc, gathers_with_a_single_caller_are_limited);
	tcase_add_test(tc, a_store_outlives_the_job_that_it_is_counted_for);
	return run_case(tc);
}
