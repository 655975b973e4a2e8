/* agent_preload.c: --preload: the template process of this node, and a round
 * whose workers wait for it. */
#include <stdlib.h>
#include <unistd.h>

#include "launcher/agent/agent_internal.h"

/* What a template process has in common with all workers. Variables that only a
 * round decides are left out (preload.h), so their values do not matter
 * here. */
static int agent_plan_template(struct agent *a, struct plan *plan,
			       const char *crash_records, struct err *e)
{
	extern char **environ;
	const struct agent_options *o = a->options;
	const struct environment_job job = {
		.job = o->rdzv.job, .agent_id = agent_id(a),
		.master_addr = "", .rdzv = "", .node_addr = "",
		.role = o->rdzv.role, .signals = o->signals_to_handle,
		.max_restarts = (uint32_t)o->rdzv.max_restarts,
		.nproc = o->rdzv.nproc, .worker_gpus = o->worker_gpus,
		.virtual_local_rank = o->virtual_local_rank,
		.crash_library = failure_crash_library(&a->failure),
		.crash_records = crash_records,
		.again_ms = o->rdzv.reconnect_ms,
		.encrypt_data = o->encrypt_data,
		.uses_mpi = a->parts->uses_mpi,
		/* a module reads some of its variables when it is imported */
		.frameworks = o->frameworks & FRAMEWORK_JAX,
	};

	return plan_init(plan, a->parts, environ, &job, 0, e);
}

/* OpenMP's runtimes read these variables and the process's CPUs when they are
 * loaded. */
static const char *agent_openmp_binding(void)
{
	static const char *const names[] = {
		"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY",
		"KMP_AFFINITY"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (getenv(names[i]))
			return names[i];
	}
	return NULL;
}

/* 1, and why, if no worker can come from a template process. */
static int agent_cannot_preload(const struct agent *a, char *why, size_t size)
{
	const struct cpus *cpus = placement_cpus(&a->parts->placement, 0);
	const char *openmp = agent_openmp_binding();

	if (a->parts->wrap.words.n && !a->parts->wrap.ranks.n)
		snprintf(why, size, "--wrap starts all workers");
	else if (cpus && a->rdzv->nproc > 1 && openmp)
		snprintf(why, size, "%s is set, and each worker has CPUs of "
			 "its own (--cpu-bind)", openmp);
	else
		return 0;
	return 1;
}

static void agent_on_settled(void *owner)
{
	struct agent *a = owner;
	struct agent_held held = a->held; /* pmix may hold another one */

	if (a->state != PRELOADING)
		return;
	held.start.master_addr = SLICE_STR(held.master);
	a->starting = &held.start;
	agent_handle(a, EV_START, "the wait for --preload is over");
	a->starting = NULL;
}

static void agent_on_fork_waits(void *owner)
{
	struct agent *a = owner;

	a->group.on_started(&a->group);
}

static pid_t agent_start_worker(struct worker_group *g, const struct spawn *s,
				struct err *e)
{
	struct agent *a = g->owner;
	/* a fork of the template process has no session of its own */
	pid_t pid = s->has_terminal ? 0 : preload_fork(&a->preload, s);

	return pid > 0 ? pid : spawn_process(s, e);
}

void agent_start_preload(struct agent *a)
{
	extern char **environ;
	struct preload_request r = {
		.modules = a->options->preload, .base = environ,
		.open_files = a->open_files, .locks = a->marks.locks,
		.timer_slack = agent_mpi_timer_slack(a)};
	struct err e = ERR_INIT;
	struct plan plan;
	struct plan_worker w;
	char why[128], records[64];

	if (!a->parts || !r.modules)
		return;
	a->preload.owner = a;
	a->preload.on_settled = agent_on_settled;
	a->preload.waits = agent_on_fork_waits;
	if (agent_cannot_preload(a, why, sizeof(why))) {
		preload_refuse(&a->preload, why);
		return;
	}
	/* a path that cannot be opened: the process leaves no record itself */
	snprintf(records, sizeof(records), "/proc/%d/fd/none", (int)getpid());
	if (agent_plan_template(a, &plan, records, &e) < 0) {
		preload_refuse(&a->preload, e.text);
		return;
	}
	plan_worker(&plan, 0, &w);
	r.path = a->parts->program.path;
	r.argv = a->parts->program.argv;
	r.envp = w.envp;
	if (a->rdzv->nproc == 1)
		r.cpus = w.cpus;
	a->group.start = agent_start_worker;
	preload_start(&a->preload, &a->loop, &r);
	plan_release(&plan);
}

int agent_preload_waits(struct agent *a, const struct wire_start *start)
{
	if (a->state != JOINING || !preload_await(&a->preload))
		return 0;
	a->held.start = *start;
	snprintf(a->held.master, sizeof(a->held.master), "%.*s",
		 SLICE_FMT(start->master_addr));
	agent_handle(a, EV_WAIT, "the template process is not ready");
	return 1;
}
