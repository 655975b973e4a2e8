/* srun_exec.c: one ddprun per node, with all CPUs, memory and GPUs that the
 * allocation has there. */
#include "launcher/env/srun_exec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/env/launch_env_internal.h"
#include "launcher/plan/shell_words.h"
#include "launcher/worker/input.h"
#include "launcher/worker/spawn.h"
#include "slurm/groups.h"

enum { WORDS_MAX = 16, TEXT_MAX = 1024 };

static const struct allocation *
srun_exec_allocation(const struct srun_exec_options *o)
{
	return slurm_env_allocation(o->env);
}

/* An elastic job starts ddprun on all nodes; those that do not fit are spares.
 */
static uint32_t srun_exec_nodes(const struct srun_exec_options *o)
{
	return o->is_elastic ? srun_exec_allocation(o)->nodes : o->min_nodes;
}

/* Appends a word. The buffer may move, so argv is filled later. */
__attribute__((format(printf, 2, 3)))
static void srun_exec_add(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	char text[128];

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_put(b, text, strlen(text) + 1);
}

static const char *srun_exec_input(const struct srun_exec_options *o)
{
	if (o->stdin_rank == INPUT_NONE)
		return "none";
	/* with a fixed number of nodes task 0 is node 0; the place of any other
	 * rank, or of all ranks of an elastic job, is not known yet */
	return o->stdin_rank == 0 && !o->is_elastic ? "0" : "all";
}

static void srun_exec_put_options(struct buf *b,
				  const struct srun_exec_options *o)
{
	uint32_t n = srun_exec_nodes(o);

	srun_exec_add(b, "srun");
	/* srun would apply numbers per group */
	if (srun_exec_allocation(o)->groups) {
		srun_exec_add(b, "--het-group=0-%u",
			      srun_exec_allocation(o)->groups - 1);
	} else {
		srun_exec_add(b, "--nodes=%u", n);
		srun_exec_add(b, "--ntasks=%u", n);
	}
	srun_exec_add(b, "--ntasks-per-node=1");
	/* with all nodes, overlap: else a second ddprun would wait for the end
	 * of the first. With some, srun chooses nodes that are free */
	if (n == srun_exec_allocation(o)->nodes)
		srun_exec_add(b, "--overlap");
	srun_exec_add(b, "--cpu-bind=none");
	srun_exec_add(b, "--mem=0");
	if (srun_exec_allocation(o)->gpus_each)
		srun_exec_add(b, "--gpus-per-node=%u",
			      srun_exec_allocation(o)->gpus_each);
	srun_exec_add(b, "--mpi=none");
	srun_exec_add(b, "--export=ALL");
	srun_exec_add(b, "--input=%s", srun_exec_input(o));
	if (o->is_elastic) {
		/* else srun may end all after the first */
		srun_exec_add(b, "--wait=0");
		srun_exec_add(b, "--no-kill");
	}
	srun_exec_add(b, "--kill-on-bad-exit=%d", !o->is_elastic);
}

int srun_exec_init(struct srun_exec *s, const struct srun_exec_options *o,
		   char *self, char **args, struct err *e)
{
	size_t nargs = 0, n = 0;

	for (; args[nargs]; nargs++) {
		if (strcmp(args[nargs], ":") == 0)
			return err_set(e, ERR_USAGE,
				       "srun takes the word ':' for the start "
				       "of another command, so it cannot be an "
				       "argument here; write sh -c '... :'");
	}
	buf_init(&s->texts, TEXT_MAX);
	srun_exec_put_options(&s->texts, o);
	s->argv = calloc(WORDS_MAX + 1 + nargs + 1, sizeof(*s->argv));
	if (!s->argv || s->texts.failed) {
		srun_exec_release(s);
		return err_no_memory(e, "srun's arguments");
	}
	for (size_t at = 0; at < s->texts.len;) {
		s->argv[n++] = s->texts.data + at;
		at += strlen(s->texts.data + at) + 1;
	}
	s->argv[n++] = self;
	memcpy(s->argv + n, args, nargs * sizeof(*args));
	return 0;
}

void srun_exec_release(struct srun_exec *s)
{
	free(s->argv);
	buf_release(&s->texts);
	*s = (struct srun_exec){NULL};
}

void srun_exec_put(struct buf *b, const struct srun_exec *s)
{
	for (char **word = s->argv; *word; word++) {
		if (word != s->argv)
			buf_put_u8(b, ' ');
		shell_words_quote(b, *word);
	}
}

int srun_exec_add_secret(const struct srun_exec_options *o, struct err *e)
{
	/* with etcd a job may have nodes of other steps */
	if (o->other_steps || !auth_wants_secret(o->auth_text, o->token_file))
		return 0;
	return slurm_env_put_secret(e);
}

static void srun_exec_carry(const char *from, const char *as)
{
	const char *text = getenv(from);

	if (text && *text)
		setenv(as, text, 1);
}

/* Passes on the job's task counts, of all groups of a heterogeneous job. */
static void srun_exec_carry_tasks(const struct srun_exec_options *o)
{
	struct buf b;

	if (!srun_exec_allocation(o)->groups) {
		srun_exec_carry("SLURM_TASKS_PER_NODE", ALLOCATION_TASKS);
		return;
	}
	buf_init(&b, 1 << 20);
	groups_tasks(launch_env_getenv, srun_exec_allocation(o)->groups, &b);
	buf_put_u8(&b, '\0');
	if (!b.failed && b.data[0])
		setenv(ALLOCATION_TASKS, b.data, 1);
	buf_release(&b);
}

void srun_exec_clean(const struct srun_exec_options *o)
{
	static const char *const names[] = {
		"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE",
		"SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_SOCKET",
		"SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_TRES",
		"SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK",
		"SLURM_CPUS_PER_GPU", "SLURM_TRES_PER_TASK",
		"SLURM_GPUS", "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND",
		"SLURM_TRES_BIND", "SLURM_DISTRIBUTION", "SLURM_EXACT",
		"SLURM_EXCLUSIVE", "SLURM_OVERLAP", "SLURM_WHOLE",
		"SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE",
		"SLURM_HOSTFILE", "SLURM_ARBITRARY", "SLURM_SRUN_MULTI",
		"SLURM_EXTERNAL_LAUNCHER",
	};

	srun_exec_carry_tasks(o);
	srun_exec_carry("SLURM_CPUS_PER_TASK", ALLOCATION_CPUS_PER_TASK);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		unsetenv(names[i]);
		for (uint32_t g = 0; g < srun_exec_allocation(o)->groups; g++)
			groups_unset(names[i], g);
	}
}

void srun_exec_clean_links(const struct srun_exec_options *o)
{
	static const char *const names[] = {
		"SLURM_LABELIO", "SLURM_STDINMODE", "SLURM_STDOUTMODE",
		"SLURM_STDERRMODE", "SRUN_INPUT", "SRUN_OUTPUT", "SRUN_ERROR",
	};

	srun_exec_clean(o);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unsetenv(names[i]);
}

int srun_exec_run(const struct srun_exec *s, struct err *e)
{
	int rc;

	spawn_restore_mask();
	execvp(s->argv[0], s->argv);
	rc = -errno;
	return err_set(e, rc, "cannot run srun, which starts ddprun on the "
		       "nodes of this allocation: %s; put it into PATH, or give"
		       " --standalone to stay on this host", strerror(-rc));
}
