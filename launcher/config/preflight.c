/* preflight.c: checks each part in turn. */
#include "launcher/config/preflight.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/config/config.h"
#include "launcher/failure/exit_code.h"
#include "launcher/plan/framework.h"
#include "launcher/plan/gpu.h"
#include "launcher/plan/lone_script.h"
#include "launcher/plan/nccl.h"
#include "launcher/pmix/pmix_library.h"
#include "launcher/preload/mpi4py.h"

/* ---- the kernel's limits ---- */

/* Counts our open files, inherited ones included. If /proc cannot be read
 * because no descriptor is free, all are in use. */
static rlim_t preflight_count_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	rlim_t n = 0;

	if (!dir)
		return errno == EMFILE ? (rlim_t)sysconf(_SC_OPEN_MAX) : 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n > 3 ? n - 3 : 0; /* ".", ".." and dir's own */
}

/* Each worker needs two pipes here, two files with --tee, two sockets while
 * MPI's workers are started, and a port, or two while the next attempt reserves
 * its own (worker_group.h); the rest is for the loop and the server, and to
 * spare. */
static int preflight_check_files(uint32_t nproc, uint64_t *soft, struct err *e)
{
	enum { SPARE_FILES = 64 };
	struct rlimit limit;
	rlim_t open = preflight_count_open();
	rlim_t need = open + (rlim_t)nproc * 2 + SPARE_FILES;
	rlim_t best = open + (rlim_t)nproc * 8 + SPARE_FILES;

	*soft = 0;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= best)
		return 0;
	if (limit.rlim_max < need)
		return err_set(e, -EMFILE,
			       "--nproc-per-node %u: these workers need %llu "
			       "open files, including the %llu that ddprun was "
			       "started with, but the hard limit is %llu; "
			       "raise it (ulimit -Hn) or start fewer workers",
			       nproc, (unsigned long long)need,
			       (unsigned long long)open,
			       (unsigned long long)limit.rlim_max);
	*soft = limit.rlim_cur;
	limit.rlim_cur = best < limit.rlim_max ? best : limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return err_set(e, -errno, "cannot raise the limit of open "
			       "files to %llu: %s",
			       (unsigned long long)limit.rlim_cur,
			       strerror(errno));
	return 0;
}

static long preflight_pid_max(void)
{
	char text[32];

	file_read_text("/proc/sys/kernel/pid_max", text, sizeof(text));
	return strtol(text, NULL, 10);
}

int preflight_check_limits(uint32_t nproc, uint64_t *soft, struct err *e)
{
	enum { FEW = 1024, SPARE_PIDS = 300 }; /* the kernel reserves 300 */
	struct rlimit limit;
	long pids;

	/* the limit does not bind root */
	if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &limit) == 0 &&
	    limit.rlim_cur < nproc)
		return err_set(e, -EAGAIN,
			       "--nproc-per-node %u: this user is limited to "
			       "%llu processes; raise the limit (ulimit -u) or "
			       "start fewer workers",
			       nproc, (unsigned long long)limit.rlim_cur);
	pids = nproc > FEW ? preflight_pid_max() : 0;
	if (pids && nproc + SPARE_PIDS >= (uint64_t)pids)
		return err_set(
			e, -EAGAIN,
			"--nproc-per-node %u: this host is limited to %ld "
			"processes (kernel.pid_max); start fewer workers",
			nproc, pids);
	return preflight_check_files(nproc, soft, e);
}

/* ---- programs and placement ---- */

static int preflight_find_program(struct program *program,
				  const struct config *c,
				  const struct role *role, struct err *e)
{
	const struct program_how how = {
		.no_python = c->no_python || (role && role->no_python),
		.module = c->module || (role && role->module),
		.run_path = c->run_path || (role && role->run_path),
		.local_rank = c->legacy_launch && !c->use_env,
	};

	return program_find(program, role ? role->words : c->words, &how, e);
}

static int preflight_find_wrap(struct wrap *wrap, const struct config *c,
			       const struct role *role, struct err *e)
{
	const char *own = role ? role->wrap : NULL;
	const struct wrap_request r = {
		.command = own ? own : c->wrap,
		.ranks = own ? NULL : c->wrap_ranks,
		.world_size = c->max_nodes > 1 ? 0 : c->nproc,
	};

	return wrap_init(wrap, &r, e);
}

/* Names the role whose program cannot be started. */
static int preflight_fail_role(const struct role *role, int rc, struct err *e)
{
	struct err why = *e;

	return err_set(e, rc, "role %s: %s", role->name, why.text);
}

/* The programs and wrappers of all roles: on several nodes, which of them have
 * workers here is not known yet. */
static int preflight_find_each(struct plan_parts *parts,
			       const struct config *c, struct err *e)
{
	const struct roles *roles = &c->roles;
	int rc = 0;

	parts->each = calloc(roles->n, sizeof(*parts->each));
	if (!parts->each)
		return err_no_memory(e, "the programs");
	parts->roles = roles;
	for (uint32_t i = 0; i < roles->n; i++) {
		struct plan_parts *own = i ? &parts->each[i] : parts;
		const struct role *role = &roles->list[i];

		rc = preflight_find_program(&own->program, c, role, e);
		if (rc == 0)
			rc = preflight_find_wrap(&own->wrap, c, role, e);
		if (rc < 0)
			return preflight_fail_role(role, rc, e);
	}
	return 0;
}

static int preflight_find_all(struct plan_parts *parts, const struct config *c,
			      struct err *e)
{
	int rc;

	if (c->roles.n)
		return preflight_find_each(parts, c, e);
	rc = preflight_find_program(&parts->program, c, NULL, e);
	return rc == 0 ? preflight_find_wrap(&parts->wrap, c, NULL, e) : rc;
}

/* What the programs have in common. */
static void preflight_share(struct plan_parts *parts)
{
	uint32_t n = parts->roles ? parts->roles->n : 0;

	for (uint32_t i = 0; i < n; i++) {
		struct plan_parts *own = &parts->each[i];
		struct plan_parts all = *parts;

		if (i) {
			all.program = own->program;
			all.wrap = own->wrap;
		}
		all.roles = NULL;
		all.each = NULL;
		*own = all;
		parts->program.ports |= own->program.ports;
		parts->program.peers |= own->program.peers;
	}
}

static int preflight_find_check(struct check_words *w, const struct config *c,
				struct err *e)
{
	const struct check_words_request r = {
		.full = strcmp(c->preflight, "full") == 0,
		.folders = c->preflight_folders,
		.command = c->preflight_command, .json = c->preflight_json,
		.log_dir = c->output.log_dir,
	};

	if (strcmp(c->preflight, "none") == 0)
		return 0;
	return check_words_init(w, &r, e);
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

/* Without libpmix a program of Open MPI runs as worlds of one. That is an error
 * where the user wants it served, and where other nodes may have the library:
 * they would wait for this one. */
static int preflight_look_for_pmix(struct plan_parts *parts,
				   const struct config *c, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = pmix_library_check(&why);

	parts->serves_pmix = rc == 0;
	if (rc == 0)
		return 0;
	if (strcmp(c->mpi, "pmix") == 0)
		return err_set(e, rc, "--mpi pmix: %s", why.text);
	if (c->max_nodes > 1)
		return err_set(e, rc, "%s (%s needs %s; --mpi none runs its "
			       "processes as worlds of one)", why.text,
			       parts->program.path, parts->mpi_library);
	snprintf(parts->no_pmix, sizeof(parts->no_pmix), "%s", why.text);
	return 0;
}

/* What the text of a Python program shows, and the modules beside it; nothing
 * if its words are not simple. starts_mpi: its ranks call MPI_Init. script: the
 * file; path: its name for the user. */
static unsigned preflight_script_uses(const struct python_command *c,
				      const struct program *p,
				      const char **script, const char **path,
				      int *starts_mpi)
{
	unsigned uses;

	*starts_mpi = 0;
	*script = python_command_word(c, p->path, p->argv, c->at);
	*path = *script;
	if (!c->is_module)
		return lone_script_read(*script, starts_mpi);
	if (strcmp(*script, "mpi4py") != 0)
		return 0;
	*path = "python3 -m mpi4py";
	*script = python_command_word(c, p->path, p->argv, c->at + 1);
	if (!*script)
		return 0;
	uses = lone_script_read(*script, starts_mpi);
	return uses | LONE_SCRIPT_MPI4PY;
}

/* A Python program that calls MPI_Init on each rank shows its library only to
 * its interpreter. */
static int preflight_script_library(const struct program *p,
				    const struct config *c, char *library)
{
	struct python_command command;
	const char *script, *path;
	struct err e = ERR_INIT;
	int starts_mpi;

	if (strcmp(c->mpi, "auto") != 0 ||
	    (c->nproc == 1 && c->max_nodes == 1) ||
	    python_command_find(&command, p->path, p->argv, &e) < 0)
		return 0;
	preflight_script_uses(&command, p, &script, &path, &starts_mpi);
	if (starts_mpi)
		starts_mpi = mpi4py_library(&command, script, library);
	python_command_release(&command);
	return starts_mpi;
}

static int preflight_library(const struct program *p, const struct config *c,
			     char *library)
{
	return mpi_program_library(p->path, library) ||
	       preflight_script_library(p, c, library);
}

/* The MPI library of the programs, all of which are in one MPI_COMM_WORLD. */
static int preflight_find_mpi(struct plan_parts *parts, const struct config *c,
			      struct err *e)
{
	uint32_t n = parts->roles ? parts->roles->n : 0;
	char *library = parts->mpi_library, other[MPI_LIBRARY_MAX];

	preflight_library(&parts->program, c, library);
	for (uint32_t i = 1; i < n; i++) {
		if (!preflight_library(&parts->each[i].program, c, other))
			continue;
		if (!library[0])
			memcpy(library, other, sizeof(other));
		if (mpi_program_speaks_pmix(library) ==
		    mpi_program_speaks_pmix(other))
			continue;
		return err_set(e, ERR_USAGE, "role %s needs %s, and another "
			       "role needs %s: two MPI libraries cannot share "
			       "one MPI_COMM_WORLD; link all programs with the "
			       "same, or give --mpi none",
			       parts->roles->list[i].name, other, library);
	}
	return library[0] != '\0';
}

static void preflight_look_at_script(struct plan_parts *parts,
				     const struct program *p)
{
	struct python_command command;
	struct err e = ERR_INIT;
	const char *script;
	int starts_mpi;

	if (python_command_find(&command, p->path, p->argv, &e) < 0)
		return;
	parts->script_uses = preflight_script_uses(
		&command, p, &script, &parts->script, &starts_mpi);
	python_command_release(&command);
}

static void preflight_look_for_script(struct plan_parts *parts,
				      const struct config *c)
{
	uint32_t n = parts->roles ? parts->roles->n : 1;
	int is_told = parts->serves_pmi || parts->serves_pmix ||
		      parts->is_mpi_unseen || strcmp(c->mpi, "none") == 0;

	for (uint32_t i = 0; i < n && !parts->script_uses; i++)
		preflight_look_at_script(parts, i ? &parts->each[i].program
						  : &parts->program);
	parts->script_served = c->frameworks |
			       (is_told ? LONE_SCRIPT_MPI4PY : 0);
}

/* MPI_COMM_WORLD cannot lose a rank. */
static int preflight_check_optional(const struct plan_parts *parts,
				    struct err *e)
{
	uint32_t n = parts->roles ? parts->roles->n : 0;

	if (!parts->serves_pmi && !parts->serves_pmix)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		if (parts->roles->list[i].is_optional)
			return err_set(e, ERR_USAGE, "role %s is optional, "
				       "but the job uses MPI, whose world "
				       "cannot lose a rank; leave "
				       "--role-optional out, or give --mpi "
				       "none", parts->roles->list[i].name);
	}
	return 0;
}

static int preflight_look_for_mpi(struct plan_parts *parts,
				  const struct config *c, struct err *e)
{
	const char *library = parts->mpi_library;
	int is_none = strcmp(c->mpi, "none") == 0;
	int is_mpi = preflight_find_mpi(parts, c, is_none ? NULL : e);
	int is_auto = strcmp(c->mpi, "auto") == 0;
	int speaks_pmix = is_mpi > 0 && mpi_program_speaks_pmix(library);
	int rc = 0;

	if (is_mpi < 0 && !is_none)
		return is_mpi;
	parts->serves_pmi = strcmp(c->mpi, "pmi") == 0 ||
			    (is_auto && is_mpi &&
			     mpi_program_speaks_pmi(library));
	if (strcmp(c->mpi, "pmix") == 0 || (is_auto && speaks_pmix))
		rc = preflight_look_for_pmix(parts, c, e);
	parts->uses_mpi = is_mpi || parts->serves_pmi || parts->serves_pmix;
	parts->is_mpi_unseen = c->mpi_given && is_auto && !is_mpi;
	parts->is_mpi_alone = is_mpi && !is_none && !parts->serves_pmi &&
			      !parts->serves_pmix;
	return rc < 0 ? rc : preflight_check_optional(parts, e);
}

int preflight_run(struct plan_parts *parts, const struct config *c,
		  uint64_t *open_files, struct err *e)
{
	int rc = preflight_check_limits(c->nproc, open_files, e);

	if (rc < 0)
		return EXIT_OS;
	rc = preflight_find_all(parts, c, e);
	if (rc == 0)
		rc = preflight_find_check(&parts->check, c, e);
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
	if (c->frameworks & FRAMEWORK_PADDLE)
		parts->has_gpus = gpu_count(&(const char *){NULL}) > 0;
	rc = preflight_look_for_mpi(parts, c, e);
	preflight_look_for_script(parts, c);
	if (rc == 0)
		rc = preflight_place_workers(&parts->placement, c, e);
	if (rc == 0)
		preflight_share(parts);
	return rc < 0 ? exit_code_of(e) : 0;
}

void preflight_release(struct plan_parts *parts)
{
	for (uint32_t i = 1; parts->each && i < parts->roles->n; i++) {
		wrap_release(&parts->each[i].wrap);
		program_release(&parts->each[i].program);
	}
	free(parts->each);
	placement_release(&parts->placement);
	check_words_release(&parts->check);
	wrap_release(&parts->wrap);
	program_release(&parts->program);
}

/* ---- trials ---- */

/* Restores the limit of open files, which the check raises: the agent raises it
 * itself, and must know the old one for its workers. */
static int preflight_try_config(const struct config *c, struct err *e)
{
	struct plan_parts parts = {.program = {NULL}};
	struct rlimit limit;
	uint64_t open_files;
	int had = getrlimit(RLIMIT_NOFILE, &limit), code;

	code = preflight_run(&parts, c, &open_files, e);
	preflight_release(&parts);
	if (had == 0)
		setrlimit(RLIMIT_NOFILE, &limit);
	return code;
}

int preflight_try(struct preflight_trial *t, int argc, char **argv,
		  struct err *e)
{
	int rc;

	*t = (struct preflight_trial){.config = calloc(1, sizeof(*t->config))};
	if (!t->config) {
		err_no_memory(e, "the options");
		return EXIT_OS;
	}
	rc = config_parse(t->config, argc, argv, e);
	t->nproc = t->config->nproc;
	if (rc < 0)
		return rc == -ENOMEM ? EXIT_OS : EXIT_BAD_USAGE;
	t->rdzv = config_rdzv_options(t->config);
	return preflight_try_config(t->config, e);
}

void preflight_end_trial(struct preflight_trial *t)
{
	if (t->config)
		config_release(t->config);
	free(t->config);
	t->config = NULL;
}
