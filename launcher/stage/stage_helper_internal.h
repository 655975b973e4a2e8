/* stage_helper_internal.h: what the threads of a stage helper share. */
#ifndef LAUNCHER_STAGE_HELPER_INTERNAL_H
#define LAUNCHER_STAGE_HELPER_INTERNAL_H

#include <pthread.h>

#include "launcher/stage/stage_copy.h"
#include "launcher/stage/stage_link.h"
#include "launcher/stage/stage_list.h"
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

/* ---- stage_source.c ----
 *
 * Opens the files of a source before they are copied, in several threads,
 * because a cold file system on a network takes about a millisecond for each
 * file, and many files at once hardly longer. What they read stays in the page
 * cache. */

enum { STAGE_READERS = 16, STAGE_AHEAD = 64 };

struct stage_source {
	const struct stage_list *list;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	uint32_t next; /* the next file that a thread opens */
	uint32_t used; /* files before it have been taken */
	int is_over;
	int is_open[STAGE_AHEAD];
	int fds[STAGE_AHEAD]; /* -errno: it could not be opened */
	pthread_t threads[STAGE_READERS];
	int nthreads;
};

/* Begins with the file of number first. list must outlive s. Without threads
 * (the kernel has none left), files are opened when they are taken. */
void stage_source_start(struct stage_source *s, const struct stage_list *list,
			uint32_t first);
/* The next file, which the caller closes; or an error: it cannot be opened, or
 * has changed since it was listed. */
int stage_source_take(struct stage_source *s, struct err *e);
/* The file that was taken last is still as it was listed; or an error. */
int stage_source_check(const struct stage_source *s, int fd, struct err *e);
void stage_source_stop(struct stage_source *s);

#endif
