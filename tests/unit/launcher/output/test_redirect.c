/* test_redirect.c: the descriptors that this process holds of a worker's
 * stream; masks of streams per local rank. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/output/redirect.h"
#include "tests/unit/run_case.h"

/* Returns a new descriptor. */
static int open_one(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static int is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

START_TEST(all_that_is_open_is_closed_once)
{
	const int child = open_one(), pipe = open_one(), file = open_one();
	struct redirect o = {.child = child, .pipe = pipe,
			     .file = {file, NULL}};
	int later;

	redirect_close(&o);
	ck_assert(is_closed(child) && is_closed(pipe) && is_closed(file));
	later = open_one();
	redirect_close(&o);
	ck_assert(!is_closed(later) && !is_closed(0));
}
END_TEST

/* ---- std_map ---- */

START_TEST(one_mask_applies_to_all_ranks)
{
	struct err e = ERR_INIT;

	for (int mask = 0; mask < 4; mask++) {
		char text[2] = {(char)('0' + mask), '\0'};

		ck_assert_int_eq(std_map_check(text, 1, "--tee", &e), 0);
		ck_assert_int_eq(std_map_of(text, 0), mask);
		ck_assert_int_eq(std_map_of(text, 4000), mask);
		ck_assert_int_eq(std_map_is_empty(text), mask == 0);
	}
}
END_TEST

START_TEST(a_map_applies_to_the_ranks_that_it_names)
{
	static const char text[] = "0:1,3:2,12:3,100:0";
	struct err e = ERR_INIT;

	ck_assert_int_eq(std_map_check(text, 101, "--tee", &e), 0);
	ck_assert_int_eq(std_map_of(text, 0), STD_OUT);
	ck_assert_int_eq(std_map_of(text, 1), STD_NONE);
	ck_assert_int_eq(std_map_of(text, 3), STD_ERR);
	ck_assert_int_eq(std_map_of(text, 12), STD_BOTH);
	ck_assert_int_eq(std_map_of(text, 2), STD_NONE);
	ck_assert_int_eq(std_map_of(text, 100), STD_NONE);
	ck_assert(!std_map_is_empty(text));
	ck_assert(std_map_is_empty("0:0,1:0"));
}
END_TEST

START_TEST(an_invalid_map_is_refused)
{
	static const char *const bad[] = {
		"", "4", "-1", "11", "a", "0:", ":1", "0:4", "0:1,", ",0:1",
		"0:1 ,1:1", "0:1;1:2", "0:12", "0:1,,1:1",
		"99999999999999999999:1", "1:1:1", "0",
	};
	struct err e;

	for (size_t i = 0; i + 1 < sizeof(bad) / sizeof(*bad); i++) {
		e = (struct err)ERR_INIT;
		ck_assert_msg(std_map_check(bad[i], 8, "--tee", &e) ==
			      ERR_USAGE, "'%s' was taken", bad[i]);
		ck_assert(strstr(e.text, "--tee"));
		ck_assert(strstr(e.text, bad[i]));
	}
	ck_assert_int_eq(std_map_check("8:1", 8, "--tee", &e), ERR_USAGE);
	ck_assert(strstr(e.text, "0 to 7"));
	ck_assert_int_eq(std_map_check("1:1,2:1,1:2", 8, "--tee", &e),
			 ERR_USAGE);
	ck_assert(strstr(e.text, "twice"));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("redirect");

	tcase_add_test(c, all_that_is_open_is_closed_once);
	tcase_add_test(c, one_mask_applies_to_all_ranks);
	tcase_add_test(c, a_map_applies_to_the_ranks_that_it_names);
	tcase_add_test(c, an_invalid_map_is_refused);
	return run_case(c);
}
