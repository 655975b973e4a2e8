/* plan.c: one worker at a time, for they are started one at a time. */
#include "launcher/plan.h"

int plan_init(struct plan *p, const struct plan_parts *parts, char **base,
	      const struct environment_job *job, uint32_t base_rank,
	      struct err *e)
{
	*p = (struct plan){.parts = parts, .base_rank = base_rank};
	return environment_init(&p->environment, base, job, e);
}

void plan_release(struct plan *p)
{
	environment_release(&p->environment);
}

void plan_worker(struct plan *p, uint32_t local_rank, struct plan_worker *w)
{
	uint32_t rank = p->base_rank + local_rank;
	const struct program *program = wrap_applies(&p->parts->wrap, rank)
					? &p->parts->wrap.program
					: &p->parts->program;

	*w = (struct plan_worker){
		.rank = rank, .local_rank = local_rank,
		.path = program->path, .argv = program->argv,
		.envp = p->environment.vars,
		.cpus = placement_cpus(&p->parts->placement, local_rank),
	};
	environment_set_rank(&p->environment, w->rank, local_rank);
}
