/* environment.h: builds a worker's environment, which docs/environment.txt
 * describes. Pure: variables in, variables out. */
#ifndef LAUNCHER_ENVIRONMENT_H
#define LAUNCHER_ENVIRONMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "launcher/plan/framework.h"

/* Shared by all workers of one round on one node. */
struct environment_job {
	const char *job, *agent_id;
	const char *master_addr;  /* node 0's */
	const char *rdzv;         /* host:port of the server */
	const char *job_key;      /* NULL, "": no authentication */
	const char *node_addr;    /* this node's */
	const char *role;
	const char *signals;      /* --signals-to-handle */
	uint32_t round, attempt, max_restarts;
	uint32_t node_rank, nnodes;
	uint32_t nproc, world_size;
	uint32_t role_base_rank, role_world_size;
	uint16_t master_port, coordinator_port;
	const uint16_t *ports; /* the workers'; NULL: none */
	int agent_store; /* the server runs PyTorch's store at master_port */
	int virtual_local_rank; /* each worker's LOCAL_RANK is 0 */
	/* each worker sees this many GPUs of its own; 0: all of them */
	uint32_t worker_gpus;
	const uint32_t *first_gpus; /* each worker's; NULL: consecutive */
	const char *roles; /* all ranks' (roles.h); NULL: one program */
	/* Returns the path of a worker's error file, in out[PATH_MAX] or
	 * elsewhere; "" for none. NULL: no worker has one. */
	const char *(*error_file)(void *arg, uint32_t local_rank, char *out);
	void *error_file_arg;
	/* likewise the file in which it may report its steps */
	const char *(*step_file)(void *arg, uint32_t local_rank, char *out);
	void *step_file_arg;
	const char *recorder; /* the flight recorder's file; NULL: none */
	/* the library to preload, and where it leaves records; NULL: none */
	const char *crash_library, *crash_records;
	const char *nccl_debug, *nccl_subsystems; /* NULL, "": unchanged */
	const char *interface; /* for NCCL and gloo; NULL, "": unchanged */
	int is_python; /* the program is a Python */
	const char *log_dir; /* with a folder for each worker; NULL, "": none */
	int has_pipes; /* named pipes can be made in log_dir */
	uint32_t again_ms; /* time limit to reconnect; 0: workers do not */
	int encrypt_data;  /* the user asked for it */
	int uses_mpi;      /* the program is linked with an MPI library, or is
			    * served as if it was */
	int serves_pmi;    /* PMI_RANK and its siblings are set, and PMI_FD to
			    * what pmi_fd returns, unless it is NULL */
	int (*pmi_fd)(void *arg, uint32_t local_rank);
	/* The variables of PMIx are set to what pmix_vars returns, n of them,
	 * as many for each worker, unless it is NULL. */
	int serves_pmix;
	char *const *(*pmix_vars)(void *arg, uint32_t local_rank, uint32_t *n);
	void *mpi_arg;
	const char *topology; /* the file with hwloc's XML; NULL, "": none */
	unsigned frameworks; /* a set of framework.h */
	const char *peers;   /* if it needs them: "host:port" of all workers by
			      * rank, with commas */
	const char *peers_file; /* the same, a line for each; NULL, "": none */
	int has_gpus;        /* this host has */
	int columns, rows; /* the launcher's terminal's; 0: it has none */
};

/* hwloc's plugins that add nothing for a rank that has the XML; loading those
 * of OpenCL and X takes 10 ms. */
#define HWLOC_PLUGINS \
	"hwloc_cuda.so,hwloc_gl.so,hwloc_levelzero.so,hwloc_nvml.so," \
	"hwloc_opencl.so,hwloc_pci.so,hwloc_rsmi.so,hwloc_xml_libxml.so"

/* Those of them that Open MPI's ranks do without, and the helper of PMIx: PCI
 * devices and GPUs of CUDA remain. */
#define HWLOC_PLUGINS_OF_SCREENS \
	"hwloc_gl.so,hwloc_opencl.so,hwloc_xml_libxml.so"

enum { ENVIRONMENT_WORKER_VARS = 13, ENVIRONMENT_VAR_MAX = 32 };

struct environment {
	char **vars; /* for execve, ends with NULL */
	int owned;   /* the first `owned` of them are ours to free */
	struct environment_job job; /* its texts are in vars */
	/* the variables that differ between workers; rewritten for each */
	char rank[ENVIRONMENT_VAR_MAX], role_rank[ENVIRONMENT_VAR_MAX];
	char local_rank[ENVIRONMENT_VAR_MAX];
	char pmi_rank[ENVIRONMENT_VAR_MAX], pmi_fd[ENVIRONMENT_VAR_MAX];
	char mpi_local_rank[ENVIRONMENT_VAR_MAX]; /* "": not served */
	char port[ENVIRONMENT_VAR_MAX]; /* if the job has ports */
	char **pmix; /* where in vars PMIx's are; NULL: not served */
	char recorder[2 * ENVIRONMENT_VAR_MAX]; /* "": none */
	char crash[2 * ENVIRONMENT_VAR_MAX];    /* "": none */
	struct framework_vars frameworks;
	char *gpus; /* NULL: we do not set it for each worker */
	char *error_file, *step_file; /* likewise */
	char *nccl_file;         /* likewise; it begins with the folder */
	size_t nccl_folder;      /* where the folder's name ends */
	const char *visible; /* the CUDA_VISIBLE_DEVICES that gpus divides */
};

/* base: the launcher's own variables, which must outlive env. 0, -ENOMEM, or
 * ERR_USAGE if a variable would be too long; after an error env needs no
 * release. */
int environment_init(struct environment *env, char **base,
		     const struct environment_job *job, struct err *e);
void environment_release(struct environment *env);

/* 1 if the user has chosen the port of JAX's coordinator. A port that a ddprun
 * around this one has set does not count: it belongs to that job. */
int environment_has_coordinator(char **base);

void environment_set_rank(struct environment *env, uint32_t rank,
			  uint32_t local_rank);

#endif
