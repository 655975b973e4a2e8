/* test_placement.c: which CPUs and GPUs workers get, on hosts that hwloc
 * synthesizes and on some that are defined here. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "launcher/plan/binding.h"
#include "launcher/worker/spawn.h"
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"

/* Two sockets with one node of two caches each; 16 cores, 32 CPUs. */
#define DUAL "package:2 [numa] l3:2 core:4 pu:2"
/* Two sockets, four nodes, one cache each, no hyperthreads: CPUs 0-15. */
#define QUAD "package:2 l3:2 [numa] core:4 pu:1"
#define LAPTOP "package:1 [numa] l3:1 core:2 pu:1"

static struct topology topology;

static void forget(void)
{
	topology_release(&topology);
	unsetenv("HWLOC_SYNTHETIC");
}

static void imagine(const char *text)
{
	struct cpus none = {0};
	struct err e = ERR_INIT;

	forget();
	setenv("HWLOC_SYNTHETIC", text, 1);
	ck_assert_msg(topology_read(&topology, &none, &e) == 0, "%s", e.text);
	ck_assert_int_eq(topology.elsewhere, 1);
}

/* Keeps only these CPUs, as a scheduler does. */
static void narrow(uint32_t first, uint32_t last)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < topology.n; i++) {
		if (topology.cpus[i].cpu >= first &&
		    topology.cpus[i].cpu <= last)
			topology.cpus[kept++] = topology.cpus[i];
	}
	topology.n = kept;
}

/* The CPUs of each worker, "0-3 4-7", or the error. gpu_nodes: "0011" */
static const char *decide(enum binding mode, uint32_t nproc,
			  const char *gpu_nodes, uint32_t gpus_per_proc)
{
	static char out[16 + ERR_TEXT_MAX];
	struct cpus *sets = calloc(nproc, sizeof(*sets));
	struct buf b = BUF_INIT(sizeof(out));
	struct err e = ERR_INIT;
	int nodes[64];
	struct binding_request r = {
		.mode = mode, .nproc = nproc, .gpu_nodes = nodes,
		.gpus = (uint32_t)strlen(gpu_nodes),
		.gpus_per_proc = gpus_per_proc,
	};
	int rc;

	for (uint32_t i = 0; i < r.gpus; i++)
		nodes[i] = gpu_nodes[i] == '?' ? -1 : gpu_nodes[i] - '0';
	rc = binding_decide(&topology, &r, sets, &e);
	for (uint32_t i = 0; rc == 0 && i < nproc; i++) {
		ck_assert_uint_gt(cpus_count(&sets[i]), 0);
		buf_printf(&b, i ? " " : "");
		cpus_put(&b, &sets[i]);
	}
	snprintf(out, sizeof(out), "%.*s", (int)b.len, b.len ? b.data : "");
	if (rc < 0)
		snprintf(out, sizeof(out), "%d: %s", e.code, e.text);
	buf_release(&b);
	free(sets);
	return out;
}

START_TEST(cpus_beyond_1024_as_lists)
{
	struct cpus c = {0};
	struct buf b = BUF_INIT(64);

	cpus_add(&c, 0);
	cpus_add(&c, 8);
	for (uint32_t i = 1022; i < 1030; i++)
		cpus_add(&c, i);
	cpus_add(&c, CPUS_MAX - 1);
	cpus_put(&b, &c);
	buf_put_u8(&b, 0);
	ck_assert_str_eq(b.data, "0,8,1022-1029,8191");
	ck_assert_uint_eq(cpus_count(&c), 11);
	ck_assert_int_eq(cpus_has(&c, 1029), 1);
	ck_assert_int_eq(cpus_has(&c, 1030), 0);
	buf_release(&b);
}
END_TEST

START_TEST(this_host_is_read_within_what_is_allowed)
{
	struct cpus allowed, one = {0};
	struct err e = ERR_INIT;
	uint32_t cpu = 0;

	forget();
	ck_assert_int_eq(cpus_allowed(&allowed, &e), 0);
	ck_assert_msg(topology_read(&topology, &allowed, &e) == 0, "%s",
		      e.text);
	ck_assert_int_eq(topology.elsewhere, 0);
	ck_assert_uint_eq(topology.n, cpus_count(&allowed));
	for (uint32_t i = 0; i < topology.n; i++)
		ck_assert_int_eq(cpus_has(&allowed, topology.cpus[i].cpu), 1);
	while (!cpus_has(&allowed, cpu))
		cpu++;
	cpus_add(&one, cpu);
	topology_release(&topology);
	ck_assert_int_eq(topology_read(&topology, &one, &e), 0);
	ck_assert_uint_eq(topology.n, 1);
	ck_assert_uint_eq(topology.cpus[0].cpu, cpu);
	forget();
}
END_TEST

START_TEST(a_set_without_a_cpu_is_an_error)
{
	struct cpus none = {0};
	struct err e = ERR_INIT;

	forget();
	ck_assert_int_lt(topology_read(&topology, &none, &e), 0);
	ck_assert_ptr_nonnull(strstr(e.text, "no CPU"));
	ck_assert_ptr_null(topology.cpus);
}
END_TEST

START_TEST(with_gpus_workers_are_on_the_nodes_of_their_gpus)
{
	static const struct {
		const char *host, *gpus;
		enum binding mode;
		uint32_t nproc, per_proc;
		const char *cpus;
	} rows[] = {
		{DUAL, "01", BINDING_NODE, 2, 1, "0-15 16-31"},
		{DUAL, "10", BINDING_NODE, 2, 1, "16-31 0-15"},
		{DUAL, "0011", BINDING_SOCKET, 4, 1, "0-15 0-15 16-31 16-31"},
		{QUAD, "02", BINDING_NODE, 2, 1, "0-3 8-11"},
		{QUAD, "02", BINDING_SOCKET, 2, 1, "0-7 8-15"},
		{DUAL, "0011", BINDING_EXCLUSIVE, 4, 1,
		 "0-7 8-15 16-23 24-31"},
		/* the first ones get one core more, hyperthreads included */
		{DUAL, "0001", BINDING_EXCLUSIVE, 4, 1,
		 "0-5 6-11 12-15 16-31"},
		{DUAL, "0101", BINDING_EXCLUSIVE, 4, 1,
		 "0-7 16-23 8-15 24-31"},
		/* only GPUs that a worker has count */
		{DUAL, "00001111", BINDING_EXCLUSIVE, 2, 1, "0-7 8-15"},
		{DUAL, "0011", BINDING_CORE_COMPLEX, 4, 1,
		 "0-7 8-15 16-23 24-31"},
		{DUAL, "00001111", BINDING_CORE_COMPLEX, 5, 1,
		 "0-7 8-15 0-7 8-15 16-23"},
		/* the first of each worker's GPUs, modulo their number */
		{DUAL, "00001111", BINDING_NODE, 2, 4, "0-15 16-31"},
		{DUAL, "00001111", BINDING_NODE, 4, 4,
		 "0-15 16-31 0-15 16-31"},
		{DUAL, "01", BINDING_NODE, 3, 1, "0-15 16-31 0-15"},
		/* cores are divided wherever the GPUs are */
		{DUAL, "1100", BINDING_CORES, 4, 1, "0-7 8-15 16-23 24-31"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		imagine(rows[i].host);
		ck_assert_str_eq(decide(rows[i].mode, rows[i].nproc,
					rows[i].gpus, rows[i].per_proc),
				 rows[i].cpus);
	}
	forget();
}
END_TEST

START_TEST(without_gpus_workers_follow_the_cores)
{
	static const struct {
		const char *host;
		enum binding mode;
		uint32_t nproc;
		const char *cpus;
	} rows[] = {
		{DUAL, BINDING_NODE, 1, "0-15"},
		{DUAL, BINDING_NODE, 2, "0-15 16-31"},
		{DUAL, BINDING_NODE, 3, "0-15 0-15 16-31"},
		{DUAL, BINDING_NODE, 4, "0-15 0-15 16-31 16-31"},
		{QUAD, BINDING_NODE, 2, "0-3 8-11"},
		{QUAD, BINDING_SOCKET, 4, "0-7 0-7 8-15 8-15"},
		{QUAD, BINDING_NODE, 8,
		 "0-3 0-3 4-7 4-7 8-11 8-11 12-15 12-15"},
		{DUAL, BINDING_CORE_COMPLEX, 4, "0-7 8-15 16-23 24-31"},
		{DUAL, BINDING_CORE_COMPLEX, 2, "0-7 16-23"},
		{DUAL, BINDING_EXCLUSIVE, 2, "0-15 16-31"},
		{DUAL, BINDING_EXCLUSIVE, 3, "0-7 8-15 16-31"},
		{DUAL, BINDING_EXCLUSIVE, 5, "0-5 6-11 12-15 16-23 24-31"},
		{DUAL, BINDING_CORES, 3, "0-11 12-21 22-31"},
		{LAPTOP, BINDING_CORES, 2, "0 1"},
		/* more workers than cores share them, neighbours together */
		{LAPTOP, BINDING_CORES, 5, "0 0 0 1 1"},
		{LAPTOP, BINDING_NODE, 5, "0-1 0-1 0-1 0-1 0-1"},
		{LAPTOP, BINDING_EXCLUSIVE, 2, "0 1"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		imagine(rows[i].host);
		ck_assert_str_eq(decide(rows[i].mode, rows[i].nproc, "", 1),
				 rows[i].cpus);
		/* as without GPUs: the node of one of them is unknown */
		ck_assert_str_eq(decide(rows[i].mode, rows[i].nproc, "0?", 1),
				 rows[i].cpus);
	}
	forget();
}
END_TEST

START_TEST(a_narrowed_set_is_divided_by_what_is_left)
{
	imagine(DUAL);
	narrow(14, 23); /* one core of the first node, four of the second */
	ck_assert_str_eq(decide(BINDING_NODE, 2, "01", 1), "14-15 16-23");
	ck_assert_str_eq(decide(BINDING_EXCLUSIVE, 5, "", 1),
			 "14-15 16-17 18-19 20-21 22-23");
	ck_assert_str_eq(decide(BINDING_EXCLUSIVE, 2, "", 1), "14-15 16-23");
	ck_assert_str_eq(decide(BINDING_CORES, 2, "", 1), "14-19 20-23");
	ck_assert_str_eq(decide(BINDING_NODE, 2, "", 1), "14-15 16-23");
	/* half a core is a core */
	narrow(15, 23);
	ck_assert_str_eq(decide(BINDING_CORES, 5, "", 1),
			 "15 16-17 18-19 20-21 22-23");
	/* the larger complex first: cache 0 has few CPUs left */
	imagine(DUAL);
	narrow(6, 15);
	ck_assert_str_eq(decide(BINDING_CORE_COMPLEX, 3, "000", 1),
			 "8-15 6-7 8-15");
	forget();
}
END_TEST

START_TEST(impossible_placements_are_errors_with_a_remedy)
{
	imagine(DUAL);
	ck_assert_str_eq(decide(BINDING_EXCLUSIVE, 17, "", 1),
			 "-20002: --cpu-bind exclusive: 17 workers, but this "
			 "process may use only 16 cores; start fewer workers, "
			 "or use --cpu-bind node");
	ck_assert_str_eq(decide(BINDING_EXCLUSIVE, 9, "0", 1),
			 "-20002: --cpu-bind exclusive: 9 workers belong to "
			 "NUMA node 0, but this process may use only 8 cores "
			 "there; start fewer workers, or use --cpu-bind node");
	narrow(0, 15);
	ck_assert_str_eq(decide(BINDING_NODE, 4, "0011", 1),
			 "-20002: --cpu-bind node: GPU 2 of local rank 2 is on "
			 "NUMA node 1, none of whose CPUs this process may use;"
			 " ask for CPUs beside the GPUs, or use --cpu-bind "
			 "cores");
	/* not bound to a GPU: no error */
	ck_assert_str_eq(decide(BINDING_CORES, 2, "11", 1), "0-7 8-15");
	forget();
}
END_TEST

/* A host that reports only its CPUs: no cores, caches, sockets. */
START_TEST(a_host_may_report_only_its_cpus)
{
	imagine("pu:4");
	ck_assert_str_eq(decide(BINDING_NODE, 2, "", 1), "0-3 0-3");
	ck_assert_str_eq(decide(BINDING_SOCKET, 2, "", 1), "0-3 0-3");
	ck_assert_str_eq(decide(BINDING_CORE_COMPLEX, 2, "", 1), "0-3 0-3");
	ck_assert_str_eq(decide(BINDING_EXCLUSIVE, 2, "00", 1), "0-1 2-3");
	ck_assert_str_eq(decide(BINDING_CORES, 4, "", 1), "0 1 2 3");
	forget();
}
END_TEST

/* The host of docs/placement.md. */
START_TEST(the_picture_in_the_manual)
{
	static const char gpus[] = "00112233";

	imagine("package:2 group:2 [numa] l3:4 core:4 pu:1");
	ck_assert_str_eq(decide(BINDING_NODE, 8, gpus, 1),
			 "0-15 0-15 16-31 16-31 32-47 32-47 48-63 48-63");
	ck_assert_str_eq(decide(BINDING_SOCKET, 8, gpus, 1),
			 "0-31 0-31 0-31 0-31 32-63 32-63 32-63 32-63");
	ck_assert_str_eq(decide(BINDING_EXCLUSIVE, 8, gpus, 1),
			 "0-7 8-15 16-23 24-31 32-39 40-47 48-55 56-63");
	ck_assert_str_eq(decide(BINDING_CORE_COMPLEX, 8, gpus, 1),
			 "0-3 4-7 16-19 20-23 32-35 36-39 48-51 52-55");
	ck_assert_str_eq(decide(BINDING_CORES, 8, gpus, 1),
			 "0-7 8-15 16-23 24-31 32-39 40-47 48-55 56-63");
	ck_assert_str_eq(decide(BINDING_NODE, 4, "", 1),
			 "0-15 16-31 32-47 48-63");
	forget();
}
END_TEST

/* As Linux numbers them: the second hyperthreads come after all first ones. */
START_TEST(hyperthreads_with_far_numbers)
{
	struct topology_cpu cpus[] = {
		{0, 0, 0, 0, 0}, {4, 0, 0, 0, 0}, {1, 1, 0, 0, 0},
		{5, 1, 0, 0, 0}, {2, 2, 1, 1, 1}, {6, 2, 1, 1, 1},
		{3, 3, 1, 1, 1}, {7, 3, 1, 1, 1},
	};

	forget();
	topology = (struct topology){.cpus = cpus, .n = 8};
	ck_assert_str_eq(decide(BINDING_CORES, 4, "", 1), "0,4 1,5 2,6 3,7");
	ck_assert_str_eq(decide(BINDING_NODE, 2, "10", 1), "2-3,6-7 0-1,4-5");
	ck_assert_str_eq(decide(BINDING_EXCLUSIVE, 3, "001", 1),
			 "0,4 1,5 2-3,6-7");
	topology = (struct topology){.n = 0};
}
END_TEST

/* A cache that two nodes share is two complexes: a worker stays on its node. */
START_TEST(a_complex_ends_at_its_node)
{
	imagine("package:1 l3:1 numa:2 core:2 pu:1");
	ck_assert_str_eq(decide(BINDING_CORE_COMPLEX, 2, "01", 1), "0-1 2-3");
	forget();
}
END_TEST

START_TEST(large_hosts)
{
	imagine("package:8 [numa] l3:8 core:16 pu:2"); /* 2048 CPUs */
	ck_assert_str_eq(decide(BINDING_SOCKET, 8, "", 1),
			 "0-255 256-511 512-767 768-1023 1024-1279 1280-1535 "
			 "1536-1791 1792-2047");
	ck_assert_str_eq(decide(BINDING_CORE_COMPLEX, 2, "77", 1),
			 "1792-1823 1824-1855");
	forget();
}
END_TEST

/* The kernel refuses a set without any existing CPU: the child reports it. */
START_TEST(a_child_that_cannot_be_bound)
{
	char *argv[] = {(char *)"true", NULL}, *envp[] = {NULL};
	struct cpus cpus = {0};
	struct spawn s = {.path = "/bin/true", .argv = argv, .envp = envp,
			  .in = 0, .out = 1, .err = 2, .keep = {-1, -1},
			  .cpus = &cpus};
	struct err e = ERR_INIT;
	int status;
	pid_t pid;

	if (emulator_lacks("vfork"))
		return;
	spawn_take_over_signals();
	cpus_add(&cpus, CPUS_MAX - 1);
	ck_assert_int_eq(spawn_process(&s, &e), -EINVAL);
	ck_assert_str_eq(e.text,
			 "cannot set the CPUs of '/bin/true': Invalid argument;"
			 " the CPUs that this job may use have changed since it"
			 " was started");
	ck_assert_int_eq(cpus_allowed(&cpus, &e), 0);
	cpus_add(&cpus, CPUS_MAX - 1); /* the kernel ignores missing CPUs */
	pid = spawn_process(&s, &e);
	ck_assert_msg(pid > 0, "%s", e.text);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(modes_by_name)
{
	static const char *const names[] = {"none", "node", "socket",
					    "exclusive", "core-complex",
					    "cores"};
	enum binding mode;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		ck_assert_int_eq(binding_parse(&mode, names[i], &e), 0);
		ck_assert_str_eq(binding_name(mode), names[i]);
	}
	ck_assert_int_eq(binding_parse(&mode, "sockets", &e), ERR_USAGE);
	ck_assert_str_eq(e.text,
			 "unknown --cpu-bind 'sockets'; did you mean "
			 "socket? Possible values: node, socket, exclusive, "
			 "core-complex, cores and none");
	ck_assert_int_eq(binding_parse(&mode, "", &e), ERR_USAGE);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("binding");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, cpus_beyond_1024_as_lists);
	tcase_add_test(c, this_host_is_read_within_what_is_allowed);
	tcase_add_test(c, a_set_without_a_cpu_is_an_error);
	tcase_add_test(c, with_gpus_workers_are_on_the_nodes_of_their_gpus);
	tcase_add_test(c, without_gpus_workers_follow_the_cores);
	tcase_add_test(c, a_narrowed_set_is_divided_by_what_is_left);
	tcase_add_test(c, impossible_placements_are_errors_with_a_remedy);
	tcase_add_test(c, a_host_may_report_only_its_cpus);
	tcase_add_test(c, the_picture_in_the_manual);
	tcase_add_test(c, hyperthreads_with_far_numbers);
	tcase_add_test(c, a_complex_ends_at_its_node);
	tcase_add_test(c, large_hosts);
	tcase_add_test(c, a_child_that_cannot_be_bound);
	tcase_add_test(c, modes_by_name);
	return run_case(c);
}
