/* agent_mpi.c: MPI's start-up for this node's workers (PMI-1), and the warning
 * where ddprun does not serve it. */
#include <signal.h>
#include <sys/wait.h>

#include "base/log.h"
#include "launcher/agent/agent_internal.h"

void agent_mpi_warn(struct agent *a, const struct wire_start *start)
{
	if (!a->parts || !a->parts->is_mpi_alone || start->world_size < 2 ||
	    start->node_rank || start->attempt + start->changes)
		return;
	log_warn("%s is an MPI program (it needs %s), but ddprun serves only "
		 "PMI-1, for MPICH, Intel MPI and NVSHMEM: its %u processes "
		 "are %u MPI worlds of one process; start it with mpirun or "
		 "srun instead (docs/mpi.md)",
		 a->parts->program.path, a->parts->mpi_library,
		 start->world_size, start->world_size);
}

static void on_failed(void *owner, const char *text)
{
	struct agent *a = owner;

	member_failed(&a->member, a->round, 0, text);
}

/* It waits to be killed, as MPICH's own launchers do. */
static void on_abort_over(void *owner, uint32_t local_rank)
{
	struct agent *a = owner;
	const struct worker *w = &a->group.workers[local_rank];

	if (w->running)
		kill(-w->pid, SIGKILL);
}

static const struct sock_addr *find_server(void *owner)
{
	struct agent *a = owner;

	return member_server_addr(&a->member);
}

static const struct pmi_service_events pmi_events = {
	.on_failed = on_failed, .on_abort_over = on_abort_over,
	.find_server = find_server,
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

int agent_mpi_begin(struct agent *a, const struct wire_start *start,
		    struct err *e)
{
	char name[PMI_SERVER_NAME_MAX];
	const struct pmi_server_round round = {
		.name = name, .base_rank = start->base_rank,
		.nproc = a->config->nproc, .world_size = start->world_size,
		.node_rank = start->node_rank, .nnodes = start->nnodes,
	};
	const struct pmi_exchange_round exchange = {
		.job = a->config->job, .host = a->member.host,
		.auth = member_auth(&a->member), .round = start->round,
		.rank = start->base_rank, .node_rank = start->node_rank,
		.nnodes = start->nnodes,
	};

	agent_mpi_end(a);
	a->group.socket = NULL;
	if (!a->parts->serves_pmi)
		return 0;
	snprintf(name, sizeof(name), "ddprun_%u", start->round);
	a->pmi = pmi_service_new(&a->loop, &round, &exchange, &pmi_events, a,
				 e);
	if (!a->pmi)
		return err_negative(e->code);
	a->group.socket = agent_mpi_socket;
	return 0;
}

void agent_mpi_end(struct agent *a)
{
	pmi_service_close(a->pmi);
	a->pmi = NULL;
}

int agent_mpi_ended(struct agent *a, struct worker *w, int status)
{
	int code;

	w->abort_text[0] = '\0';
	if (!a->pmi)
		return status;
	pmi_service_ended(a->pmi, w->local_rank, status != 0 || w->stopped);
	if (pmi_service_aborted(a->pmi, w->local_rank, &code, w->abort_text,
				sizeof(w->abort_text)))
		return W_EXITCODE(code, 0);
	return status;
}
