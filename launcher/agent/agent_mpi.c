/* agent_mpi.c: MPI's start-up for this node's workers (PMI-1 or PMIx), and the
 * warning where ddprun does not serve it. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/log.h"
#include "launcher/agent/agent_internal.h"

void agent_mpi_warn(struct agent *a, const struct wire_start *start)
{
	if (!a->parts || start->world_size < 2 || start->node_rank ||
	    start->attempt + start->changes)
		return;
	if (a->parts->is_mpi_unseen)
		log_warn("%s has no MPI library that ddprun can see: if it "
			 "starts an MPI program, its %u processes are worlds "
			 "of one; give --mpi pmix for Open MPI, --mpi pmi for "
			 "MPICH or Intel MPI, else --mpi none (docs/mpi.md)",
			 a->parts->program.path, start->world_size);
	if (!a->parts->is_mpi_alone)
		return;
	log_warn("%s is an MPI program (it needs %s), and its %u processes are "
		 "%u MPI worlds of one process: %s", a->parts->program.path,
		 a->parts->mpi_library, start->world_size, start->world_size,
		 a->parts->no_pmix[0]
			 ? a->parts->no_pmix
			 : "ddprun does not know whether it starts up by PMI-1 "
			   "or PMIx; try --mpi pmi or --mpi pmix, or start it "
			   "with mpirun or srun (docs/mpi.md)");
}

static void agent_mpi_on_failed(void *owner, const char *text)
{
	struct agent *a = owner;

	member_failed(&a->member, a->round, 0, text);
}

/* It waits to be killed, as MPICH's own launchers do. */
static void agent_mpi_on_abort_over(void *owner, uint32_t local_rank)
{
	struct agent *a = owner;
	const struct worker *w = &a->group.workers[local_rank];

	if (w->running)
		kill(-w->pid, SIGKILL);
}

/* MPI_APPNUM is the number of the role. */
static uint32_t agent_mpi_appnum(void *arg, uint32_t rank)
{
	const struct agent *a = arg;
	const struct roles *roles = a->options->failure.roles;
	uint32_t role_rank;

	return roles ? roles_find(roles, rank, &role_rank) : 0;
}

/* ---- PMI-1 ---- */

static const struct pmi_service_events pmi_events = {
	.on_failed = agent_mpi_on_failed,
	.on_abort_over = agent_mpi_on_abort_over,
};

static int agent_mpi_socket(struct worker_group *g, uint32_t local_rank)
{
	struct agent *a = g->owner;

	return pmi_service_fd(a->pmi, local_rank);
}

int agent_mpi_fd(void *owner, uint32_t local_rank)
{
	struct agent *a = owner;

	return pmi_service_fd(a->pmi, local_rank);
}

/* MPICH 5 derives the names of its ranks' shared memory from the name of the
 * key space: two jobs on a host, and two attempts, must not share it. All nodes
 * have the same one. Their ports are those of rank 0's host, where no other job
 * can have them. */
static void agent_mpi_name(struct agent *a, const struct wire_start *start,
			   char name[PMI_SERVER_NAME_MAX])
{
	if (start->nnodes == 1)
		snprintf(name, PMI_SERVER_NAME_MAX, "ddprun_%s_%u",
			 agent_id(a), start->round);
	else
		snprintf(name, PMI_SERVER_NAME_MAX, "ddprun_%u_%u_%u",
			 start->master_port, start->coordinator_port,
			 start->round);
}

static int agent_mpi_begin_pmi(struct agent *a, const struct wire_start *start,
			       struct err *e)
{
	char name[PMI_SERVER_NAME_MAX], memory[PMI_SERVER_PATH_MAX];
	const struct pmi_server_round round = {
		.name = name, .base_rank = start->base_rank,
		.nproc = a->rdzv->nproc, .world_size = start->world_size,
		.node_rank = start->node_rank, .nnodes = start->nnodes,
		.appnum = agent_mpi_appnum, .arg = a,
	};
	struct pmi_exchange_round exchange =
		agent_exchange_round(a, start, "MPI");

	if (host_topology_is_pending(&a->topology)) {
		a->waits_for_topology = 1;
		agent_hold(a, start);
		return AGENT_LATER;
	}
	exchange.addr = a->member.addr_text;
	agent_mpi_name(a, start, name);
	pmi_server_memory_path(name, start->node_rank, "shm", memory);
	guard_note_folder(&a->guard, GUARD_ROUND_FOLDER, memory);
	a->pmi = pmi_service_new(&a->loop, &round, &exchange, &pmi_events, a,
				 e);
	if (!a->pmi)
		return err_negative(e->code);
	a->group.socket = agent_mpi_socket;
	return 0;
}

/* ---- PMIx ---- */

/* Open MPI's ranks poll every 100 us while they wait in MPI_Init and
 * MPI_Finalize. With more ranks than CPUs this takes the CPUs from the ranks
 * that the others wait for: the kernel then bundles their wakeups, so that a
 * CPU has no more than with one rank. 0: as ours, which is the kernel's default
 * or the user's choice. */
unsigned long agent_mpi_timer_slack(const struct agent *a)
{
	enum { DEFAULT_NS = 50000 };
	struct err e = ERR_INIT;
	struct cpus cpus;
	uint32_t n;

	if (!a->parts || !a->parts->serves_pmix ||
	    prctl(PR_GET_TIMERSLACK) != DEFAULT_NS ||
	    cpus_allowed(&cpus, &e) < 0)
		return 0;
	n = cpus_count(&cpus);
	if (!n || a->rdzv->nproc <= n)
		return 0;
	return DEFAULT_NS * (unsigned long)((a->rdzv->nproc + n - 1) / n);
}

static void agent_mpi_on_ready(void *owner)
{
	agent_continue(owner);
}

static void agent_mpi_on_said(void *owner, uint32_t local_rank,
			      struct slice text)
{
	struct agent *a = owner;

	stream_say(&a->group.workers[local_rank].err, text);
}

static void note_folder(void *owner, const char *path)
{
	struct agent *a = owner;

	guard_note_folder(&a->guard, GUARD_ROUND_FOLDER, path);
}

static const struct pmix_service_events pmix_events = {
	.on_ready = agent_mpi_on_ready,
	.on_failed = agent_mpi_on_failed,
	.on_abort_over = agent_mpi_on_abort_over,
	.on_said = agent_mpi_on_said,
	.note_folder = note_folder,
};

char *const *agent_mpi_vars(void *owner, uint32_t local_rank, uint32_t *n)
{
	struct agent *a = owner;

	return pmix_service_vars(a->pmix, local_rank, n);
}

/* The workers are started when the helper has registered them. */
static int agent_mpi_begin_pmix(struct agent *a, const struct wire_start *start,
				struct err *e)
{
	struct pmi_exchange_round round =
		agent_exchange_round(a, start, "MPI");
	struct pmix_job job = {
		.base_rank = start->base_rank, .nproc = a->rdzv->nproc,
		.world_size = start->world_size,
		.node_rank = start->node_rank, .nnodes = start->nnodes,
		.restarts = start->attempt,
	};

	if (a->options->failure.roles) {
		job.apps = calloc(job.world_size, sizeof(*job.apps));
		if (!job.apps)
			return err_no_memory(e, "the programs of %u ranks",
					     job.world_size);
	}
	for (uint32_t i = 0; job.apps && i < job.world_size; i++)
		job.apps[i] = agent_mpi_appnum(a, i);
	snprintf(job.folder, sizeof(job.folder), "%s",
		 logdir_private(&a->logdir));
	/* MPI libraries derive the names of shared memory from it */
	snprintf(job.name, sizeof(job.name), "ddprun_%s_%u", agent_id(a),
		 start->round);
	round.addr = a->member.addr_text;
	agent_hold(a, start);
	a->pmix = pmix_service_new(&a->loop, &job, &round, &pmix_events, a, e);
	return a->pmix ? AGENT_LATER : err_negative(e->code);
}

/* Alone on its host, a rank finds its devices as fast as a helper. */
void agent_mpi_prepare(struct agent *a)
{
	if (a->parts && a->parts->serves_pmi && a->parts->mpi_library[0] &&
	    a->rdzv->nproc > 1)
		host_topology_start(&a->topology, a->parts->program.path);
}

/* The helper has ended: the workers can neither meet nor report an abort. */
int agent_mpi_reaped(struct agent *a, pid_t pid, int status)
{
	if (host_topology_reaped(&a->topology, pid, status)) {
		if (a->waits_for_topology)
			agent_continue(a);
		return 1;
	}
	if (!pmix_service_reaped(a->pmix, pid, status))
		return 0;
	for (uint32_t i = 0; a->pmix->lost[0] && i < a->group.n; i++)
		agent_mpi_on_abort_over(a, i);
	return 1;
}

/* ---- both ---- */

int agent_mpi_begin(struct agent *a, const struct wire_start *start,
		    struct err *e)
{
	agent_mpi_end(a);
	a->group.socket = NULL;
	a->group.timer_slack = agent_mpi_timer_slack(a);
	if (a->parts->serves_pmi)
		return agent_mpi_begin_pmi(a, start, e);
	return a->parts->serves_pmix ? agent_mpi_begin_pmix(a, start, e) : 0;
}

void agent_mpi_end(struct agent *a)
{
	pmi_service_close(a->pmi);
	pmix_service_close(a->pmix);
	a->waits_for_topology = 0;
	a->pmi = NULL;
	a->pmix = NULL;
}

int agent_mpi_ended(struct agent *a, struct worker *w, int status)
{
	int code = 0, has_failed = status != 0 || w->stopped, aborted = 0;

	w->abort_text[0] = '\0';
	if (a->pmi) {
		pmi_service_ended(a->pmi, w->local_rank, has_failed);
		aborted = pmi_service_aborted(a->pmi, w->local_rank, &code,
					      w->abort_text,
					      sizeof(w->abort_text));
	}
	if (a->pmix) {
		pmix_service_ended(a->pmix, w->local_rank, has_failed);
		aborted = pmix_service_aborted(a->pmix, w->local_rank, &code,
					       w->abort_text,
					       sizeof(w->abort_text));
		if (status && !aborted)
			snprintf(w->abort_text, sizeof(w->abort_text), "%s",
				 pmix_service_lost(a->pmix));
	}
	return aborted ? code << 8 : status;
}
