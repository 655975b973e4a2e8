/* preflight.c: checks each part in turn. */
#include "launcher/config/preflight.h"

#include <errno.h>
#include <string.h>

#include "launcher/failure/exit_code.h"
#include "launcher/plan/nccl.h"

static int preflight_find_program(struct program *program,
				  const struct config *c, struct err *e)
{
	const struct program_how how = {
		.no_python = c->no_python, .module = c->module,
		.run_path = c->run_path,
		.local_rank = c->legacy_launch && !c->use_env,
	};

	return program_find(program, c->words, &how, e);
}

static int preflight_find_wrap(struct wrap *wrap, const struct config *c,
			       struct err *e)
{
	const struct wrap_request r = {
		.command = c->wrap, .ranks = c->wrap_ranks,
		.world_size = c->max_nodes > 1 ? 0 : c->nproc,
	};

	return wrap_init(wrap, &r, e);
}

static int preflight_place_workers(struct placement *p, const struct config *c,
				   struct err *e)
{
	const struct placement_request r = {
		.cpu_bind = c->cpu_bind, .nproc = c->nproc,
		.gpus_per_proc = (uint32_t)c->gpus_per_proc,
		.only_show = c->dry_run,
	};

	return placement_init(p, &r, e);
}

static void preflight_look_for_mpi(struct plan_parts *parts,
				   const struct config *c)
{
	const char *library = parts->mpi_library;
	int is_mpi = mpi_program_library(parts->program.path,
					 parts->mpi_library);
	int speaks_pmi = is_mpi && mpi_program_speaks_pmi(library);
	int is_off = strcmp(c->mpi, "none") == 0;

	parts->serves_pmi = strcmp(c->mpi, "pmi") == 0 ||
			    (speaks_pmi && !is_off);
	parts->uses_mpi = is_mpi || parts->serves_pmi;
	parts->is_mpi_alone = is_mpi && !speaks_pmi && !is_off;
}

int preflight_run(struct plan_parts *parts, const struct config *c,
		  uint64_t *open_files, struct err *e)
{
	int rc = config_check_limits(c->nproc, open_files, e);

	if (rc < 0)
		return EXIT_OS;
	rc = preflight_find_program(&parts->program, c, e);
	if (rc == 0)
		rc = preflight_find_wrap(&parts->wrap, c, e);
	if (rc == 0)
		rc = nccl_parse_debug(&parts->nccl, c->nccl_debug, e);
	if (rc == 0)
		rc = nccl_check_interface(&parts->nccl, c->net_interface, e);
	if (rc == -ENOENT)
		return EXIT_NOT_FOUND;
	if (rc == ERR_USAGE || rc == -ENOMEM)
		return exit_code_of(e);
	if (rc < 0)
		return EXIT_NOT_EXECUTABLE;
	preflight_look_for_mpi(parts, c);
	rc = preflight_place_workers(&parts->placement, c, e);
	return rc < 0 ? exit_code_of(e) : 0;
}

void preflight_release(struct plan_parts *parts)
{
	placement_release(&parts->placement);
	wrap_release(&parts->wrap);
	program_release(&parts->program);
}
