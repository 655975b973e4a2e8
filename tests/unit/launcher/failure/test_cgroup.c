/* test_cgroup.c: finding the memory cgroup in texts as kernels write them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/failure/postmortem.h"
#include "tests/unit/run_case.h"

#define MOUNT1 "/sys/fs/cgroup/memory"

static struct cgroup c;

START_TEST(version_1)
{
	cgroup_parse(&c, "9:name=systemd:/\n4:memory:/slurm/uid_0/job_7\n"
		     "1:cpu:/x\n0::/elsewhere\n",
		     "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup "
		     "cgroup rw,cpuset\n"
		     "35 31 0:32 / " MOUNT1 " rw,relatime shared:9 - cgroup "
		     "cgroup rw,memory\n"
		     "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 "
		     "rw\n");
	ck_assert_int_eq(c.version, 1);
	ck_assert_str_eq(c.path, "/slurm/uid_0/job_7");
	ck_assert_str_eq(c.dir, MOUNT1 "/slurm/uid_0/job_7");
	ck_assert_uint_eq(c.mounted, strlen(MOUNT1));
}
END_TEST

START_TEST(version_2)
{
	cgroup_parse(&c, "0::/user.slice/session-3.scope\n",
		     "24 30 0:22 / /proc rw - proc proc rw\n"
		     "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 "
		     "cgroup2 rw,nsdelegate,memory_recursiveprot\n");
	ck_assert_int_eq(c.version, 2);
	ck_assert_str_eq(c.dir, "/sys/fs/cgroup/user.slice/session-3.scope");
}
END_TEST

START_TEST(controllers_that_share_a_hierarchy)
{
	cgroup_parse(&c, "3:cpu,memory,pids:/a\n",
		     "35 31 0:32 / /cg rw - cgroup none rw,cpu,memory,pids\n");
	ck_assert_int_eq(c.version, 1);
	ck_assert_str_eq(c.dir, "/cg/a");
}
END_TEST

START_TEST(a_container_that_sees_only_its_part)
{
	/* version 1 without a namespace: the mount shows a part of the tree */
	cgroup_parse(&c, "4:memory:/docker/abc/inner\n",
		     "35 31 0:32 /docker/abc " MOUNT1 " ro - cgroup cgroup "
		     "rw,memory\n");
	ck_assert_str_eq(c.dir, MOUNT1 "/inner");
	cgroup_parse(&c, "4:memory:/docker/abc\n",
		     "35 31 0:32 /docker/abc " MOUNT1 " ro - cgroup cgroup "
		     "rw,memory\n");
	ck_assert_str_eq(c.dir, MOUNT1);
	/* "/docker/ab" is no parent of "/docker/abc" */
	cgroup_parse(&c, "4:memory:/docker/abc\n",
		     "35 31 0:32 /docker/ab " MOUNT1 " ro - cgroup cgroup "
		     "rw,memory\n");
	ck_assert_str_eq(c.dir, MOUNT1);
	/* version 2 with one: the path is seen from the namespace's root */
	cgroup_parse(&c, "0::/../other\n",
		     "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
	ck_assert_str_eq(c.dir, "/sys/fs/cgroup");
	cgroup_parse(&c, "0::/\n",
		     "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
	ck_assert_str_eq(c.dir, "/sys/fs/cgroup");
}
END_TEST

START_TEST(a_mount_point_with_a_blank)
{
	cgroup_parse(&c, "0::/x\n", "30 23 0:26 / /my\\040cg rw - cgroup2 c rw"
		     "\n");
	ck_assert_str_eq(c.dir, "/my cg/x");
}
END_TEST

START_TEST(none)
{
	static const char *const texts[][2] = {
		{"", ""},
		{"4:memory:/x\n", ""},
		{"", "30 23 0:26 / /cg rw - cgroup2 cgroup rw\n"},
		{"garbage", "garbage"},
		{"0::/x", "30 23 - cgroup2\n - cgroup2 c rw\n"},
		{"1:cpu:/x\n", "35 31 0:32 / /cg rw - cgroup none rw,cpu\n"},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		cgroup_parse(&c, texts[i][0], texts[i][1]);
		ck_assert_int_eq(c.version, 0);
	}
}
END_TEST

START_TEST(a_path_that_is_too_long)
{
	char path[3000];

	memset(path, 'x', sizeof(path));
	memcpy(path, "0::/", 4);
	strcpy(path + sizeof(path) - 2, "\n");
	cgroup_parse(&c, path, "30 23 0:26 / /cg rw - cgroup2 cgroup rw\n");
	ck_assert_int_eq(c.version, 0);
}
END_TEST

START_TEST(counts)
{
	const char *v1 = "oom_kill_disable 0\nunder_oom 1\noom_kill 3\n";
	const char *v2 = "low 0\nhigh 0\nmax 12\noom 4\noom_kill 5\n"
			 "oom_group_kill 0\n";

	ck_assert_int_eq(cgroup_count(v1, "oom_kill"), 3);
	ck_assert_int_eq(cgroup_count(v2, "oom_kill"), 5);
	ck_assert_int_eq(cgroup_count(v2, "oom"), 4);
	ck_assert_int_eq(cgroup_count("oom_kill_disable 0\n", "oom_kill"), -1);
	ck_assert_int_eq(cgroup_count("", "oom_kill"), -1);
}
END_TEST

START_TEST(this_process)
{
	int64_t below = -1;
	char path[CGROUP_PATH_MAX];

	cgroup_find(&c);
	if (c.version == 0)
		ck_assert_int_eq(cgroup_oom_kills(&c, &below), -1);
	else
		ck_assert_int_ge(cgroup_oom_kills(&c, &below), -1);
	ck_assert_int_ge(below, 0);
	cgroup_limit_hit(&c, path, sizeof(path));
}
END_TEST

/* The files of version 2 can be made in any folder. */
static void put_file(const char *dir, const char *name, const char *text)
{
	char path[200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

START_TEST(limits_on_the_way_up)
{
	char top[] = "/tmp/test_cgroup.XXXXXX", a[100], b[100], path[200];
	int64_t below;

	ck_assert_ptr_nonnull(mkdtemp(top));
	snprintf(a, sizeof(a), "%s/a", top);
	snprintf(b, sizeof(b), "%s/a/b", top);
	ck_assert_int_eq(mkdir(a, 0700) | mkdir(b, 0700), 0);
	put_file(b, "memory.max", "max\n");
	put_file(b, "memory.events", "max 0\noom 0\noom_kill 3\n");
	put_file(b, "memory.events.local", "max 0\noom 0\noom_kill 1\n");
	put_file(a, "memory.max", "67108864\n");
	put_file(a, "memory.events", "max 7\noom 3\noom_kill 3\n");
	c = (struct cgroup){.version = 2, .mounted = strlen(top)};
	strcpy(c.dir, b);
	strcpy(c.path, "/a/b");
	ck_assert_int_eq(cgroup_oom_kills(&c, &below), 3);
	ck_assert_int_eq(below, 2);
	ck_assert_uint_eq(cgroup_limit_hit(&c, path, sizeof(path)), 64 << 20);
	ck_assert_str_eq(path, "/a");
	/* nothing ran into the limit: the host ran out of memory */
	put_file(a, "memory.events", "max 0\noom 0\noom_kill 3\n");
	ck_assert_uint_eq(cgroup_limit_hit(&c, path, sizeof(path)), 0);
	for (int i = 0; i < 2; i++) {
		static const char *const names[] = {"memory.max",
			"memory.events", "memory.events.local"};

		for (int n = 0; n < 3; n++) {
			snprintf(path, sizeof(path), "%s/%s", i ? a : b,
				 names[n]);
			remove(path);
		}
		remove(i ? a : b);
	}
	ck_assert_int_eq(remove(top), 0);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("cgroup");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, version_1);
	tcase_add_test(tc, version_2);
	tcase_add_test(tc, controllers_that_share_a_hierarchy);
	tcase_add_test(tc, a_container_that_sees_only_its_part);
	tcase_add_test(tc, a_mount_point_with_a_blank);
	tcase_add_test(tc, none);
	tcase_add_test(tc, a_path_that_is_too_long);
	tcase_add_test(tc, counts);
	tcase_add_test(tc, this_process);
	tcase_add_test(tc, limits_on_the_way_up);
	return run_case(tc);
}
