/* mpi_words.c: the walk over the command line that replaces options of mpirun
 * and hydra. */
#include "launcher/config/mpi_words.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "launcher/config/config.h"
#include "launcher/plan/roles.h"

/* ---- the new command line ---- */

static void mpi_words_add(struct mpi_words *w, const char *word)
{
	w->argv[w->argc++] = (char *)word;
}

/* NULL if there is no memory. */
__attribute__((format(printf, 2, 3)))
static char *mpi_words_make(struct mpi_words *w, const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text)
		w->made[w->nmade++] = text;
	return text;
}

static int mpi_words_option(struct mpi_words *w, const char *ours,
			    const char *value, struct err *e)
{
	char *word = mpi_words_make(w, "--%s=%s", ours, value);

	if (!word)
		return err_no_memory(e, "the options");
	mpi_words_add(w, word);
	w->has_number |= strcmp(ours, "world-size") == 0 ||
			 strcmp(ours, "nproc-per-node") == 0;
	return 0;
}

static int mpi_words_var(struct mpi_words *w, const char *prefix,
			 const char *name, const char *value, struct err *e)
{
	char *var = mpi_words_make(w, "%s%s=%s", prefix, name, value);

	if (!var)
		return err_no_memory(e, "the options");
	w->vars[w->nvars++] = var;
	return 0;
}

/* A path before -wdir takes effect, which may follow. */
static int mpi_words_path(struct mpi_words *w, const char *ours,
			  const char *path, struct err *e)
{
	char here[PATH_MAX];
	char *full;

	if (path[0] == '/' || strcmp(path, "-") == 0 || strchr(path, '\n') ||
	    !getcwd(here, sizeof(here)))
		return mpi_words_option(w, ours, path, e);
	full = mpi_words_make(w, "%s/%s", here, path);
	return full ? mpi_words_option(w, ours, full, e)
		    : err_no_memory(e, "the options");
}

/* ---- options with values of their own ---- */

/* --output-filename DIR[:nocopy]: a copy stays on the console without it. */
static int mpi_words_output(struct mpi_words *w, const char *value,
			    struct err *e)
{
	const char *colon = strrchr(value, ':');
	char *dir;

	if (!colon || strcasecmp(colon, ":nocopy") != 0)
		return mpi_words_path(w, "log-dir", value, e);
	dir = mpi_words_make(w, "%.*s", (int)(colon - value), value);
	if (!dir)
		return err_no_memory(e, "the options");
	mpi_words_add(w, "--redirects=3");
	return mpi_words_path(w, "log-dir", dir, e);
}

static int mpi_words_bind(struct mpi_words *w, const char *value,
			  struct err *e)
{
	static const struct {
		const char *theirs, *ours;
	} rows[] = {
		{"none", "none"}, {"socket", "socket"}, {"package", "socket"},
		{"numa", "node"}, {"l3", "core-complex"},
		{"l3cache", "core-complex"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (strcasecmp(value, rows[i].theirs) == 0)
			return mpi_words_option(w, "cpu-bind", rows[i].ours, e);
	}
	return err_set(e, ERR_USAGE, "--bind-to %s: ddprun supports none, "
		       "socket, numa and l3cache; --cpu-bind cores gives each "
		       "worker an equal share of all cores", value);
}

/* slot is how ddprun places ranks: those of a node are consecutive. */
static int mpi_words_map(struct mpi_words *w, const char *value, struct err *e)
{
	char number[16];
	int end = 0;

	if (strcasecmp(value, "slot") == 0)
		return 0;
	if (sscanf(value, "ppr:%15[0-9]:node%n", number, &end) == 1 && end &&
	    !value[end])
		return mpi_words_option(w, "nproc-per-node", number, e);
	return err_set(e, ERR_USAGE, "--map-by %s: ddprun supports slot and "
		       "ppr:N:node (--nproc-per-node N); --cpu-bind places "
		       "workers on a node's CPUs", value);
}

/* ---- the walk ---- */

/* The value in the word, or the next word; NULL: none. *used: words taken. */
static const char *mpi_words_value(char **at, int *used)
{
	const char *value = strchr(at[0], '=');

	if (value)
		return value + 1;
	if (!at[1])
		return NULL;
	*used = 2;
	return at[1];
}

/* NAME VALUE as two words; -env also takes NAME=VALUE. */
static int mpi_words_pair(struct mpi_words *w, const struct mpi_word *row,
			  char **at, int *used, struct err *e)
{
	const char *name = at[1], *value = name ? at[2] : NULL;

	w->is_own[w->nvars] = row->kind == MPI_SET;
	if (name && row->kind != MPI_MCA && strchr(name, '=')) {
		*used = 2;
		w->vars[w->nvars++] = at[1];
		return 0;
	}
	if (!value || !*name)
		return err_set(e, ERR_USAGE, "%s needs two words: %s NAME "
			       "VALUE", at[0], at[0]);
	*used = 3;
	return mpi_words_var(w, row->kind == MPI_MCA ? "OMPI_MCA_" : "", name,
			     value, e);
}

static int mpi_words_export(struct mpi_words *w, char *value, struct err *e)
{
	if (!*value || *value == '=')
		return err_set(e, ERR_USAGE, "-x '%s': give NAME or "
			       "NAME=VALUE", value);
	w->is_own[w->nvars] = 1;
	if (strchr(value, '=')) /* else the workers inherit it anyway */
		w->vars[w->nvars++] = value;
	return 0;
}

/* Replaces the option at `at`. */
static int mpi_words_take(struct mpi_words *w, const struct mpi_word *row,
			  char **at, int *used, struct err *e)
{
	const char *value;

	*used = 1;
	switch (row->kind) {
	case MPI_NOTHING:
		return 0;
	case MPI_WORD:
		mpi_words_add(w, row->ours);
		return 0;
	case MPI_REFUSED:
		return err_set(e, ERR_USAGE, "%s: ddprun does not have this "
			       "option of mpirun's: %s", at[0], row->ours);
	case MPI_SET:
	case MPI_SET_ALL:
	case MPI_MCA:
		return mpi_words_pair(w, row, at, used, e);
	default:
		break;
	}
	value = mpi_words_value(at, used);
	if (!value)
		return err_set(e, ERR_USAGE, "%s needs a value", at[0]);
	switch (row->kind) {
	case MPI_SAME:
		return mpi_words_option(w, row->ours, value, e);
	case MPI_PLACE:
		return mpi_words_path(w, row->ours, value, e);
	case MPI_EXPORT:
		return mpi_words_export(w, (char *)value, e);
	case MPI_OUTPUT:
		return mpi_words_output(w, value, e);
	case MPI_BIND:
		return mpi_words_bind(w, value, e);
	case MPI_MAP:
		return mpi_words_map(w, value, e);
	default:
		w->dir = value;
		return 0;
	}
}

/* One of ddprun's own, or an unknown word, which option_parse refuses. */
static int mpi_words_keep(struct mpi_words *w, char **at, int *used,
			  struct err *e)
{
	const struct option_spec *s = option_at(config_options, at, used);

	/* hydra's long words have one dash: -rmk is not -r mk */
	if (w->is_mpiexec && at[0][1] != '-' && islower(at[0][1]) &&
	    islower(at[0][2]))
		return err_set(e, ERR_USAGE, "%s: ddprun does not have this "
			       "option of mpirun's (docs: from mpirun)", at[0]);
	for (int i = 0; i < *used; i++)
		mpi_words_add(w, at[i]);
	if (!s)
		return 0;
	w->has_number |= strcmp(s->name, "world-size") == 0 ||
			 strcmp(s->name, "nproc-per-node") == 0 ||
			 s->kind == OPTION_HELP || s->kind == OPTION_VERSION ||
			 strcmp(s->name, "print-completion") == 0;
	w->has_mpi |= strcmp(s->name, "mpi") == 0;
	w->is_python |= strcmp(s->name, "module") == 0;
	return 0;
}

static int mpi_words_is_option(const char *word)
{
	return word && word[0] == '-' && word[1] && strcmp(word, "--") != 0;
}

static int mpi_words_walk(struct mpi_words *w, char ***at, struct err *e)
{
	while (mpi_words_is_option(**at)) {
		const struct mpi_word *row = mpi_word_find(**at,
							    w->is_mpiexec);
		int used, rc = row ? mpi_words_take(w, row, *at, &used, e)
				   : mpi_words_keep(w, *at, &used, e);

		if (rc < 0)
			return rc;
		*at += used;
	}
	return 0;
}

/* ---- as mpiexec ---- */

static int mpi_words_loads_python(const char *program)
{
	const char *slash = strrchr(program, '/');
	const char *name = slash ? slash + 1 : program;
	size_t n = strlen(name);

	return strncmp(name, "python", 6) == 0 ||
	       (n > 3 && strcmp(name + n - 3, ".py") == 0);
}

static int mpi_words_check_python(const struct mpi_words *w,
				  const char *program, struct err *e)
{
	if ((!w->is_python && !mpi_words_loads_python(program)) ||
	    w->has_mpi || getenv("PET_MPI"))
		return 0;
	return err_set(e, ERR_USAGE, "ddprun cannot see which MPI %s loads: "
		       "give --mpi pmix for mpi4py on Open MPI, --mpi pmi on "
		       "MPICH or Intel MPI, --mpi none if it uses no MPI (or "
		       "set PET_MPI)", program);
}

static int mpi_words_check(struct mpi_words *w, char **program, struct err *e)
{
	if (!*program)
		return 0;
	if (!w->has_number)
		return err_set(e, ERR_USAGE, "give -n N, the number of "
			       "workers: without it, Open MPI would start one "
			       "on each core and hydra one on each host");
	return mpi_words_check_python(w, *program, e);
}

/* ---- several programs ---- */

/* Moves the options that belong to one program from w's words to own, which
 * has room; returns how many words own has then. */
static int mpi_words_take_own(struct mpi_words *w, char **own, struct err *e)
{
	int n = 1, kept = 1, used;

	own[0] = w->argv[0];
	for (int i = 1; i < w->argc; i += used) {
		const struct option_spec *s =
			option_at(config_options, w->argv + i, &used);
		const char *value = strchr(w->argv[i], '=');
		char *word;

		if (!s || !program_parts_owns(s->name)) {
			memmove(w->argv + kept, w->argv + i,
				(size_t)used * sizeof(*w->argv));
			kept += used;
			continue;
		}
		value = used == 2 ? w->argv[i + 1]
			: w->argv[i][1] == '-' && value ? value + 1
			: w->argv[i] + 2 + (w->argv[i][2] == '=');
		word = option_takes_value(s)
			       ? mpi_words_make(w, "--%s=%s", s->name, value)
			       : mpi_words_make(w, "--%s", s->name);
		if (!word)
			return err_no_memory(e, "the options");
		own[n++] = word;
	}
	memset(w->argv + kept, 0, (size_t)(w->argc - kept) * sizeof(*w->argv));
	w->argc = kept;
	return n;
}

/* Moves the variables that belong to one program to the end of w's. */
static int mpi_words_sort_vars(struct mpi_words *w, char **own)
{
	int n = 0, kept = 0;

	for (int i = 0; i < w->nvars; i++) {
		if (w->is_own[i])
			own[n++] = w->vars[i];
		else
			w->vars[kept++] = w->vars[i];
	}
	w->nvars = kept;
	memset(w->is_own, 0, (size_t)kept);
	return n;
}

/* The program at *at, whose options are in w, as a line of text. */
static int mpi_words_put_part(struct mpi_words *w, char ***at,
			      struct buf *text, uint32_t *next, struct err *e)
{
	struct program_part part = {.words = *at};
	size_t room = (size_t)(w->argc + w->nvars) + 2;
	char **own = calloc(room, sizeof(*own));
	int rc = own ? mpi_words_take_own(w, own, e)
		     : err_no_memory(e, "the options");

	if (rc > 0) {
		part.options = own;
		part.noptions = rc;
		part.vars = own + rc;
		part.nvars = mpi_words_sort_vars(w, own + rc);
		for (; !program_parts_is_end(*at, w->is_mpiexec); ++*at)
			part.nwords++;
		rc = !part.nwords ? err_set(e, ERR_USAGE, "a ':' has no "
					    "program before or after it")
		     : w->is_mpiexec
			     ? mpi_words_check_python(w, part.words[0], e)
			     : 0;
	}
	if (rc >= 0)
		rc = program_parts_put(text, &part, next, e);
	free(own);
	return rc;
}

static int mpi_words_alloc(struct mpi_words *w, size_t words)
{
	size_t room = 2 * words + 4;

	w->argv = calloc(room, sizeof(char *));
	w->vars = calloc(room, sizeof(char *));
	w->is_own = calloc(room, 1);
	w->made = calloc(3 * room, sizeof(char *));
	return w->argv && w->vars && w->is_own && w->made ? 0 : -ENOMEM;
}

/* A program after a ':'. Refuses options that concern the whole job. */
static int mpi_words_add_part(struct mpi_words *w, char ***at, int argc,
			      struct buf *text, uint32_t *next, struct err *e)
{
	struct mpi_words part = {.is_mpiexec = w->is_mpiexec,
				 .has_mpi = w->has_mpi};
	int rc = mpi_words_alloc(&part, (size_t)argc);

	if (rc < 0)
		rc = err_no_memory(e, "the options");
	mpi_words_add(&part, w->argv[0]);
	if (rc == 0)
		rc = mpi_words_walk(&part, at, e);
	if (rc == 0)
		rc = mpi_words_put_part(&part, at, text, next, e);
	if (rc == 0 && (part.argc > 1 || part.nvars || part.dir))
		rc = err_set(e, ERR_USAGE, "%s after a ':' applies to the "
			     "whole job: give it before the first program; "
			     "each program has its own -n, --role, "
			     "--role-optional, --wrap, --gpus-per-proc, -x, "
			     "-env, --module, --no-python and --run-path",
			     part.argc > 1 ? part.argv[1]
			     : part.dir ? "-wdir" : "-genv or --mca");
	mpi_words_release(&part);
	return rc;
}

/* Makes one --multi-prog of the programs at *at, and moves *at to the end. */
static int mpi_words_join(struct mpi_words *w, char ***at, int argc,
			  struct err *e)
{
	struct buf text = BUF_INIT(ROLES_TEXT_MAX);
	uint32_t next = 0;
	int rc = mpi_words_put_part(w, at, &text, &next, e);

	while (rc == 0 && **at) {
		++*at;
		rc = mpi_words_add_part(w, at, argc, &text, &next, e);
	}
	if (rc == 0) {
		char *word = mpi_words_make(w, "--multi-prog=%.*s",
					    (int)text.len, text.data);

		if (word)
			mpi_words_add(w, word);
		else
			rc = err_no_memory(e, "the programs");
	}
	buf_release(&text);
	return rc;
}

int mpi_words_is_mpiexec(const char *name)
{
	const char *slash = name ? strrchr(name, '/') : NULL;

	name = slash ? slash + 1 : name;
	return name && (strcmp(name, "mpiexec") == 0 ||
			strcmp(name, "mpirun") == 0);
}

static int mpi_words_take_program(struct mpi_words *w, char ***at, int argc,
				  struct err *e)
{
	int rc = 0;

	if (program_parts_are_several(*at, w->is_mpiexec) &&
	    strcmp(**at, "--") != 0)
		rc = mpi_words_join(w, at, argc, e);
	if (rc < 0 || !w->is_mpiexec)
		return rc;
	*at += **at && strcmp(**at, "--") == 0;
	rc = mpi_words_check(w, *at, e);
	if (!w->has_mpi && !getenv("PET_MPI"))
		mpi_words_add(w, "--mpi=auto"); /* warns */
	/* words after the program are the program's */
	if (**at)
		mpi_words_add(w, "--");
	return rc;
}

int mpi_words_init(struct mpi_words *w, int argc, char **argv, struct err *e)
{
	char **at = argv + (argc > 0);
	int rc;

	*w = (struct mpi_words){
		.is_mpiexec = argc > 0 && mpi_words_is_mpiexec(argv[0]),
	};
	if (mpi_words_alloc(w, (size_t)argc) < 0)
		return err_no_memory(e, "the options");
	if (argc > 0)
		mpi_words_add(w, argv[0]);
	if (w->is_mpiexec)
		mpi_words_add(w, "--log-line-prefix-template=");
	rc = mpi_words_walk(w, &at, e);
	if (rc == 0)
		rc = mpi_words_take_program(w, &at, argc, e);
	for (; rc == 0 && *at; at++)
		mpi_words_add(w, *at);
	return rc;
}

int mpi_words_apply(const struct mpi_words *w, struct err *e)
{
	char here[PATH_MAX];

	for (int i = 0; i < w->nvars; i++) {
		char *equals = strchr(w->vars[i], '=');
		int rc;

		*equals = '\0';
		rc = setenv(w->vars[i], equals + 1, 1);
		*equals = '=';
		if (rc < 0)
			return err_set(e, errno == ENOMEM ? -ENOMEM : ERR_USAGE,
				       "cannot set '%s' in the environment: %s",
				       w->vars[i], strerror(errno));
	}
	if (!w->dir)
		return 0;
	if (chdir(w->dir) < 0)
		return err_set(e, ERR_USAGE, "-wdir: cannot change to '%s': %s",
			       w->dir, strerror(errno));
	if (getcwd(here, sizeof(here)))
		setenv("PWD", here, 1);
	return 0;
}

void mpi_words_release(struct mpi_words *w)
{
	for (int i = 0; i < w->nmade; i++)
		free(w->made[i]);
	free(w->made);
	free(w->vars);
	free(w->is_own);
	free(w->argv);
	*w = (struct mpi_words){.argc = 0};
}
