/* inferred.c: from Slurm's words to ddprun's. */
#include "launcher/config/inferred.h"

#include <poll.h>
#include <signal.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/config/remote_node.h"
#include "launcher/plan/cpus.h"
#include "launcher/plan/gpu.h"
#include "launcher/plan/gpu_list.h"
#include "launcher/worker/spawn.h"
#include "rendezvous/wire.h"

/* What the names begin with that srun --mpi=pmix gives its steps for PMIx. */
#define SLURM_SPACE "slurm.pmix."

enum { LAST_WORDS_MS = 500 };

static const char *get(const char *name)
{
	return getenv(name);
}

static int same(const char *a, const char *b)
{
	const char *x = getenv(a), *y = getenv(b);

	return x && y && strcmp(x, y) == 0;
}

/* The step is another launcher's: mpirun under Slurm starts its own daemons
 * with srun, and their children are not its tasks. srun --mpi=pmi2 sets PMI's
 * variables too, to the task's own numbers. */
static int is_guest(void)
{
	const char *space = getenv("PMIX_NAMESPACE");

	if (getenv("DDP_AGENT_ID") || getenv("OMPI_COMM_WORLD_RANK") ||
	    (space && strncmp(space, SLURM_SPACE, sizeof(SLURM_SPACE) - 1)))
		return 1;
	return getenv("PMI_RANK") && !same("PMI_RANK", "SLURM_PROCID");
}

/* etcd is nowhere in particular, and the job may well be this allocation's. */
static int is_by_hand(const struct config *c)
{
	return (c->endpoint_given && !c->etcd.members) ||
	       c->master_addr_given || c->node_rank_given;
}

int inferred_init(struct config *c, struct err *e)
{
	enum allocation_place place = allocation_place(get);
	int rc;

	if (place == ALLOCATION_NONE || c->standalone || is_guest() ||
	    (place == ALLOCATION_NO_STEP && is_by_hand(c)))
		return 0;
	rc = allocation_read(&c->slurm, get, e);
	if (rc < 0)
		return rc;
	if (!c->nnodes_given) {
		snprintf(c->nodes_text, sizeof(c->nodes_text), "%u",
			 c->slurm.nodes);
		c->nnodes_text = c->nodes_text;
	}
	return 0;
}

static int is_fixed(const struct config *c)
{
	return strchr(c->nnodes_text, ':') == NULL;
}

static int too_many(const struct config *c, struct err *e)
{
	const struct allocation *a = &c->slurm;
	const char *what = "step", *more = "start more with srun --nodes=N";

	if (a->place == ALLOCATION_NO_STEP) {
		what = "allocation";
		more = "ask for more with sbatch or salloc --nodes=N";
	}
	return err_set(e, ERR_USAGE, "--nnodes %s: this %s of Slurm's has %u "
		       "node%s; leave --nnodes out, or %s", c->nnodes_text,
		       what, a->nodes, a->nodes == 1 ? "" : "s", more);
}

/* Each node of the step is started; who is not wanted must be a spare. */
static int too_few(const struct config *c, struct err *e)
{
	return err_set(e, ERR_USAGE,
		       "--nnodes %s: srun starts ddprun on %u nodes; write "
		       "srun --nodes=%u --ntasks-per-node=1 ddprun, or "
		       "--nnodes %u:%u to keep the others as spares, or "
		       "--standalone for a job of its own on each",
		       c->nnodes_text, c->slurm.nodes, c->min_nodes,
		       c->min_nodes, c->max_nodes);
}

/* A step of all groups cannot have some of the nodes. */
static int too_few_of_groups(const struct config *c, struct err *e)
{
	return err_set(e, ERR_USAGE,
		       "--nnodes %s: this heterogeneous job has %u nodes in %u "
		       "groups, and the step that ddprun starts has them all; "
		       "leave --nnodes out, or write --nnodes %u:%u to keep the"
		       " others as spares, or srun --het-group=... "
		       "--ntasks-per-node=1 ddprun", c->nnodes_text,
		       c->slurm.nodes, c->slurm.groups, c->min_nodes,
		       c->min_nodes);
}

/* Nodes of other steps, and others, may come there. */
static int is_elsewhere(const struct config *c)
{
	/* the step that srun makes of this allocation is the whole job */
	if (c->etcd.members && c->slurm.place == ALLOCATION_NO_STEP)
		return 0;
	return c->endpoint_given || c->master_addr_given;
}

int inferred_nodes(struct config *c, struct err *e)
{
	const struct allocation *a = &c->slurm;
	int elsewhere = is_elsewhere(c), all;

	if (a->place == ALLOCATION_NONE)
		return 0;
	if (!elsewhere) {
		if (c->min_nodes > a->nodes)
			return too_many(c, e);
		if (a->place == ALLOCATION_STEP && is_fixed(c) &&
		    c->min_nodes < a->nodes)
			return too_few(c, e);
		if (a->place == ALLOCATION_NO_STEP && a->groups &&
		    is_fixed(c) && c->min_nodes < a->nodes)
			return too_few_of_groups(c, e);
	}
	if (a->place != ALLOCATION_STEP)
		return 0;
	all = c->min_nodes == a->nodes && c->max_nodes == a->nodes;
	if (all && !c->node_rank_given)
		c->node_rank = a->node_rank;
	/* nodes of other steps have to find the same name */
	if (!c->job_given && (all || !elsewhere))
		c->job = a->id;
	return 0;
}

/* What CUDA will show; the host's own count where Slurm keeps none. */
static long gpus(const struct config *c)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES"), *why;
	long n = (long)c->slurm.gpus;

	if (!n)
		return gpu_count(&why);
	if (list && (long)gpu_list_count(list) < n)
		n = (long)gpu_list_count(list);
	return n;
}

static long cpus(const struct config *c)
{
	struct cpus allowed;

	if (!c->slurm.bound && c->slurm.cpus)
		return (long)c->slurm.cpus;
	return cpus_allowed(&allowed, NULL) == 0 ? (long)cpus_count(&allowed)
						 : 1;
}

int inferred_nproc(struct config *c, struct err *e)
{
	long have = gpus(c), each = c->gpus_per_proc ? c->gpus_per_proc : 1;
	long n = have / each;

	c->nproc_why = "by its GPUs";
	if (have && !n)
		return err_set(e, ERR_USAGE,
			       "--gpus-per-proc %ld: this node has %ld GPU%s in"
			       " the step; ask for more with --gpus-per-node",
			       each, have, have == 1 ? "" : "s");
	if (!n) {
		n = (long)c->slurm.tasks;
		c->nproc_why = "by the job's tasks";
	}
	if (!n) {
		n = cpus(c);
		c->nproc_why = "by its CPUs";
	}
	if (n > WIRE_NPROC_MAX)
		n = WIRE_NPROC_MAX;
	c->nproc = (uint32_t)n;
	return 0;
}

/* Of all that are free on one node the others know none: so one of the step's
 * own, unless one is given. */
static void take_step_ports(struct config *c, uint16_t given)
{
	c->endpoint.port = given;
	if (given)
		return;
	for (int i = 0; i < STEP_PORTS; i++)
		c->ports[i] = step_port(c->slurm.job, c->slurm.step, i);
	c->nports = STEP_PORTS;
	c->endpoint.port = c->ports[0];
}

void inferred_port(struct config *c)
{
	if (c->slurm.place == ALLOCATION_STEP && c->max_nodes > 1 &&
	    !c->endpoint.port)
		take_step_ports(c, 0);
}

int inferred_endpoint(struct config *c)
{
	const struct allocation *a = &c->slurm;

	if (a->place != ALLOCATION_STEP || c->master_addr_given)
		return 0;
	if (c->max_nodes == 1 && !(c->master_port_given && c->master_port)) {
		c->private_endpoint = 1;
		c->endpoint = (struct endpoint){"localhost", 0};
		return 1;
	}
	take_step_ports(c, c->master_port_given ? (uint16_t)c->master_port : 0);
	snprintf(c->endpoint.host, sizeof(c->endpoint.host), "%s", a->first);
	if (c->is_host < 0)
		c->is_host = a->node_index == 0;
	return 1;
}

/* ---- aloud ---- */

static void warn_gpus(const struct config *c)
{
	const struct allocation *a = &c->slurm;

	if (!a->gpus || (c->nproc <= a->gpus &&
			 (a->gpus > 1 || !a->gpus_per_task)))
		return;
	log_warn("Slurm shows this ddprun %u GPU%s for %u worker%s: with "
		 "--gpus-per-task each task sees only its own, and ddprun is "
		 "one task; where the node has more, write --gpus-per-node=N "
		 "instead", a->gpus, a->gpus == 1 ? "" : "s", c->nproc,
		 c->nproc == 1 ? "" : "s");
}

void inferred_say(const struct config *c)
{
	const struct allocation *a = &c->slurm;
	char at[SOCK_TEXT_MAX], restart[ALLOCATION_RESTART_MAX];
	struct buf b;

	if (a->place != ALLOCATION_STEP || a->node_index != 0)
		return;
	buf_init(&b, 4096);
	if (!c->nnodes_given)
		buf_printf(&b, " --nnodes %s", c->nnodes_text);
	if (!c->node_rank_given && c->node_rank >= 0 && a->nodes > 1)
		buf_printf(&b, " --node-rank $SLURM_PROCID");
	if (!c->nproc_given)
		buf_printf(&b, " --nproc-per-node %u (%s)", c->nproc,
			   c->nproc_why);
	if (c->is_host == 1 && !c->endpoint_given)
		buf_printf(&b, " --rdzv-endpoint %s",
			   endpoint_text(&c->endpoint, at));
	if (c->job == a->id)
		buf_printf(&b, " --rdzv-id %s", c->job);
	if (b.len && !b.failed)
		log_info("Slurm's step %llu.%llu%s is taken as%.*s",
			 (unsigned long long)a->job,
			 (unsigned long long)a->step,
			 allocation_restart(a, restart), (int)b.len, b.data);
	buf_release(&b);
	if (a->groups && a->nodes < a->job_nodes)
		log_info("this step has %u of the heterogeneous job's %u nodes;"
			 " srun --het-group=0-%u is for all", a->nodes,
			 a->job_nodes, a->groups - 1);
	warn_gpus(c);
}

int inferred_is_said(const struct config *c)
{
	return c->slurm.many_tasks == 1;
}

void inferred_name_nodes(const struct config *c, const char *nodes,
			 struct buf *out)
{
	static const char word[] = "node ", unknown[] = " (not connected";
	char name[HOSTLIST_NAME_MAX + 1];
	const char *at = nodes;
	char *end;
	unsigned long rank;

	while (c->nports && (at = strstr(nodes, word)) != NULL) {
		rank = strtoul(at + sizeof(word) - 1, &end, 10);
		buf_put(out, nodes, (size_t)(end - nodes));
		nodes = end;
		allocation_name(&c->slurm, get, (uint32_t)rank, name);
		if (!name[0])
			continue;
		if (strncmp(end, unknown, sizeof(unknown) - 1) == 0) {
			buf_printf(out, " (%s, ", name);
			nodes += 2;
		} else if (strncmp(end, " (", 2) != 0) {
			buf_printf(out, " (%s)", name);
		}
	}
	buf_put(out, nodes, strlen(nodes));
}

int inferred_hears_all(const struct config *c)
{
	return c->slurm.place == ALLOCATION_STEP || c->mpirun.kind ||
	       remote_node_is();
}

int inferred_copies_input(const struct config *c)
{
	return c->slurm.place == ALLOCATION_STEP && c->slurm.nodes > 1;
}

int inferred_says_twice(const struct config *c)
{
	return c->slurm.place == ALLOCATION_STEP || c->mpirun.kind;
}

int inferred_is_echo(const struct config *c, int number)
{
	return inferred_hears_all(c) &&
	       (number == SIGTERM || remote_node_is());
}

int inferred_exit_code(const struct config *c, int number, int was_in)
{
	return inferred_is_echo(c, number) && c->slurm.nodes > 1 && !was_in
		       ? 1
		       : 128 + number;
}

static void on_early(int number)
{
	_exit(1);
}

void inferred_catch_early(void)
{
	const char *nodes = getenv("SLURM_STEP_NUM_NODES");

	/* what it was is for the workers */
	spawn_remember_signal(SIGTERM);
	if (allocation_place(get) == ALLOCATION_STEP && nodes &&
	    strcmp(nodes, "1") != 0 && !spawn_was_ignored(SIGTERM))
		signal(SIGTERM, on_early);
}

void inferred_drop_early(void)
{
	struct sigaction now;

	if (sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == on_early)
		signal(SIGTERM, SIG_DFL);
}

void inferred_end_echoes(const struct config *c)
{
	sigset_t set;

	sigemptyset(&set);
	if (inferred_hears_all(c))
		sigaddset(&set, SIGTERM);
	for (int i = 1; i <= SIGNAL_SET_MAX; i++) {
		if (signal_set_has(&c->warning, i) ||
		    (remote_node_is() && signal_set_has(&c->ending, i)))
			sigaddset(&set, i);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void inferred_linger(const struct config *c, int lost)
{
	if (c->slurm.place == ALLOCATION_STEP && c->nports &&
	    (lost || !is_fixed(c)))
		poll(NULL, 0, LAST_WORDS_MS);
}

void inferred_restore(const struct config *c)
{
	const char *cpus = getenv(ALLOCATION_CPUS_PER_TASK);

	if (c->slurm.place == ALLOCATION_STEP && cpus &&
	    setenv("SLURM_CPUS_PER_TASK", cpus, 0) < 0)
		log_warn("the workers do not get SLURM_CPUS_PER_TASK: %s",
			 strerror(errno));
	unsetenv(ALLOCATION_CPUS_PER_TASK);
	unsetenv(ALLOCATION_TASKS);
}
