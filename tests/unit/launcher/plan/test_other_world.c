/* test_other_world.c: the variables of other frameworks' jobs. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launcher/plan/framework.h"
#include "launcher/plan/other_world.h"
#include "tests/unit/run_case.h"

static char room[OTHER_WORLD_TEXT_MAX];

START_TEST(only_a_node_with_one_worker_passes_a_place_on)
{
	static const struct {
		const char *var;
		uint32_t nproc;
		int want;
	} rows[] = {
		{"TF_CONFIG={}", 2, 1},
		{"TF_CONFIG={}", 1, 0},
		{"TF_CONFIGS={}", 2, 0},
		{"PADDLE_TRAINER_ID=0", 8, 1},
		{"PADDLE_OTHER=0", 8, 0},
		{"HOROVOD_GLOO_RENDEZVOUS_ADDR=h", 2, 1},
		{"HOROVOD_FUSION_THRESHOLD=1", 2, 0},
		{"", 2, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_int_eq(other_world_is_hidden(rows[i].var,
						       rows[i].nproc),
				 rows[i].want);
}
END_TEST

START_TEST(variables_of_another_world_are_reported)
{
	char *two[] = {(char *)"A=1", (char *)"TF_CONFIG={}",
		       (char *)"PADDLE_TRAINER_ID=0", NULL};
	char *none[] = {(char *)"A=1", NULL};

	ck_assert_str_eq(other_world_text(two, 0, 4, 8, room),
			 "TF_CONFIG, PADDLE_TRAINER_ID are not passed on to "
			 "the workers: all 4 of this node would take the same "
			 "place in another job; let each worker set its own "
			 "(docs/environment.txt)");
	ck_assert_str_eq(other_world_text(&two[2], 0, 1, 8, room),
			 "PADDLE_TRAINER_ID is passed on to the workers, "
			 "because this node has only one: unset it if it is of "
			 "another job (docs/environment.txt)");
	ck_assert_ptr_null(other_world_text(none, 0, 4, 8, room));
	ck_assert_ptr_null(other_world_text(two, 0, 1, 1, room));
	ck_assert_ptr_null(other_world_text(
		two, FRAMEWORK_TF | FRAMEWORK_PADDLE, 4, 8, room));
}
END_TEST

/* A list that is too long is cut off; the sentence after it is not. */
START_TEST(many_names_leave_room_for_the_sentence)
{
	static char vars[40][64];
	char *list[41] = {NULL};

	for (int i = 0; i < 40; i++) {
		snprintf(vars[i], sizeof(vars[i]), "HOROVOD_GLOO_%040d=x", i);
		list[i] = vars[i];
	}
	ck_assert_ptr_nonnull(other_world_text(list, 0, 100, 200, room));
	ck_assert_uint_lt(strlen(room), sizeof(room));
	ck_assert_ptr_nonnull(strstr(room, "(docs/environment.txt)"));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("other_world");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, only_a_node_with_one_worker_passes_a_place_on);
	tcase_add_test(c, variables_of_another_world_are_reported);
	tcase_add_test(c, many_names_leave_room_for_the_sentence);
	return run_case(c);
}
