/* nccl_mesh.h: the connections among the ranks of a communicator of the
 * stand-in: between each two of them a socket for setting up (NCCL's bootstrap)
 * and one for data (its transport). Knows no communicator. Each wait ends with
 * MESH_STOPPED when *stop is set, and with MESH_LOST when the awaited rank has
 * closed its end. */
#ifndef STANDIN_NCCL_MESH_H
#define STANDIN_NCCL_MESH_H

#include <stddef.h>
#include <stdint.h>

enum mesh_result { MESH_OK, MESH_STOPPED, MESH_LOST };

struct mesh_id {
	uint64_t a, b;
};

struct mesh {
	int rank, size;
	int *boot, *data; /* sockets by rank; -1: none */
	unsigned *sends, *receives; /* by rank: MESH_SENDS, MESH_RECEIVES that
				     * have arrived */
};

/* Connects to the other ranks of id, and waits for all of them. */
enum mesh_result mesh_open(struct mesh *m, struct mesh_id id, int rank,
			   int size, const _Atomic int *stop);
void mesh_close(struct mesh *m);
/* Exchanges `size` bytes with all ranks: all has one record per rank. */
enum mesh_result mesh_gather(struct mesh *m, const void *mine, void *all,
			     size_t size, const _Atomic int *stop);
/* Tells a rank that this one now sends to it, or receives from it, ... */
void mesh_offer(struct mesh *m, int rank, int sends);
/* ... and waits for the counterpart. */
enum mesh_result mesh_accept(struct mesh *m, int rank, int sends,
			     const _Atomic int *stop);

/* Bytes to send to a rank or to receive from it. */
struct mesh_part {
	int rank;
	char *at;
	size_t size;
};

/* Sends out[] and receives in[], those of one rank in their order. Does not end
 * when a rank is lost, but sets *lost. */
enum mesh_result mesh_exchange(struct mesh *m, struct mesh_part *out, int nout,
			       struct mesh_part *in, int nin,
			       const _Atomic int *stop, _Atomic int *lost);

#endif
