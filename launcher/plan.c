/* plan.c: one worker at a time, for they are started one at a time. */
#include "launcher/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/macro.h"

/* Room for the arguments of one worker. */
static int make_room(struct plan *p)
{
	size_t bytes = 0;

	for (char **word = p->program->argv; *word; word++)
		bytes += strlen(*word) + 1;
	p->argv = calloc((size_t)p->program->nargs + 1, sizeof(*p->argv));
	p->text = malloc(bytes);
	return p->argv && p->text ? 0 : -ENOMEM;
}

int plan_init(struct plan *p, const struct program *program, char **base,
	      const struct environment_job *job, uint32_t base_rank,
	      struct err *e)
{
	int rc;

	*p = (struct plan){.program = program, .base_rank = base_rank};
	rc = environment_init(&p->environment, base, job, e);
	if (rc < 0)
		return rc;
	if (program->macros && make_room(p) < 0) {
		plan_release(p);
		return err_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

void plan_release(struct plan *p)
{
	environment_release(&p->environment);
	free(p->argv);
	free(p->text);
	p->argv = NULL;
	p->text = NULL;
}

/* The program itself is one for all, and was found already. */
static char *const *expand(struct plan *p, uint32_t local_rank)
{
	char *out = p->text;

	p->argv[0] = p->program->argv[0];
	for (int i = 1; i < p->program->nargs; i++) {
		p->argv[i] = out;
		out = macro_expand(p->program->argv[i], local_rank, out);
	}
	return p->argv;
}

void plan_worker(struct plan *p, uint32_t local_rank, struct plan_worker *w)
{
	*w = (struct plan_worker){
		.rank = p->base_rank + local_rank, .local_rank = local_rank,
		.path = p->program->path,
		.argv = p->text ? expand(p, local_rank) : p->program->argv,
		.envp = p->environment.vars,
	};
	environment_set_rank(&p->environment, w->rank, local_rank);
}
