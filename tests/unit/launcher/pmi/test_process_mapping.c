/* test_process_mapping.c: even and uneven layouts. */
#include <check.h>
#include <string.h>

#include "launcher/pmi/process_mapping.h"
#include "tests/unit/run_case.h"

static const struct layout {
	uint32_t ranks[6], nodes;
	const char *text;
} layouts[] = {
	{{1}, 1, "(vector,(0,1,1))"},
	{{8}, 1, "(vector,(0,1,8))"},
	{{2, 2, 2}, 3, "(vector,(0,3,2))"},
	{{4, 1}, 2, "(vector,(0,1,4),(1,1,1))"},
	{{1, 4, 4, 4, 2, 2}, 6, "(vector,(0,1,1),(1,3,4),(4,2,2))"},
	{{1, 2, 1, 2}, 4, "(vector,(0,1,1),(1,1,2),(2,1,1),(3,1,2))"},
};

START_TEST(each_run_of_equal_nodes_is_a_block)
{
	const struct layout *l = &layouts[_i];
	char text[100];

	ck_assert_int_eq(process_mapping_put(l->ranks, l->nodes, text,
					     sizeof(text)), 1);
	ck_assert_str_eq(text, l->text);
	/* with room for the text and its NUL, and no more */
	ck_assert_int_eq(process_mapping_put(l->ranks, l->nodes, text,
					     strlen(l->text) + 1), 1);
	for (size_t size = 1; size <= strlen(l->text); size++)
		ck_assert_int_eq(process_mapping_put(l->ranks, l->nodes, text,
						     size), 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("process_mapping");

	tcase_add_loop_test(c, each_run_of_equal_nodes_is_a_block, 0,
			    sizeof(layouts) / sizeof(*layouts));
	return run_case(c);
}
