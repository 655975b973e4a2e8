/* test_postmortem.c: the kernel's log, its core pattern, and what they say
 * about a death. tests/e2e/failure_causes.bats has real kills. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/failure/postmortem.h"
#include "tests/unit/run_case.h"

static struct kernel_log klog;

static void take(const char *record)
{
	kernel_log_add(&klog, record, strlen(record));
}

START_TEST(the_kernel_names_the_process_it_killed)
{
	struct kernel_kill kill;

	klog.n = 0;
	take("4,808,2245784371,-;[  31195]     0 31195      730      416");
	take("6,809,2245784374,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask="
	     "(null),cpuset=/,mems_allowed=0,oom_memcg=/jobs/7,task_memcg="
	     "/jobs/7/step,task=python3,pid=31194,uid=0\n SUBSYSTEM=x\n");
	take("6,810,2245784399,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask="
	     "(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=a,"
	     "pid=77,uid=0");
	take("3,811,2245784397,-;Memory cgroup out of memory: Killed process "
	     "31194 (python3) total-vm:67200kB, anon-rss:64256kB");
	/* killed together with it, so without a line of its own */
	take("3,812,2245784398,-;Memory cgroup out of memory: Killed process "
	     "31199 (python3) total-vm:67200kB, anon-rss:64256kB");
	ck_assert_int_eq(klog.n, 4);
	ck_assert_int_eq(kernel_log_killed(&klog, 31199, &kill), 1);
	ck_assert_int_eq(kill.cgroup, 1);
	ck_assert_str_eq(kill.path, "");
	ck_assert_int_eq(kernel_log_killed(&klog, 31194, &kill), 1);
	ck_assert_int_eq(kill.cgroup, 1);
	ck_assert_str_eq(kill.path, "/jobs/7");
	ck_assert_int_eq(kernel_log_killed(&klog, 77, &kill), 1);
	ck_assert_int_eq(kill.cgroup, 0);
	ck_assert_int_eq(kernel_log_killed(&klog, 31195, &kill), 0);
	ck_assert_ptr_null(kernel_log_xid(&klog));
}
END_TEST

START_TEST(the_drivers_messages_are_found)
{
	klog.n = 0;
	take("4,900,1,-;NVRM: Xid (PCI:0000:3b:00): 13, pid=1, first");
	take("4,901,1,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module");
	take("4,902,1,-;nvidia 0000:3b:00.0: NVRM: Xid (PCI:0000:3b:00): 79, "
	     "GPU has fallen off the bus.\n DEVICE=x");
	ck_assert_str_eq(kernel_log_xid(&klog), "NVRM: Xid (PCI:0000:3b:00): "
			 "79, GPU has fallen off the bus.");
}
END_TEST

START_TEST(the_last_lines_are_kept_and_garbage_is_not)
{
	struct kernel_kill kill;
	char record[200];

	klog.n = 0;
	take("");
	take("no semicolon, oom-kill:constraint=,pid=1");
	take("6,1,1,-;");
	take("6,1,1,-;text\noom-kill:constraint=CONSTRAINT_NONE,pid=5");
	ck_assert_int_eq(klog.n, 0);
	for (int i = 1; i <= 40; i++) {
		snprintf(record, sizeof(record), "6,1,1,-;oom-kill:constraint="
			 "CONSTRAINT_NONE,pid=%d", i);
		take(record);
	}
	ck_assert_int_eq(kernel_log_killed(&klog, 40, &kill), 1);
	ck_assert_int_eq(kernel_log_killed(&klog, 9, &kill), 1);
	ck_assert_int_eq(kernel_log_killed(&klog, 8, &kill), 0);
	take("6,1,1,-;oom-kill:constraint=");
	ck_assert_int_eq(kernel_log_killed(&klog, 40, &kill), 1);
}
END_TEST

static void expect_glob(const char *pattern, int uses_pid, const char *want)
{
	const struct core_process of = {
		.pid = 4711, .signal = 11, .cwd = "/w [1]", .host = "h2"};
	struct buf out = BUF_INIT(1000);

	core_file_glob(&out, pattern, uses_pid, &of);
	buf_put(&out, "", 1);
	ck_assert_str_eq(out.data, want);
	buf_release(&out);
}

START_TEST(core_patterns)
{
	expect_glob("core", 0, "/w \\[1\\]/core");
	expect_glob("core", 1, "/w \\[1\\]/core.4711");
	expect_glob("/c/core.%p", 1, "/c/core.4711");
	expect_glob("/c/%e-%t.%p.%s.%h", 0, "/c/*-*.4711.11.h2");
	expect_glob("/c/%E%%%", 0, "/c/*%");
	expect_glob("/c/a*b?", 0, "/c/a\\*b\\?");
}
END_TEST

/* Runs body in a child; returns its wait status. */
static int status_of(int code, int signal_, pid_t *pid)
{
	int status;

	*pid = fork();
	if (*pid == 0) {
		struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		if (signal_)
			raise(signal_);
		_exit(code);
	}
	ck_assert_int_eq(waitpid(*pid, &status, 0), *pid);
	return status;
}

static const char *examine(int code, int signal_, struct buf *why)
{
	static struct postmortem p;
	struct postmortem_death d = {.started = time(NULL), .host = "h"};
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none); /* what workers would inherit */
	postmortem_init(&p);
	postmortem_begin(&p);
	d.status = status_of(code, signal_, &d.pid);
	postmortem_examine(&p, &d, why);
	postmortem_examine_signal(&p, &d, why);
	postmortem_examine_core(&p, &d, why);
	postmortem_release(&p);
	buf_put(why, "", 1);
	return why->data;
}

START_TEST(a_signal_that_would_leave_a_core)
{
	struct buf why = BUF_INIT(POSTMORTEM_WHY_MAX);

	ck_assert_ptr_nonnull(strstr(examine(0, SIGSEGV, &why),
				     "no core file: ulimit -c is 0"));
	buf_release(&why);
}
END_TEST

START_TEST(a_signal_of_a_limit_names_it)
{
	struct rlimit limit = {3 << 20, RLIM_INFINITY};
	struct buf why = BUF_INIT(POSTMORTEM_WHY_MAX);

	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_ptr_nonnull(strstr(examine(0, SIGXFSZ, &why),
				     "the file size limit (ulimit -f) of 3 "
				     "MiB"));
	buf_reset(&why);
	ck_assert_ptr_nonnull(strstr(examine(0, SIGXCPU, &why),
				     "the CPU time limit (ulimit -t)"));
	buf_release(&why);
}
END_TEST

START_TEST(the_kernel_logs_a_fault_by_its_thread)
{
	struct kernel_fault fault;

	klog.n = 0;
	take("6,1,2,-;so[12109]: segfault at 10 ip 0000558136ef2134 sp "
	     "00007fff21661340 error 6 in so[1134,558136ef2000+1000]");
	take("6,1,2,-;a[b]: c[12110]: segfault at 7fff2166134c ip "
	     "0000558136ef2134 sp 00007fff21661340 error 6");
	take("6,1,2,-;]: segfault at 10 ip");
	ck_assert_int_eq(kernel_log_fault(&klog, 12110, &fault), 1);
	ck_assert_uint_eq(fault.address, 0x7fff2166134c);
	ck_assert_uint_eq(fault.stack, 0x7fff21661340);
	ck_assert_int_eq(kernel_log_fault(&klog, 12109, &fault), 1);
	ck_assert_uint_eq(fault.address, 0x10);
	ck_assert_int_eq(kernel_log_fault(&klog, 1210, &fault), 0);
}
END_TEST

START_TEST(a_kill_by_a_user_is_not_attributed_to_the_kernel)
{
	struct buf why = BUF_INIT(POSTMORTEM_WHY_MAX);
	const char *text = examine(0, SIGKILL, &why);

	/* the kernel may kill another process of this host meanwhile */
	ck_assert_ptr_null(strstr(text, "cgroup /"));
	ck_assert_ptr_null(strstr(text, "core"));
	buf_release(&why);
}
END_TEST

START_TEST(knows_nothing_before_it_begins)
{
	struct postmortem_death d = {.started = time(NULL), .host = "h"};
	struct buf why = BUF_INIT(POSTMORTEM_WHY_MAX);
	static struct postmortem p;

	postmortem_init(&p);
	d.status = status_of(0, SIGSEGV, &d.pid);
	postmortem_examine(&p, &d, &why);
	postmortem_examine_signal(&p, &d, &why);
	postmortem_examine_core(&p, &d, &why);
	ck_assert_uint_eq(why.len, 0);
	postmortem_release(&p);
	buf_release(&why);
}
END_TEST

/* Where the kernel counts the kills of a cgroup, in version 2. */
static void make_cgroup(struct postmortem *p, int kills)
{
	char path[CGROUP_PATH_MAX + 32];
	FILE *f;

	postmortem_init(p);
	p->prepared = 1;
	p->is_certain = 0;
	p->cgroup.version = 2;
	strcpy(p->cgroup.dir, "/tmp/test_kills.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(p->cgroup.dir));
	strcpy(p->cgroup.path, "/job");
	snprintf(path, sizeof(path), "%s/memory.events", p->cgroup.dir);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fprintf(f, "oom 1\noom_kill %d\n", kills);
	fclose(f);
}

static void remove_cgroup(struct postmortem *p)
{
	char path[CGROUP_PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/memory.events", p->cgroup.dir);
	remove(path);
	remove(p->cgroup.dir);
	postmortem_release(p);
}

START_TEST(a_kill_in_the_cgroup_is_also_one_of_the_host)
{
	const struct postmortem_death d = {.pid = 1 << 30, .status = SIGKILL};
	struct buf why = BUF_INIT(POSTMORTEM_WHY_MAX);
	struct postmortem p;

	make_cgroup(&p, 1);
	p.host_kills = 0; /* the host had none so far */
	postmortem_examine(&p, &d, &why);
	buf_put(&why, "", 1);
	ck_assert_str_eq(why.data, "killed by the kernel: the host ran out of "
			 "memory");
	ck_assert_int_eq(p.kills, 1);
	ck_assert_int_eq(p.host_kills, 1);
	remove_cgroup(&p);
	buf_release(&why);
}
END_TEST

START_TEST(kills_of_a_host_that_does_not_count_them_stay_unknown)
{
	const struct postmortem_death d = {.pid = 1 << 30, .status = SIGKILL};
	struct buf why = BUF_INIT(POSTMORTEM_WHY_MAX);
	struct postmortem p;

	make_cgroup(&p, 2);
	p.host_kills = -1;
	postmortem_examine(&p, &d, &why);
	ck_assert_int_eq(p.kills, 1);
	ck_assert_int_eq(p.host_kills, -1);
	remove_cgroup(&p);
	buf_release(&why);
}
END_TEST

START_TEST(the_core_file_is_found)
{
	char dir[] = "/tmp/test_core.XXXXXX", pattern[200], old[200];
	struct core_process of = {.pid = 31, .signal = 6, .since = 1000,
			     .cwd = dir, .host = "h"};
	struct buf out = BUF_INIT(1000);
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	core_file_glob(&out, "core.%e.%p", 0, &of);
	buf_put(&out, "", 1);
	snprintf(pattern, sizeof(pattern), "%s/core.*.31", dir);
	ck_assert_str_eq(out.data, pattern);
	snprintf(old, sizeof(old), "%s/core.x.31", dir);
	f = fopen(old, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
	ck_assert_int_eq(core_file_find(out.data, of.since, pattern,
					sizeof(pattern)), 1);
	ck_assert_str_eq(pattern, old);
	/* an older file belongs to another process */
	ck_assert_int_eq(core_file_find(out.data, time(NULL) + 100, pattern,
					sizeof(pattern)), 0);
	remove(old);
	remove(dir);
	buf_release(&out);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("postmortem");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, the_kernel_names_the_process_it_killed);
	tcase_add_test(c, the_drivers_messages_are_found);
	tcase_add_test(c, the_last_lines_are_kept_and_garbage_is_not);
	tcase_add_test(c, core_patterns);
	tcase_add_test(c, a_signal_that_would_leave_a_core);
	tcase_add_test(c, a_signal_of_a_limit_names_it);
	tcase_add_test(c, the_kernel_logs_a_fault_by_its_thread);
	tcase_add_test(c, a_kill_by_a_user_is_not_attributed_to_the_kernel);
	tcase_add_test(c, knows_nothing_before_it_begins);
	tcase_add_test(c, a_kill_in_the_cgroup_is_also_one_of_the_host);
	tcase_add_test(c,
		       kills_of_a_host_that_does_not_count_them_stay_unknown);
	tcase_add_test(c, the_core_file_is_found);
	return run_case(c);
}
