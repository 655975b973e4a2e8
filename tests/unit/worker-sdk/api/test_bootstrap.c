/* test_bootstrap.c: how the ranks of a world without an agent meet: Slurm's
 * counts and ports, PMI's lines, and the address that rank 0 publishes. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pmi/bootstrap_record.h"
#include "pmi/pmi.h"
#include "slurm/step.h"
#include "tests/unit/run_case.h"

static struct err e;

START_TEST(tasks_per_node)
{
	long n = -1;

	ck_assert_int_eq(step_tasks_on("4", 0, &n, &e), 0);
	ck_assert_int_eq(n, 4);
	for (long node = 0; node < 5; node++) {
		ck_assert_int_eq(step_tasks_on("2(x3),1,16", node, &n, &e), 0);
		ck_assert_int_eq(n, node < 3 ? 2 : node == 3 ? 1 : 16);
	}
}
END_TEST

START_TEST(tasks_per_node_wrong)
{
	static const char *const bad[] = {
		"",	 "x",	   "2(x",   "2(x3",	"2(3)", "2(x0)",
		"2(x-1)", ",1",	   "1;2",   "2(x3)1,",	"-1",
		"99999999999999999999", "1 ", "2(x3),"};
	long n;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		int rc = step_tasks_on(bad[i], 3, &n, &e);

		ck_assert_msg(rc == ERR_USAGE, "'%s': %d", bad[i], rc);
		ck_assert_ptr_nonnull(strstr(e.text, "2(x3),1"));
	}
	ck_assert_int_eq(step_tasks_on("2(x3),1", 4, &n, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "fewer nodes"));
}
END_TEST

/* All of a step's ports are different and in the range, and different steps and
 * jobs seldom begin with the same port. */
START_TEST(ports)
{
	int same = 0;

	for (uint64_t job = 1; job < 200; job++) {
		for (int i = 0; i < STEP_PORTS; i++) {
			uint16_t port = step_port(job, 0, i);

			ck_assert_uint_ge(port, STEP_PORT_FIRST);
			ck_assert_uint_lt(port, STEP_PORT_END);
			ck_assert_uint_eq(port, step_port(job, 0, i));
			for (int k = 0; k < i; k++)
				ck_assert_uint_ne(port, step_port(job, 0, k));
		}
		same += step_port(job, 0, 0) == step_port(job + 1, 0, 0);
		same += step_port(job, 0, 0) == step_port(job, 1, 0);
	}
	ck_assert_int_le(same, 2);
}
END_TEST

/* The values of Slurm 26.05 with topology/tree, each node under a switch of its
 * own, the switches in the order h3, h1, h2: six tasks on three nodes. */
static const char *const tasks[6][3] = {
	/* SLURMD_NODENAME, SLURM_PROCID, SLURM_LOCALID */
	{"h3", "0", "0"}, {"h3", "1", "1"}, {"h1", "2", "0"},
	{"h1", "3", "1"}, {"h2", "4", "0"}, {"h2", "5", "1"},
};
static const char *const *task;
static const char *step_nodes;

static const char *of_task(const char *name)
{
	if (strcmp(name, "SLURM_STEP_NODELIST") == 0)
		return step_nodes;
	if (strcmp(name, "SLURM_STEP_NUM_NODES") == 0)
		return strcmp(step_nodes, "h3") == 0 ? "1" : "3";
	if (strcmp(name, "SLURMD_NODENAME") == 0)
		return task[0];
	if (strcmp(name, "SLURM_PROCID") == 0)
		return task[1];
	return strcmp(name, "SLURM_LOCALID") == 0 ? task[2] : NULL;
}

START_TEST(one_task_keeps_the_store_where_all_look_for_it)
{
	char node[HOSTLIST_NAME_MAX + 1];

	step_nodes = "h[1-3]";
	for (int i = 0; i < 6; i++) {
		task = tasks[i];
		ck_assert_int_eq(step_meeting_node(of_task, node, &e), 0);
		ck_assert_str_eq(node, "h1");
		ck_assert_int_eq(step_is_keeper(of_task, node), i == 2);
	}
	/* on a single node that is task 0 */
	step_nodes = "h3";
	for (int i = 0; i < 2; i++) {
		task = tasks[i];
		ck_assert_int_eq(step_meeting_node(of_task, node, &e), 0);
		ck_assert_int_eq(step_is_keeper(of_task, node), i == 0);
	}
	step_nodes = "";
	ck_assert_int_eq(step_meeting_node(of_task, node, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "SLURM_STEP_NODELIST: it names "
				     "no host"));
	step_nodes = "h[1-";
	ck_assert_int_eq(step_meeting_node(of_task, node, &e), ERR_USAGE);
}
END_TEST

static struct slice field(const char *line, const char *key)
{
	struct slice value = {"(none)", 6};

	pmi_field(SLICE_STR(line), key, &value);
	return value;
}

#define IS(s, text)                                                           \
	ck_assert_msg((s).len == strlen(text) &&                              \
			      !memcmp((s).data, text, (s).len),               \
		      "'%.*s' is not '%s'", SLICE_FMT(s), text)

START_TEST(pmi_fields)
{
	const char *line = "cmd=get_result rc=0 msg=success value=a=b";

	IS(field(line, "cmd"), "get_result");
	IS(field(line, "value"), "a=b");
	IS(field(line, "rc"), "0");
	IS(field(line, "c"), "(none)");
	IS(field(line, "cmdx"), "(none)");
	IS(field("cmd= rc=", "cmd"), "");
	IS(field("cmd= rc=", "rc"), "");
	IS(field("", "rc"), "(none)");
	IS(field("   rc=1 ", "rc"), "1");
}
END_TEST

START_TEST(pmi_answers)
{
	ck_assert_int_eq(
		pmi_check(SLICE_STR("cmd=barrier_out"), "barrier_out",
			       &e), 0);
	ck_assert_int_eq(pmi_check(SLICE_STR("cmd=barrier_out rc=0"),
					"barrier_out", &e), 0);
	ck_assert_int_eq(pmi_check(SLICE_STR("cmd=get_result rc=-1 "
						  "msg=key_not_found"),
					"get_result", &e), ERR_REMOTE);
	ck_assert_ptr_nonnull(strstr(e.text, "key_not_found"));
	ck_assert_int_eq(pmi_check(SLICE_STR("cmd=maxes"), "barrier_out",
					&e), ERR_PROTOCOL);
	ck_assert_ptr_nonnull(strstr(e.text, "'cmd=maxes'"));
	ck_assert_int_eq(pmi_check(SLICE("", 0), "barrier_out", &e),
			 ERR_PROTOCOL);
}
END_TEST

/* A launcher that goes away, and a launcher that never answers. */
START_TEST(pmi_without_launcher)
{
	struct pmi p;
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	ck_assert_int_eq(pmi_open(&p, fds[0], 10, &e), ERR_TIMEOUT);
	ck_assert_ptr_nonnull(strstr(e.text, "PMI_FD"));
	close(fds[1]);
	ck_assert_int_lt(pmi_open(&p, fds[0], 1000, &e), 0);
	ck_assert_ptr_nonnull(strstr(e.text, "is this the first time"));
	close(fds[0]);
	ck_assert_int_lt(pmi_open(&p, fds[0], 1000, &e), 0);
}
END_TEST

START_TEST(a_place_survives_its_encoding)
{
	struct bootstrap_record p = {
		.job = "guests 0011", .n = 2,
		.at = {{"10.0.0.1", 4711}, {"fd77::1", 1}},
	};
	struct bootstrap_record q;
	char text[BOOTSTRAP_TEXT_MAX];

	bootstrap_record_put(&p, text);
	ck_assert_int_eq(strspn(text, "0123456789abcdef"), strlen(text));
	ck_assert_int_eq(bootstrap_record_get(&q, text, &e), 0);
	ck_assert_str_eq(q.job, p.job);
	ck_assert_int_eq(q.n, 2);
	ck_assert_str_eq(q.at[1].host, "fd77::1");
	ck_assert_uint_eq(q.at[0].port, 4711);
	/* the reason why there is no place */
	err_set(&p.why, ERR_USAGE, "no ddprdzv here");
	bootstrap_record_put(&p, text);
	ck_assert_int_eq(bootstrap_record_get(&q, text, &e), 0);
	ck_assert_int_eq(q.why.code, ERR_USAGE);
	ck_assert_str_eq(q.why.text, "no ddprdzv here");
}
END_TEST

/* Launchers limit a value's length: the last addresses are left out. */
START_TEST(a_record_holds_as_many_places_as_fit)
{
	struct bootstrap_record p = {.job = "j", .n = BOOTSTRAP_PLACES_MAX}, q;
	char text[BOOTSTRAP_TEXT_MAX];

	for (int i = 0; i < p.n; i++) {
		memset(p.at[i].host, 'a' + i, 250);
		p.at[i].port = (uint16_t)i;
	}
	bootstrap_record_put(&p, text);
	ck_assert_uint_lt(strlen(text), sizeof(text));
	ck_assert_int_eq(bootstrap_record_get(&q, text, &e), 0);
	ck_assert_int_eq(q.n, 1);
	memset(p.why.text, 'w', sizeof(p.why.text) - 1);
	p.why.code = ERR_SYSTEM;
	bootstrap_record_put(&p, text);
	ck_assert_int_eq(bootstrap_record_get(&q, text, &e), 0);
	ck_assert_uint_eq(strlen(q.why.text), 300);
}
END_TEST

START_TEST(a_cut_record_is_refused)
{
	struct bootstrap_record p = {.job = "j", .n = 1, .at = {{"h", 1}}}, q;
	char text[BOOTSTRAP_TEXT_MAX];
	size_t len;

	bootstrap_record_put(&p, text);
	len = strlen(text);
	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		text[i] = 0;
		ck_assert_int_eq(bootstrap_record_get(&q, text, &e),
				 ERR_PROTOCOL);
		text[i] = 'x';
		ck_assert_int_eq(bootstrap_record_get(&q, text, &e),
				 ERR_PROTOCOL);
		text[i] = c;
	}
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("guest");

	tcase_set_timeout(tc, 20);
	tcase_add_test(tc, tasks_per_node);
	tcase_add_test(tc, tasks_per_node_wrong);
	tcase_add_test(tc, ports);
	tcase_add_test(tc, one_task_keeps_the_store_where_all_look_for_it);
	tcase_add_test(tc, pmi_fields);
	tcase_add_test(tc, pmi_answers);
	tcase_add_test(tc, pmi_without_launcher);
	tcase_add_test(tc, a_place_survives_its_encoding);
	tcase_add_test(tc, a_record_holds_as_many_places_as_fit);
	tcase_add_test(tc, a_cut_record_is_refused);
	return run_case(tc);
}
