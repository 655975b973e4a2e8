/* plan.c: one worker at a time, for they are started one at a time. */
#include "launcher/plan.h"

int plan_init(struct plan *p, const struct program *program, char **base,
	      const struct environment_job *job, uint32_t base_rank,
	      struct err *e)
{
	*p = (struct plan){.program = program, .base_rank = base_rank};
	return environment_init(&p->environment, base, job, e);
}

void plan_release(struct plan *p)
{
	environment_release(&p->environment);
}

void plan_worker(struct plan *p, uint32_t local_rank, struct plan_worker *w)
{
	*w = (struct plan_worker){
		.rank = p->base_rank + local_rank, .local_rank = local_rank,
		.path = p->program->path, .argv = p->program->argv,
		.envp = p->environment.vars,
	};
	environment_set_rank(&p->environment, w->rank, local_rank);
}
