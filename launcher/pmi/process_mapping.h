/* process_mapping.h: the value of PMI's key PMI_process_mapping, by which an
 * MPI library knows which ranks share a host: "(vector,(NODE,NODES,RANKS),...",
 * where each block is NODES nodes from NODE on, with RANKS ranks each. Pure. */
#ifndef LAUNCHER_PROCESS_MAPPING_H
#define LAUNCHER_PROCESS_MAPPING_H

#include <stddef.h>
#include <stdint.h>

/* ranks[i] is the number of ranks on node i; they are in the order of the
 * nodes. 1 and the text, or 0: it does not fit into size, and the library has
 * to compare host names instead. */
int process_mapping_put(const uint32_t *ranks, uint32_t nodes, char *out,
			size_t size);

#endif
