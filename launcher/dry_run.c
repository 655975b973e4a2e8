/* dry_run.c: prints a plan. */
#include "launcher/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/output/log_rules.h"
#include "launcher/output/logdir.h"
#include "launcher/plan/cpus.h"
#include "launcher/plan/framework.h"
#include "launcher/plan/gpu.h"
#include "launcher/plan/shell_words.h"
#include "launcher/pmix/pmix_fabric.h"
#include "launcher/preload/python_command.h"

enum { TEXT_MAX = 64 << 20, NAMES_MAX = 64 + FRAMEWORK_LATER_MAX };

extern char **environ;

struct dry_run {
	const struct dry_run_options *options;
	const struct agent_options *agent; /* options->agent */
	const struct rdzv_options *rdzv;   /* agent->rdzv */
	const struct plan_parts *parts;
	struct plan plan;
	struct logdir logdir;
	struct log_rules rules;
	struct buf text;
	char host[SOCK_HOST_MAX];
	/* variables whose values are known only in a run; ends with NULL */
	const char *open[NAMES_MAX + 1];
	int nopen;
	char pmix_rank[ENVIRONMENT_VAR_MAX], *pmix;
};

/* 1 if the ranks are known without a rendezvous. */
static int dry_run_is_alone(const struct dry_run *d)
{
	return d->rdzv->max_nodes == 1;
}

static void dry_run_leave_open(struct dry_run *d, const char *const *names,
			       int n)
{
	for (int i = 0; i < n; i++)
		d->open[d->nopen++] = names[i];
}

#define LEAVE_OPEN(d, ...)                                              \
	dry_run_leave_open(d, (const char *const[]){__VA_ARGS__},       \
			   sizeof((const char *const[]){__VA_ARGS__}) / \
				   sizeof(char *))

/* What libpmix's server sets, and what ddprun adds for Open MPI; a test
 * compares them with those of a job. */
static void dry_run_find_open_pmix(struct dry_run *d)
{
	static const char *const folders[] = {
		"OMPI_MCA_btl_vader_backing_directory",
		"OMPI_MCA_btl_sm_backing_directory",
	};

	if (!dry_run_is_alone(d))
		LEAVE_OPEN(d, "PMIX_RANK");
	LEAVE_OPEN(d, "PMIX_NAMESPACE", "PMIX_HOSTNAME", "PMIX_VERSION",
		   "PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3",
		   "PMIX_SERVER_URI4", "PMIX_SERVER_URI41",
		   "PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR",
		   "PMIX_DSTORE_21_BASE_PATH", "PMIX_DSTORE_ESH_BASE_PATH",
		   "PMIX_SECURITY_MODE", "PMIX_GDS_MODULE",
		   "PMIX_BFROP_BUFFER_TYPE", "OMPI_MCA_orte_local_daemon_uri");
	if (pmix_fabric_mtl(""))
		LEAVE_OPEN(d, "OMPI_MCA_mtl");
	if (cpus_are_too_few(d->rdzv->nproc))
		LEAVE_OPEN(d, "OMPI_MCA_mpi_oversubscribe");
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		if (!getenv(folders[i]))
			LEAVE_OPEN(d, folders[i]);
	}
}

static void dry_run_find_open(struct dry_run *d)
{
	const struct rdzv_options *o = d->rdzv;
	const struct nccl *nccl = &d->parts->nccl;
	unsigned frameworks = d->agent->frameworks;

	if (!dry_run_is_alone(d))
		LEAVE_OPEN(d, "RANK", "WORLD_SIZE", "GROUP_RANK", "ROLE_RANK",
			   "ROLE_WORLD_SIZE");
	if (o->min_nodes != o->max_nodes)
		LEAVE_OPEN(d, "GROUP_WORLD_SIZE");
	if (!o->private_endpoint)
		LEAVE_OPEN(d, "MASTER_ADDR", "DDP_NODE_ADDR");
	LEAVE_OPEN(d, "MASTER_PORT", "DDP_RDZV_ENDPOINT", "DDP_AGENT_ID",
		   "DDP_RECORDER", "DDP_STEP_FILE");
	if (!environment_has_coordinator(environ))
		LEAVE_OPEN(d, "JAX_COORDINATOR_PORT");
	if (d->parts->program.peers || framework_needs_peers(frameworks))
		LEAVE_OPEN(d, "DDP_WORKER_PORT", "DDP_PEERS_FILE");
	else if (d->parts->program.ports)
		LEAVE_OPEN(d, "DDP_WORKER_PORT");
	d->nopen += framework_later(frameworks, dry_run_is_alone(d),
				    getenv("SLURM_JOB_ID") != NULL,
				    &d->open[d->nopen]);
	if (!d->agent->failure.no_crash_stacks)
		LEAVE_OPEN(d, "LD_PRELOAD", "DDP_CRASH_RECORD", "ASAN_OPTIONS");
	if (!o->auth_text || strcmp(o->auth_text, "none") != 0)
		LEAVE_OPEN(d, "DDP_JOB_KEY");
	if (*d->logdir.run)
		LEAVE_OPEN(d, "TORCHELASTIC_ERROR_FILE");
	if (*d->logdir.attempt && d->parts->program.is_python)
		LEAVE_OPEN(d, "TORCH_FR_DUMP_TEMP_FILE");
	if (*d->logdir.attempt && *nccl->debug)
		LEAVE_OPEN(d, "NCCL_DEBUG_FILE");
	if (!dry_run_is_alone(d) && nccl->interface)
		LEAVE_OPEN(d, "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME");
	if (d->options->draws_job) /* each run draws another one */
		LEAVE_OPEN(d, "TORCHELASTIC_RUN_ID", "DDP_JOB_ID");
	if (isatty(STDOUT_FILENO))
		LEAVE_OPEN(d, "DDP_TERMINAL");
	if (d->parts->serves_pmi)
		LEAVE_OPEN(d, "PMI_FD");
	if (d->parts->serves_pmix)
		dry_run_find_open_pmix(d);
}

static size_t dry_run_name_length(const char *var)
{
	return strcspn(var, "=");
}

static int dry_run_is_open(const struct dry_run *d, const char *var)
{
	size_t len = dry_run_name_length(var);

	for (int i = 0; i < d->nopen; i++) {
		if (strncmp(d->open[i], var, len) == 0 && !d->open[i][len])
			return 1;
	}
	return 0;
}

/* The variable of the same name, or NULL. */
static const char *dry_run_find(char *const *vars, const char *var)
{
	size_t len = dry_run_name_length(var);

	for (; *vars; vars++) {
		if (strncmp(*vars, var, len) == 0 &&
		    dry_run_name_length(*vars) == len)
			return *vars;
	}
	return NULL;
}

static void dry_run_put_variable(struct buf *b, const char *how,
				 const char *var)
{
	size_t len = dry_run_name_length(var);

	buf_printf(b, "  %-8s %.*s=", how, (int)len, var);
	shell_words_quote(b, var + len + (var[len] == '='));
	buf_printf(b, "\n");
}

static void dry_run_put_environment(struct dry_run *d, char *const *envp)
{
	for (char *const *var = envp; *var; var++) {
		const char *ours = dry_run_find(environ, *var);

		if (dry_run_is_open(d, *var) ||
		    (ours && strcmp(ours, *var) == 0))
			continue;
		dry_run_put_variable(&d->text, ours ? "changed" : "added",
				     *var);
	}
	for (char **var = environ; *var; var++) {
		if (!dry_run_is_open(d, *var) && !dry_run_find(envp, *var))
			buf_printf(&d->text, "  removed  %.*s\n",
				   (int)dry_run_name_length(*var), *var);
	}
	buf_printf(&d->text, "  later   ");
	for (int i = 0; i < d->nopen; i++)
		buf_printf(&d->text, " %s", d->open[i]);
	buf_printf(&d->text, " (known once the job runs)\n");
}

static void dry_run_put_argv(struct dry_run *d, char *const *argv,
			     const char *whose)
{
	buf_printf(&d->text, "  argv     ");
	for (char *const *word = argv; *word; word++) {
		if (word > argv)
			buf_put_u8(&d->text, ' ');
		shell_words_quote(&d->text, *word);
	}
	buf_printf(&d->text, "%s\n", whose);
}

static void dry_run_put_cpus(struct dry_run *d, const struct cpus *cpus)
{
	const struct placement *p = &d->parts->placement;
	size_t before;

	buf_printf(&d->text, "  cpus     ");
	cpus_put(&d->text, cpus ? cpus : &p->allowed);
	buf_printf(&d->text, cpus ? "" : " (not bound)");
	before = d->text.len;
	buf_printf(&d->text, "\n  memory   NUMA node ");
	placement_put_nodes(p, &d->text, cpus ? cpus : &p->allowed);
	if (d->text.len > before && d->text.data[d->text.len - 1] == ' ')
		d->text.len = before; /* unknown without hwloc */
	buf_printf(&d->text, "\n");
}

static void dry_run_put_gpus(struct dry_run *d, char *const *envp, int here,
			     const char *why)
{
	const char *var = dry_run_find(envp, "CUDA_VISIBLE_DEVICES");
	const char *list = var ? strchr(var, '=') + 1 : "";

	buf_printf(&d->text, "  gpus     ");
	if (var)
		buf_printf(&d->text, "%s\n", *list ? list : "none");
	else if (here)
		buf_printf(&d->text, "all %d of this host\n", here);
	else
		buf_printf(&d->text, "none: %s\n", why);
}

/* While the rank is not known, rules for ranks are ignored. */
static int dry_run_is_shown(const struct dry_run *d, uint32_t local_rank)
{
	if (dry_run_is_alone(d))
		return log_rules_shows(&d->rules, local_rank, local_rank);
	return log_rules_shows_local(&d->rules, local_rank);
}

static void dry_run_put_stream(struct dry_run *d, uint32_t local_rank,
			       int is_stderr)
{
	char path[LOGDIR_PATH_MAX];
	const struct output_options *o = d->agent->output;
	int shown = log_rules_to_console(o, local_rank, is_stderr) &&
		    dry_run_is_shown(d, local_rank);

	logdir_stream(&d->logdir, local_rank, is_stderr, path);
	buf_printf(&d->text, "  %s   %s%s%s\n", is_stderr ? "stderr" : "stdout",
		   shown ? "console" : "", shown && *path ? ", " : "",
		   *path || shown ? path : "nowhere");
}

/* With several nodes the rank, which decides whether a worker is wrapped, is
 * not known yet: prints both. */
static void dry_run_put_both(struct dry_run *d, uint32_t local_rank)
{
	const struct wrap *wrap = &d->parts->wrap;
	uint32_t last = rank_list_last(&wrap->ranks);
	struct plan_worker w;
	char whose[256];

	d->plan.base_rank = last + 1;
	plan_worker(&d->plan, local_rank, &w);
	dry_run_put_argv(d, w.argv, "");
	d->plan.base_rank = last - local_rank;
	plan_worker(&d->plan, local_rank, &w);
	snprintf(whose, sizeof(whose), "   # if its rank is in %s",
		 d->options->wrap_ranks);
	dry_run_put_argv(d, w.argv, whose);
	d->plan.base_rank = 0;
}

/* ", role actor" where there are several programs. */
static void dry_run_put_role(struct dry_run *d, uint32_t rank)
{
	const struct role *role = roles_of(d->agent->failure.roles, rank);

	if (role)
		buf_printf(&d->text, ", role %s%s", role->name,
			   role->is_optional ? " (optional)" : "");
}

/* With several nodes: which ranks run here is not known yet. */
static void dry_run_put_programs(struct dry_run *d)
{
	const struct roles *roles = d->agent->failure.roles;

	buf_printf(&d->text, "roles ");
	roles_put(&d->text, roles, d->options->world_size);
	buf_printf(&d->text, ", host %s with %u of them (which ones comes from "
		   "the rendezvous)\n", d->host, d->rdzv->nproc);
	for (uint32_t i = 0; i < roles->n; i++) {
		const struct plan_parts *own = &d->parts->each[i];

		buf_printf(&d->text, "role %s%s\n", roles->list[i].name,
			   roles->list[i].is_optional ? " (optional)" : "");
		if (roles->list[i].wrap) {
			buf_printf(&d->text, "  wrap     %s\n",
				   roles->list[i].wrap);
		}
		dry_run_put_argv(d, own->program.argv, "");
		for (uint32_t k = 0; k < roles->list[i].nvars; k++)
			dry_run_put_variable(&d->text, "added",
					     roles->list[i].vars[k]);
	}
}

static void dry_run_put_worker(struct dry_run *d, uint32_t local_rank, int gpus,
			       const char *why)
{
	int both = !dry_run_is_alone(d) && d->parts->wrap.ranks.n;
	struct plan_worker w;

	if (dry_run_is_alone(d)) {
		buf_printf(&d->text, "rank %u, local rank %u", local_rank,
			   local_rank);
		dry_run_put_role(d, local_rank);
		buf_printf(&d->text, ", host %s\n", d->host);
	} else {
		buf_printf(&d->text, "local rank %u, host %s (node rank comes "
			   "from the rendezvous)\n", local_rank, d->host);
	}
	if (both)
		dry_run_put_both(d, local_rank);
	plan_worker(&d->plan, local_rank, &w);
	if (!both)
		dry_run_put_argv(d, w.argv, "");
	dry_run_put_cpus(d, w.cpus);
	dry_run_put_gpus(d, w.envp, gpus, why);
	dry_run_put_stream(d, local_rank, 0);
	dry_run_put_stream(d, local_rank, 1);
	dry_run_put_environment(d, w.envp);
}

/* The rank, unless the rendezvous decides on it, is what is known of PMIx. */
static char *const *dry_run_pmix(void *arg, uint32_t local_rank, uint32_t *n)
{
	struct dry_run *d = arg;

	snprintf(d->pmix_rank, sizeof(d->pmix_rank), "PMIX_RANK=%u",
		 local_rank);
	d->pmix = d->pmix_rank;
	*n = 1;
	return &d->pmix;
}

static int dry_run_make_plan(struct dry_run *d, struct err *e)
{
	const struct agent_options *agent = d->agent;
	const struct rdzv_options *o = d->rdzv;
	struct environment_job job = {
		.job = o->job, .agent_id = "", .rdzv = "",
		.master_addr = "127.0.0.1", .node_addr = "127.0.0.1",
		.max_restarts = (uint32_t)o->max_restarts,
		.nnodes = o->max_nodes, .nproc = o->nproc,
		.world_size = o->nproc, .role_world_size = o->nproc,
		.role = o->role, .signals = agent->signals_to_handle,
		.virtual_local_rank = agent->virtual_local_rank,
		.worker_gpus = agent->worker_gpus,
		.agent_store = o->agent_store,
		.again_ms = o->reconnect_ms,
		.encrypt_data = agent->encrypt_data,
		.uses_mpi = d->parts->uses_mpi,
		.serves_pmi = d->parts->serves_pmi,
		.serves_pmix = d->parts->serves_pmix,
		.pmix_vars = dry_run_pmix, .mpi_arg = d,
		.frameworks = agent->frameworks, .peers = "",
		.has_gpus = d->parts->has_gpus,
	};

	return plan_init(&d->plan, d->parts, environ, &job, 0, e);
}

static int dry_run_print(const struct buf *b, struct err *e)
{
	int rc = b->failed ? b->failed
			   : file_write_all(STDOUT_FILENO, b->data, b->len);

	return rc < 0 ? err_set(e, rc, "cannot print what would be started: "
				"%s", strerror(-rc)) : 0;
}

/* Restarts concern all workers, so they have a line of their own. */
static void dry_run_put_restarts(struct dry_run *d)
{
	const struct rdzv_options *o = d->rdzv;

	if (o->max_restarts && o->backoff_s > 0)
		buf_printf(&d->text,
			   "restarts: at most %ld, the first after %g s\n",
			   o->max_restarts, o->backoff_s);
}

/* The imports are not tried. */
static void dry_run_put_preload(struct dry_run *d)
{
	const struct program *program = &d->parts->program;
	struct python_command command;
	struct err e = ERR_INIT;

	if (!d->agent->preload)
		return;
	if (python_command_find(&command, program->path, program->argv, &e) <
	    0) {
		buf_printf(&d->text, "preload: none, %s\n", e.text);
		return;
	}
	buf_printf(&d->text, "preload: %s, imported once by %s\n",
		   d->agent->preload, command.path);
	python_command_release(&command);
}

int dry_run(const struct dry_run_options *o, const struct plan_parts *parts,
	    struct err *e)
{
	struct dry_run d = {.options = o, .agent = o->agent,
			    .rdzv = &o->agent->rdzv, .parts = parts,
			    .text = BUF_INIT(TEXT_MAX)};
	const char *why;
	int is_plan = dry_run_is_alone(&d) || !o->agent->failure.roles;
	int rc = log_rules_init(&d.rules, o->agent->output, e), gpus;

	if (rc < 0)
		return rc;
	rc = is_plan ? dry_run_make_plan(&d, e) : 0;
	if (rc < 0)
		goto out;
	logdir_imagine(&d.logdir, o->agent->output, d.rdzv->job, d.rdzv->nproc);
	sock_host_name(d.host);
	dry_run_find_open(&d);
	d.plan.unknown = d.open;
	gpus = gpu_count(&why);
	dry_run_put_restarts(&d);
	dry_run_put_preload(&d);
	for (uint32_t i = 0; i < d.rdzv->nproc && is_plan; i++)
		dry_run_put_worker(&d, i, gpus, why);
	if (!is_plan)
		dry_run_put_programs(&d);
	rc = dry_run_print(&d.text, e);
	buf_release(&d.text);
	plan_release(&d.plan);
out:
	log_rules_release(&d.rules);
	return rc;
}
