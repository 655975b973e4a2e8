/* slurm_env.c: Slurm's row: srun started us as a task, or we run in a batch
 * script or salloc's shell and must still run srun. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/local_addrs.h"
#include "base/log.h"
#include "launcher/env/launch_env_internal.h"
#include "launcher/env/tool.h"
#include "slurm/step.h"

/* The prefix of the PMIx names that srun --mpi=pmix gives its steps. */
#define SLURM_SPACE "slurm.pmix."

/* For the ddpruns of a step that ddprun starts; hidden from workers. */
#define SECRET "DDP_SLURM_SECRET"

enum { LAST_WORDS_MS = 500 };

static int slurm_env_is_step(void)
{
	return allocation_place(launch_env_getenv) == ALLOCATION_STEP;
}

/* ---- whether it is asked ---- */

static int slurm_env_is_same(const char *a, const char *b)
{
	const char *x = getenv(a), *y = getenv(b);

	return x && y && strcmp(x, y) == 0;
}

/* 1 if the step is another launcher's: mpirun under Slurm starts its daemons
 * with srun, and the daemons' children are not srun's tasks. srun --mpi=pmi2
 * sets PMI's variables too, but to the task's own numbers. */
static int slurm_env_is_guest(void)
{
	const char *space = getenv("PMIX_NAMESPACE");

	if (getenv("DDP_AGENT_ID") || getenv("OMPI_COMM_WORLD_RANK") ||
	    (space && strncmp(space, SLURM_SPACE, sizeof(SLURM_SPACE) - 1)))
		return 1;
	return getenv("PMI_RANK") &&
	       !slurm_env_is_same("PMI_RANK", "SLURM_PROCID");
}

/* ---- what it says ---- */

static void slurm_env_read_texts(struct launch_env *env)
{
	const struct allocation *a = &env->slurm;
	const char *what = "allocation";
	char restart[ALLOCATION_RESTART_MAX];

	allocation_restart(a, restart);
	snprintf(env->job_title, sizeof(env->job_title), "Slurm's job %llu",
		 (unsigned long long)a->job);
	snprintf(env->started, sizeof(env->started), "in %s%s", env->job_title,
		 restart);
	env->more = "ask for more with sbatch or salloc --nodes=N";
	if (env->role == LAUNCH_TASK) {
		what = "step";
		env->more = "start more with srun --nodes=N";
		snprintf(env->started, sizeof(env->started),
			 "in Slurm step %llu.%llu%s",
			 (unsigned long long)a->job,
			 (unsigned long long)a->step, restart);
	}
	snprintf(env->has_nodes, sizeof(env->has_nodes),
		 "this Slurm %s has %u node%s", what, a->nodes,
		 a->nodes == 1 ? "" : "s");
	/* srun starts ddprun on each node of a step, and all groups or one */
	if (env->role == LAUNCH_TASK)
		snprintf(env->fewer, sizeof(env->fewer), "srun starts ddprun on"
			 " %u nodes; start fewer with srun --nodes=N "
			 "--ntasks-per-node=1 ddprun", a->nodes);
	else if (a->groups)
		snprintf(env->fewer, sizeof(env->fewer), "this heterogeneous "
			 "job has %u nodes in %u groups, and ddprun's step has "
			 "them all; start fewer with srun --het-group=...",
			 a->nodes, a->groups);
}

static void slurm_env_read_task(struct launch_env *env)
{
	const struct allocation *a = &env->slurm;

	snprintf(env->first_host, sizeof(env->first_host), "%s", a->first);
	snprintf(env->second_host, sizeof(env->second_host), "%s", a->second);
	env->nports = STEP_PORTS;
	for (int i = 0; i < STEP_PORTS; i++)
		env->ports[i] = step_port(a->job, a->step, i);
	env->node_rank = a->node_rank;
	env->node_index = a->node_index;
	env->cpus = a->bound ? 0 : a->cpus;
	env->gpus = a->gpus;
	env->tasks = a->tasks;
	env->highest_code_wins = env->copies_stdin = a->nodes > 1;
}

/* Our terminal is for a worker, so this process cannot become srun: each node
 * is reached through an srun of its own, as through an ssh. */
static int slurm_env_read_hosts(struct launch_env *env, struct err *e)
{
	const struct allocation *a = &env->slurm;

	if (a->groups)
		return err_set(e, ERR_USAGE, "--tty in a heterogeneous job of "
			       "Slurm's: give its nodes, which ddprun then "
			       "reaches over ssh: ddprun -H NODE,NODE --tty "
			       "RANK ...");
	env->role = LAUNCH_HOSTS;
	env->reach = env->command;
	env->nodes = 0; /* those of list_hosts */
	env->can_requeue = 0;
	if (a->gpus_each)
		snprintf(env->reach_args, sizeof(env->reach_args),
			 "--gpus-per-node=%u", a->gpus_each);
	return 0;
}

static int slurm_list_hosts(struct host_list *l, struct err *e)
{
	struct buf names = BUF_INIT(HOSTLIST_HOSTS_MAX * LAUNCH_NAME_MAX);
	const char *name = "SLURM_JOB_NODELIST", *text = getenv(name);
	struct err why = ERR_INIT;
	struct hostlist nodes;
	int rc;

	hostlist_init(&nodes);
	rc = hostlist_parse(&nodes, SLICE_STR(text ? text : ""), &why);
	for (uint32_t i = 0; rc == 0 && i < nodes.count; i++)
		buf_printf(&names, "%s%s", i ? "," : "",
			   hostlist_name(&nodes, i));
	if (rc == 0 && !nodes.count)
		rc = err_set(&why, ERR_USAGE, "it is not set");
	if (rc == 0)
		rc = names.failed;
	if (rc == 0)
		rc = host_list_parse(l, SLICE(names.data, names.len), &why);
	snprintf(l->from, sizeof(l->from), "the nodes of Slurm's job");
	hostlist_release(&nodes);
	buf_release(&names);
	return rc < 0 ? err_set(e, rc, "%s: %.900s", name, why.text) : 0;
}

/* Without SLURM_JOB_ID the other variables are not used, and must not say that
 * there are other nodes. */
static int slurm_env_check_none(const struct launch_request *r, struct err *e)
{
	static const char *const names[] = {
		"SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURM_STEP_NUM_NODES",
	};

	if (r->standalone || r->one_node || r->place || r->etcd ||
	    slurm_env_is_guest())
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *text = getenv(names[i]);

		if (text && strtol(text, NULL, 10) > 1)
			return err_set(e, ERR_USAGE, "%s is %.40s, but "
				       "SLURM_JOB_ID is not set, so Slurm's "
				       "environment is incomplete: start "
				       "ddprun with srun, or write "
				       "--standalone for a job on this host",
				       names[i], text);
	}
	return 0;
}

static int slurm_read(struct launch_env *env, const struct launch_request *r,
		      struct err *e)
{
	struct allocation *a = &env->slurm;
	enum allocation_place place = allocation_place(launch_env_getenv);
	int rc;

	if (place == ALLOCATION_NONE)
		return slurm_env_check_none(r, e);
	if (r->standalone || slurm_env_is_guest() ||
	    (place == ALLOCATION_NO_STEP && (r->place || r->node_rank)))
		return 0;
	env->role = LAUNCH_STEP;
	env->command = "srun";
	env->rank_variable = "SLURM_PROCID";
	env->can_requeue = 1;
	if (place == ALLOCATION_STEP) {
		env->role = LAUNCH_TASK;
		env->signals_reach_all = env->says_twice = 1;
		env->shares_console = 1;
		env->linger_ms = LAST_WORDS_MS;
		/* sbatch --signal */
		env->warnings.bits = signal_set_of(SIGUSR1).bits |
				     signal_set_of(SIGUSR2).bits;
	}
	rc = allocation_read(a, launch_env_getenv, e);
	env->is_silent = a->many_tasks == 1;
	if (rc < 0)
		return rc;
	snprintf(env->job, sizeof(env->job), "%s", a->id);
	env->nodes = a->nodes;
	env->end_time = a->end_time;
	env->restarts = a->restarts;
	slurm_env_read_texts(env);
	if (env->role == LAUNCH_TASK)
		slurm_env_read_task(env);
	else if (r->terminal && slurm_env_read_hosts(env, e) < 0)
		return ERR_USAGE;
	return 1;
}

static const char *slurm_has_started(void)
{
	return slurm_env_is_step() ? "srun" : NULL;
}

static int slurm_is_early(void)
{
	const char *nodes = getenv("SLURM_STEP_NUM_NODES");

	return slurm_env_is_step() && nodes && strcmp(nodes, "1") != 0;
}

static void slurm_log_advice(const struct launch_env *env, uint32_t nproc)
{
	const struct allocation *a = &env->slurm;

	if (a->groups && a->nodes < a->job_nodes)
		log_info("this step has %u of the heterogeneous job's %u "
			 "nodes; srun --het-group=0-%u uses all",
			 a->nodes, a->job_nodes, a->groups - 1);
	if (!a->gpus || (nproc <= a->gpus &&
			 (a->gpus > 1 || !a->gpus_per_task)))
		return;
	log_warn(
		"Slurm shows this ddprun %u GPU%s for %u worker%s: with "
		"--gpus-per-task each task sees only its own, and ddprun is "
		"one task; if the node has more, use --gpus-per-node=N instead",
		a->gpus, a->gpus == 1 ? "" : "s", nproc, nproc == 1 ? "" : "s");
}

static void slurm_restore(const struct launch_env *env)
{
	const char *cpus = getenv(ALLOCATION_CPUS_PER_TASK);

	if (env->slurm.place == ALLOCATION_STEP && cpus &&
	    setenv("SLURM_CPUS_PER_TASK", cpus, 0) < 0)
		log_warn("the workers do not get SLURM_CPUS_PER_TASK: %s",
			 strerror(errno));
	unsetenv(ALLOCATION_CPUS_PER_TASK);
	unsetenv(ALLOCATION_TASKS);
}

static void slurm_name_of(const struct launch_env *env, uint32_t rank,
			  char name[LAUNCH_NAME_MAX])
{
	allocation_name(&env->slurm, launch_env_getenv, rank, name);
}

/* ---- the step's secret ---- */

int slurm_env_put_secret(struct err *e)
{
	char hex[PROOF_HEX_SIZE];
	struct auth a;
	int rc = auth_random(&a, "this ddprun", e);

	if (rc < 0)
		return rc;
	proof_to_hex(hex, &a.secret);
	if (setenv(SECRET, hex, 1) < 0)
		rc = err_no_memory(e, "Slurm's variables");
	proof_wipe(hex, sizeof(hex));
	auth_wipe(&a);
	return rc;
}

static int slurm_take_auth(struct auth *a, struct err *e)
{
	char *hex = getenv(SECRET);
	struct proof secret;
	int rc = 0;

	if (!hex)
		return 0;
	if (proof_from_hex(&secret, hex) < 0)
		rc = err_set(e, ERR_USAGE, SECRET " is not %d hex digits: the "
			     "ddprun that started this step set it, and "
			     "something changed it since", 2 * PROOF_SIZE);
	else
		auth_of_secret(a, &secret, "the ddprun that started this step");
	/* wipe the variable itself: /proc shows this memory */
	proof_wipe(hex, strlen(hex));
	proof_wipe(&secret, sizeof(secret));
	unsetenv(SECRET);
	return rc;
}

/* ---- addresses instead of names ---- */

/* Asks Slurm for the node's address: a site's NodeNames need not be host names.
 */
static int slurm_env_resolve_at(const char *host, uint16_t port,
				struct sock_addr *out, int max)
{
	struct endpoint ep = {.port = port};

	snprintf(ep.host, sizeof(ep.host), "%s", host);
	return sock_resolve(&ep, out, max, NULL);
}

/* The server then listens at all addresses that others may use
 * (connection_host.c), as it does if the host's own name resolves to
 * 127.0.1.1. */
static int slurm_env_resolve_own(const struct endpoint *at,
				 struct sock_addr *out)
{
	char host[SOCK_HOST_MAX];

	sock_host_name(host);
	log_warn("%s cannot resolve its own name in Slurm, '%s': the "
		 "rendezvous server listens on all addresses of this host",
		 host, at->host);
	return sock_addr_number("127.0.0.1", at->port, out);
}

static int slurm_resolve(const struct launch_env *env,
			 const struct endpoint *at, int hosts,
			 struct sock_addr *out, int max, int *is_guess,
			 struct err *e)
{
	const struct allocation *a = &env->slurm;
	char address[SOCK_HOST_MAX], host[SOCK_HOST_MAX];
	struct err why = *e;
	int n;

	if (hosts && a->node_index == 0)
		return slurm_env_resolve_own(at, out);
	sock_host_name(host);
	if (scontrol_address(at->host, address) &&
	    (n = slurm_env_resolve_at(address, at->port, out, max)) > 0) {
		log_warn("on %s, '%s' does not resolve; trying %s, its address "
			 "according to Slurm",
			 host, at->host, address);
		return n;
	}
	err_set(e, why.code,
		"the nodes of this Slurm step meet on the first one, but on %s "
		"%.900s (with --rdzv-endpoint ADDRESS:PORT)",
		host, why.text);
	n = a->srun_at[0] ? slurm_env_resolve_at(a->srun_at, at->port, out,
						 max) : 0;
	if (n <= 0)
		return why.code;
	log_warn("on %s, '%s' does not resolve; trying %s, the host of srun",
		 host, at->host, a->srun_at);
	*is_guess = 1;
	return n;
}

/* In a batch script srun's address is this host's, and all nodes know it. */
static int slurm_own_addr(const struct launch_env *env, char *text)
{
	const char *srun_at = env->slurm.srun_at;
	char own[1][SOCK_TEXT_MAX];
	struct sock_addr a;

	if (srun_at[0] && slurm_env_resolve_at(srun_at, 0, &a, 1) > 0 &&
	    sock_addr_is_local(&a) && !sock_addr_is_loopback(&a))
		snprintf(text, SOCK_TEXT_MAX, "%s", srun_at);
	else if (local_addrs(own, 1) > 0)
		snprintf(text, SOCK_TEXT_MAX, "%s", own[0]);
	else
		return 0;
	return 1;
}

static const char *const slurm_marks[] = {"SLURM_JOB_ID", NULL};

const struct launch_source slurm_env = {
	.marks = slurm_marks,
	.read = slurm_read,
	.has_started = slurm_has_started,
	.is_early = slurm_is_early,
	.take_auth = slurm_take_auth,
	.restore = slurm_restore,
	.name_of = slurm_name_of,
	.log_advice = slurm_log_advice,
	.resolve = slurm_resolve,
	.own_addr = slurm_own_addr,
	.list_hosts = slurm_list_hosts,
};

const struct allocation *slurm_env_allocation(const struct launch_env *env)
{
	return &env->slurm;
}
