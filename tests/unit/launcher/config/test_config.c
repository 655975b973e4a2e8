/* test_config.c: what follows from the command line and the environment. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/plan/gpu.h"
#include "tests/unit/launcher/config/command_line.h"
#include "tests/unit/run_case.h"

START_TEST(defaults)
{
	ck_assert_int_eq(parse("./a --nnodes 7 -- x"), 0);
	ck_assert_uint_eq(config.max_nodes, 1);
	ck_assert_uint_eq(config.nproc, 1);
	ck_assert_int_eq((int)config.node_rank, -1);
	ck_assert_str_eq(config.job, "none");
	ck_assert_int_eq((int)config.max_restarts, 0);
	ck_assert_double_eq(config.grace_s, 30);
	ck_assert_int_eq(config.private_endpoint, 1);
	/* everything from the program's name on belongs to the program */
	ck_assert_str_eq(config.words[0], "./a");
	ck_assert_str_eq(config.words[1], "--nnodes");
	ck_assert_str_eq(config.words[3], "--");
	ck_assert_str_eq(config.words[4], "x");
	ck_assert_ptr_null(config.words[5]);
}
END_TEST

START_TEST(spellings)
{
	ck_assert_int_eq(parse("--nnodes=2 --nproc_per_node 3 --rdzv_id=j "
			       "--max-restarts=4 --no_python -- --odd"), 0);
	ck_assert_uint_eq(config.max_nodes, 2);
	ck_assert_uint_eq(config.nproc, 3);
	ck_assert_str_eq(config.job, "j");
	ck_assert_int_eq((int)config.max_restarts, 4);
	ck_assert_int_eq(config.no_python, 1);
	ck_assert_str_eq(config.words[0], "--odd");
	ck_assert_int_eq(parse("--nnodes 3:3 a"), 0);
	ck_assert_uint_eq(config.max_nodes, 3);
}
END_TEST

START_TEST(variables)
{
	setenv("PET_NPROC_PER_NODE", "5", 1);
	setenv("PET_RDZV_ID", "from-env", 1);
	setenv("PET_STANDALONE", "0", 1);
	ck_assert_int_eq(parse("a"), 0);
	ck_assert_uint_eq(config.nproc, 5);
	ck_assert_str_eq(config.job, "from-env");
	ck_assert_int_eq(parse("--nproc-per-node 6 --rdzv-id mine a"), 0);
	ck_assert_uint_eq(config.nproc, 6);
	ck_assert_str_eq(config.job, "mine");
	setenv("PET_STANDALONE", "maybe", 1);
	refused("a", "PET_STANDALONE");
	setenv("PET_STANDALONE", "0", 1);
	setenv("PET_NPROC_PER_NODE", "", 1);
	refused("a", "--nproc-per-node ''");
}
END_TEST

START_TEST(endpoints)
{
	ck_assert_str_eq(endpoint("--nnodes 2 a"), "localhost:29400");
	ck_assert_int_eq(config.private_endpoint, 0);
	ck_assert_str_eq(endpoint("--nnodes 2 --rdzv-endpoint h1 a"),
			 "h1:29400");
	ck_assert_str_eq(endpoint("--rdzv-endpoint [fd77::1]:5 a"),
			 "[fd77::1]:5");
	ck_assert_int_eq(config.private_endpoint, 0);
	ck_assert_str_eq(endpoint("--nnodes 2 --master-addr h2 a"),
			 "h2:29500");
	ck_assert_str_eq(endpoint("--nnodes 2 --master-port 7 a"),
			 "localhost:7");
	setenv("MASTER_ADDR", "h3", 1);
	ck_assert_str_eq(endpoint("--nnodes 2 a"), "h3:29500");
	setenv("MASTER_PORT", "8", 1);
	ck_assert_str_eq(endpoint("--nnodes 2 a"), "h3:8");
	ck_assert_str_eq(endpoint("--nnodes 2 --master-addr h4 a"), "h4:8");
	ck_assert_str_eq(endpoint("--nnodes 2 --master-port 9 a"), "h3:9");
	/* a job of one node ignores it */
	ck_assert_int_eq(parse("a"), 0);
	ck_assert_int_eq(config.private_endpoint, 1);
	ck_assert_str_eq(endpoint("--master-port 9 a"), "h3:9");
	ck_assert_int_eq(config.private_endpoint, 0);
	ck_assert_str_eq(endpoint("--nnodes 2 --rdzv-endpoint h5:1 "
				  "--master-addr h4 a"), "h5:1");
	setenv("MASTER_PORT", "eight", 1);
	refused("--nnodes 2 a", "MASTER_PORT in the environment");
	ck_assert_int_eq(parse("--standalone a"), 0);
	ck_assert_int_eq(config.private_endpoint, 1);
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
	static const struct {
		const char *line, *part;
	} rows[] = {
		{"--nnodes 0 a", "--nnodes '0'"},
		{"--nnodes -1 a", "--nnodes '-1'"},
		{"--nnodes 2:1 a", "minimum is above"},
		{"--nnodes 1:2:3 a", "--nnodes '1:2:3'"},
		{"--nnodes a b", "--nnodes 'a'"},
		{"--nnodes 2- a", "1 to 65536, or MIN:MAX"},
		{"--nnodes 65537 a", "1 to 65536"},
		{"--nproc-per-node 0 a", "'0'"},
		{"--nproc-per-node -1 a", "'-1'"},
		{"--nproc-per-node 1e9 a", "'1e9'"},
		{"--nproc-per-node 1000000000 a", "from 1 to 65536"},
		{"--nproc-per-node xpu a", "only NVIDIA GPUs"},
		{"--nproc-per-node tpu a", "auto, cpu, gpu"},
		{"--nproc-per-nodes 2 a", "did you mean --nproc-per-node?"},
		{"--rdzv-endpiont x a", "did you mean --rdzv-endpoint?"},
		{"--node-rank 2 --nnodes 2 a", "from 0 to 1"},
		{"--rdzv-backend etcd --rdzv-id j a",
		 "etcd needs --rdzv-endpoint"},
		{"--rdzv-backend etcd-v3 a", "'etcd-v3' is not supported"},
		{"--rdzv-backend mine a", "'mine' is not supported"},
		{"--rdzv-conf timeout a", "'timeout': give KEY=VALUE"},
		{"--rdzv-conf =3 a", "give KEY=VALUE"},
		{"--rdzv-conf timeout= a", "give KEY=VALUE"},
		{"--rdzv-conf timeout=3, a", "give KEY=VALUE"},
		{"--rdzv-conf timeout=x a", "timeout=x: give a number"},
		{"--rdzv-conf join_timeout=-1 a", "give a number of seconds"},
		{"--rdzv-conf close_timeout=soon a", "close_timeout=soon"},
		{"--rdzv-conf is_host=maybe a", "is_host=maybe: give 1 or 0"},
		{"--rdzv-conf store_type=file a", "only uses TCP"},
		{"--rdzv-conf rank=x a", "rank=x: give a node rank"},
		{"--nnodes 2 --rdzv-conf rank=2 a", "from 0 to 1"},
		{"--start-method thread a", "spawn, fork or forkserver"},
		{"--event-log-handler mine a", "'mine' is Python code"},
		{"--logs-specs mine a", "'mine' is Python code"},
		{"-m --no-python a", "--module runs PROGRAM with Python"},
		{"--legacy-launch --no-python a", "needs --use-env"},
		{"--gpus-per-proc 0 a", "--gpus-per-proc: 0"},
		{"--nnodes 2 --role= a", "--role: the name"},
		{"--nnodes 2 --rdzv-id= a", "--rdzv-id: the name"},
		{"--monitor-interval -1 a", "--monitor-interval: -1"},
		{"--rdzv-endpoint :5 a", "the host is empty"},
		{"--rdzv-endpoint h:x a",
		 "the port is not a number from 0 to 65535"},
		{"--standalone --nnodes 2 a", "--standalone is for one node"},
		{"--standalone=1 a", "takes no value"},
		{"--max-restarts -1 a", "--max-restarts: -1"},
		{"--shutdown-timeout -1 a", "--shutdown-timeout: -1"},
		{"--rdzv-timeout nan a", "--rdzv-timeout: 'nan'"},
		{"--nnodes", "--nnodes needs a value"},
		{"", "no program to run"},
		{"--", "no program to run"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		refused(rows[i].line, rows[i].part);
}
END_TEST

#define ETCD "--rdzv-backend etcd --rdzv-endpoint e1 "

START_TEST(etcd_has_members_and_a_name_for_the_job)
{
	char text[SOCK_TEXT_MAX];

	ck_assert_int_eq(parse("--rdzv-backend etcd --rdzv-endpoint "
			       "e1,[fd77::1]:5,10.0.0.1:7 --rdzv-id j "
			       "--nnodes 2 a"), 0);
	ck_assert_str_eq(etcd_options_text(&config.etcd, text),
			 "etcd (e1:2379, [fd77::1]:5, 10.0.0.1:7)");
	ck_assert_int_eq(config.etcd.https, 0);
	ck_assert_int_eq((int)config.etcd.ttl_s, 10);
	/* other nodes must join, and the server may move to one of them */
	ck_assert_int_eq(config.private_endpoint, 0);
	ck_assert_int_eq(config.agent_store, 0);
	ck_assert_double_eq(config.reconnect_s, 30);
	ck_assert_int_eq(parse("--rdzv-backend etcd-v2 --rdzv-endpoint e1 "
			       "--rdzv-id j --rdzv-conf protocol=https,"
			       "ca_cert=a.pem,ssl_cert=b.pem,ssl_cert_key=c,"
			       "ttl=60,read_timeout=5 a"), 0);
	ck_assert_int_eq(config.etcd.https, 1);
	ck_assert_str_eq(config.etcd.cacert, "a.pem");
	ck_assert_str_eq(config.etcd.cert, "b.pem");
	ck_assert_str_eq(config.etcd.key, "c");
	ck_assert_int_eq((int)config.etcd.ttl_s, 60);
	ck_assert_double_eq(config.reconnect_s, 180);
	ck_assert_int_eq(parse(ETCD "--rdzv-id j --rdzv-conf cacert=a,cert=b,"
			       "key=c,protocol=https,reconnect_timeout=2 a"),
			 0);
	ck_assert_str_eq(config.etcd.key, "c");
	ck_assert_double_eq(config.reconnect_s, 2);
	/* without etcd these keys have no meaning */
	ck_assert_int_eq(parse("--rdzv-conf protocol=https,ttl=x a"), 0);
	ck_assert_ptr_null(config.etcd.members);
}
END_TEST

START_TEST(options_that_conflict_with_etcd_are_errors)
{
	static const struct {
		const char *line, *part;
	} rows[] = {
		{ETCD "a", "needs --rdzv-id ID"},
		{ETCD "--rdzv-id j -H h1:2 a", "etcd with -H"},
		{ETCD "--rdzv-id j --hostfile f a", "etcd with --hostfile"},
		{ETCD "--rdzv-id j --standalone a", "etcd with --standalone"},
		{ETCD "--rdzv-id j --journal f a", "etcd with --journal"},
		{ETCD "--rdzv-id j --rdzv-conf is_host=1 a",
		 "etcd with --rdzv-conf is_host"},
		{ETCD "--rdzv-id j --rdzv-conf protocol=ftp a",
		 "protocol=ftp: give http or https"},
		{ETCD "--rdzv-id j --rdzv-conf ttl=0 a", "1 to 3600"},
		{ETCD "--rdzv-id j --rdzv-conf cacert=f a",
		 "are for protocol=https"},
		{ETCD "--rdzv-id j --rdzv-conf protocol=https,cert=f a",
		 "cert and key go together"},
		{"--rdzv-backend etcd --rdzv-endpoint e1, --rdzv-id j a",
		 "'e1,': a member is empty; give etcd's members"},
		{"--rdzv-backend etcd --rdzv-endpoint e1,,e2 --rdzv-id j a",
		 "a member is empty"},
		{"--rdzv-backend etcd --rdzv-endpoint= --rdzv-id j a",
		 "needs --rdzv-endpoint"},
		{"--rdzv-backend etcd --rdzv-endpoint e1:x --rdzv-id j a",
		 "the port is not a number from 0 to 65535"},
		{"--rdzv-backend etcd --rdzv-endpoint e1:0 --rdzv-id j a",
		 "port 0"},
		{"--rdzv-backend etcd --rdzv-endpoint https://e1 --rdzv-id j "
		 "a", "it must not be a URL"},
		{"--rdzv-backend etcd --rdzv-endpoint e1/x --rdzv-id j a",
		 "a slash"},
		{"--rdzv-backend etcd --rdzv-endpoint "
		 "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q --rdzv-id j a",
		 "more than 16"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		refused(rows[i].line, rows[i].part);
}
END_TEST

START_TEST(gpus_are_enough_before_anything_starts)
{
	setenv("CUDA_VISIBLE_DEVICES", "0,1,2", 1);
	ck_assert_int_eq(parse("--virtual-local-rank --nproc-per-node 3 a"), 0);
	ck_assert_uint_eq(config.worker_gpus, 1);
	refused("--virtual-local-rank --nproc-per-node 4 a",
		"4 workers need 4 GPUs, but CUDA_VISIBLE_DEVICES "
		"'0,1,2' has 3");
	ck_assert_int_eq(parse("--gpus-per-proc 3 a"), 0);
	ck_assert_uint_eq(config.worker_gpus, 3);
	refused("--gpus-per-proc 2 --nproc-per-node 2 a",
		"--gpus-per-proc: 2 workers need 4 GPUs");
	ck_assert_int_eq(parse("--nproc-per-node 9 a"), 0);
	ck_assert_uint_eq(config.worker_gpus, 0);
	unsetenv("CUDA_VISIBLE_DEVICES");
	ck_assert_int_eq(parse("--virtual-local-rank --nproc-per-node 4 a"), 0);
	refused("--gpus-per-proc 60000 --nproc-per-node 2 a",
		"need 120000 GPUs, but this host has");
}
END_TEST

START_TEST(torchruns_own_variables)
{
	setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7", 1);
	ck_assert_int_eq(parse("a"), 0);
	ck_assert_double_eq(config.grace_s, 7);
	ck_assert_int_eq(parse("--shutdown-timeout 2 "
			       "--log-line-prefix-template x a"), 0);
	ck_assert_double_eq(config.grace_s, 2);
	ck_assert_str_eq(config.output.log_prefix, "x");
	setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "-1", 1);
	refused("a", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT in the environment: -1");
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
	ck_assert_int_eq(config_check_limits(2, &soft, &error), 0);
	ck_assert_uint_eq(soft, 0);
	ck_assert_int_lt(config_check_limits(4000000, &soft, &error), 0);
	ck_assert_ptr_nonnull(strstr(error.text, "--nproc-per-node 4000000"));
}
END_TEST

START_TEST(gpus_that_cuda_would_show)
{
	ck_assert_int_eq(gpu_visible(4, NULL), 4);
	ck_assert_int_eq(gpu_visible(4, ""), 0);
	ck_assert_int_eq(gpu_visible(4, "0,2"), 2);
	ck_assert_int_eq(gpu_visible(4, "1,-1,2"), 1);
	ck_assert_int_eq(gpu_visible(4, "-1"), 0);
	ck_assert_int_eq(gpu_visible(4, "3,4"), 1);
	ck_assert_int_eq(gpu_visible(4, "GPU-8932f937,1"), 2);
	ck_assert_int_eq(gpu_visible(4, "MIG-1/2/3"), 1);
	ck_assert_int_eq(gpu_visible(4, "NoDevFiles"), 0);
	ck_assert_int_eq(gpu_visible(0, "0"), 0);
	ck_assert_int_eq(gpu_visible(2, "0,1,0"), 0);
	ck_assert_int_eq(gpu_visible(2, "GPU-ab,GPU-ab"), 0);
	ck_assert_int_eq(gpu_visible(4, "1,11,GPU-a,GPU-ab"), 1);
	ck_assert_int_eq(gpu_visible(4, "GPU-a,GPU-ab"), 2);
}
END_TEST

/* The hosts, as "h1:2 h2". */
static const char *hosts(const char *text)
{
	static char out[512];
	size_t len = 0;

	out[0] = '\0';
	ck_assert_msg(parse(text) == CONFIG_WANT_HOSTS, "'%s': %s", text,
		      error.text);
	for (uint32_t i = 0; i < config.hosts.count; i++) {
		const struct host *h = &config.hosts.hosts[i];

		len += (size_t)snprintf(out + len, sizeof(out) - len, "%s%s",
					i ? " " : "",
					host_list_name(&config.hosts, i));
		if (h->slots)
			len += (size_t)snprintf(out + len, sizeof(out) - len,
						":%u", h->slots);
	}
	config_release(&config);
	return out;
}

static void hosts_refused(const char *text, const char *part)
{
	refused(text, part);
	config_release(&config);
}

START_TEST(hosts_are_reached_over_ssh)
{
	ck_assert_str_eq(hosts("-H a:4,me@b ./t"), "a:4 me@b");
	ck_assert_uint_eq(config.max_nodes, 2);
	ck_assert_int_eq(config.noptions, 2);
	ck_assert_str_eq(hosts("-H a,b,c --nnodes 2 -- ./t"), "a b");
	ck_assert_int_eq(config.noptions, 4);
	ck_assert_str_eq(hosts("-H a,b,c --nnodes 1:2 ./t"), "a b c");
	ck_assert_str_eq(hosts("--hosts=a --master-port 7 ./t"), "a");
	setenv("PET_HOSTS", "x", 1);
	ck_assert_str_eq(hosts("./t"), "x");
	unsetenv("PET_HOSTS");
	/* no other host: no ssh is needed */
	ck_assert_int_eq(parse("-H localhost:3 ./t"), 0);
	ck_assert_uint_eq(config.nproc, 3);
	ck_assert_int_eq(config.private_endpoint, 1);
	config_release(&config);
}
END_TEST

START_TEST(options_that_conflict_with_hosts_are_errors)
{
	hosts_refused("-H a,b --standalone ./t", "--standalone");
	hosts_refused("-H a,b --node-rank 0 ./t", "order of the list");
	hosts_refused("-H a,b --rdzv-endpoint a:1 ./t", "--master-addr");
	hosts_refused("-H a,b --local-addr a ./t", "--local-addr");
	hosts_refused("-H a,b --hostfile f ./t", "leave one of them out");
	hosts_refused("-H a,b --nnodes 3 ./t", "-H lists 2 hosts");
	hosts_refused("-H a,a ./t", "-H");
	hosts_refused("-H a,b", "no program to run");
	hosts_refused("--host-check ./t", "give one of them");
	setenv("SLURM_JOB_ID", "7", 1);
	setenv("SLURM_STEP_ID", "0", 1);
	setenv("SLURM_STEP_NODELIST", "a", 1);
	hosts_refused("-H a,b ./t", "leave -H out");
	unsetenv("SLURM_STEP_ID");
	unsetenv("SLURM_STEP_NODELIST");
	/* in an allocation without a step, ssh as asked */
	ck_assert_str_eq(hosts("-H a,b ./t"), "a b");
	unsetenv("SLURM_JOB_ID");
}
END_TEST

START_TEST(by_an_mpi_launcher)
{
	setenv("OMPI_COMM_WORLD_RANK", "1", 1);
	setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
	ck_assert_msg(parse("./a") == 0, "%s", error.text);
	ck_assert_uint_eq(config.max_nodes, 3);
	ck_assert_int_eq((int)config.node_rank, 1);
	ck_assert_int_eq(config.meets, 1);
	ck_assert_msg(parse("--nnodes 1:2 ./a") == 0, "%s", error.text);
	ck_assert_int_eq((int)config.node_rank, -1);
	refused("--nnodes 2 ./a", "mpirun starts ddprun on 3 nodes; leave "
				  "--nnodes out, or --nnodes 2:2");
	refused("--nnodes 4 ./a", "start more, one on each node");
	ck_assert_msg(parse("--rdzv-endpoint n1:5 ./a") == 0, "%s", error.text);
	ck_assert_uint_eq(config.max_nodes, 3);
	ck_assert_int_eq(config.meets, 0);
	refused("-H n1,n2 ./a", "-H (--hostfile) with mpirun: it has already "
				"started ddprun on its nodes");
	/* started by hand on each node, and standalone */
	ck_assert_int_eq(parse("--nnodes 2 --rdzv-endpoint n1:5 ./a"), 0);
	ck_assert_int_eq(config.env.mpi.kind, MPIRUN_NONE);
	ck_assert_int_eq(parse("--standalone ./a"), 0);
	ck_assert_int_eq(config.env.mpi.kind, MPIRUN_NONE);
	unsetenv("OMPI_COMM_WORLD_RANK");
	unsetenv("OMPI_COMM_WORLD_SIZE");
	setenv("PMI_RANK", "0", 1);
	setenv("PMI_SIZE", "2", 1);
	refused("./a", "PMI_RANK is set but PMI_FD is not, so the nodes "
		       "cannot agree where to meet");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("config");

	tcase_set_timeout(c, 20);
	tcase_add_checked_fixture(c, clean_environment, NULL);
	tcase_add_test(c, defaults);
	tcase_add_test(c, by_an_mpi_launcher);
	tcase_add_test(c, spellings);
	tcase_add_test(c, variables);
	tcase_add_test(c, endpoints);
	tcase_add_test(c, standalone_jobs_have_names_of_their_own);
	tcase_add_test(c, errors_name_the_option_and_a_remedy);
	tcase_add_test(c, etcd_has_members_and_a_name_for_the_job);
	tcase_add_test(c, options_that_conflict_with_etcd_are_errors);
	tcase_add_test(c, gpus_are_enough_before_anything_starts);
	tcase_add_test(c, torchruns_own_variables);
	tcase_add_test(c, asks_for_text);
	tcase_add_test(c, limits_name_the_value_that_is_too_small);
	tcase_add_test(c, gpus_that_cuda_would_show);
	tcase_add_test(c, hosts_are_reached_over_ssh);
	tcase_add_test(c, options_that_conflict_with_hosts_are_errors);
	return run_case(c);
}
