/* inferred_mpi.c: from MPI launchers' words to ddprun's. */
#include "launcher/config/inferred_mpi.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "launcher/config/meet.h"
#include "launcher/plan/cpus.h"

static const char *get(const char *name)
{
	return getenv(name);
}

/* The user says where the nodes meet. With port 0, a free one, that is half of
 * it: which it is the first one tells the others. */
static int is_elsewhere(const struct config *c)
{
	enum { SOME_PORT = 1 };
	struct endpoint at;

	if (c->endpoint_given)
		return endpoint_parse(&at, c->endpoint_text, SOME_PORT,
				      NULL) < 0 || at.port;
	return c->master_addr_given &&
	       !(c->master_port_given && c->master_port == 0);
}

static void unbind(void)
{
	struct cpus before, all;

	memset(&all, 0xff, sizeof(all));
	if (cpus_allowed(&before, NULL) ||
	    sched_setaffinity(0, sizeof(all.sets), all.sets) ||
	    cpus_allowed(&all, NULL) ||
	    cpus_count(&all) == cpus_count(&before))
		return;
	log_debug("mpirun bound this ddprun to %u of the %u CPUs that it may "
		  "use, as it does by default; it uses all of them "
		  "(--bind-to core: as bound)", cpus_count(&before),
		  cpus_count(&all));
}

/* The launcher's descriptors are not the workers'. */
static void keep_descriptors(void)
{
	static const char *const names[] = {"PMI_FD", "HYDI_CONTROL_FD"};
	const char *text;
	long fd;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		text = getenv(names[i]);
		if (text && parse_long(text, 3, 1 << 20, "", &fd, NULL) == 0)
			fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	}
}

static int ask_pmix(struct mpirun *m, struct err *e)
{
	struct pmix_self self;
	int rc = meet_ask_pmix(&self, e);

	if (rc)
		return rc;
	if (self.world_size < 1)
		return err_set(e, ERR_USAGE, "PMIX_RANK is set, and PMIx does "
			       "not say of how many: give --nnodes and "
			       "--rdzv-endpoint, or --standalone");
	m->size = (uint32_t)self.world_size;
	m->here = self.local_world_size > 0 ? (uint32_t)self.local_world_size
					    : 0;
	return 0;
}

int inferred_mpi_init(struct config *c, struct err *e)
{
	struct mpirun m;
	int rc;

	if (c->slurm.place != ALLOCATION_NONE || c->standalone ||
	    getenv("DDP_AGENT_ID") || (is_elsewhere(c) && c->nnodes_given))
		return 0;
	rc = mpirun_read(&m, get, e);
	if (rc == 0 && m.kind == MPIRUN_PMIX)
		rc = ask_pmix(&m, e);
	if (rc == 0)
		rc = mpirun_check(&m, e);
	if (rc < 0 || m.kind == MPIRUN_NONE)
		return rc;
	c->mpirun = m;
	keep_descriptors();
	if (m.bound)
		unbind();
	if (!c->nnodes_given) {
		snprintf(c->nodes_text, sizeof(c->nodes_text), "%u", m.size);
		c->nnodes_text = c->nodes_text;
	}
	return 0;
}

static int differ(const struct config *c, const char *write, struct err *e)
{
	return err_set(e, ERR_USAGE, "--nnodes %s: %s starts ddprun on %u "
		       "node%s; leave --nnodes out, or %s", c->nnodes_text,
		       mpirun_name(&c->mpirun), c->mpirun.size,
		       c->mpirun.size == 1 ? "" : "s", write);
}

int inferred_mpi_nodes(struct config *c, struct err *e)
{
	const struct mpirun *m = &c->mpirun;
	char write[200];

	if (m->kind == MPIRUN_NONE)
		return 0;
	if (m->kind == MPIRUN_PMI && m->fd < 0 && m->size > 1 &&
	    !is_elsewhere(c))
		return err_set(e, ERR_USAGE,
			       "PMI_RANK is set but PMI_FD is not, so the nodes"
			       " cannot tell each other where they meet: give "
			       "--rdzv-endpoint HOST:PORT, an address of the "
			       "first node's");
	if (!is_elsewhere(c) && c->min_nodes > m->size)
		return differ(c, "start more, one on each node", e);
	if (!is_elsewhere(c) && !strchr(c->nnodes_text, ':') &&
	    c->min_nodes < m->size) {
		snprintf(write, sizeof(write), "--nnodes %u:%u to keep the "
			 "others as spares, or give --standalone for a job of "
			 "its own on each", c->min_nodes, c->max_nodes);
		return differ(c, write, e);
	}
	if (c->min_nodes == m->size && c->max_nodes == m->size &&
	    !c->node_rank_given)
		c->node_rank = m->rank;
	/* which port of the host that is given is free, they have to tell */
	if ((c->endpoint_given || c->master_addr_given) && !is_elsewhere(c))
		c->meets = m->size > 1;
	return 0;
}

int inferred_mpi_endpoint(struct config *c)
{
	const struct mpirun *m = &c->mpirun;

	if (m->kind == MPIRUN_NONE || c->endpoint_given || c->master_addr_given)
		return 0;
	c->endpoint = (struct endpoint){"localhost", 0};
	if (m->size == 1 && c->max_nodes == 1 && !c->master_port_given)
		c->private_endpoint = 1;
	else if (m->size > 1)
		c->meets = 1;
	else
		return 0;
	return 1;
}

void inferred_mpi_say(const struct config *c)
{
	const struct mpirun *m = &c->mpirun;
	char at[SOCK_TEXT_MAX];
	struct buf b;

	if (m->kind == MPIRUN_NONE || m->rank != 0)
		return;
	buf_init(&b, 4096);
	if (!c->nnodes_given && m->size > 1)
		buf_printf(&b, " --nnodes %s", c->nnodes_text);
	if (!c->node_rank_given && c->node_rank >= 0 && m->size > 1)
		buf_printf(&b, " --node-rank $%s", mpirun_rank_name(m));
	if (!c->nproc_given)
		buf_printf(&b, " --nproc-per-node %u (%s)", c->nproc,
			   c->nproc_why);
	if (c->meets)
		buf_printf(&b, " --rdzv-endpoint %s",
			   endpoint_text(&c->endpoint, at));
	if (c->meets && !c->job_given)
		buf_printf(&b, " --rdzv-id %s", c->job);
	if (b.len && !b.failed)
		log_info("started by %s on %u node%s, which is taken as%.*s",
			 mpirun_name(m), m->size, m->size == 1 ? "" : "s",
			 (int)b.len, b.data);
	buf_release(&b);
}
