/* test_delays.c: the kernel's counters and files in, words out; and what it
 * says of this process. */
#include <check.h>
#include <string.h>
#include <unistd.h>

#include "launcher/watch/wait_share.h"
#include "tests/unit/run_case.h"

#define S UINT64_C(1000000)

START_TEST(each_cause_has_its_words)
{
	static const struct {
		struct delays d;
		const char *words;
	} cases[] = {
		/* a throttled thread also waits for a CPU */
		{{.throttled_us = 21 * S, .queued_us = 30 * S},
		 "its cgroup was throttled for 21 s of the last 60 s"},
		/* a thread that rested for 30 s; four on four CPUs */
		{{.throttled_us = 21 * S, .limited_us = 9 * S},
		 "its cgroup was throttled for 21 s of the last 60 s"},
		{{.throttled_us = 120 * S, .limited_us = 120 * S},
		 "its cgroup was throttled for 30 s of the last 60 s"},
		{{.throttled_us = 150 * S},
		 "its cgroup was throttled for 60 s of the last 60 s"},
		{{.queued_us = 30 * S, .disk_us = 4 * S, .switches = 812},
		 "other processes had its CPU for 30 s of the last 60 s (812 "
		 "switches)"},
		{{.disk_us = 30 * S, .queued_us = 4 * S},
		 "it waited for disks for 30 s of the last 60 s"},
		{{.major_faults = 5000, .cpu_us = 50 * S},
		 "it read 5000 pages from disks (major faults) in the last 60 "
		 "s"},
		{{.segments = 10000, .resent = 300},
		 "its host sent 3 % of its TCP segments again"},
		{{.throttled_us = 2 * S,
		  .queued_us = 2 * S,
		  .disk_us = 2 * S,
		  .major_faults = 100,
		  .segments = 10000,
		  .resent = 60,
		  .cpu_us = 57 * S},
		 "the kernel shows no cause (it had a CPU 95 % of the time)"},
	};
	const struct delays none = {0};
	char out[DELAYS_WORDS_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		ck_assert_str_eq(delays_words(&none, &cases[i].d, 60 * S, out),
				 cases[i].words);
}
END_TEST

START_TEST(counters_of_another_process_or_cgroup_are_no_cause)
{
	const struct delays from = {.throttled_us = 90 * S,
				    .queued_us = 90 * S,
				    .disk_us = 90 * S,
				    .major_faults = 90000,
				    .cpu_us = 90 * S,
				    .segments = 9,
				    .resent = 9};
	const struct delays to = {0};
	char out[DELAYS_WORDS_MAX];

	ck_assert_str_eq(
		delays_words(&from, &to, 60 * S, out),
		"the kernel shows no cause (it had a CPU 0 % of the time)");
	ck_assert_ptr_nonnull(strstr(delays_words(&to, &from, 0, out), " s"));
}
END_TEST

START_TEST(the_cgroup_that_limits_cpu_time_is_found)
{
	static const struct {
		const char *text, *path;
		int version;
	} cases[] = {
		{"0::/user.slice/job_7\n", "/user.slice/job_7", 2},
		{"9:memory:/a\n3:cpuset:/b\n2:cpu,cpuacct:/c\n0::/d\n", "/c",
		 1},
		{"2:cpuacct,cpu:/c\n", "/c", 1},
		{"1:cpu:/\n0::/d", "/", 1},
		{"3:cpuset:/b\n2:cpuacct:/c\n", "", 0},
		{"", "", 0},
		{"0", "", 0},
		{"0:", "", 0},
		{"0::", "", 2},
	};
	char path[32];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		ck_assert_int_eq(
			delays_cgroup(cases[i].text, path, sizeof(path)),
			cases[i].version);
		ck_assert_str_eq(path, cases[i].path);
	}
}
END_TEST

START_TEST(a_line_of_a_file_is_found_by_its_whole_name)
{
	const char *text = "nr_throttled 7\nthrottled_usec 8123\nx\t3\n";

	ck_assert_uint_eq(delays_count(text, "throttled_usec"), 8123);
	ck_assert_uint_eq(delays_count(text, "nr_throttled"), 7);
	ck_assert_uint_eq(delays_count(text, "x"), 3);
	ck_assert_uint_eq(delays_count(text, "throttled"), 0);
	ck_assert_uint_eq(delays_count("", "x"), 0);
}
END_TEST

START_TEST(this_process_has_its_counters_and_a_dead_one_has_none)
{
	const struct delays none = {0};
	struct delays d;
	volatile uint64_t sum = 0;

	if (access("/proc/self/schedstat", R_OK)) /* an option of the kernel */
		return;
	do {
		for (int i = 0; i < 100000; i++)
			sum = sum + (uint64_t)i;
		delays_read(getpid(), &d);
	} while (!d.cpu_us);
	delays_read(-1, &d);
	ck_assert_mem_eq(&d, &none, sizeof(d));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("delays");

	tcase_add_test(c, each_cause_has_its_words);
	tcase_add_test(c, counters_of_another_process_or_cgroup_are_no_cause);
	tcase_add_test(c, the_cgroup_that_limits_cpu_time_is_found);
	tcase_add_test(c, a_line_of_a_file_is_found_by_its_whole_name);
	tcase_add_test(c,
		       this_process_has_its_counters_and_a_dead_one_has_none);
	return run_case(c);
}
