/* key_space.h: the keys that a round's ranks have put through PMI, the part of
 * them that the other nodes do not have yet, and the value of
 * PMI_process_mapping. Pure. */
#ifndef LAUNCHER_KEY_SPACE_H
#define LAUNCHER_KEY_SPACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	KEY_SPACE_KEY_MAX = 64, /* PMI 1.1's, including a NUL */
	KEY_SPACE_VALUE_MAX = 1024,
	KEY_SPACE_BYTES_MAX = 1 << 30,
	KEY_SPACE_NEW_MAX = 64 << 20, /* PMI_EXCHANGE_VALUE_MAX */
};

struct key_entry {
	char *key; /* followed by the value; NULL: free */
	uint32_t key_len, value_len;
};

struct key_space {
	struct key_entry *entries;
	size_t n, cap;
	size_t bytes;
	struct buf added; /* puts since the last key_space_take_new */
};

void key_space_init(struct key_space *k);
void key_space_release(struct key_space *k);

/* ERR_ARGUMENT if the key exists or something is too long, or -ENOMEM. */
int key_space_put(struct key_space *k, struct slice key, struct slice value,
		  struct err *e);
/* 1 and *value, which is valid until the release, or 0. */
int key_space_get(const struct key_space *k, struct slice key,
		  struct slice *value);

/* Appends what was put since the last call to out, for another node. */
void key_space_take_new(struct key_space *k, struct buf *out);
/* Adds what another node has taken. ERR_PROTOCOL, or as key_space_put. */
int key_space_merge(struct key_space *k, struct reader *from, struct err *e);

/* ---- PMI_process_mapping ----
 *
 * The value of PMI's key PMI_process_mapping, by which an MPI library knows
 * which ranks share a host: "(vector,(NODE,NODES,RANKS),...", where each block
 * is NODES nodes from NODE on, with RANKS ranks each. Pure. */

/* ranks[i] is the number of ranks on node i; they are in the order of the
 * nodes. 1 and the text, or 0: it does not fit into size, and the library has
 * to compare host names instead. */
int process_mapping_put(const uint32_t *ranks, uint32_t nodes, char *out,
			size_t size);

#endif
