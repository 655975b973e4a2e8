/* plan.c: plans one worker at a time, as they are started one at a time. */
#include "launcher/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/plan/gpu.h"
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

static int plan_init_one(struct plan *p, const struct plan_parts *parts,
			 char **base, const struct environment_job *job,
			 uint32_t base_rank, struct err *e)
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

/* ---- several programs ---- */

static uint32_t plan_gpus_of(const struct role *role,
			     const struct environment_job *job)
{
	return role->gpus_per_proc < 0 ? job->worker_gpus
				       : (uint32_t)role->gpus_per_proc;
}

/* Shares this host's GPUs by the needs of each worker's program. */
static int plan_share_gpus(struct plan *p, const struct environment_job *job,
			   struct err *e)
{
	const struct roles *roles = p->parts->roles;
	const char *list = getenv("CUDA_VISIBLE_DEVICES"), *why = "";
	uint32_t next = 0, have, role_rank;

	p->first_gpus = calloc(job->nproc, sizeof(*p->first_gpus));
	if (!p->first_gpus)
		return err_no_memory(e, "%u workers", job->nproc);
	for (uint32_t i = 0; i < job->nproc; i++) {
		uint32_t role = roles_find(roles, p->base_rank + i, &role_rank);

		p->first_gpus[i] = next;
		next += plan_gpus_of(&roles->list[role], job);
	}
	if (!next)
		return 0;
	have = list ? gpu_list_count(list) : (uint32_t)gpu_count(&why);
	if (have >= next)
		return 0;
	return err_set(e, ERR_USAGE, "--gpus-per-proc: the %u workers of this "
		       "node need %u GPUs, but %s has %u%s%s; start fewer "
		       "workers", job->nproc, next,
		       list ? "CUDA_VISIBLE_DEVICES" : "the host", have,
		       *why ? ": " : "", why);
}

/* The variables of a role: its own, and those of base that it does not have.
 * The caller frees the list. */
static char **plan_role_vars(const struct role *role, char **base)
{
	size_t n = 0, kept = role->nvars;
	char **vars;

	while (base[n])
		n++;
	vars = calloc(n + role->nvars + 1, sizeof(*vars));
	if (!vars)
		return NULL;
	for (uint32_t i = 0; i < role->nvars; i++)
		vars[i] = role->vars[i];
	for (; *base; base++) {
		size_t len = strcspn(*base, "=") + 1;
		uint32_t i = 0;

		while (i < role->nvars &&
		       strncmp(role->vars[i], *base, len) != 0)
			i++;
		if (i == role->nvars)
			vars[kept++] = *base;
	}
	return vars;
}

static int plan_init_role(struct plan *p, uint32_t i, char **base,
			  const struct environment_job *job, struct err *e)
{
	const struct role *role = &p->parts->roles->list[i];
	struct environment_job own = *job;
	char **vars = plan_role_vars(role, base);
	int rc;

	if (!vars)
		return err_no_memory(e, "a worker's environment");
	own.role = role->name;
	own.role_world_size = roles_size(p->parts->roles, i, job->world_size);
	own.worker_gpus = plan_gpus_of(role, job);
	own.first_gpus = p->first_gpus;
	rc = plan_init_one(&p->each[i], &p->parts->each[i], vars, &own,
			   p->base_rank, e);
	free(vars);
	if (rc < 0)
		p->each[i].parts = NULL;
	return rc;
}

static int plan_init_each(struct plan *p, char **base,
			  const struct environment_job *job, struct err *e)
{
	const struct roles *roles = p->parts->roles;
	struct environment_job own = *job;
	struct buf text = BUF_INIT(ROLES_TEXT_MAX);
	int rc = roles_check(roles, job->world_size, e);

	if (rc == 0)
		rc = plan_share_gpus(p, job, e);
	p->each = calloc(roles->n, sizeof(*p->each));
	if (rc == 0 && !p->each)
		rc = err_no_memory(e, "the programs");
	roles_put(&text, roles, job->world_size);
	buf_put_u8(&text, '\0');
	own.roles = text.failed ? NULL : text.data;
	for (uint32_t i = 0; rc == 0 && i < roles->n; i++) {
		if (roles_has(roles, i, p->base_rank, job->nproc))
			rc = plan_init_role(p, i, base, &own, e);
	}
	buf_release(&text);
	if (rc < 0)
		plan_release(p);
	return rc;
}

int plan_init(struct plan *p, const struct plan_parts *parts, char **base,
	      const struct environment_job *job, uint32_t base_rank,
	      struct err *e)
{
	if (!parts->roles)
		return plan_init_one(p, parts, base, job, base_rank, e);
	*p = (struct plan){.parts = parts, .base_rank = base_rank};
	return plan_init_each(p, base, job, e);
}

void plan_release(struct plan *p)
{
	for (uint32_t i = 0; p->each && i < p->parts->roles->n; i++) {
		if (p->each[i].parts)
			plan_release(&p->each[i]);
	}
	free(p->each);
	free(p->first_gpus);
	p->each = NULL;
	p->first_gpus = NULL;
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
	uint32_t rank = p->base_rank + local_rank, role, role_rank;
	int is_wrapped = wrap_applies(&parts->wrap, rank);
	const struct program *wrapper =
		is_wrapped ? &parts->wrap.program : NULL;

	if (p->each) {
		role = roles_find(parts->roles, rank, &role_rank);
		p->each[role].environment.job.role_base_rank =
			role_rank - local_rank;
		p->each[role].unknown = p->unknown;
		plan_worker(&p->each[role], local_rank, w);
		return;
	}

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
