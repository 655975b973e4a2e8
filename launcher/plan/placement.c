/* placement.c: turns the user's request into sets of CPUs. */
#include "launcher/plan/binding.h"

#include <stdlib.h>

#include "launcher/plan/gpu.h"

static int placement_decide(struct placement *p,
			    const struct placement_request *asked,
			    struct err *e)
{
	int nodes[GPU_MAX];
	struct binding_request r = {
		.mode = p->mode, .nproc = asked->nproc, .gpu_nodes = nodes,
		.gpus_per_proc = asked->gpus_per_proc ? asked->gpus_per_proc
						      : 1,
	};

	/* this host's GPUs say nothing about another machine's topology */
	if (p->mode != BINDING_CORES && !p->topology.elsewhere)
		r.gpus = (uint32_t)gpu_nodes(nodes);
	p->cpus = calloc(asked->nproc, sizeof(*p->cpus));
	if (!p->cpus)
		return err_no_memory(e, "%u workers' CPUs", asked->nproc);
	return binding_decide(&p->topology, &r, p->cpus, e);
}

static int placement_bind(struct placement *p,
			  const struct placement_request *r, struct err *e)
{
	int rc = topology_read(&p->topology, &p->allowed, e);

	if (rc == 0 && p->topology.elsewhere && !r->only_show)
		rc = err_set(e, ERR_USAGE,
			     "--cpu-bind %s: HWLOC_XMLFILE or HWLOC_SYNTHETIC "
			     "in the environment describes another machine; "
			     "unset it, or use --dry-run",
			     binding_name(p->mode));
	return rc == 0 ? placement_decide(p, r, e) : rc;
}

int placement_init(struct placement *p, const struct placement_request *r,
		   struct err *e)
{
	int rc = 0;

	*p = (struct placement){.nproc = r->nproc};
	if (r->cpu_bind)
		rc = binding_parse(&p->mode, r->cpu_bind, e);
	if (rc < 0 || (p->mode == BINDING_NONE && !r->only_show))
		return rc;
	rc = cpus_allowed(&p->allowed, e);
	if (rc == 0 && p->mode != BINDING_NONE)
		rc = placement_bind(p, r, e);
	else if (rc == 0) /* for --dry-run; a failure is not an error */
		topology_read(&p->topology, &p->allowed, NULL);
	if (rc < 0)
		placement_release(p);
	return rc;
}

void placement_release(struct placement *p)
{
	free(p->cpus);
	topology_release(&p->topology);
	*p = (struct placement){.mode = BINDING_NONE};
}

const struct cpus *placement_cpus(const struct placement *p,
				  uint32_t local_rank)
{
	return p->cpus ? &p->cpus[local_rank] : NULL;
}

void placement_put_nodes(const struct placement *p, struct buf *b,
			 const struct cpus *cpus)
{
	const struct topology *t = &p->topology;
	struct cpus nodes = {0}; /* used as a set of node numbers */

	for (uint32_t i = 0; i < t->n; i++) {
		if (cpus_has(cpus, t->cpus[i].cpu) &&
		    t->cpus[i].node < CPUS_MAX)
			cpus_add(&nodes, t->cpus[i].node);
	}
	cpus_put(b, &nodes);
}
