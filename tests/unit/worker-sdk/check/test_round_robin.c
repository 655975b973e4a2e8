/* test_round_robin.c: the pairs that measure, for many numbers of nodes. */
#include <stdlib.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/check/round_robin.h"

enum { NODES_MAX = 40 };

START_TEST(each_pair_meets_exactly_once)
{
	for (int n = 1; n <= NODES_MAX; n++) {
		int met[NODES_MAX][NODES_MAX] = {{0}};

		for (int r = 0; r < round_robin_rounds(n); r++) {
			for (int i = 0; i < n; i++) {
				int k = round_robin_partner(n, r, i);

				if (k >= 0)
					met[i][k]++;
			}
		}
		for (int i = 0; i < n; i++) {
			for (int k = 0; k < n; k++)
				ck_assert_int_eq(met[i][k], i != k);
		}
	}
}
END_TEST

START_TEST(a_node_is_in_one_pair_at_a_time)
{
	for (int n = 2; n <= NODES_MAX; n++) {
		for (int r = 0; r < round_robin_rounds(n); r++) {
			int rest = 0;

			for (int i = 0; i < n; i++) {
				int k = round_robin_partner(n, r, i);

				rest += k < 0;
				if (k >= 0)
					ck_assert_int_eq(
						round_robin_partner(n, r, k),
						i);
			}
			ck_assert_int_eq(rest, n % 2);
		}
	}
}
END_TEST

START_TEST(a_tournament_has_as_few_rounds_as_possible)
{
	ck_assert_int_eq(round_robin_rounds(1), 0);
	ck_assert_int_eq(round_robin_rounds(2), 1);
	ck_assert_int_eq(round_robin_rounds(3), 3);
	ck_assert_int_eq(round_robin_rounds(16), 15);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("round_robin");

	tcase_add_test(c, each_pair_meets_exactly_once);
	tcase_add_test(c, a_node_is_in_one_pair_at_a_time);
	tcase_add_test(c, a_tournament_has_as_few_rounds_as_possible);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
