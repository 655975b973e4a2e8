/* test_schedule.c: each step's rate equals that of PyTorch 1.13's
 * schedulers. */
#include <check.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "trainers/train/schedule.h"

static void same(const struct schedule *s, const double *want, int n)
{
	for (int i = 0; i < n; i++)
		ck_assert_double_eq_tol(schedule_lr(s, (uint64_t)i), want[i],
					1e-12);
}

START_TEST(constant_stays)
{
	struct schedule s = {SCHEDULE_CONSTANT, 0.1, 0, 10};

	for (uint64_t i = 0; i < 20; i++)
		ck_assert(schedule_lr(&s, i) == 0.1);
}
END_TEST

START_TEST(constant_after_a_warm_up)
{
	/* LinearLR(start_factor=0.01, total_iters=4) */
	const double want[] = {0.002, 0.0515, 0.101, 0.1505,
			       0.2,   0.2,    0.2,   0.2};
	struct schedule s = {SCHEDULE_CONSTANT, 0.2, 4, 8};

	same(&s, want, 8);
}
END_TEST

START_TEST(cosine_is_cosine_annealing)
{
	/* CosineAnnealingLR(T_max=10) */
	const double want[] = {
		0.1, 0.09755282581475769, 0.09045084971874738,
		0.07938926261462367, 0.06545084971874739, 0.05,
		0.03454915028125264, 0.020610737385376353,
		0.009549150281252635, 0.002447174185242324,
	};
	struct schedule s = {SCHEDULE_COSINE, 0.1, 0, 10};

	same(&s, want, 10);
}
END_TEST

START_TEST(cosine_after_a_warm_up)
{
	/* SequentialLR([LinearLR(0.01, total_iters=4), CosineAnnealingLR(8)],
	 * milestones=[4]) */
	const double want[] = {
		0.002, 0.0515, 0.101, 0.1505, 0.2, 0.19238795325112867,
		0.17071067811865476, 0.138268343236509, 0.1,
		0.06173165676349103, 0.029289321881345254,
		0.007612046748871327,
	};
	struct schedule s = {SCHEDULE_COSINE, 0.2, 4, 12};

	same(&s, want, 12);
	/* the rate does not rise again in a run that continues past its end */
	ck_assert(schedule_lr(&s, 100) == schedule_lr(&s, 11));
}
END_TEST

START_TEST(one_cycle_is_one_cycle)
{
	/* OneCycleLR(max_lr=0.4, total_steps=10, pct_start=0.3) */
	const double want[] = {
		0.016, 0.208, 0.4, 0.38019385280538953, 0.3246982615799052,
		0.24450480877451572, 0.1554967912254843, 0.0753033384200948,
		0.019807747194610516, 1.6e-06,
	};
	struct schedule s = {SCHEDULE_ONE_CYCLE, 0.4, 3, 10};

	same(&s, want, 10);
	ck_assert(schedule_lr(&s, 50) == schedule_lr(&s, 9));
}
END_TEST

/* pct_start times total_steps need not be whole: 0.25 of 10, 0.1 of 7, which is
 * less than a step, and 0. */
START_TEST(one_cycle_turns_between_two_steps)
{
	const double ten[] = {
		0.004, 0.076, 0.09890738440717015, 0.0904508879153485,
		0.0750001, 0.05522660225769002, 0.03454941208465151,
		0.01654380350817838, 0.0043231098269614805, 4e-07,
	};
	const double seven[] = {
		0.09944154354509119, 0.08985666593464468, 0.07056447289910997,
		0.046263710266697504, 0.02287299531596481,
		0.006089296975803242, 4e-07,
	};
	const double four[] = {0.08535539763797113, 0.0500002,
			       0.014645002362028864, 4e-07};

	same(&(struct schedule){SCHEDULE_ONE_CYCLE, 0.1, 2.5, 10}, ten, 10);
	same(&(struct schedule){SCHEDULE_ONE_CYCLE, 0.1, 0.1 * 7, 7}, seven, 7);
	same(&(struct schedule){SCHEDULE_ONE_CYCLE, 0.1, 0, 4}, four, 4);
}
END_TEST

/* For all options the rate is above 0, at most lr, and never NaN. */
START_TEST(short_runs_also_have_rates)
{
	for (int kind = 0; kind < SCHEDULES; kind++)
		for (uint64_t total = 0; total < 6; total++)
			for (uint64_t up = 0; up < 8; up++)
				for (uint64_t i = 0; i < 8; i++) {
					struct schedule s = {
						kind, 0.5, (double)up, total};
					double lr = schedule_lr(&s, i);

					ck_assert(lr > 0 && lr <= 0.5);
				}
}
END_TEST

START_TEST(names_are_found)
{
	struct err e = ERR_INIT;

	for (int i = 0; i < SCHEDULES; i++)
		ck_assert_int_eq(schedule_find(schedule_name(i), &e), i);
	ck_assert_int_eq(schedule_find("linear", &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(
		e.text, "'linear' is not one of constant, cosine, one-cycle"));
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("schedule");

	tcase_add_test(t, constant_stays);
	tcase_add_test(t, constant_after_a_warm_up);
	tcase_add_test(t, cosine_is_cosine_annealing);
	tcase_add_test(t, cosine_after_a_warm_up);
	tcase_add_test(t, one_cycle_is_one_cycle);
	tcase_add_test(t, one_cycle_turns_between_two_steps);
	tcase_add_test(t, short_runs_also_have_rates);
	tcase_add_test(t, names_are_found);
	return run_case(t);
}
