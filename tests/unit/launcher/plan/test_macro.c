/* test_macro.c: the macros in a worker's arguments. */
#include <check.h>
#include <string.h>

#include "launcher/plan/macro.h"
#include "tests/unit/run_case.h"

static char *vars[] = {
	(char *)"WORLD_SIZE=16", (char *)"LOCAL_WORLD_SIZE=8",
	(char *)"GROUP_RANK=1", (char *)"GROUP_WORLD_SIZE=2",
	(char *)"ROLE_NAME=actor", (char *)"ROLE_RANK=3",
	(char *)"ROLE_WORLD_SIZE=4", (char *)"RANKS=no",
	(char *)"MASTER_ADDR=a-name-of-a-host.example.org",
	(char *)"MASTER_PORT=29500", (char *)"JAX_COORDINATOR_PORT=7",
	(char *)"TORCHELASTIC_RESTART_COUNT=2",
	(char *)"TORCHELASTIC_MAX_RESTARTS=5",
	(char *)"TORCHELASTIC_RUN_ID=$$", (char *)"RANK=12", NULL,
};

static const char *expanded(const char *text, const struct macro_values *v)
{
	static char out[256];
	char *end = macro_expand(text, v, out);

	ck_assert_ptr_eq(end, out + strlen(out) + 1);
	ck_assert_uint_le(strlen(out) + 1, macro_room(text, vars));
	return out;
}

struct row {
	const char *text, *want;
};

static void check(const struct row *rows, size_t n,
		  const struct macro_values *v)
{
	for (size_t i = 0; i < n; i++)
		ck_assert_str_eq(expanded(rows[i].text, v), rows[i].want);
}

/* As Python's Template(text).safe_substitute(local_rank=...) does it. */
START_TEST(macros_as_python_substitutes_them)
{
	static const struct row rows[] = {
		{"${local_rank}", "12"},
		{"$local_rank", "12"},
		{"--out=log.${local_rank}.txt", "--out=log.12.txt"},
		{"$local_rank.$local_rank", "12.12"},
		{"$local_rank-x", "12-x"},
		{"$local_rank_x", "$local_rank_x"},
		{"$local_rank9", "$local_rank9"},
		{"$LOCAL_RANK", "$LOCAL_RANK"},
		{"${local_rank", "${local_rank"},
		{"${local_rank }", "${local_rank }"},
		{"$$ $local_rank", "$ 12"},
		{"$$$$$local_rank", "$$12"},
		/* not ours: the shell's pid, or another's variable */
		{"echo $$", "echo $$"},
		{"kill $$ $LOCAL_RANK $local_ranks",
		 "kill $$ $LOCAL_RANK $local_ranks"},
		{"$$local_rank", "$local_rank"},
		{"$$$local_rank", "$12"},
		{"$$${local_rank}", "$12"},
		{"$", "$"},
		{"a$", "a$"},
		{"$1 $(x) ${}", "$1 $(x) ${}"},
		{"", ""},
		{"plain", "plain"},
	};
	struct macro_values v = {.vars = vars, .local_rank = 12};

	check(rows, sizeof(rows) / sizeof(*rows), &v);
	v.local_rank = UINT32_MAX;
	ck_assert_str_eq(expanded("$local_rank", &v), "4294967295");
}
END_TEST

START_TEST(macros_from_the_variables_of_the_worker)
{
	static const struct row rows[] = {
		{"${rank}", "12"},
		{"${rank}/${world_size}", "12/16"},
		{"${local_rank} of ${local_world_size}", "4 of 8"},
		{"${node_rank} ${group_rank}", "1 1"},
		{"${nnodes} ${group_world_size}", "2 2"},
		{"${role_name} ${role_rank} ${role_world_size}", "actor 3 4"},
		{"tcp://${master_addr}:${master_port}",
		 "tcp://a-name-of-a-host.example.org:29500"},
		{"${coordinator_port}", "7"},
		{"${restart_count}/${max_restarts}", "2/5"},
		/* a value is not expanded again */
		{"${run_id}", "$$"},
		{"$$ ${rank}", "$ 12"},
		{"$${rank}", "${rank}"},
		/* without braces these are a script's own variables */
		{"for rank in 1 2; do echo $rank $$; done",
		 "for rank in 1 2; do echo $rank $$; done"},
		{"$rank ${rank}", "$rank 12"},
		{"${ranks} ${RANK} ${rank:-0} ${rank", "${ranks} ${RANK} "
		 "${rank:-0} ${rank"},
	};
	const struct macro_values v = {.vars = vars, .local_rank = 4};

	check(rows, sizeof(rows) / sizeof(*rows), &v);
}
END_TEST

START_TEST(only_the_macro_of_the_port_asks_for_one)
{
	ck_assert(macro_is_port_in("--listen=${port}"));
	ck_assert(macro_is_port_in("$$ ${rank} ${port}"));
	ck_assert(!macro_is_port_in("${ports} $port ${master_port}"));
	ck_assert(!macro_is_port_in("${rank} $local_rank"));
}
END_TEST

START_TEST(a_macro_without_a_known_value_stays)
{
	static const struct row rows[] = {
		{"${rank} ${world_size}", "${rank} 16"},
		{"$$ ${rank} ${local_rank}", "$ ${rank} 4"},
	};
	static const char *const unknown[] = {"MASTER_PORT", "RANK", NULL};
	const struct macro_values v = {
		.vars = vars, .unknown = unknown, .local_rank = 4,
	};
	char *none[] = {NULL};
	const struct macro_values unset = {.vars = none, .local_rank = 4};

	check(rows, sizeof(rows) / sizeof(*rows), &v);
	ck_assert_str_eq(expanded("${rank}", &unset), "${rank}");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("macro");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, macros_as_python_substitutes_them);
	tcase_add_test(c, macros_from_the_variables_of_the_worker);
	tcase_add_test(c, only_the_macro_of_the_port_asks_for_one);
	tcase_add_test(c, a_macro_without_a_known_value_stays);
	return run_case(c);
}
