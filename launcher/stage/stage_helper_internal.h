/* stage_helper_internal.h: what the threads of a stage helper share. */
#ifndef LAUNCHER_STAGE_HELPER_INTERNAL_H
#define LAUNCHER_STAGE_HELPER_INTERNAL_H

#include <pthread.h>

#include "launcher/stage/stage_copy.h"
#include "launcher/stage/stage_link.h"
#include "launcher/stage/stage_order.h"

enum {
	STAGE_BLOCK = 1 << 20, /* the most bytes of a file sent at once */
	STAGE_ZIPPED = 1,      /* a flag of an ask: zstd is understood */
	RETRY_S = 20,
};

/* A block's first word: its size on the wire, and whether it is compressed; the
 * size of its text follows then. */
#define STAGE_BLOCK_ZIPPED 0x80000000u

struct stage_helper {
	struct buf in; /* the order */
	struct stage_order order;
	struct stage_list list;
	struct stage_copy copy;

	pthread_mutex_t lock;
	pthread_cond_t moved;
	/* how far the copy is; the other thread reads only what is before it */
	int has_list;
	uint32_t nfiles;
	uint64_t at;
	int is_complete; /* all files are whole */
	int is_below_done; /* the nodes after this one have complete copies */
};

/* stage_serve.c: the thread that passes the copy on. Returns at no time. */
void *stage_serve_run(void *arg);

#endif
