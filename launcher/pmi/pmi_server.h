/* pmi_server.h: the server of PMI-1 for this node's ranks in one round: MPICH
 * and its relatives put their addresses, meet at barriers, and get those of the
 * others. Pure: bytes in, bytes out; the owner has the sockets, and exchanges
 * the keys with the other nodes.
 *
 * A barrier is over when every rank of every node has reached it
 * (attendance.h). If a rank has ended instead, the exchange is an error. */
#ifndef LAUNCHER_PMI_SERVER_H
#define LAUNCHER_PMI_SERVER_H

#include "launcher/pmi/attendance.h"
#include "launcher/pmi/key_space.h"

enum {
	PMI_SERVER_LINE_MAX = 8 << 10,
	PMI_SERVER_NAME_MAX = 128,
	PMI_SERVER_OUT_MAX = 1 << 20,
	PMI_SERVER_PATH_MAX = 64,
};

struct pmi_rank {
	struct attendance_rank *attendance;
	int wants_mapping; /* it waits for the layout */
	int is_spawning;   /* between "mcmd=spawn" and the last "endcmd" */
	uint32_t spawns, spawned;
	struct buf in, out;
};

struct pmi_server_round {
	const char *name; /* the key space's: one for each round of each job */
	uint32_t base_rank, nproc, world_size;
	uint32_t node_rank, nnodes;
	/* The number of a rank's program; NULL: all have 0. */
	uint32_t (*appnum)(void *arg, uint32_t rank);
	void *arg;
};

struct pmi_server {
	struct pmi_server_round round;
	char name[PMI_SERVER_NAME_MAX];
	struct key_space keys;
	struct pmi_rank *ranks; /* nproc */
	struct attendance attendance;
	char mapping[KEY_SPACE_VALUE_MAX];
	int has_layout;
	int is_exchanging;
	int is_over; /* all ranks have ended, and the other nodes know */
	uint32_t barriers; /* that are over */
	int has_refused_spawn; /* it may be logged, once */
};

/* 0 or -ENOMEM; then s needs no release. */
int pmi_server_init(struct pmi_server *s, const struct pmi_server_round *round,
		    struct err *e);
void pmi_server_release(struct pmi_server *s);

/* How many ranks each node has. Without it nothing is exchanged. */
void pmi_server_set_layout(struct pmi_server *s, const uint32_t *ranks);

/* Takes bytes from a rank; replies are in its out, from where the owner
 * consumes them. ERR_PROTOCOL: this is not PMI-1. */
int pmi_server_receive(struct pmi_server *s, uint32_t local_rank,
		       struct slice bytes, struct err *e);
/* 0, or why an answer to the rank could not be made, for which it waits. */
int pmi_server_check(const struct pmi_server *s, uint32_t local_rank,
		     struct err *e);
void pmi_server_ended(struct pmi_server *s, uint32_t local_rank);

/* 1: this node takes part in the next exchange. Then pmi_server_take gets its
 * part, and pmi_server_finish the parts of all nodes, in their order. */
int pmi_server_is_ready(const struct pmi_server *s);
void pmi_server_take(struct pmi_server *s, struct buf *part);
/* Answers the ranks that wait. ERR_REMOTE: they would wait for ever for ranks
 * that it names; ERR_PROTOCOL, -ENOMEM. */
int pmi_server_finish(struct pmi_server *s, const struct slice *parts,
		      struct err *e);

/* The shared memory in which MPICH 5's ranks of a node meet. Its name
 * is derived from the key space's (MPICH's MPL_initshm_open). kind is "shm", or
 * "vci" for the part that only programs with several threads in MPI have. The
 * ranks remove it in MPI_Finalize, so killed ranks leave it. */
void pmi_server_memory_path(const char *name, uint32_t node_rank,
			    const char *kind, char out[PMI_SERVER_PATH_MAX]);

#endif
