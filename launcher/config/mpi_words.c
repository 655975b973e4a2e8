/* mpi_words.c: a table of mpirun's and hydra's options, and the walk over the
 * command line that replaces them. */
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

enum kind {
	SAME,    /* the value is that of our option */
	PLACE,   /* the same, and it is a path */
	WORD,    /* stands for our word */
	NOTHING, /* ddprun does so anyway */
	EXPORT,  /* NAME or NAME=VALUE */
	SET,     /* NAME VALUE or NAME=VALUE */
	MCA,     /* a parameter of Open MPI: NAME VALUE */
	FOLDER,
	OUTPUT,
	BIND,
	MAP,
	REFUSED, /* ours: what to write instead */
};

/* Forms of a word. Those that mean something else to torchrun or srun are only
 * taken under mpiexec's name. */
enum {
	ONE = 1, /* -word */
	TWO = 2, /* --word */
	ANY = ONE | TWO,
	AS_MPIEXEC = 4,
};

struct mpi_word {
	const char *name;
	int forms;
	enum kind kind;
	const char *ours;
};

static const struct mpi_word mpi_word_rows[] = {
	{"n", TWO, SAME, "world-size"}, /* -n is in config_options */
	{"np", ONE, SAME, "world-size"},
	{"np", TWO | AS_MPIEXEC, SAME, "world-size"},
	{"ppn", ANY, SAME, "nproc-per-node"},
	{"perhost", ANY, SAME, "nproc-per-node"},
	{"npernode", ANY, SAME, "nproc-per-node"},
	{"N", ONE | AS_MPIEXEC, SAME, "nproc-per-node"},
	{"N", ONE, REFUSED, "srun's means --nnodes, mpirun's --nproc-per-node"},
	{"hosts", ONE, SAME, "hosts"},
	{"host", ANY, SAME, "hosts"},
	{"f", ONE, PLACE, "hostfile"},
	{"hostfile", ONE, PLACE, "hostfile"},
	{"machinefile", ANY, PLACE, "hostfile"},
	{"genv", ANY, SET, NULL},
	{"env", ONE, SET, NULL},
	{"env", TWO | AS_MPIEXEC, SET, NULL}, /* --env is ddprun's own */
	{"x", ONE, EXPORT, NULL},
	{"mca", ANY, MCA, NULL},
	{"gmca", ANY, MCA, NULL},
	{"genvall", ANY, NOTHING, NULL},
	{"envall", ANY, NOTHING, NULL},
	{"genvnone", ANY, REFUSED, "write env -i before ddprun"},
	{"envnone", ANY, REFUSED, "write env -i before ddprun"},
	{"genvlist", ANY, REFUSED, "write env -i NAME=VALUE before ddprun"},
	{"envlist", ANY, REFUSED, "write env -i NAME=VALUE before ddprun"},
	{"wdir", ANY, FOLDER, NULL},
	{"wd", ANY, FOLDER, NULL},
	{"l", ONE, WORD, "--log-line-prefix-template=[${rank}] "},
	{"prepend-rank", ANY, WORD, "--log-line-prefix-template=[${rank}] "},
	{"tag-output", ANY, WORD,
	 "--log-line-prefix-template=[1,${rank}]<${stream}>:"},
	{"output-filename", ANY, OUTPUT, NULL},
	{"bind-to", ANY, BIND, NULL},
	{"map-by", ANY, MAP, NULL},
	{"gpus-per-proc", ONE, SAME, "gpus-per-proc"},
	{"stdin", ONE, SAME, "stdin"},
	{"launcher-exec", ANY, SAME, "ssh"},
	{"bootstrap-exec", ANY, SAME, "ssh"},
	{"version", ONE, WORD, "--version"},
	{"V", ONE, WORD, "--version"},
	{"allow-run-as-root", ANY, NOTHING, NULL},
	{"oversubscribe", ANY, NOTHING, NULL},
	{"launcher", ANY, REFUSED, "--ssh PROGRAM is how it reaches hosts"},
	{"bootstrap", ANY, REFUSED, "--ssh PROGRAM is how it reaches hosts"},
	{"iface", ANY, REFUSED, "--interface NAME, or --net-interface NAME for "
				"NCCL and gloo"},
	{"configfile", ANY, REFUSED, "a job has one program"},
	{"app", ANY, REFUSED, "a job has one program"},
	{"outfile-pattern", ANY, REFUSED, "--log-dir DIR --redirects 1"},
	{"errfile-pattern", ANY, REFUSED, "--log-dir DIR --redirects 2"},
	{"merge-stderr-to-stdout", ANY, REFUSED, "write 2>&1"},
	{"timeout", ANY, REFUSED, "write timeout SECONDS before ddprun"},
	{"report-bindings", ANY, REFUSED, "--dry-run shows each worker's CPUs"},
	{"display-map", ANY, REFUSED, "--dry-run shows each worker"},
	{"verbose", ANY, REFUSED, "set DDP_LOG=debug"},
	{"v", ONE, REFUSED, "set DDP_LOG=debug"},
	{"print-all-exitcodes", ANY, REFUSED,
	 "the page at the end names the rank that failed first"},
	{"prefix", TWO, REFUSED, "a host without ddprun gets a copy"},
	{"rank-by", ANY, REFUSED, "ranks of a node are consecutive"},
	{"bynode", ANY, REFUSED, "ranks of a node are consecutive"},
	{"cpus-per-proc", ANY, REFUSED, "--cpu-bind cores shares the cores"},
	{NULL, 0, REFUSED, NULL},
};

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

	if (path[0] == '/' || strcmp(path, "-") == 0 ||
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
	return err_set(e, ERR_USAGE, "--bind-to %s: ddprun binds to none, "
		       "socket, numa or l3cache; --cpu-bind cores gives each "
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
	return err_set(e, ERR_USAGE, "--map-by %s: ddprun knows slot and "
		       "ppr:N:node (--nproc-per-node N); --cpu-bind places "
		       "workers on a node's CPUs", value);
}

/* ---- the walk ---- */

static int mpi_words_is(const struct mpi_word *row, const char *word,
			int is_mpiexec)
{
	int form = word[1] == '-' ? TWO : ONE;
	size_t n = strlen(row->name), i;

	if (!(row->forms & form) || ((row->forms & AS_MPIEXEC) && !is_mpiexec))
		return 0;
	word += form;
	for (i = 0; i < n && word[i]; i++) {
		if (word[i] != row->name[i] &&
		    !(word[i] == '_' && row->name[i] == '-'))
			return 0;
	}
	return i == n && (!word[n] || word[n] == '=');
}

static const struct mpi_word *mpi_words_find(const char *word, int is_mpiexec)
{
	for (const struct mpi_word *r = mpi_word_rows; r->name; r++) {
		if (mpi_words_is(r, word, is_mpiexec))
			return r;
	}
	return NULL;
}

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

	if (name && row->kind == SET && strchr(name, '=')) {
		*used = 2;
		w->vars[w->nvars++] = at[1];
		return 0;
	}
	if (!value || !*name)
		return err_set(e, ERR_USAGE, "%s needs two words: %s NAME "
			       "VALUE", at[0], at[0]);
	*used = 3;
	return mpi_words_var(w, row->kind == MCA ? "OMPI_MCA_" : "", name,
			     value, e);
}

static int mpi_words_export(struct mpi_words *w, char *value, struct err *e)
{
	if (!*value || *value == '=')
		return err_set(e, ERR_USAGE, "-x '%s': give NAME or "
			       "NAME=VALUE", value);
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
	case NOTHING:
		return 0;
	case WORD:
		mpi_words_add(w, row->ours);
		return 0;
	case REFUSED:
		return err_set(e, ERR_USAGE, "%s: ddprun does not have this "
			       "option of mpirun's: %s", at[0], row->ours);
	case SET:
	case MCA:
		return mpi_words_pair(w, row, at, used, e);
	default:
		break;
	}
	value = mpi_words_value(at, used);
	if (!value)
		return err_set(e, ERR_USAGE, "%s needs a value", at[0]);
	switch (row->kind) {
	case SAME:
		return mpi_words_option(w, row->ours, value, e);
	case PLACE:
		return mpi_words_path(w, row->ours, value, e);
	case EXPORT:
		return mpi_words_export(w, (char *)value, e);
	case OUTPUT:
		return mpi_words_output(w, value, e);
	case BIND:
		return mpi_words_bind(w, value, e);
	case MAP:
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
		const struct mpi_word *row = mpi_words_find(**at,
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

static int mpi_words_check(struct mpi_words *w, char **program, struct err *e)
{
	if (!*program)
		return 0;
	if (!w->has_number)
		return err_set(e, ERR_USAGE, "give -n N, the number of "
			       "workers: without it, Open MPI would start one "
			       "on each core and hydra one on each host");
	for (char **p = program; *p; p++) {
		if (strcmp(*p, ":") == 0)
			return err_set(e, ERR_USAGE, "':' starts another "
				       "program in mpirun; a job of ddprun's "
				       "has one");
	}
	w->is_python |= mpi_words_loads_python(*program);
	if (w->is_python && !w->has_mpi && !getenv("PET_MPI"))
		return err_set(e, ERR_USAGE, "ddprun cannot see which MPI %s "
			       "loads: give --mpi pmix for mpi4py on Open MPI, "
			       "--mpi pmi on MPICH or Intel MPI, --mpi none if "
			       "it uses no MPI (or set PET_MPI)", *program);
	return 0;
}

int mpi_words_is_mpiexec(const char *name)
{
	const char *slash = name ? strrchr(name, '/') : NULL;

	name = slash ? slash + 1 : name;
	return name && (strcmp(name, "mpiexec") == 0 ||
			strcmp(name, "mpirun") == 0);
}

int mpi_words_init(struct mpi_words *w, int argc, char **argv, struct err *e)
{
	size_t room = 2 * (size_t)argc + 4;
	char **at = argv + (argc > 0);
	int rc;

	*w = (struct mpi_words){
		.argv = calloc(room, sizeof(char *)),
		.vars = calloc(room, sizeof(char *)),
		.made = calloc(2 * room, sizeof(char *)),
		.is_mpiexec = argc > 0 && mpi_words_is_mpiexec(argv[0]),
	};
	if (!w->argv || !w->vars || !w->made)
		return err_no_memory(e, "the options");
	if (argc > 0)
		mpi_words_add(w, argv[0]);
	if (w->is_mpiexec)
		mpi_words_add(w, "--log-line-prefix-template=");
	rc = mpi_words_walk(w, &at, e);
	if (rc == 0 && w->is_mpiexec) {
		at += *at && strcmp(*at, "--") == 0;
		rc = mpi_words_check(w, at, e);
		if (!w->has_mpi && !getenv("PET_MPI"))
			mpi_words_add(w, "--mpi=auto"); /* warns */
		/* what stands behind the program is the program's */
		if (*at)
			mpi_words_add(w, "--");
	}
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
	free(w->argv);
	*w = (struct mpi_words){.argc = 0};
}
