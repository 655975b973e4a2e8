/* plan.h: the program, arguments and environment of each worker of a round on
 * this node. Starts nothing: the agent runs the plan, --dry-run prints it. */
#ifndef LAUNCHER_PLAN_H
#define LAUNCHER_PLAN_H

#include <limits.h>

#include "base/buf.h"
#include "launcher/plan/binding.h"
#include "launcher/plan/environment.h"
#include "launcher/plan/nccl.h"
#include "launcher/plan/program.h"
#include "launcher/plan/roles.h"
#include "launcher/plan/wrap.h"

/* ---- mpi_program.c ----
 *
 * Detects an MPI program by its ELF file. Reads the file; starts nothing. */

enum { MPI_LIBRARY_MAX = 64 };

/* 1 and the library's name ("libmpi.so.12") if the program at path needs an MPI
 * library or NVSHMEM's host library, or contains an MPI library and has not
 * been stripped ("libmpich.a"). Else 0 and "", as for a file that is not
 * an ELF program of this machine's kind (a script) and for an interpreter that
 * loads MPI later. Never an error: the result only decides about a warning. */
int mpi_program_library(const char *path, char out[MPI_LIBRARY_MAX]);

/* 1 and the path of the dynamic linker of the program at path. Else 0. */
int mpi_program_loader(const char *path, char out[PATH_MAX]);

/* 1: that library looks for a server of PMI-1, or of PMIx. */
int mpi_program_speaks_pmi(const char *library);
int mpi_program_speaks_pmix(const char *library);

/* Pure: the same for the bytes of a file. */
int mpi_program_library_of(struct slice file, char out[MPI_LIBRARY_MAX]);

/* ---- plan.c ---- */

/* The parts that all rounds share, found before anything is started. */
struct plan_parts {
	struct program program;
	struct wrap wrap;
	struct check_words check; /* --preflight: before the first attempt */
	struct placement placement;
	struct nccl nccl;
	char mpi_library[MPI_LIBRARY_MAX]; /* the program's; "": none */
	int uses_mpi, serves_pmi, serves_pmix; /* see environment.h */
	int has_gpus;     /* likewise; only looked for if it matters */
	int is_mpi_alone; /* its library does not speak what we serve */
	int is_mpi_unseen; /* --mpi auto is given, and it has no library */
	char no_pmix[ERR_TEXT_MAX]; /* why we cannot serve PMIx; or "" */
	/* the first program that is a Python script by which processes could
	 * meet (lone_script.h), and what serves it; uses is 0: none is */
	const char *script;
	unsigned script_uses, script_served;
	/* Several programs: the parts of each. The program and the wrapper of
	 * the first are those above; NULL: one program. */
	const struct roles *roles;
	struct plan_parts *each;
};

struct plan {
	const struct plan_parts *parts;
	struct environment environment;
	uint32_t base_rank;
	int is_checked; /* ddprun-check starts the program */
	/* variables whose macros stay as they are (macro.h); NULL: none */
	const char *const *unknown;
	/* the current worker's arguments if there are macros, a wrapper or a
	 * check, else NULL */
	char **argv;
	char *text;
	/* Several programs: the plan of each that has a worker here, and the
	 * first GPU of each worker. */
	struct plan *each;
	uint32_t *first_gpus;
};

/* Valid until the next plan_worker on the same plan. */
struct plan_worker {
	uint32_t rank, local_rank;
	const char *path;
	char *const *argv;
	char *const *envp;
	const struct cpus *cpus; /* NULL: not bound */
};

/* base: the launcher's own variables. base and parts must outlive p. 0,
 * -ENOMEM, or ERR_USAGE if the programs have other ranks than the job, or need
 * more GPUs than this host has; after an error p needs no release. */
int plan_init(struct plan *p, const struct plan_parts *parts, char **base,
	      const struct environment_job *job, uint32_t base_rank,
	      struct err *e);
void plan_release(struct plan *p);

void plan_worker(struct plan *p, uint32_t local_rank, struct plan_worker *w);

#endif
