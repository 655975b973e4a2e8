/* host_topology.h: hwloc's description of this host, found once for all ranks
 * of the node. Else each rank's MPI_Init finds it, which takes most of its CPU
 * time, as it reads all of /sys and asks every PCI device. Open MPI's ranks get
 * it from libpmix. A helper process finds it, so that the agent needs no hwloc;
 * the ranks read its XML in a file in memory, by hwloc's own variables. Without
 * it nothing is lost but time. */
#ifndef LAUNCHER_HOST_TOPOLOGY_H
#define LAUNCHER_HOST_TOPOLOGY_H

#include <sys/types.h>

/* Not an option for users. Its argument is a program. */
#define HOST_TOPOLOGY_COMMAND "--topology-helper"

enum { HOST_TOPOLOGY_PATH_MAX = 64 };

struct host_topology {
	pid_t pid; /* the helper's; 0: it does not run */
	int fd;    /* the file; -1: there is none */
};

/* Starts the helper, unless a variable of hwloc is set: then its user has
 * chosen how ranks find the host. program: the file that ranks execute. */
void host_topology_start(struct host_topology *t, const char *program);
/* 1: the helper still runs. */
int host_topology_is_pending(const struct host_topology *t);
/* 1: pid was the helper; how it ended, as wait(2) reports it. */
int host_topology_reaped(struct host_topology *t, pid_t pid, int status);
/* Where this process's children find the file; "" if there is none. */
void host_topology_path(const struct host_topology *t,
			char out[HOST_TOPOLOGY_PATH_MAX]);
/* Kills the helper, if it runs; host_topology_reaped follows. */
void host_topology_cancel(const struct host_topology *t);
/* Kills the helper, if it runs, and waits for its end. */
void host_topology_close(struct host_topology *t);

/* ---- topology_helper.c ---- */

/* argv[1] is a program: writes the XML to stdout, and returns 0, if it needs
 * hwloc 2 as a shared library; else returns 1. Never executes the program. */
int topology_helper_main(int argc, char **argv);

#endif
