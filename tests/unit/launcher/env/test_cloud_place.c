/* test_cloud_place.c: what each platform's variables say about a node. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/env/cloud_place.h"
#include "tests/unit/run_case.h"

enum { VARS_MAX = 16 };

static char *vars[VARS_MAX + 1];
static char etc_hosts[64], resource_config[64];
static struct cloud_place p;
static struct err error;
static struct cloud_view view;

static const char *get(const char *name)
{
	size_t n = strlen(name);

	for (int i = 0; vars[i]; i++) {
		if (strncmp(vars[i], name, n) == 0 && vars[i][n] == '=')
			return vars[i] + n + 1;
	}
	return NULL;
}

static void make_file(char path[64], const char *text)
{
	FILE *f;
	int fd;

	snprintf(path, 64, "/tmp/cloudXXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	f = fdopen(fd, "w");
	fputs(text, f);
	fclose(f);
}

static void start(const char *host)
{
	memset(vars, 0, sizeof(vars));
	error = (struct err)ERR_INIT;
	view = (struct cloud_view){
		.get = get, .vars = vars, .host = host,
		.etc_hosts = "/nonexistent", .resource_config = "/nonexistent",
	};
}

static void set(const char *text)
{
	int i = 0;

	while (vars[i])
		i++;
	ck_assert_int_lt(i, VARS_MAX);
	vars[i] = (char *)text;
}

static void finds(const char *platform, uint32_t nodes, long rank,
		  const char *first)
{
	int rc = cloud_place_read(&p, &view, &error);

	ck_assert_msg(rc == 1, "%d: %s", rc, error.text);
	ck_assert_str_eq(p.platform, platform);
	ck_assert_uint_eq(p.nodes, nodes);
	ck_assert_int_eq(p.rank, rank);
	ck_assert_str_eq(p.first, first);
	ck_assert_int_eq(p.is_first, rank == 0);
	ck_assert(p.evidence[0]);
}

static void refuses(const char *part)
{
	ck_assert_int_eq(cloud_place_read(&p, &view, &error), ERR_USAGE);
	ck_assert_msg(strstr(error.text, part), "%s", error.text);
}

static void finds_none(void)
{
	ck_assert_int_eq(cloud_place_read(&p, &view, &error), 0);
}

START_TEST(no_variables_are_no_platform)
{
	start("h1");
	set("PATH=/bin");
	set("KUBERNETES_SERVICE_HOST=10.0.0.1");
	set("HOSTNAME=h1");
	finds_none();
}
END_TEST

START_TEST(aws_batch_names_its_main_node_to_the_children)
{
	start("ip-10-0-0-8");
	set("AWS_BATCH_JOB_NUM_NODES=3");
	set("AWS_BATCH_JOB_NODE_INDEX=2");
	set("AWS_BATCH_JOB_MAIN_NODE_INDEX=0");
	set("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.7");
	finds("AWS Batch", 3, 2, "10.0.0.7");
	ck_assert_str_eq(p.rank_variable, "AWS_BATCH_JOB_NODE_INDEX");
	start("ip-10-0-0-7");
	set("AWS_BATCH_JOB_NUM_NODES=3");
	set("AWS_BATCH_JOB_NODE_INDEX=0");
	set("AWS_BATCH_JOB_MAIN_NODE_INDEX=0");
	finds("AWS Batch", 3, 0, "");
}
END_TEST

START_TEST(aws_batch_main_node_of_another_index_gets_rank_0)
{
	static const long ranks[] = {1, 2, 0, 3};
	char index[64];

	for (int i = 0; i < 4; i++) {
		start("h");
		snprintf(index, sizeof(index), "AWS_BATCH_JOB_NODE_INDEX=%d",
			 i);
		set("AWS_BATCH_JOB_NUM_NODES=4");
		set("AWS_BATCH_JOB_MAIN_NODE_INDEX=2");
		set(index);
		set("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.7");
		finds("AWS Batch", 4, ranks[i], i == 2 ? "" : "10.0.0.7");
	}
	ck_assert_str_eq(p.rank_variable, "AWS_BATCH_JOB_NODE_INDEX");
}
END_TEST

START_TEST(skypilot_lists_addresses)
{
	start("h");
	set("SKYPILOT_NODE_IPS=10.0.0.7\n10.0.0.8\n");
	set("SKYPILOT_NODE_RANK=1");
	set("SKYPILOT_NUM_GPUS_PER_NODE=8");
	finds("SkyPilot", 2, 1, "10.0.0.7");
	ck_assert_uint_eq(p.gpus, 8);
	set("SKYPILOT_NUM_NODES=2");
	finds("SkyPilot", 2, 1, "10.0.0.7");
}
END_TEST

START_TEST(azure_ml_needs_one_process_a_node)
{
	start("h");
	set("AZUREML_NODE_COUNT=2");
	set("NODE_RANK=1");
	set("AZ_BATCH_MASTER_NODE=10.0.0.4:6000");
	finds("Azure ML", 2, 1, "10.0.0.4");
	ck_assert_uint_eq(p.port, 0);
	set("MASTER_ADDR=10.0.0.5");
	set("MASTER_PORT=6105");
	set("WORLD_SIZE=2");
	set("LOCAL_RANK=0");
	finds("Azure ML", 2, 1, "10.0.0.5");
	ck_assert_uint_eq(p.port, 6105);
	vars[5] = (char *)"WORLD_SIZE=8";
	refuses("process_count_per_instance: 1");
}
END_TEST

START_TEST(sagemaker_lists_hosts_in_json)
{
	start("algo-2");
	set("SM_HOSTS=[\"algo-1\",\"algo-2\"]");
	set("SM_CURRENT_HOST=algo-2");
	set("SM_NUM_GPUS=4");
	finds("SageMaker", 2, 1, "algo-1");
	ck_assert_uint_eq(p.gpus, 4);
	vars[1] = (char *)"SM_CURRENT_HOST=algo-9";
	refuses("SM_HOSTS does not list this host, 'algo-9'");
	vars[0] = (char *)"SM_HOSTS=[\"algo-1\",";
	refuses("SM_HOSTS is not JSON");
	vars[0] = (char *)"SM_HOSTS=[1, 2]";
	refuses("SM_HOSTS is not a list of host names");
	vars[0] = (char *)"SM_HOSTS=[\"algo 1\", \"algo-9\"]";
	ck_assert_int_ne(cloud_place_read(&p, &view, &error), 0);
}
END_TEST

START_TEST(sagemaker_without_its_toolkit_has_a_file)
{
	start("ip-10-0-0-4");
	make_file(resource_config, "{\"current_host\":\"algo-1\","
		  "\"hosts\":[\"algo-1\",\"algo-2\"],"
		  "\"network_interface_name\":\"eth0\"}");
	view.resource_config = resource_config;
	finds("SageMaker", 2, 0, "algo-1");
	unlink(resource_config);
}
END_TEST

START_TEST(vertex_ai_ranks_its_two_worker_pools)
{
	start("h");
	set("CLUSTER_SPEC={\"cluster\":{\"workerpool0\":[\"pool0-0:2222\"],"
	    "\"workerpool1\":[\"pool1-0:2222\",\"pool1-1:2222\"]},"
	    "\"task\":{\"type\":\"workerpool1\",\"index\":1}}");
	/* Vertex sets these as well */
	set("MASTER_ADDR=pool0-0");
	set("MASTER_PORT=2222");
	set("RANK=2");
	set("WORLD_SIZE=3");
	set("TF_CONFIG={\"cluster\":{\"chief\":[\"pool0-0:2222\"]}}");
	finds("Vertex AI", 3, 2, "pool0-0");
	ck_assert_uint_eq(p.port, 2222);
	vars[0] = (char *)"CLUSTER_SPEC={\"cluster\":{"
			  "\"workerpool0\":[\"a:1\"],"
			  "\"workerpool1\":[\"b:1\"],"
			  "\"workerpool3\":[\"c:1\"]},\"task\":{"
			  "\"type\":\"workerpool3\",\"index\":0}}";
	refuses("this node, workerpool3 0, is not among the cluster's workers");
}
END_TEST

START_TEST(tf_config_ranks_chief_and_workers)
{
	start("h");
	set("TF_CONFIG={\"cluster\":{\"chief\":[\"c:2222\"],\"worker\":"
	    "[\"w:2222\"]},\"task\":{\"type\":\"worker\",\"index\":0}}");
	finds("TF_CONFIG", 2, 1, "c");
	ck_assert_uint_eq(p.port, 0);
	vars[0] = (char *)"TF_CONFIG={\"cluster\":{\"ps\":[\"p:2222\"],"
			  "\"worker\":[\"w:2222\",\"x:2222\"]},\"task\":{"
			  "\"type\":\"ps\",\"index\":0}}";
	refuses("this node, ps 0, is not among the cluster's workers");
	vars[0] = (char *)"TF_CONFIG={\"cluster\":{\"worker\":[\"localhost:1\","
			  "\"localhost:2\"]},\"task\":{\"type\":\"worker\","
			  "\"index\":\"1\"}}";
	finds_none();
	vars[0] = (char *)"TF_CONFIG={}";
	finds_none();
	vars[0] = (char *)"TF_CONFIG=old";
	finds_none();
}
END_TEST

START_TEST(jobset_numbers_all_pods_of_its_jobs)
{
	start("train-workers-1-0");
	set("JOBSET_NAME=train");
	set("JOB_COMPLETION_INDEX=0");
	finds("JobSet", 0, 0, "");
	set("REPLICATED_JOB_NAME=workers");
	set("JOB_INDEX=1");
	/* rank 0 in its own Job says nothing about the others */
	ck_assert_int_eq(cloud_place_read(&p, &view, &error), 1);
	ck_assert_int_eq(p.rank, -1);
	set("PROCESSES_IN_JOB=2");
	set("REPLICATED_JOB_REPLICAS=2");
	finds("JobSet", 4, 2, "train-workers-0-0.train");
}
END_TEST

START_TEST(volcano_lists_the_pods_of_each_task)
{
	start("job-worker-1");
	set("VC_MASTER_HOSTS=job-master-0.job");
	set("VC_WORKER_HOSTS=job-worker-0.job,job-worker-1.job");
	set("VC_WORKER_NUM=2");
	set("VC_TASK_INDEX=1");
	finds("Volcano", 3, 2, "job-master-0.job");
	set("VC_PS_HOSTS=job-ps-0.job");
	finds("Volcano", 0, -1, "");
	start("node-with-its-own-name");
	set("VC_TRAIN_HOSTS=job-train-0.job,job-train-1.job");
	set("VC_TASK_INDEX=1");
	finds("Volcano", 2, 1, "job-train-0.job");
}
END_TEST

START_TEST(an_indexed_job_does_not_say_how_many_pods_it_has)
{
	start("job-1");
	set("JOB_COMPLETION_INDEX=1");
	finds("a Kubernetes Indexed Job", 0, 1, "");
	make_file(etc_hosts, "127.0.0.1\tlocalhost # job-1.comment\n"
		  "10.0.0.8\tjob-1.svc.ns.svc.cluster.local\tjob-1\n");
	view.etc_hosts = etc_hosts;
	finds("a Kubernetes Indexed Job", 0, 1,
	      "job-0.svc.ns.svc.cluster.local");
	unlink(etc_hosts);
}
END_TEST

START_TEST(pytorch_variables_count_nodes_in_a_pod)
{
	start("job-worker-0");
	set("KUBERNETES_SERVICE_HOST=10.96.0.1");
	set("MASTER_ADDR=job-master-0");
	set("MASTER_PORT=23456");
	set("WORLD_SIZE=4");
	set("RANK=1");
	finds("Kubernetes (PyTorch's variables)", 4, 1, "job-master-0");
	ck_assert_uint_eq(p.port, 23456);
	/* later ones count processes */
	set("PET_NPROC_PER_NODE=2");
	set("PET_NODE_RANK=1");
	finds("Kubernetes (PyTorch's variables)", 2, 1, "job-master-0");
	set("LOCAL_RANK=0");
	finds_none();
	start("job-master-0");
	set("KUBERNETES_SERVICE_HOST=10.96.0.1");
	set("MASTER_ADDR=localhost");
	set("WORLD_SIZE=2");
	set("RANK=0");
	finds("Kubernetes (PyTorch's variables)", 2, 0, "");
}
END_TEST

START_TEST(pytorch_variables_elsewhere_are_refused)
{
	start("h");
	set("MASTER_ADDR=10.0.0.7");
	set("WORLD_SIZE=2");
	set("RANK=1");
	refuses("write ddprun --nnodes 2 --node-rank 1 --rdzv-endpoint "
		"10.0.0.7:29400");
	vars[1] = (char *)"WORLD_SIZE=1";
	vars[2] = (char *)"RANK=0";
	ck_assert_int_eq(cloud_place_read(&p, &view, &error), 1);
	ck_assert_uint_eq(p.nodes, 1);
	vars[1] = (char *)"WORLD_SIZE=2";
	vars[0] = (char *)"MASTER_ADDR=localhost";
	finds_none();
}
END_TEST

START_TEST(platforms_that_contradict_each_other_are_refused)
{
	start("h");
	set("AWS_BATCH_JOB_NUM_NODES=4");
	set("AWS_BATCH_JOB_NODE_INDEX=1");
	set("SKYPILOT_NODE_IPS=10.0.0.7\n10.0.0.8");
	set("SKYPILOT_NODE_RANK=1");
	refuses("AWS Batch (AWS_BATCH_JOB_NUM_NODES=4, node 1) and of SkyPilot "
		"(SKYPILOT_NODE_IPS has 2 addresses, node 1) contradict");
	vars[0] = (char *)"AWS_BATCH_JOB_NUM_NODES=2";
	ck_assert_int_eq(cloud_place_read(&p, &view, &error), 1);
	ck_assert_str_eq(p.platform, "AWS Batch");
	vars[3] = (char *)"SKYPILOT_NODE_RANK=0";
	refuses("contradict each other");
}
END_TEST

static void says_several(const char *const *set_of, int n,
			 const char *evidence)
{
	start("h-1");
	for (int i = 0; i < n; i++)
		set(set_of[i]);
	ck_assert_int_eq(cloud_place_read(&p, &view, &error), 1);
	ck_assert_uint_eq(p.nodes, 0); /* cloud_env.c refuses that */
	ck_assert_str_eq(p.evidence, evidence);
}

START_TEST(a_platform_without_its_number_of_nodes_is_found)
{
	says_several((const char *[]){"AWS_BATCH_JOB_NODE_INDEX=0"}, 1,
		     "AWS_BATCH_JOB_NODE_INDEX=0");
	says_several((const char *[]){"SKYPILOT_NODE_RANK=1",
				      "SKYPILOT_NODE_IPS="}, 2,
		     "SKYPILOT_NODE_RANK=1");
	says_several((const char *[]){"AZ_BATCH_MASTER_NODE=10.0.0.4:6000",
				      "NODE_RANK=1"}, 2,
		     "AZ_BATCH_MASTER_NODE=10.0.0.4:6000");
	says_several((const char *[]){"VC_WORKER_NUM=1", "VC_MASTER_NUM=1"}, 2,
		     "VC_MASTER_NUM=1");
	start("h");
	set("VC_WORKER_NUM=1");
	finds_none();
}
END_TEST

START_TEST(a_rank_that_is_no_nodes_is_refused)
{
	start("h");
	set("AWS_BATCH_JOB_NUM_NODES=2");
	set("AWS_BATCH_JOB_NODE_INDEX=2");
	refuses("AWS Batch: this node has number 2 by AWS_BATCH_JOB_NODE_INDEX,"
		" but there are 2 (AWS_BATCH_JOB_NUM_NODES=2), from 0 on");
	start("h");
	set("KUBERNETES_SERVICE_HOST=10.96.0.1");
	set("MASTER_ADDR=m");
	set("WORLD_SIZE=2");
	set("RANK=2");
	refuses("this node has number 2 by RANK");
	start("h");
	set("VC_WORKER_HOSTS=a,b");
	set("VC_TASK_INDEX=7");
	refuses("this node has number 7 by VC_TASK_INDEX");
	start("h");
	set("SKYPILOT_NODE_IPS=10.0.0.7,10.0.0.8");
	set("SKYPILOT_NODE_RANK=1");
	finds("SkyPilot", 2, 1, "10.0.0.7");
	set("SKYPILOT_NUM_NODES=3");
	refuses("has 2 addresses, but SKYPILOT_NUM_NODES is 3");
}
END_TEST

START_TEST(some_of_pytorchs_variables_are_refused)
{
	static const char *const pods[][2] = {
		{"MASTER_ADDR=m", "RANK=0"}, {"WORLD_SIZE=2", "RANK=1"},
		{"WORLD_SIZE=2", "MASTER_ADDR="}, {"RANK=1", "WORLD_SIZE="},
		{"MASTER_ADDR=m", "WORLD_SIZE=2"},
	};
	static const char *const alone[][2] = {
		{"MASTER_ADDR=m", "RANK="}, {"WORLD_SIZE=1", "RANK=0"},
		{"RANK=0", "MASTER_ADDR=localhost"},
	};

	for (size_t i = 0; i < sizeof(pods) / sizeof(*pods); i++) {
		start("h");
		set("KUBERNETES_SERVICE_HOST=10.96.0.1");
		set(pods[i][0]);
		set(pods[i][1]);
		refuses("set all three, write ddprun --nnodes N");
		set("LOCAL_RANK=0");
		finds_none();
	}
	for (size_t i = 0; i < sizeof(alone) / sizeof(*alone); i++) {
		start("h");
		set("KUBERNETES_SERVICE_HOST=10.96.0.1");
		set(alone[i][0]);
		set(alone[i][1]);
		finds_none();
	}
	/* elsewhere one of them is a leftover */
	start("h");
	set("WORLD_SIZE=2");
	finds_none();
	set("RANK=1");
	refuses("MASTER_ADDR is not set, WORLD_SIZE is set and RANK is set");
}
END_TEST

START_TEST(lists_in_json_that_name_nobody_are_refused)
{
	static const char *const specs[] = {
		"{\"task\":{\"type\":\"workerpool0\",\"index\":0}}",
		"{\"cluster\":", "{\"cluster\":[\"workerpool0\"]}",
		"{\"cluster\":{\"workerpool0\":[]}}",
		"{\"cluster\":{\"workerpool0\":\"a:1,b:1\"}}",
		("{\"cluster\":{\"workerpool0\":[\"a:1\",\"b:1\"]},"
		 "\"task\":{\"type\":\"workerpool0\",\"index\":-1e30}}"),
	};
	char text[256];

	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		start("h");
		snprintf(text, sizeof(text), "CLUSTER_SPEC=%s", specs[i]);
		set(text);
		refuses("--standalone");
	}
	start("h");
	set("SM_HOSTS=algo-1,algo-2");
	set("SM_CURRENT_HOST=algo-1");
	refuses("SM_HOSTS is not JSON");
	vars[0] = (char *)"SM_HOSTS=[]";
	refuses("SM_HOSTS lists no hosts");
	vars[0] = (char *)"SM_HOSTS=";
	refuses("SM_CURRENT_HOST is set, but SM_HOSTS is not");
}
END_TEST

START_TEST(names_that_no_host_has_are_refused)
{
	char text[400] = "VC_WORKER_HOSTS=";

	start("h");
	set("KUBERNETES_SERVICE_HOST=10.96.0.1");
	set("MASTER_ADDR=a\033[31mb");
	set("WORLD_SIZE=2");
	set("RANK=1");
	refuses("MASTER_ADDR in the environment");
	start("h");
	set("JOBSET_NAME=\033]0;x\007");
	set("REPLICATED_JOB_NAME=w");
	refuses("JOBSET_NAME in the environment");
	start("h");
	memset(text + 16, 'n', 300);
	set(text);
	refuses("VC_WORKER_HOSTS in the environment");
}
END_TEST

START_TEST(values_that_are_no_numbers_are_named)
{
	start("h");
	set("AWS_BATCH_JOB_NUM_NODES=two");
	refuses("AWS_BATCH_JOB_NUM_NODES in the environment");
	vars[0] = (char *)"SKYPILOT_NUM_NODES=99999999";
	refuses("SKYPILOT_NUM_NODES in the environment");
	start("h");
	set("SKYPILOT_NODE_IPS=[::1");
	refuses("SKYPILOT_NODE_IPS in the environment");
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("cloud_place");

	tcase_add_test(t, no_variables_are_no_platform);
	tcase_add_test(t, aws_batch_names_its_main_node_to_the_children);
	tcase_add_test(t, aws_batch_main_node_of_another_index_gets_rank_0);
	tcase_add_test(t, skypilot_lists_addresses);
	tcase_add_test(t, azure_ml_needs_one_process_a_node);
	tcase_add_test(t, sagemaker_lists_hosts_in_json);
	tcase_add_test(t, sagemaker_without_its_toolkit_has_a_file);
	tcase_add_test(t, vertex_ai_ranks_its_two_worker_pools);
	tcase_add_test(t, tf_config_ranks_chief_and_workers);
	tcase_add_test(t, jobset_numbers_all_pods_of_its_jobs);
	tcase_add_test(t, volcano_lists_the_pods_of_each_task);
	tcase_add_test(t, an_indexed_job_does_not_say_how_many_pods_it_has);
	tcase_add_test(t, pytorch_variables_count_nodes_in_a_pod);
	tcase_add_test(t, pytorch_variables_elsewhere_are_refused);
	tcase_add_test(t, platforms_that_contradict_each_other_are_refused);
	tcase_add_test(t, a_platform_without_its_number_of_nodes_is_found);
	tcase_add_test(t, a_rank_that_is_no_nodes_is_refused);
	tcase_add_test(t, some_of_pytorchs_variables_are_refused);
	tcase_add_test(t, lists_in_json_that_name_nobody_are_refused);
	tcase_add_test(t, names_that_no_host_has_are_refused);
	tcase_add_test(t, values_that_are_no_numbers_are_named);
	return run_case(t);
}
