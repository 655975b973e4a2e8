/* cloud_place.c: the table of platforms, and the rows that read plain
 * variables. */
#include "launcher/env/cloud_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/option.h"
#include "rendezvous/wire.h"

enum { TASKS_MAX = 16, HOSTS_FILE_MAX = 16384 };

/* ---- values ---- */

const char *cloud_place_get(const struct cloud_view *v, const char *name)
{
	const char *text = v->get(name);

	return text && *text ? text : NULL;
}

/* 1: *out is the variable's number. 0: it is not set. Or ERR_USAGE. */
static int cloud_place_number(const struct cloud_view *v, const char *name,
			      long min, long max, long *out, struct err *e)
{
	char what[128], number[OPTION_NUMBER_MAX];
	const char *text = cloud_place_get(v, name);

	if (!text)
		return 0;
	snprintf(what, sizeof(what), "%s in the environment", name);
	if (parse_long(option_trim(text, number), min, max, what, out, e) < 0)
		return ERR_USAGE;
	return 1;
}

static int cloud_place_nodes(struct cloud_place *p, const struct cloud_view *v,
			     const char *name, struct err *e)
{
	long n = 0;
	int rc = cloud_place_number(v, name, 1, WIRE_NODES_MAX, &n, e);

	if (rc > 0) {
		p->nodes = (uint32_t)n;
		snprintf(p->evidence, sizeof(p->evidence), "%s=%ld", name, n);
	}
	return rc;
}

/* For a platform that has not set its number of nodes: whether another of its
 * variables is evidence of several. */
static int cloud_place_has(struct cloud_place *p, const struct cloud_view *v,
			   const char *name)
{
	const char *text = cloud_place_get(v, name);

	if (text)
		snprintf(p->evidence, sizeof(p->evidence), "%s=%.200s", name,
			 text);
	return text != NULL;
}

static int cloud_place_rank(struct cloud_place *p, const struct cloud_view *v,
			    const char *name, struct err *e)
{
	int rc = cloud_place_number(v, name, 0, WIRE_NODES_MAX - 1, &p->rank,
				    e);

	if (rc > 0)
		p->rank_variable = name;
	return rc;
}

static int cloud_place_gpus(struct cloud_place *p, const struct cloud_view *v,
			    const char *name, struct err *e)
{
	long n = 0;
	int rc = cloud_place_number(v, name, 0, WIRE_NPROC_MAX, &n, e);

	p->gpus = (uint32_t)n;
	return rc;
}

int cloud_place_set_first(struct cloud_place *p, const char *name,
			  const char *text, struct err *e)
{
	struct err why = ERR_INIT;
	struct endpoint at;

	if (endpoint_parse(&at, text, 0, &why) < 0)
		return err_set(e, ERR_USAGE, "%s in the environment: %.900s",
			       name, why.text);
	snprintf(p->first, sizeof(p->first), "%s", at.host);
	p->port = at.port;
	return 0;
}

static int cloud_place_port(struct cloud_place *p, const struct cloud_view *v,
			    const char *name, struct err *e)
{
	long n = 0;
	int rc = cloud_place_number(v, name, 0, 65535, &n, e);

	if (rc > 0)
		p->port = (uint16_t)n;
	return rc;
}

static int cloud_place_is_loopback(const char *host)
{
	return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
	       strncmp(host, "127.", 4) == 0;
}

/* ---- clouds ---- */

/* The children get the main node's address. The main node need not have index
 * 0, but has node rank 0: the nodes before it move up by one. */
static int cloud_place_batch(struct cloud_place *p, const struct cloud_view *v,
			     struct err *e)
{
	const char *at = cloud_place_get(
		v, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS");
	long first = 0;
	int rc = cloud_place_nodes(p, v, "AWS_BATCH_JOB_NUM_NODES", e);

	if (rc < 0 ||
	    (!rc && !cloud_place_has(p, v, "AWS_BATCH_JOB_NODE_INDEX")))
		return rc;
	if (cloud_place_rank(p, v, "AWS_BATCH_JOB_NODE_INDEX", e) < 0 ||
	    cloud_place_number(v, "AWS_BATCH_JOB_MAIN_NODE_INDEX", 0,
			       WIRE_NODES_MAX - 1, &first, e) < 0)
		return ERR_USAGE;
	p->is_first = p->rank == first;
	if (first && p->rank >= 0 && p->rank <= first) {
		p->rank = p->is_first ? 0 : p->rank + 1;
		p->rank_variable = NULL;
	}
	if (at && !p->is_first)
		return cloud_place_set_first(
			p, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", at,
			e) < 0 ? ERR_USAGE : 1;
	return 1;
}

static int cloud_place_skypilot(struct cloud_place *p,
				const struct cloud_view *v, struct err *e)
{
	static const char blanks[] = " ,\r\n\t";
	const char *ips = cloud_place_get(v, "SKYPILOT_NODE_IPS");
	char first[SOCK_HOST_MAX + 1] = "";
	uint32_t listed = 0;
	size_t n = 0;
	int rc = cloud_place_nodes(p, v, "SKYPILOT_NUM_NODES", e);

	if (rc < 0)
		return rc;
	if (!rc && !ips && !cloud_place_has(p, v, "SKYPILOT_NODE_RANK"))
		return 0;
	if (cloud_place_rank(p, v, "SKYPILOT_NODE_RANK", e) < 0 ||
	    cloud_place_gpus(p, v, "SKYPILOT_NUM_GPUS_PER_NODE", e) < 0)
		return ERR_USAGE;
	p->is_first = p->rank == 0;
	for (const char *at = ips; at && *at; at += n) {
		at += strspn(at, blanks);
		n = strcspn(at, blanks);
		listed += n > 0;
		if (n && !first[0])
			snprintf(first, sizeof(first), "%.*s", (int)n, at);
	}
	if (rc && listed && listed != p->nodes)
		return err_set(e, ERR_USAGE, "SKYPILOT_NODE_IPS has %u "
			       "addresses, but SKYPILOT_NUM_NODES is %u: "
			       "correct one of them, or write ddprun --nnodes "
			       "N --rdzv-endpoint FIRST_NODE:29400", listed,
			       p->nodes);
	/* older versions set no number of nodes */
	if (!rc && listed) {
		p->nodes = listed;
		snprintf(p->evidence, sizeof(p->evidence),
			 "SKYPILOT_NODE_IPS has %u addresses", p->nodes);
	}
	if (!first[0])
		return 1;
	return cloud_place_set_first(p, "SKYPILOT_NODE_IPS", first, e) < 0
		       ? ERR_USAGE : 1;
}

/* Azure ML starts as many processes on a node as the job asks for. */
static int cloud_place_azure(struct cloud_place *p, const struct cloud_view *v,
			     struct err *e)
{
	static const char *const masters[] = {
		"MASTER_ADDR", "AZ_BATCH_MASTER_NODE",
		"AZ_BATCHAI_MPI_MASTER_NODE",
	};
	long world = 0, local = -1;
	int rc = cloud_place_nodes(p, v, "AZUREML_NODE_COUNT", e);

	if (rc < 0 || (!rc && !cloud_place_has(p, v, "AZ_BATCH_MASTER_NODE")))
		return rc;
	if (cloud_place_rank(p, v, "NODE_RANK", e) < 0 ||
	    cloud_place_number(v, "WORLD_SIZE", 1, WIRE_WORLD_MAX, &world,
			       e) < 0 ||
	    cloud_place_number(v, "LOCAL_RANK", 0, WIRE_NPROC_MAX, &local,
			       e) < 0)
		return ERR_USAGE;
	if (local >= 0 && p->nodes && world > (long)p->nodes)
		return err_set(e, ERR_USAGE, "Azure ML starts this command %ld "
			       "times on %u nodes, but one ddprun on each node "
			       "starts all of its workers: set "
			       "process_count_per_instance: 1",
			       world, p->nodes);
	p->is_first = p->rank == 0;
	for (size_t i = 0; i < sizeof(masters) / sizeof(*masters); i++) {
		const char *text = cloud_place_get(v, masters[i]);

		if (!text || p->first[0])
			continue;
		if (cloud_place_set_first(p, masters[i], text, e) < 0)
			return ERR_USAGE;
	}
	/* the port of AZ_BATCH_MASTER_NODE is the cloud's own */
	p->port = 0;
	return cloud_place_port(p, v, "MASTER_PORT", e) < 0 ? ERR_USAGE : 1;
}

/* ---- Kubernetes ---- */

/* The pod's full name: kubelet writes "ADDRESS NAME.SUBDOMAIN.NAMESPACE.svc...
 * NAME" if the pod has a subdomain. Sets out to the subdomain's labels, "" if
 * there are none. */
static void cloud_place_subdomain(const struct cloud_view *v,
				  char out[SOCK_HOST_MAX])
{
	char text[HOSTS_FILE_MAX], *lines = text, *words, *line, *word;
	size_t own = strlen(v->host);

	out[0] = '\0';
	if (!own || file_read_text(v->etc_hosts, text, sizeof(text)) < 0)
		return;
	while ((line = strsep(&lines, "\n")) != NULL && !out[0]) {
		line[strcspn(line, "#")] = '\0';
		for (word = strtok_r(line, " \t\r", &words); word && !out[0];
		     word = strtok_r(NULL, " \t\r", &words)) {
			if (strncmp(word, v->host, own) == 0 &&
			    word[own] == '.')
				snprintf(out, SOCK_HOST_MAX, "%s",
					 word + own + 1);
		}
	}
}

/* JobSet's own labels, which the pod's template must map to variables; pods are
 * named JOBSET-REPLICATED_JOB-JOB-POD. */
static int cloud_place_jobset(struct cloud_place *p, const struct cloud_view *v,
			      struct err *e)
{
	const char *set = cloud_place_get(v, "JOBSET_NAME");
	const char *job = cloud_place_get(v, "REPLICATED_JOB_NAME");
	long index = 0, pods = 0, jobs = 1, pod = -1;
	char first[SOCK_HOST_MAX];
	int n;

	if (!set)
		return 0;
	if (cloud_place_number(v, "JOB_INDEX", 0, WIRE_NODES_MAX - 1, &index,
			       e) < 0 ||
	    cloud_place_number(v, "JOB_COMPLETION_INDEX", 0,
			       WIRE_NODES_MAX - 1, &pod, e) < 0 ||
	    cloud_place_number(v, "PROCESSES_IN_JOB", 1, WIRE_NODES_MAX, &pods,
			       e) < 0 ||
	    cloud_place_number(v, "REPLICATED_JOB_REPLICAS", 1, WIRE_NODES_MAX,
			       &jobs, e) < 0)
		return ERR_USAGE;
	p->advice = "set REPLICATED_JOB_NAME, JOB_INDEX and PROCESSES_IN_JOB "
		    "in the pod's template (kubernetes/jobset.yaml)";
	snprintf(p->evidence, sizeof(p->evidence), "JOBSET_NAME=%.200s", set);
	if (pod >= 0 && (pods || !index))
		p->rank = index * pods + pod;
	if (p->rank == pod)
		p->rank_variable = "JOB_COMPLETION_INDEX";
	if (pods && pods * jobs <= WIRE_NODES_MAX)
		p->nodes = (uint32_t)(pods * jobs);
	p->is_first = p->rank == 0;
	if (!job)
		return 1;
	n = snprintf(first, sizeof(first), "%s-%s-0-0.%s", set, job, set);
	if (n >= (int)sizeof(first))
		return 1;
	return cloud_place_set_first(p, "JOBSET_NAME", first, e) < 0 ? ERR_USAGE
								     : 1;
}

/* Volcano's svc plugin lists the pods of each task in VC_TASK_HOSTS. */
struct cloud_task {
	const char *hosts;
	size_t name_len;
	const char *name;
};

static int cloud_place_find_tasks(const struct cloud_view *v,
				  struct cloud_task *tasks)
{
	int n = 0;

	for (char *const *at = v->vars; at && *at && n < TASKS_MAX; at++) {
		const char *equals = strchr(*at, '=');
		size_t len = equals ? (size_t)(equals - *at) : 0;

		if (len <= 9 || strncmp(*at, "VC_", 3) != 0 ||
		    strncmp(equals - 6, "_HOSTS", 6) != 0 || !equals[1])
			continue;
		tasks[n++] = (struct cloud_task){equals + 1, len - 9, *at + 3};
	}
	return n;
}

static const struct cloud_task *
cloud_place_task(const struct cloud_task *tasks, int n, const char *name)
{
	for (int i = 0; i < n; i++) {
		if (tasks[i].name_len == strlen(name) &&
		    memcmp(tasks[i].name, name, strlen(name)) == 0)
			return &tasks[i];
	}
	return NULL;
}

/* Counts the task's pods, and finds this one among them. */
static int cloud_place_add_task(struct cloud_place *p,
				const struct cloud_view *v,
				const struct cloud_task *t, struct err *e)
{
	char first[SOCK_HOST_MAX + 1], name[64];
	size_t own = strlen(v->host), n;

	for (const char *at = t->hosts; *at; at += n + (at[n] == ',')) {
		n = strcspn(at, ",");
		if (!n)
			continue;
		snprintf(first, sizeof(first), "%.*s", (int)n, at);
		snprintf(name, sizeof(name), "VC_%.*s_HOSTS",
			 (int)t->name_len, t->name);
		if (!p->nodes && cloud_place_set_first(p, name, first, e) < 0)
			return ERR_USAGE;
		if (strncmp(at, v->host, own) == 0 &&
		    (n == own || at[own] == '.') && p->rank < 0)
			p->rank = (long)p->nodes;
		p->nodes++;
	}
	return 0;
}

/* Without the lists: 1 if a task has several pods, or another task exists. */
static int cloud_place_counts_pods(struct cloud_place *p,
				   const struct cloud_view *v)
{
	long pods = 0;

	for (char *const *at = v->vars; at && *at; at++) {
		const char *equals = strchr(*at, '=');
		long n;

		if (!equals || equals - *at <= 7 ||
		    strncmp(*at, "VC_", 3) != 0 ||
		    strncmp(equals - 4, "_NUM", 4) != 0 ||
		    parse_long(equals + 1, 0, WIRE_NODES_MAX, "", &n, NULL) < 0)
			continue;
		pods += n;
		snprintf(p->evidence, sizeof(p->evidence), "%.200s", *at);
	}
	return pods > 1;
}

static int cloud_place_volcano(struct cloud_place *p,
			       const struct cloud_view *v, struct err *e)
{
	static const char *const chiefs[] = {"MASTER", "CHIEF"};
	struct cloud_task tasks[TASKS_MAX];
	const struct cloud_task *worker, *chief = NULL;
	int n = cloud_place_find_tasks(v, tasks), rc = 0;

	p->advice = "name the tasks master and worker (kubernetes/"
		    "volcano.yaml)";
	if (!n)
		return cloud_place_counts_pods(p, v);
	snprintf(p->evidence, sizeof(p->evidence), "VC_%.*s_HOSTS is set",
		 (int)tasks[0].name_len, tasks[0].name);
	worker = cloud_place_task(tasks, n, "WORKER");
	for (size_t i = 0; i < sizeof(chiefs) / sizeof(*chiefs); i++)
		chief = chief ? chief : cloud_place_task(tasks, n, chiefs[i]);
	if (n == 1)
		rc = cloud_place_add_task(p, v, &tasks[0], e);
	else if (n == 2 && worker && chief)
		rc = cloud_place_add_task(p, v, chief, e);
	if (rc == 0 && n == 2 && worker && chief)
		rc = cloud_place_add_task(p, v, worker, e);
	if (rc < 0)
		return rc;
	/* on the host's network a pod has the host's name */
	if (n == 1 && p->rank < 0 &&
	    cloud_place_rank(p, v, "VC_TASK_INDEX", e) < 0)
		return ERR_USAGE;
	p->is_first = p->rank == 0;
	return cloud_place_port(p, v, "MASTER_PORT", e) < 0 ? ERR_USAGE : 1;
}

/* Pods are named JOB-INDEX. Nothing says how many there are. */
static int cloud_place_indexed(struct cloud_place *p,
			       const struct cloud_view *v, struct err *e)
{
	char domain[SOCK_HOST_MAX];
	const char *dash = strrchr(v->host, '-');
	int rc = cloud_place_rank(p, v, "JOB_COMPLETION_INDEX", e), n;

	if (rc <= 0)
		return rc;
	p->advice = "an Indexed Job does not pass on its completions "
		    "(kubernetes/indexed-job.yaml)";
	snprintf(p->evidence, sizeof(p->evidence), "JOB_COMPLETION_INDEX=%ld",
		 p->rank);
	p->is_first = p->rank == 0;
	cloud_place_subdomain(v, domain);
	if (!domain[0] || !dash || strtol(dash + 1, NULL, 10) != p->rank)
		return 1;
	n = snprintf(p->first, sizeof(p->first), "%.*s-0.%s",
		     (int)(dash - v->host), v->host, domain);
	if (n >= (int)sizeof(p->first))
		p->first[0] = '\0';
	return 1;
}

/* Some of MASTER_ADDR, RANK and WORLD_SIZE are missing. In a pod each of the
 * others may be evidence of several nodes; elsewhere only RANK and WORLD_SIZE
 * together are, and one of them is a shell's leftover. */
static int cloud_place_pytorch_part(struct cloud_place *p,
				    const struct cloud_view *v, struct err *e)
{
	const char *master = cloud_place_get(v, "MASTER_ADDR");
	const char *is_pod = cloud_place_get(v, "KUBERNETES_SERVICE_HOST");
	long world = 0, rank = 0;
	int has_world = cloud_place_number(v, "WORLD_SIZE", 1, WIRE_WORLD_MAX,
					   &world, NULL) > 0;
	int has_rank = cloud_place_number(v, "RANK", 0, WIRE_WORLD_MAX, &rank,
					  NULL) > 0;

	if (master && cloud_place_is_loopback(master))
		master = NULL;
	if (is_pod ? world < 2 && rank < 1 && !(master && has_rank)
		   : world < 2 || !has_rank)
		return 0;
	return err_set(e, ERR_USAGE, "of PyTorch's variables MASTER_ADDR is "
		       "%sset, WORLD_SIZE is %sset and RANK is %sset, which "
		       "does not say where this node is in a job of several: "
		       "set all three, write ddprun --nnodes N --rdzv-endpoint "
		       "FIRST_NODE:29400, or --standalone for a job on this "
		       "node", master ? "" : "not ", has_world ? "" : "not ",
		       has_rank ? "" : "not ");
}

/* PyTorch's own names, which older PyTorchJobs, Volcano's pytorch plugin and
 * PAI DLC set once in a container: they count nodes. With LOCAL_RANK they are
 * one process's, whose launcher has started it. */
static int cloud_place_pytorch(struct cloud_place *p,
			       const struct cloud_view *v, struct err *e)
{
	const char *master = cloud_place_get(v, "MASTER_ADDR");
	long each = 1, n;
	int rc;

	if (cloud_place_get(v, "LOCAL_RANK"))
		return 0;
	if (!master || !cloud_place_get(v, "RANK") ||
	    !cloud_place_get(v, "WORLD_SIZE"))
		return cloud_place_pytorch_part(p, v, e);
	rc = cloud_place_nodes(p, v, "WORLD_SIZE", e);
	if (rc > 0)
		rc = cloud_place_rank(p, v, "RANK", e);
	if (rc <= 0)
		return rc;
	/* a shell's leftovers of a job on this host alone */
	if (cloud_place_is_loopback(master) &&
	    !cloud_place_get(v, "KUBERNETES_SERVICE_HOST"))
		return 0;
	/* later PyTorchJobs count processes, if they know how many each has */
	if (cloud_place_get(v, "PET_NODE_RANK") &&
	    parse_long(cloud_place_get(v, "PET_NPROC_PER_NODE")
			       ? cloud_place_get(v, "PET_NPROC_PER_NODE")
			       : "1", 1, WIRE_NPROC_MAX, "", &n, NULL) == 0 &&
	    p->nodes % n == 0)
		each = n;
	p->nodes /= (uint32_t)each;
	p->is_first = p->rank == 0;
	if (cloud_place_get(v, "KUBERNETES_SERVICE_HOST")) {
		if (cloud_place_set_first(p, "MASTER_ADDR", master, e) < 0)
			return ERR_USAGE;
		if (cloud_place_is_loopback(p->first))
			p->first[0] = '\0';
	} else if (p->nodes > 1) {
		return err_set(e, ERR_USAGE, "MASTER_ADDR=%.200s, WORLD_SIZE="
			       "%u and RANK=%ld are set, but nothing says "
			       "whether they count nodes or processes: write "
			       "ddprun --nnodes %u --node-rank %ld "
			       "--rdzv-endpoint %.200s:29400 if they count "
			       "nodes, or --standalone for a job on this node",
			       master, p->nodes, p->rank, p->nodes, p->rank,
			       master);
	}
	return cloud_place_port(p, v, "MASTER_PORT", e) < 0 ? ERR_USAGE : 1;
}

/* ---- the table ---- */

static const struct cloud_row {
	const char *platform;
	int (*read)(struct cloud_place *p, const struct cloud_view *v,
		    struct err *e);
	int is_generic; /* its variables may be set in others' jobs as well */
} rows[] = {
	{"AWS Batch", cloud_place_batch, 0},
	{"SkyPilot", cloud_place_skypilot, 0},
	{"Azure ML", cloud_place_azure, 0},
	{"SageMaker", cloud_spec_sagemaker, 0},
	{"Vertex AI", cloud_spec_vertex, 0},
	{"JobSet", cloud_place_jobset, 0},
	{"Volcano", cloud_place_volcano, 0},
	{"Kubernetes (PyTorch's variables)", cloud_place_pytorch, 1},
	{"TF_CONFIG", cloud_spec_tensorflow, 1},
	{"a Kubernetes Indexed Job", cloud_place_indexed, 1},
};

static int cloud_place_contradict(const struct cloud_place *a,
				  const struct cloud_place *b, struct err *e)
{
	if ((!a->nodes || !b->nodes || a->nodes == b->nodes) &&
	    (a->rank < 0 || b->rank < 0 || a->rank == b->rank))
		return 0;
	return err_set(e, ERR_USAGE,
		       "the variables of %s (%s, node %ld) and of %s (%s, node "
		       "%ld) contradict each other: unset those that do not "
		       "belong to this job, or write --nnodes, --node-rank and "
		       "--rdzv-endpoint, or --standalone",
		       a->platform, a->evidence, a->rank, b->platform,
		       b->evidence, b->rank);
}

static int cloud_place_check_rank(const struct cloud_place *p, struct err *e)
{
	if (!p->nodes || p->rank < (long)p->nodes)
		return 0;
	return err_set(e, ERR_USAGE, "%s: this node has number %ld%s%s, but "
		       "there are %u (%s), from 0 on: correct the variables, "
		       "or write ddprun --nnodes N --node-rank RANK "
		       "--rdzv-endpoint FIRST_NODE:29400, or --standalone",
		       p->platform, p->rank, p->rank_variable ? " by " : "",
		       p->rank_variable ? p->rank_variable : "", p->nodes,
		       p->evidence);
}

int cloud_place_read(struct cloud_place *p, const struct cloud_view *v,
		     struct err *e)
{
	int found = 0, rc;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct cloud_place one = {.platform = rows[i].platform,
					  .rank = -1};

		if (found && rows[i].is_generic)
			continue;
		rc = rows[i].read(&one, v, e);
		if (rc > 0 && cloud_place_check_rank(&one, e) < 0)
			rc = ERR_USAGE;
		if (rc > 0 && found)
			rc = cloud_place_contradict(p, &one, e) < 0 ? ERR_USAGE
								    : 0;
		if (rc < 0)
			return rc;
		if (rc > 0)
			*p = one;
		found |= rc > 0;
	}
	return found;
}
