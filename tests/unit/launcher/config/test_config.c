/* test_config.c: what follows from the command line and the environment. Most
 * cases are rows: a command line, and fields of the config, or an error. */
#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/config/preflight.h"
#include "launcher/plan/gpu.h"
#include "tests/unit/launcher/config/command_line.h"
#include "tests/unit/run_case.h"

#define COUNT(rows) (sizeof(rows) / sizeof(*(rows)))

struct row {
	const char *line;
	/* "field=value; field=value", or "!" and a part of the error */
	const char *expected;
	const char *env[2]; /* NAME=VALUE, set from here on; NAME: unset */
};

/* ---- fields as text ---- */

enum kind { INT, UNSIGNED, LONG, DOUBLE, TEXT, ARRAY };

#define FIELD(kind, member) {#member, kind, offsetof(struct config, member)}

static const struct {
	const char *name;
	enum kind kind;
	size_t at;
} fields[] = {
	FIELD(UNSIGNED, max_nodes),
	FIELD(UNSIGNED, nproc),
	FIELD(UNSIGNED, worker_gpus),
	FIELD(LONG, node_rank),
	FIELD(LONG, max_restarts),
	FIELD(TEXT, job),
	FIELD(TEXT, output.log_prefix),
	FIELD(ARRAY, etcd.cacert),
	FIELD(ARRAY, etcd.cert),
	FIELD(ARRAY, etcd.key),
	FIELD(LONG, etcd.ttl_s),
	FIELD(INT, etcd.https),
	FIELD(INT, agent_store),
	FIELD(INT, private_endpoint),
	FIELD(INT, no_python),
	FIELD(INT, noptions),
	FIELD(INT, meets),
	FIELD(DOUBLE, shutdown_timeout_s),
	FIELD(DOUBLE, reconnect_s),
};

static void show_field(const char *name, char *out, size_t size)
{
	size_t i = 0;
	const void *at;

	while (i < COUNT(fields) && strcmp(fields[i].name, name) != 0)
		i++;
	ck_assert_msg(i < COUNT(fields), "no field %s", name);
	at = (const char *)&config + fields[i].at;
	switch (fields[i].kind) {
	case INT:
		snprintf(out, size, "%d", *(const int *)at);
		break;
	case UNSIGNED:
		snprintf(out, size, "%u", *(const uint32_t *)at);
		break;
	case LONG:
		snprintf(out, size, "%ld", *(const long *)at);
		break;
	case DOUBLE:
		snprintf(out, size, "%g", *(const double *)at);
		break;
	case TEXT:
		snprintf(out, size, "%s",
			 *(char *const *)at ? *(char *const *)at : "(none)");
		break;
	case ARRAY:
		snprintf(out, size, "%s", (const char *)at);
	}
}

/* The program's words with "|" between them. */
static void show_words(char *out, size_t size)
{
	size_t len = 0;

	for (char **w = config.words; *w; w++)
		len += (size_t)snprintf(out + len, size - len, "%s%s",
					w == config.words ? "" : "|", *w);
}

/* "h1:2 h2" */
static void show_hosts(char *out, size_t size)
{
	size_t len = 0;

	for (uint32_t i = 0; i < config.hosts.count; i++) {
		const struct host *h = &config.hosts.hosts[i];

		len += (size_t)snprintf(out + len, size - len, "%s%s",
					i ? " " : "",
					host_list_name(&config.hosts, i));
		if (h->slots)
			len += (size_t)snprintf(out + len, size - len, ":%u",
						h->slots);
	}
}

static void show(const char *name, char *out, size_t size)
{
	char text[SOCK_TEXT_MAX];

	if (!strcmp(name, "words"))
		show_words(out, size);
	else if (!strcmp(name, "hosts"))
		show_hosts(out, size);
	else if (!strcmp(name, "endpoint"))
		snprintf(out, size, "%s",
			 endpoint_text(&config.endpoint, text));
	else if (!strcmp(name, "etcd"))
		snprintf(out, size, "%s",
			 config.etcd.members
				 ? etcd_options_text(&config.etcd, text)
				 : "(none)");
	else if (!strcmp(name, "mpi"))
		snprintf(out, size, "%d", (int)config.env.mpi.kind);
	else
		show_field(name, out, size);
}

/* ---- a row ---- */

static void check_fields(const struct row *r, int rc)
{
	char expected[512], seen[512] = "", *rest = expected;
	char *name, *next;

	snprintf(expected, sizeof(expected), "%s", r->expected);
	for (; rest; rest = next) {
		char *end = strstr(rest, "; "), *value = strchr(rest, '=');

		name = rest;
		next = end ? end + 2 : NULL;
		if (end)
			*end = '\0';
		*value++ = '\0';
		if (!strcmp(name, "hosts"))
			ck_assert_int_eq(rc, CONFIG_WANT_HOSTS);
		seen[0] = '\0';
		show(name, seen, sizeof(seen));
		ck_assert_msg(!strcmp(seen, value),
			      "'%s': %s is '%s', not '%s'", r->line, name, seen,
			      value);
	}
}

static void check_row(const struct row *r)
{
	int rc;

	for (size_t i = 0; i < COUNT(r->env) && r->env[i]; i++)
		ck_assert_int_eq(strchr(r->env[i], '=')
					 ? putenv((char *)r->env[i])
					 : unsetenv(r->env[i]), 0);
	if (r->expected[0] == '!') {
		refused(r->line, r->expected + 1);
		config_release(&config);
		return;
	}
	rc = parse(r->line);
	ck_assert_msg(rc == 0 || rc == CONFIG_WANT_HOSTS, "'%s': %s", r->line,
		      error.text);
	ck_assert_msg(rc == 0 || strstr(r->expected, "hosts="),
		      "'%s' wants ssh", r->line);
	check_fields(r, rc);
	config_release(&config);
}

#define CHECK_ROWS(rows) \
	for (size_t i = 0; i < COUNT(rows); i++) \
		check_row(&(rows)[i])

/* ---- the cases ---- */

START_TEST(defaults_and_spellings)
{
	static const struct row rows[] = {
		/* all words from the program's name on belong to it */
		{"./a --nnodes 7 -- x",
		 "max_nodes=1; nproc=1; node_rank=-1; job=none; "
		 "max_restarts=0; shutdown_timeout_s=30; private_endpoint=1; "
		 "words=./a|--nnodes|7|--|x"},
		{"--nnodes=2 --nproc_per_node 3 --rdzv_id=j --max-restarts=4 "
		 "--no_python -- --odd",
		 "max_nodes=2; nproc=3; job=j; max_restarts=4; no_python=1; "
		 "words=--odd"},
		{"--nnodes 3:3 a", "max_nodes=3"},
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(variables)
{
	static const struct row rows[] = {
		{"a", "nproc=5; job=none", {"PET_NPROC_PER_NODE=5"}},
		{"a", "nproc=5; job=from-env",
		 {"PET_RDZV_ID=from-env", "PET_STANDALONE=0"}},
		{"--nproc-per-node 6 --rdzv-id mine a", "nproc=6; job=mine"},
		{"a", "!PET_STANDALONE", {"PET_STANDALONE=maybe"}},
		{"a", "!--nproc-per-node ''",
		 {"PET_STANDALONE=0", "PET_NPROC_PER_NODE="}},
		/* torchrun's own */
		{"a", "shutdown_timeout_s=7",
		 {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=7", "PET_NPROC_PER_NODE"}},
		{"--shutdown-timeout 2 --log-line-prefix-template x a",
		 "shutdown_timeout_s=2; output.log_prefix=x"},
		{"a",
		 "!TORCH_ELASTIC_SHUTDOWN_TIMEOUT in the environment: -1",
		 {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=-1"}},
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(endpoints)
{
	static const struct row rows[] = {
		{"--nnodes 2 a",
		 "endpoint=localhost:29400; private_endpoint=0"},
		{"--nnodes 2 --rdzv-endpoint h1 a", "endpoint=h1:29400"},
		{"--rdzv-endpoint [fd77::1]:5 a",
		 "endpoint=[fd77::1]:5; private_endpoint=0"},
		{"--nnodes 2 --master-addr h2 a", "endpoint=h2:29500"},
		{"--nnodes 2 --master-port 7 a", "endpoint=localhost:7"},
		{"--nnodes 2 a", "endpoint=h3:29500", {"MASTER_ADDR=h3"}},
		{"--nnodes 2 a", "endpoint=h3:8", {"MASTER_PORT=8"}},
		{"--nnodes 2 --master-addr h4 a", "endpoint=h4:8"},
		{"--nnodes 2 --master-port 9 a", "endpoint=h3:9"},
		/* a job of one node ignores it */
		{"a", "private_endpoint=1"},
		{"--master-port 9 a", "endpoint=h3:9; private_endpoint=0"},
		{"--nnodes 2 --rdzv-endpoint h5:1 --master-addr h4 a",
		 "endpoint=h5:1"},
		{"--nnodes 2 a",
		 "!MASTER_PORT in the environment",
		 {"MASTER_PORT=eight"}},
		{"--standalone a", "private_endpoint=1"},
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(standalone_jobs_have_names_of_their_own)
{
	char first[64];

	ck_assert_int_eq(parse("--standalone --rdzv-id x a"), 0);
	snprintf(first, sizeof(first), "%s", config.job);
	ck_assert_str_ne(first, "x");
	ck_assert_int_eq(parse("--standalone a"), 0);
	ck_assert_str_ne(first, config.job);
}
END_TEST

START_TEST(errors_name_the_option_and_a_remedy)
{
	static const struct row rows[] = {
		{"--nnodes 0 a", "!--nnodes '0'"},
		{"--nnodes -1 a", "!--nnodes '-1'"},
		{"--nnodes 2:1 a", "!minimum is above"},
		{"--nnodes 1:2:3 a", "!--nnodes '1:2:3'"},
		{"--nnodes a b", "!--nnodes 'a'"},
		{"--nnodes 2- a", "!1 to 65536, or MIN:MAX"},
		{"--nnodes 65537 a", "!1 to 65536"},
		{"--nproc-per-node 0 a", "!'0'"},
		{"--nproc-per-node -1 a", "!'-1'"},
		{"--nproc-per-node 1e9 a", "!'1e9'"},
		{"--nproc-per-node 1000000000 a", "!from 1 to 65536"},
		{"--nproc-per-node xpu a", "!only NVIDIA GPUs"},
		{"--nproc-per-node tpu a", "!auto, cpu, gpu"},
		{"--nproc-per-nodes 2 a", "!did you mean --nproc-per-node?"},
		{"--rdzv-endpiont x a", "!did you mean --rdzv-endpoint?"},
		{"--node-rank 2 --nnodes 2 a", "!from 0 to 1"},
		{"--rdzv-backend etcd --rdzv-id j a",
		 "!etcd needs --rdzv-endpoint"},
		{"--rdzv-backend etcd-v3 a", "!'etcd-v3' is not supported"},
		{"--rdzv-backend mine a", "!'mine' is not supported"},
		{"--rdzv-conf timeout a", "!'timeout': give KEY=VALUE"},
		{"--rdzv-conf =3 a", "!give KEY=VALUE"},
		{"--rdzv-conf timeout= a", "!give KEY=VALUE"},
		{"--rdzv-conf timeout=3, a", "!give KEY=VALUE"},
		{"--rdzv-conf timeout=x a", "!timeout=x: give a number"},
		{"--rdzv-conf join_timeout=-1 a", "!give a number of seconds"},
		{"--rdzv-conf close_timeout=soon a", "!close_timeout=soon"},
		{"--rdzv-conf is_host=maybe a", "!is_host=maybe: give 1 or 0"},
		{"--rdzv-conf store_type=file a", "!only uses TCP"},
		{"--rdzv-conf rank=x a", "!rank=x: give a node rank"},
		{"--nnodes 2 --rdzv-conf rank=2 a", "!from 0 to 1"},
		{"--start-method thread a", "!spawn, fork or forkserver"},
		{"--event-log-handler mine a", "!'mine' is Python code"},
		{"--logs-specs mine a", "!'mine' is Python code"},
		{"-m --no-python a", "!--module runs PROGRAM with Python"},
		{"--legacy-launch --no-python a", "!needs --use-env"},
		{"--gpus-per-proc 0 a", "!--gpus-per-proc: 0"},
		{"--nnodes 2 --role= a", "!--role: the name"},
		{"--nnodes 2 --rdzv-id= a", "!--rdzv-id: the name"},
		{"--monitor-interval -1 a", "!--monitor-interval: -1"},
		{"--rdzv-endpoint :5 a", "!the host is empty"},
		{"--rdzv-endpoint h:x a",
		 "!the port is not a number from 0 to 65535"},
		{"--standalone --nnodes 2 a", "!--standalone is for one node"},
		{"--standalone=1 a", "!takes no value"},
		{"--max-restarts -1 a", "!--max-restarts: -1"},
		{"--shutdown-timeout -1 a", "!--shutdown-timeout: -1"},
		{"--rdzv-timeout nan a", "!--rdzv-timeout: 'nan'"},
		{"--nnodes", "!--nnodes needs a value"},
		{"", "!no program to run"},
		{"--", "!no program to run"},
	};

	CHECK_ROWS(rows);
}
END_TEST

#define ETCD "--rdzv-backend etcd --rdzv-endpoint e1 "

START_TEST(etcd_has_members_and_a_name_for_the_job)
{
	static const struct row rows[] = {
		/* other nodes must join, and the server may move to one */
		{"--rdzv-backend etcd --rdzv-endpoint "
		 "e1,[fd77::1]:5,10.0.0.1:7 --rdzv-id j --nnodes 2 a",
		 "etcd=etcd (e1:2379, [fd77::1]:5, 10.0.0.1:7); etcd.https=0; "
		 "etcd.ttl_s=10; private_endpoint=0; agent_store=0; "
		 "reconnect_s=30"},
		{"--rdzv-backend etcd-v2 --rdzv-endpoint e1 --rdzv-id j "
		 "--rdzv-conf protocol=https,ca_cert=a.pem,ssl_cert=b.pem,"
		 "ssl_cert_key=c,ttl=60,read_timeout=5 a",
		 "etcd.https=1; etcd.cacert=a.pem; etcd.cert=b.pem; "
		 "etcd.key=c; etcd.ttl_s=60; reconnect_s=180"},
		{ETCD "--rdzv-id j --rdzv-conf cacert=a,cert=b,key=c,"
		 "protocol=https,reconnect_timeout=2 a",
		 "etcd.key=c; reconnect_s=2"},
		/* without etcd these keys have no meaning */
		{"--rdzv-conf protocol=https,ttl=x a", "etcd=(none)"},
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(options_that_conflict_with_etcd_are_errors)
{
	static const struct row rows[] = {
		{ETCD "a", "!needs --rdzv-id ID"},
		{ETCD "--rdzv-id j -H h1:2 a", "!etcd with -H"},
		{ETCD "--rdzv-id j --hostfile f a", "!etcd with --hostfile"},
		{ETCD "--rdzv-id j --standalone a", "!etcd with --standalone"},
		{ETCD "--rdzv-id j --journal f a", "!etcd with --journal"},
		{ETCD "--rdzv-id j --rdzv-conf is_host=1 a",
		 "!etcd with --rdzv-conf is_host"},
		{ETCD "--rdzv-id j --rdzv-conf protocol=ftp a",
		 "!protocol=ftp: give http or https"},
		{ETCD "--rdzv-id j --rdzv-conf ttl=0 a", "!1 to 3600"},
		{ETCD "--rdzv-id j --rdzv-conf cacert=f a",
		 "!are for protocol=https"},
		{ETCD "--rdzv-id j --rdzv-conf protocol=https,cert=f a",
		 "!cert and key go together"},
		{"--rdzv-backend etcd --rdzv-endpoint e1, --rdzv-id j a",
		 "!'e1,': a member is empty; give etcd's members"},
		{"--rdzv-backend etcd --rdzv-endpoint e1,,e2 --rdzv-id j a",
		 "!a member is empty"},
		{"--rdzv-backend etcd --rdzv-endpoint= --rdzv-id j a",
		 "!needs --rdzv-endpoint"},
		{"--rdzv-backend etcd --rdzv-endpoint e1:x --rdzv-id j a",
		 "!the port is not a number from 0 to 65535"},
		{"--rdzv-backend etcd --rdzv-endpoint e1:0 --rdzv-id j a",
		 "!port 0"},
		{"--rdzv-backend etcd --rdzv-endpoint https://e1 --rdzv-id j "
		 "a", "!it must not be a URL"},
		{"--rdzv-backend etcd --rdzv-endpoint e1/x --rdzv-id j a",
		 "!a slash"},
		{"--rdzv-backend etcd --rdzv-endpoint "
		 "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q --rdzv-id j a",
		 "!more than 16"},
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(gpus_are_enough_before_anything_starts)
{
	static const struct row rows[] = {
		{"--virtual-local-rank --nproc-per-node 3 a", "worker_gpus=1",
		 {"CUDA_VISIBLE_DEVICES=0,1,2"}},
		{"--virtual-local-rank --nproc-per-node 4 a",
		 "!4 workers need 4 GPUs, but CUDA_VISIBLE_DEVICES '0,1,2' "
		 "has 3"},
		{"--gpus-per-proc 3 a", "worker_gpus=3"},
		{"--gpus-per-proc 2 --nproc-per-node 2 a",
		 "!--gpus-per-proc: 2 workers need 4 GPUs"},
		{"--nproc-per-node 9 a", "worker_gpus=0"},
		{"--virtual-local-rank --nproc-per-node 4 a", "nproc=4",
		 {"CUDA_VISIBLE_DEVICES"}},
		{"--gpus-per-proc 60000 --nproc-per-node 2 a",
		 "!need 120000 GPUs, but this host has"},
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(asks_for_text)
{
	ck_assert_int_eq(parse("--nnodes 1 --help"), OPTION_WANT_HELP);
	ck_assert_int_eq(parse("--version a"), OPTION_WANT_VERSION);
}
END_TEST

START_TEST(limits_name_the_value_that_is_too_small)
{
	uint64_t soft;

	error = (struct err)ERR_INIT;
	ck_assert_int_eq(preflight_check_limits(2, &soft, &error), 0);
	ck_assert_uint_eq(soft, 0);
	ck_assert_int_lt(preflight_check_limits(4000000, &soft, &error), 0);
	ck_assert_ptr_nonnull(strstr(error.text, "--nproc-per-node 4000000"));
}
END_TEST

START_TEST(gpus_that_cuda_would_show)
{
	static const struct {
		int gpus;
		const char *list;
		int visible;
	} rows[] = {
		{4, NULL, 4},
		{4, "", 0},
		{4, "0,2", 2},
		{4, "1,-1,2", 1},
		{4, "-1", 0},
		{4, "3,4", 1},
		{4, "GPU-8932f937,1", 2},
		{4, "MIG-1/2/3", 1},
		{4, "NoDevFiles", 0},
		{0, "0", 0},
		{2, "0,1,0", 0},
		{2, "GPU-ab,GPU-ab", 0},
		{4, "1,11,GPU-a,GPU-ab", 1},
		{4, "GPU-a,GPU-ab", 2},
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		ck_assert_int_eq(gpu_visible(rows[i].gpus, rows[i].list),
				 rows[i].visible);
}
END_TEST

START_TEST(hosts_are_reached_over_ssh)
{
	static const struct row rows[] = {
		{"-H a:4,me@b ./t", "hosts=a:4 me@b; max_nodes=2; noptions=2"},
		{"-H a,b,c --nnodes 2 -- ./t", "hosts=a b; noptions=4"},
		{"-H a,b,c --nnodes 1:2 ./t", "hosts=a b c"},
		{"--hosts=a --master-port 7 ./t", "hosts=a"},
		{"./t", "hosts=x", {"PET_HOSTS=x"}},
		/* no other host: no ssh is needed */
		{"-H localhost:3 ./t", "nproc=3; private_endpoint=1",
		 {"PET_HOSTS"}},
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(options_that_conflict_with_hosts_are_errors)
{
	static const struct row rows[] = {
		{"-H a,b --standalone ./t", "!--standalone"},
		{"-H a,b --node-rank 0 ./t", "!order of the list"},
		{"-H a,b --rdzv-endpoint a:1 ./t", "!--master-addr"},
		{"-H a,b --local-addr a ./t", "!--local-addr"},
		{"-H a,b --hostfile f ./t", "!leave one of them out"},
		{"-H a,b --nnodes 3 ./t", "!-H lists 2 hosts"},
		{"-H a,a ./t", "!-H"},
		{"-H a,b", "!no program to run"},
		{"--host-check ./t", "!give one of them"},
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(hosts_in_an_allocation)
{
	static const struct row rows[] = {
		/* in an allocation without a step, ssh as asked */
		{"-H a,b ./t", "hosts=a b", {"SLURM_JOB_ID=7"}},
		{"-H a,b ./t", "!leave -H out",
		 {"SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=a"}},
	};

	CHECK_ROWS(rows);
}
END_TEST

START_TEST(only_a_requeue_at_the_time_limit_is_a_stop)
{
	struct config c = {.preflight = "none", .on_preempt = 1,
			   .event_log_handler = "null"};

	ck_assert_int_eq(config_agent_options(&c).stop.requeues, 0);
	c.on_timeout = 1;
	ck_assert_int_eq(config_agent_options(&c).stop.requeues, 1);
}
END_TEST

START_TEST(by_an_mpi_launcher)
{
	static const struct row rows[] = {
		{"./a", "max_nodes=3; node_rank=1; meets=1",
		 {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=3"}},
		{"--nnodes 1:2 ./a", "node_rank=-1"},
		{"--nnodes 2 ./a", "!mpirun starts ddprun on 3 nodes; leave "
				   "--nnodes out, or --nnodes 2:2"},
		{"--nnodes 4 ./a", "!start more, one on each node"},
		{"--rdzv-endpoint n1:5 ./a", "max_nodes=3; meets=0"},
		{"-H n1,n2 ./a", "!-H (--hostfile) with mpirun: it has "
				 "already started ddprun on its nodes"},
		/* started by hand on each node, and standalone; 0: none */
		{"--nnodes 2 --rdzv-endpoint n1:5 ./a", "mpi=0"},
		{"--standalone ./a", "mpi=0"},
		{"./a", "!PMI_RANK is set but PMI_FD is not, so the nodes "
			"cannot agree where to meet",
		 {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}},
	};

	ck_assert_int_eq(MPIRUN_NONE, 0);
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (i == COUNT(rows) - 1) {
			setenv("PMI_RANK", "0", 1);
			setenv("PMI_SIZE", "2", 1);
		}
		check_row(&rows[i]);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("config");

	tcase_set_timeout(c, 20);
	tcase_add_checked_fixture(c, clean_environment, NULL);
	tcase_add_test(c, defaults_and_spellings);
	tcase_add_test(c, by_an_mpi_launcher);
	tcase_add_test(c, variables);
	tcase_add_test(c, endpoints);
	tcase_add_test(c, standalone_jobs_have_names_of_their_own);
	tcase_add_test(c, errors_name_the_option_and_a_remedy);
	tcase_add_test(c, etcd_has_members_and_a_name_for_the_job);
	tcase_add_test(c, options_that_conflict_with_etcd_are_errors);
	tcase_add_test(c, gpus_are_enough_before_anything_starts);
	tcase_add_test(c, asks_for_text);
	tcase_add_test(c, limits_name_the_value_that_is_too_small);
	tcase_add_test(c, gpus_that_cuda_would_show);
	tcase_add_test(c, hosts_are_reached_over_ssh);
	tcase_add_test(c, options_that_conflict_with_hosts_are_errors);
	tcase_add_test(c, hosts_in_an_allocation);
	tcase_add_test(c, only_a_requeue_at_the_time_limit_is_a_stop);
	return run_case(c);
}
