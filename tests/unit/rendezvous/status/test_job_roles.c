/* test_job_roles.c: the roles of a job, from a text that may be anything. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/status/job_roles.h"
#include "tests/unit/run_case.h"

static struct buf alike;
static struct wire_job job;

static void set(const char *roles, const char *optional)
{
	const struct wire_option all = {SLICE_STR("roles"), SLICE_STR(roles)};
	const struct wire_option some = {SLICE_STR("--role-optional"),
					 SLICE_STR(optional)};

	buf_release(&alike);
	buf_init(&alike, 1 << 16);
	wire_put_option(&alike, &all);
	wire_put_option(&alike, &some);
	job = (struct wire_job){.alike = SLICE(alike.data, alike.len)};
}

/* "name ranks; name ranks!": ! is optional. */
static const char *show(void)
{
	static char out[1024];
	struct slice text = job_roles_text(&job);
	struct buf b = BUF_INIT(sizeof(out));
	struct job_role r;

	while (job_roles_next(&job, &text, &r))
		buf_printf(&b, "%s%.*s %.*s%s", b.len ? "; " : "",
			   SLICE_FMT(r.name), SLICE_FMT(r.ranks),
			   r.is_optional ? "!" : "");
	buf_put_u8(&b, '\0');
	ck_assert(!b.failed);
	memcpy(out, b.data, b.len);
	buf_release(&b);
	return out;
}

/* The role of a rank, as it should be; "": not known. */
static const struct {
	const char *roles, *shown;
	struct {
		uint32_t rank;
		const char *role;
	} ranks[6];
} texts[] = {
	{"learner=0-3 actor=4,6-11", "learner 0-3; actor 4,6-11!",
	 {{0, "learner"}, {3, "learner"}, {4, "actor"}, {5, ""}, {6, "actor"},
	  {12, ""}}},
	{"a=1,3 rest=*", "a 1,3; rest *",
	 {{0, "rest"}, {1, "a"}, {2, "rest"}, {3, "a"}, {1000000, "rest"}}},
	{"rest=* a=0", "rest *; a 0", {{0, "a"}, {1, "rest"}}},
	{"", "", {{0, ""}}},
	/* what an agent never says */
	{"a=0-1 and more (0badcafe)", "a 0-1", {{1, "a"}, {2, ""}}},
	{"= =1 x= a", "", {{1, ""}}},
	{"a=- b=,,, c=5- d=99999999999999999999999 e=1-x f=2",
	 "a -; b ,,,; c 5-; d 99999999999999999999999; e 1-x; f 2",
	 {{0, ""}, {2, "f"}, {5, "c"}, {1, ""}}},
	{"a=0-4294967295", "a 0-4294967295", {{UINT32_MAX, "a"}}},
};

START_TEST(a_text_of_roles_is_read)
{
	set(texts[_i].roles, "actors actor");
	ck_assert_str_eq(show(), texts[_i].shown);
	for (int i = 0; i < 6 && texts[_i].ranks[i].role; i++) {
		struct slice role = job_roles_of(&job, texts[_i].ranks[i].rank);

		ck_assert_msg(role.len == strlen(texts[_i].ranks[i].role) &&
				      !memcmp(role.data,
					      texts[_i].ranks[i].role,
					      role.len),
			      "'%s': rank %u is '%.*s'", texts[_i].roles,
			      texts[_i].ranks[i].rank, SLICE_FMT(role));
	}
}
END_TEST

START_TEST(a_job_of_one_program_has_no_role)
{
	job = (struct wire_job){.alike = SLICE("", 0)};
	ck_assert_str_eq(show(), "");
	ck_assert_uint_eq(job_roles_of(&job, 0).len, 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("job_roles");

	tcase_add_loop_test(c, a_text_of_roles_is_read, 0,
			    sizeof(texts) / sizeof(*texts));
	tcase_add_test(c, a_job_of_one_program_has_no_role);
	return run_case(c);
}
