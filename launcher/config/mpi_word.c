/* mpi_word.c: the table, and the search in it. */
#include "launcher/config/mpi_words.h"

#include <stddef.h>
#include <string.h>

/* Forms of a word. Those that mean something else to torchrun or srun are only
 * taken under mpiexec's name. */
enum {
	ONE = 1, /* -word */
	TWO = 2, /* --word */
	ANY = ONE | TWO,
	AS_MPIEXEC = 4,
};

static const struct mpi_word mpi_word_rows[] = {
	{"n", TWO, MPI_SAME, "world-size"}, /* -n is in config_options */
	{"np", ONE, MPI_SAME, "world-size"},
	{"np", TWO | AS_MPIEXEC, MPI_SAME, "world-size"},
	{"ppn", ANY, MPI_SAME, "nproc-per-node"},
	{"perhost", ANY, MPI_SAME, "nproc-per-node"},
	{"npernode", ANY, MPI_SAME, "nproc-per-node"},
	{"N", ONE | AS_MPIEXEC, MPI_SAME, "nproc-per-node"},
	{"N", ONE, MPI_REFUSED,
	 "srun's means --nnodes, mpirun's --nproc-per-node"},
	{"hosts", ONE, MPI_SAME, "hosts"},
	{"host", ANY, MPI_SAME, "hosts"},
	{"f", ONE, MPI_PLACE, "hostfile"},
	{"hostfile", ONE, MPI_PLACE, "hostfile"},
	{"machinefile", ANY, MPI_PLACE, "hostfile"},
	{"genv", ANY, MPI_SET_ALL, NULL},
	{"env", ONE, MPI_SET, NULL},
	{"env", TWO | AS_MPIEXEC, MPI_SET, NULL}, /* --env is ddprun's own */
	{"x", ONE, MPI_EXPORT, NULL},
	{"mca", ANY, MPI_MCA, NULL},
	{"gmca", ANY, MPI_MCA, NULL},
	{"genvall", ANY, MPI_NOTHING, NULL},
	{"envall", ANY, MPI_NOTHING, NULL},
	{"genvnone", ANY, MPI_REFUSED, "write env -i before ddprun"},
	{"envnone", ANY, MPI_REFUSED, "write env -i before ddprun"},
	{"genvlist", ANY, MPI_REFUSED, "write env -i NAME=VALUE before ddprun"},
	{"envlist", ANY, MPI_REFUSED, "write env -i NAME=VALUE before ddprun"},
	{"wdir", ANY, MPI_FOLDER, NULL},
	{"wd", ANY, MPI_FOLDER, NULL},
	{"l", ONE, MPI_WORD, "--log-line-prefix-template=[${rank}] "},
	{"prepend-rank", ANY, MPI_WORD,
	 "--log-line-prefix-template=[${rank}] "},
	{"tag-output", ANY, MPI_WORD,
	 "--log-line-prefix-template=[1,${rank}]<${stream}>:"},
	{"output-filename", ANY, MPI_OUTPUT, NULL},
	{"bind-to", ANY, MPI_BIND, NULL},
	{"map-by", ANY, MPI_MAP, NULL},
	{"gpus-per-proc", ONE, MPI_SAME, "gpus-per-proc"},
	{"stdin", ONE, MPI_SAME, "stdin"},
	{"launcher-exec", ANY, MPI_SAME, "ssh"},
	{"bootstrap-exec", ANY, MPI_SAME, "ssh"},
	{"version", ONE, MPI_WORD, "--version"},
	{"V", ONE, MPI_WORD, "--version"},
	{"allow-run-as-root", ANY, MPI_NOTHING, NULL},
	{"oversubscribe", ANY, MPI_NOTHING, NULL},
	{"launcher", ANY, MPI_REFUSED, "--ssh PROGRAM is how it reaches hosts"},
	{"bootstrap", ANY, MPI_REFUSED,
	 "--ssh PROGRAM is how it reaches hosts"},
	{"iface", ANY, MPI_REFUSED,
	 "--interface NAME, or --net-interface NAME for NCCL and gloo"},
	{"multi-prog", TWO, MPI_PLACE, "multi-prog"},
	{"configfile", ANY, MPI_REFUSED,
	 "--multi-prog FILE, in Slurm's format"},
	{"app", ANY, MPI_REFUSED, "--multi-prog FILE, in Slurm's format"},
	{"outfile-pattern", ANY, MPI_REFUSED, "--log-dir DIR --redirects 1"},
	{"errfile-pattern", ANY, MPI_REFUSED, "--log-dir DIR --redirects 2"},
	{"merge-stderr-to-stdout", ANY, MPI_REFUSED, "write 2>&1"},
	{"timeout", ANY, MPI_REFUSED, "write timeout SECONDS before ddprun"},
	{"report-bindings", ANY, MPI_REFUSED,
	 "--dry-run shows each worker's CPUs"},
	{"display-map", ANY, MPI_REFUSED, "--dry-run shows each worker"},
	{"verbose", ANY, MPI_REFUSED, "set DDP_LOG=debug"},
	{"v", ONE, MPI_REFUSED, "set DDP_LOG=debug"},
	{"print-all-exitcodes", ANY, MPI_REFUSED,
	 "the page at the end names the rank that failed first"},
	{"prefix", TWO, MPI_REFUSED, "a host without ddprun gets a copy"},
	{"rank-by", ANY, MPI_REFUSED, "ranks of a node are consecutive"},
	{"bynode", ANY, MPI_REFUSED, "ranks of a node are consecutive"},
	{"cpus-per-proc", ANY, MPI_REFUSED,
	 "--cpu-bind cores shares the cores"},
	{NULL, 0, MPI_REFUSED, NULL},
};

static int mpi_word_is(const struct mpi_word *row, const char *word,
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

const struct mpi_word *mpi_word_find(const char *word, int is_mpiexec)
{
	for (const struct mpi_word *r = mpi_word_rows; r->name; r++) {
		if (mpi_word_is(r, word, is_mpiexec))
			return r;
	}
	return NULL;
}
