/* step_command.c: one ddprun a node, with all that the job has of it. */
#include "launcher/config/step_command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/plan/words.h"
#include "launcher/worker/input.h"
#include "launcher/worker/spawn.h"
#include "slurm/groups.h"

/* For the ddpruns of a step that ddprun starts; no worker sees it. */
#define SECRET "DDP_SLURM_SECRET"

enum { WORDS_MAX = 16, TEXT_MAX = 1024 };

static int is_elastic(const struct config *c)
{
	return strchr(c->nnodes_text, ':') != NULL;
}

/* Those who come and go may be all; others who do not fit wait as spares. */
static uint32_t nodes(const struct config *c)
{
	return is_elastic(c) ? c->slurm.nodes : c->min_nodes;
}

/* One more word; the text may move, so argv gets its place later. */
__attribute__((format(printf, 2, 3)))
static void add(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	char text[128];

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_put(b, text, strlen(text) + 1);
}

static const char *input(const struct config *c)
{
	if (c->stdin_rank == INPUT_NONE)
		return "none";
	/* task 0 is node 0 where the number of nodes is fixed; where another
	 * rank will be, or any of an elastic job, is not known yet */
	return c->stdin_rank == 0 && !is_elastic(c) ? "0" : "all";
}

static void put_options(struct buf *b, const struct config *c)
{
	uint32_t n = nodes(c);

	add(b, "srun");
	if (c->slurm.groups) { /* they would be numbers of each group */
		add(b, "--het-group=0-%u", c->slurm.groups - 1);
	} else {
		add(b, "--nodes=%u", n);
		add(b, "--ntasks=%u", n);
	}
	add(b, "--ntasks-per-node=1");
	/* A second ddprun would wait for the first one's end; but one that
	 * wants some of the nodes is to get those that another has not. */
	if (n == c->slurm.nodes)
		add(b, "--overlap");
	add(b, "--cpu-bind=none");
	add(b, "--mem=0");
	if (c->slurm.gpus_each)
		add(b, "--gpus-per-node=%u", c->slurm.gpus_each);
	add(b, "--mpi=none");
	add(b, "--export=ALL");
	add(b, "--input=%s", input(c));
	if (is_elastic(c)) {
		add(b, "--wait=0"); /* a site may end all after the first */
		add(b, "--no-kill");
	}
	add(b, "--kill-on-bad-exit=%d", !is_elastic(c));
}

int step_command_init(struct step_command *s, const struct config *c,
		      char *self, char **args, struct err *e)
{
	size_t nargs = 0, n = 0;

	for (; args[nargs]; nargs++) {
		if (strcmp(args[nargs], ":") == 0)
			return err_set(e, ERR_USAGE,
				       "srun takes the word ':' for the begin "
				       "of another command, so it cannot be an "
				       "argument here; write sh -c '... :'");
	}
	buf_init(&s->texts, TEXT_MAX);
	put_options(&s->texts, c);
	s->argv = calloc(WORDS_MAX + 1 + nargs + 1, sizeof(*s->argv));
	if (!s->argv || s->texts.failed) {
		step_command_release(s);
		return err_set(e, -ENOMEM, "out of memory");
	}
	for (size_t at = 0; at < s->texts.len;) {
		s->argv[n++] = s->texts.data + at;
		at += strlen(s->texts.data + at) + 1;
	}
	s->argv[n++] = self;
	memcpy(s->argv + n, args, nargs * sizeof(*args));
	return 0;
}

void step_command_release(struct step_command *s)
{
	free(s->argv);
	buf_release(&s->texts);
	*s = (struct step_command){NULL};
}

void step_command_put(struct buf *b, const struct step_command *s)
{
	for (char **word = s->argv; *word; word++) {
		if (word != s->argv)
			buf_put_u8(b, ' ');
		words_quote(b, *word);
	}
}

int step_command_add_secret(const struct config *c, struct err *e)
{
	char hex[PROOF_HEX_SIZE];
	struct auth a;
	int rc;

	/* a job that etcd knows may have nodes of other steps */
	if (c->etcd.members || !auth_wants_secret(c->auth_text, c->token_file))
		return 0;
	rc = auth_random(&a, "this ddprun", e);
	if (rc < 0)
		return rc;
	proof_to_hex(hex, &a.secret);
	if (setenv(SECRET, hex, 1) < 0)
		rc = err_set(e, -ENOMEM, "out of memory");
	proof_wipe(hex, sizeof(hex));
	auth_wipe(&a);
	return rc;
}

int step_command_take_secret(struct auth *a, struct err *e)
{
	char *hex = getenv(SECRET);
	struct proof secret;
	int rc = 0;

	if (!hex)
		return 0;
	if (proof_from_hex(&secret, hex) < 0)
		rc = err_set(e, ERR_USAGE, SECRET " is not %d hex digits: the "
			     "ddprun that started this step set it, and "
			     "something changed it since", 2 * PROOF_SIZE);
	else
		auth_of_secret(a, &secret, "the ddprun that started this step");
	/* the text is also what /proc shows of this process */
	proof_wipe(hex, strlen(hex));
	proof_wipe(&secret, sizeof(secret));
	unsetenv(SECRET);
	return rc;
}

static const char *get(const char *name)
{
	return getenv(name);
}

static void carry(const char *from, const char *as)
{
	const char *text = getenv(from);

	if (text && *text)
		setenv(as, text, 1);
}

/* The job's counts, of all groups of a heterogeneous one. */
static void carry_tasks(const struct config *c)
{
	struct buf b;

	if (!c->slurm.groups) {
		carry("SLURM_TASKS_PER_NODE", ALLOCATION_TASKS);
		return;
	}
	buf_init(&b, 1 << 20);
	groups_tasks(get, c->slurm.groups, &b);
	buf_put_u8(&b, '\0');
	if (!b.failed && b.data[0])
		setenv(ALLOCATION_TASKS, b.data, 1);
	buf_release(&b);
}

void step_command_clean(const struct config *c)
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

	carry_tasks(c);
	carry("SLURM_CPUS_PER_TASK", ALLOCATION_CPUS_PER_TASK);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		unsetenv(names[i]);
		for (uint32_t g = 0; g < c->slurm.groups; g++)
			groups_unset(names[i], g);
	}
}

int step_command_exec(const struct step_command *s, struct err *e)
{
	int rc;

	spawn_restore_mask();
	execvp(s->argv[0], s->argv);
	rc = -errno;
	return err_set(e, rc, "cannot run srun, which starts ddprun on the "
		       "nodes of this allocation: %s; put it into PATH, or give"
		       " --standalone to stay on this host", strerror(-rc));
}
