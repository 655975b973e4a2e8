/* plan.c: plans one worker at a time, as they are started one at a time. */
#include "launcher/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/plan/macro.h"

/* Allocates room for the arguments of one worker. */
static int plan_make_room(struct plan *p)
{
	const struct program *program = &p->parts->program;
	size_t bytes = 0;

	for (char **word = program->argv; *word; word++)
		bytes += macro_room(*word, p->environment.vars);
	p->argv = calloc((size_t)program->nargs +
			 (size_t)p->parts->wrap.program.nargs +
			 (size_t)p->parts->check.n + 2,
			 sizeof(*p->argv));
	if (program->macros)
		p->text = malloc(bytes);
	return p->argv && (p->text || !program->macros) ? 0 : -ENOMEM;
}

int plan_init(struct plan *p, const struct plan_parts *parts, char **base,
	      const struct environment_job *job, uint32_t base_rank,
	      struct err *e)
{
	struct environment_job all = *job;
	char interface[IF_NAMESIZE];
	int rc;

	*p = (struct plan){.parts = parts, .base_rank = base_rank};
	p->is_checked = parts->check.n && job->attempt == 0;
	all.is_python = parts->program.is_python;
	all.nccl_debug = parts->nccl.debug;
	all.nccl_subsystems = parts->nccl.subsystems;
	all.interface = nccl_interface(&parts->nccl, job->node_addr,
				       job->nnodes, interface);
	rc = environment_init(&p->environment, base, &all, e);
	if (rc < 0)
		return rc;
	if ((parts->program.macros || parts->wrap.words.n || p->is_checked) &&
	    plan_make_room(p) < 0) {
		plan_release(p);
		return err_no_memory(e, "a worker's arguments");
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

/* Adds a program that starts the next one. It gets the next one's path instead
 * of its name, so that it does not search $PATH and find another program. */
static int plan_add_starter(struct plan *p, int n, char *const *words,
			    int nwords, char *next)
{
	for (int i = n ? 1 : 0; i < nwords; i++)
		p->argv[n++] = words[i];
	p->argv[n++] = next;
	return n;
}

/* Builds one worker's arguments: the check, the wrapper, the program. */
static char *const *plan_make_argv(struct plan *p,
				   const struct program *wrapper,
				   uint32_t local_rank)
{
	const struct plan_parts *parts = p->parts;
	const struct program *program = &parts->program;
	const struct macro_values values = {
		.vars = p->environment.vars, .unknown = p->unknown,
		.local_rank = local_rank,
	};
	char *out = p->text;
	int n = 0;

	if (p->is_checked) {
		n = plan_add_starter(p, n, parts->check.list, parts->check.n,
				     (char *)"--");
		p->argv[n++] = wrapper ? wrapper->path : program->path;
	}
	if (wrapper)
		n = plan_add_starter(p, n, wrapper->argv, wrapper->nargs,
				     program->path);
	if (!n)
		p->argv[n++] = program->argv[0];
	for (int i = 1; i < program->nargs; i++) {
		p->argv[n++] = out ? out : program->argv[i];
		if (out)
			out = macro_expand(program->argv[i], &values, out);
	}
	p->argv[n] = NULL;
	return p->argv;
}

void plan_worker(struct plan *p, uint32_t local_rank, struct plan_worker *w)
{
	const struct plan_parts *parts = p->parts;
	uint32_t rank = p->base_rank + local_rank;
	int is_wrapped = wrap_applies(&parts->wrap, rank);
	const struct program *wrapper =
		is_wrapped ? &parts->wrap.program : NULL;

	/* first: macros in the arguments refer to it */
	environment_set_rank(&p->environment, rank, local_rank);
	*w = (struct plan_worker){
		.rank = rank, .local_rank = local_rank,
		.path = p->is_checked ? parts->check.path
			: is_wrapped ? wrapper->path : parts->program.path,
		.argv = p->argv ? plan_make_argv(p, wrapper, local_rank)
				: parts->program.argv,
		.envp = p->environment.vars,
		.cpus = placement_cpus(&parts->placement, local_rank),
	};
}
