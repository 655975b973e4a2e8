/* test_requeue.c: parses scontrol's output, and decides whether to requeue. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/env/requeue.h"
#include "launcher/env/tool.h"
#include "tests/unit/run_case.h"

/* Slurm 22.05's output, shortened; users choose the names. */
#define PAGE(state, reason, restarts, batch, end, preempt) \
	"JobId=12 JobName=a BatchFlag=9 PreemptTime=1\n" \
	"   UserId=root(0) GroupId=root(0) MCS_label=N/A\n" \
	"   JobState=" state " Reason=" reason " Dependency=(null)\n" \
	"   Requeue=1 Restarts=" restarts " BatchFlag=" batch \
	" Reboot=0 ExitCode=0:0\n" \
	"   RunTime=00:00:00 TimeLimit=00:01:00 TimeMin=N/A\n" \
	"   StartTime=1795308730 EndTime=" end " Deadline=N/A\n" \
	"   PreemptEligibleTime=1795308730 PreemptTime=" preempt "\n" \
	"   Command=/tmp/x JobState=FAILED\n\n"

static struct requeue_job job;

static int parse(const char *text)
{
	struct err e = ERR_INIT;

	return requeue_parse(&job, text, &e);
}

START_TEST(a_page_is_read)
{
	ck_assert_int_eq(parse(PAGE("RUNNING", "None", "2", "1", "1795308790",
				    "None")), 0);
	ck_assert_str_eq(job.state, "RUNNING");
	ck_assert_str_eq(job.reason, "None");
	ck_assert_int_eq(job.batch, 1);
	ck_assert_uint_eq(job.restarts, 2);
	ck_assert_uint_eq(job.end_time, 1795308790);
	ck_assert_int_eq(job.preempted, 0);
	ck_assert_int_eq(parse(PAGE("RUNNING", "None", "0", "0", "Unknown",
				    "1795308750")), 0);
	ck_assert_int_eq(job.batch, 0);
	ck_assert_uint_eq(job.end_time, 0);
	ck_assert_int_eq(job.preempted, 1);
	/* a site with another time format */
	ck_assert_int_eq(parse(PAGE("RUNNING", "None", "0", "1",
				    "2026-11-22T00:53:10",
				    "2026-11-22T00:54:06")), 0);
	ck_assert_uint_eq(job.end_time, 0);
	ck_assert_int_eq(job.preempted, 1);
}
END_TEST

START_TEST(an_invalid_page_is_an_error)
{
	static const char *const texts[] = {
		"", "\n", "slurm_load_jobs error: Invalid job id specified\n",
		"JobId=1 JobState=RUNNING\n", "\n   JobState",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		ck_assert_int_eq(parse(texts[i]), ERR_DATA);
	/* a truncated output gives the fields that it has */
	ck_assert_int_eq(parse("\n   JobState=RUNNING"), 0);
	ck_assert_int_eq(job.batch, 0);
}
END_TEST

START_TEST(each_cause_has_its_answer)
{
	static const struct {
		const char *state, *reason;
		int preempted;
		uint32_t restarts;
		int warned, cut;
		enum requeue_why why;
	} rows[] = {
		/* within the grace period, and after it */
		{"RUNNING", "None", 1, 1, 0, 0, REQUEUE_PREEMPTED},
		{"RUNNING", "None", 1, 1, 0, 1, REQUEUE_PREEMPTED},
		{"COMPLETING", "None", 1, 1, 0, 0, REQUEUE_PREEMPTED},
		{"PREEMPTED", "None", 0, 1, 0, 0, REQUEUE_PREEMPTED},
		/* the end of the grace period, or a second scancel */
		{"COMPLETING", "None", 1, 1, 0, 1, REQUEUE_CANCELLED},
		/* --signal, our own clock, and Slurm's SIGTERM at the end */
		{"RUNNING", "None", 0, 1, 1, 0, REQUEUE_TIMED_OUT},
		{"COMPLETING", "TimeLimit", 0, 1, 0, 1, REQUEUE_TIMED_OUT},
		{"TIMEOUT", "None", 0, 1, 0, 0, REQUEUE_TIMED_OUT},
		/* cancelled by a user */
		{"COMPLETING", "None", 0, 1, 0, 0, REQUEUE_CANCELLED},
		{"COMPLETING", "None", 0, 1, 1, 0, REQUEUE_CANCELLED},
		{"CANCELLED", "None", 1, 1, 0, 0, REQUEUE_CANCELLED},
		{"RUNNING", "None", 0, 1, 0, 0, REQUEUE_BY_HAND},
		/* Slurm has requeued it already */
		{"COMPLETING", "None", 0, 2, 0, 1, REQUEUE_DONE},
		{"PENDING", "BeginTime", 0, 1, 0, 0, REQUEUE_DONE},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct requeue_job j = {.batch = 1,
					.preempted = rows[i].preempted,
					.restarts = rows[i].restarts};
		const struct requeue_notice told = {rows[i].warned, rows[i].cut,
						  1};

		strcpy(j.state, rows[i].state);
		strcpy(j.reason, rows[i].reason);
		ck_assert_msg(requeue_decide(&j, &told) == rows[i].why,
			      "row %zu", i);
		j.batch = 0;
		ck_assert_int_eq(requeue_decide(&j, &told), REQUEUE_NO_BATCH);
	}
}
END_TEST

/* The output of scontrol 24.11 and 26.05. */
START_TEST(a_nodes_address_is_read)
{
	static const char *const others[] = {
		"", "\n", "n1", "n1:", "n1: \n", "n10: 10.0.0.1:6818\n",
		"xn1: 10.0.0.1:6818\n", "invalid keyword: getaddrs\n",
	};
	char at[SOCK_HOST_MAX];

	ck_assert_int_eq(scontrol_parse_address("n1: 10.0.0.1:6818\n", "n1",
						at), 1);
	ck_assert_str_eq(at, "10.0.0.1");
	ck_assert_int_eq(scontrol_parse_address("a: 10.0.0.1:1\n"
						"b: [fd77::1]:6818", "b", at),
			 1);
	ck_assert_str_eq(at, "fd77::1");
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		ck_assert_msg(!scontrol_parse_address(others[i], "n1", at),
			      "'%s': %s", others[i], at);
}
END_TEST

static const char *single(const char *name)
{
	return strcmp(name, "SLURM_JOB_ID") == 0 ? "12" : NULL;
}

static const char *array(const char *name)
{
	if (strcmp(name, "SLURM_ARRAY_JOB_ID") == 0)
		return "10";
	return strcmp(name, "SLURM_ARRAY_TASK_ID") == 0 ? "3" : single(name);
}

static const char *heterogeneous(const char *name)
{
	return strcmp(name, "SLURM_HET_JOB_ID") == 0 ? "11" : single(name);
}

/* What scontrol prints as JobState while a job still runs. */
START_TEST(a_running_job_is_not_taken_for_a_cancelled_one)
{
	static const char *const states[] = {
		"RUNNING", "SIGNALING", "RESIZING", "CONFIGURING", "SUSPENDED",
		"STOPPED", "POWER_UP_NODE", "A_LATER_SLURMS",
	};
	const struct requeue_notice warned = {1, 0, 0}, cut = {1, 1, 0};
	const struct requeue_notice by_hand = {0, 0, 0};

	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		struct requeue_job j = {.batch = 1, .reason = "None"};

		strcpy(j.state, states[i]);
		ck_assert_msg(requeue_decide(&j, &warned) == REQUEUE_TIMED_OUT,
			      "%s: warned", states[i]);
		ck_assert_msg(requeue_decide(&j, &by_hand) == REQUEUE_BY_HAND,
			      "%s: by hand", states[i]);
		j.preempted = 1;
		ck_assert_msg(requeue_decide(&j, &cut) == REQUEUE_PREEMPTED,
			      "%s: preempted", states[i]);
	}
}
END_TEST

START_TEST(a_job_that_ends_is_not_requeued_for_a_warning_alone)
{
	static const char *const states[] = {
		"BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "DEADLINE",
		"FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
		"RECONFIG_FAIL", "REVOKED", "STAGE_OUT",
	};
	const struct requeue_notice warned = {1, 0, 0}, cut = {1, 1, 0};

	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		struct requeue_job j = {.batch = 1, .reason = "None"};

		strcpy(j.state, states[i]);
		ck_assert_msg(requeue_decide(&j, &warned) == REQUEUE_CANCELLED,
			      "%s: warned", states[i]);
		j.preempted = 1;
		ck_assert_msg(requeue_decide(&j, &cut) == REQUEUE_CANCELLED,
			      "%s: preempted, then told again", states[i]);
	}
}
END_TEST

START_TEST(a_task_of_an_array_is_named_alone_and_a_het_job_whole)
{
	char id[64];

	ck_assert_str_eq(requeue_id(single, id), "12");
	ck_assert_str_eq(requeue_id(array, id), "10_3");
	ck_assert_str_eq(requeue_id(heterogeneous, id), "11");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("requeue");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, a_page_is_read);
	tcase_add_test(c, an_invalid_page_is_an_error);
	tcase_add_test(c, each_cause_has_its_answer);
	tcase_add_test(c, a_running_job_is_not_taken_for_a_cancelled_one);
	tcase_add_test(c, a_job_that_ends_is_not_requeued_for_a_warning_alone);
	tcase_add_test(c, a_nodes_address_is_read);
	tcase_add_test(c,
		a_task_of_an_array_is_named_alone_and_a_het_job_whole);
	return run_case(c);
}
