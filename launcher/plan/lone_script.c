/* lone_script.c: searches the lines of a script, without their comments. */
#include "launcher/plan/lone_script.h"

#include <stdio.h>
#include <string.h>

#include "launcher/plan/framework.h"
#include "launcher/plan/script_modules.h"

/* How processes meet by a library, and what they are without a launcher that
 * serves it. */
static const struct lone_library {
	unsigned bit;
	const char *calls[2]; /* NULL: no second one */
	const char *imports;  /* the text also imports this; NULL: no matter */
	const char *own;      /* a script that has this word needs nothing */
	/* variables that give a node's only worker its place; or, for JAX, that
	 * make each process a world of one instead of an error */
	const char *variable;
	const char *does, *cure;
} libraries[] = {
	{FRAMEWORK_JAX, {"jax.distributed.initialize()"}, NULL,
	 "SLURM_PROCID", "SLURM_PROCID",
	 "calls jax.distributed.initialize(), which reads this Slurm step's "
	 "rank", "--env jax (docs/frameworks.md)"},
	{FRAMEWORK_TF, {"MultiWorkerMirroredStrategy("}, NULL, "TF_CONFIG",
	 "TF_CONFIG", "creates a MultiWorkerMirroredStrategy without TF_CONFIG",
	 "--env tf (docs/frameworks.md)"},
	{FRAMEWORK_PADDLE, {"init_parallel_env(", "fleet.init("}, "paddle",
	 "PADDLE_TRAINER", "PADDLE_TRAINER_ID",
	 "starts paddle.distributed without its launcher's variables",
	 "--env paddle (docs/frameworks.md)"},
	{LONE_SCRIPT_MPI4PY, {"MPI"}, "mpi4py", "rc.initialize", NULL,
	 "imports mpi4py, which ddprun does not serve unless asked",
	 "--mpi pmix (mpi4py on Open MPI), --mpi pmi (on MPICH or Intel MPI), "
	 "or --mpi none (docs/mpi.md)"},
};

enum { NLIBRARIES = sizeof(libraries) / sizeof(*libraries) };

/* ---- the text ---- */

/* The line's code: without blanks before it, or a comment. */
static struct slice lone_script_code(struct slice line)
{
	const char *hash = line.len ? memchr(line.data, '#', line.len) : NULL;
	size_t blanks = 0;

	if (hash)
		line.len = (size_t)(hash - line.data);
	while (blanks < line.len && (line.data[blanks] == ' ' ||
				     line.data[blanks] == '\t'))
		blanks++;
	return SLICE(line.data + blanks, line.len - blanks);
}

/* "import MODULE..." or "from MODULE..." */
static int lone_script_imports(struct slice code, const char *module)
{
	static const char *const words[] = {"import ", "from "};
	size_t n = strlen(module), at;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		at = strlen(words[i]);
		if (code.len >= at + n && !memcmp(code.data, words[i], at) &&
		    !memcmp(code.data + at, module, n) &&
		    (code.len == at + n ||
		     strchr(". ,;\r", code.data[at + n])))
			return 1;
	}
	return 0;
}

static int lone_script_calls(struct slice code, const struct lone_library *l)
{
	return slice_has(code, l->calls[0]) ||
	       (l->calls[1] && slice_has(code, l->calls[1]));
}

/* The libraries that need nothing, because the text has their own word. */
static unsigned lone_script_owns(struct slice text)
{
	unsigned owns = 0;

	for (int i = 0; i < NLIBRARIES; i++)
		if (slice_has(text, libraries[i].own))
			owns |= libraries[i].bit;
	return owns;
}

unsigned lone_script_uses(struct slice text)
{
	unsigned uses = 0, imports = 0;
	struct slice rest = text;

	while (rest.len) {
		struct slice code = lone_script_code(slice_next_line(&rest));

		for (int i = 0; i < NLIBRARIES; i++) {
			const struct lone_library *l = &libraries[i];

			if (lone_script_calls(code, l))
				uses |= l->bit;
			if (!l->imports ||
			    lone_script_imports(code, l->imports))
				imports |= l->bit;
		}
	}
	return uses & imports & ~lone_script_owns(text);
}

/* "from mpi4py import MPI", "import mpi4py.MPI" or "from mpi4py.MPI import x".
 * What follows "(" is on other lines. */
static int lone_script_line_starts_mpi(struct slice line)
{
	struct slice code = lone_script_code(line);

	if (code.data != line.data || !lone_script_imports(code, "mpi4py"))
		return 0;
	return slice_has(code, "mpi4py.MPI") ||
	       (code.data[0] == 'f' &&
		(slice_has(code, "MPI") || slice_has(code, "(")));
}

int lone_script_starts_mpi(struct slice text)
{
	struct slice rest = text;

	if (!(lone_script_uses(text) & LONE_SCRIPT_MPI4PY))
		return 0;
	while (rest.len)
		if (lone_script_line_starts_mpi(slice_next_line(&rest)))
			return 1;
	return 0;
}

struct lone_texts {
	unsigned uses, owns;
	int starts_mpi;
};

static void lone_script_on_text(struct slice text, void *arg)
{
	struct lone_texts *t = arg;

	t->uses |= lone_script_uses(text);
	t->owns |= lone_script_owns(text);
	t->starts_mpi |= lone_script_starts_mpi(text);
}

unsigned lone_script_read(const char *path, int *starts_mpi)
{
	struct lone_texts t = {0};

	script_modules_each(path, lone_script_on_text, &t);
	*starts_mpi = t.starts_mpi && !(t.owns & LONE_SCRIPT_MPI4PY);
	return t.uses & ~t.owns;
}

/* ---- the warning ---- */

static int lone_script_has_variable(char *const *vars, const char *name)
{
	size_t n = name ? strlen(name) : 0;

	for (; n && *vars; vars++)
		if (!strncmp(*vars, name, n) && (*vars)[n] == '=')
			return 1;
	return 0;
}

/* JAX reports an error, unless Slurm's variables mislead it; if a node has one
 * worker, the variables may be meant for it. */
static int lone_script_is_alone(const struct lone_library *l,
				const struct lone_script *s,
				char *const *vars)
{
	int is_set = lone_script_has_variable(vars, l->variable);

	if (l->bit == FRAMEWORK_JAX)
		return is_set && s->nproc > 1;
	return !is_set || s->nproc > 1;
}

const char *lone_script_text(const struct lone_script *s, char *const *vars,
			     char *out)
{
	for (int i = 0; i < NLIBRARIES; i++) {
		const struct lone_library *l = &libraries[i];

		if (s->world_size < 2 || !(s->uses & l->bit & ~s->served) ||
		    !lone_script_is_alone(l, s, vars))
			continue;
		snprintf(out, LONE_SCRIPT_TEXT_MAX,
			 "%.200s %s: its %u processes are %u worlds of one; "
			 "give %s", s->path, l->does, s->world_size,
			 s->world_size, l->cure);
		return out;
	}
	return NULL;
}
