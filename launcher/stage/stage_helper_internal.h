/* stage_helper_internal.h: what the threads of a stage helper share. */
#ifndef LAUNCHER_STAGE_HELPER_INTERNAL_H
#define LAUNCHER_STAGE_HELPER_INTERNAL_H

#include <limits.h>
#include <pthread.h>
#include <sodium.h>

#include "launcher/stage/stage_link.h"
#include "launcher/stage/stage_list.h"
#include "launcher/stage/stage_order.h"

/* ---- stage_copy.c ----
 *
 * A copy of a source on this node's disk, and the folder that keeps copies:
 *
 *   FOLDER/ID-KEY/NAME	    a complete copy: ID names the source's path, KEY its
 *			    version (stage_list.h), NAME is the source's own
 *   FOLDER/ID-KEY/list	    the list, and
 *   FOLDER/ID-KEY/hashes   the hash of each file, in its order
 *   FOLDER/ID-KEY.part-X/  the same, incomplete: the next job continues it
 *
 * Nothing else in FOLDER is touched. A job holds a shared lock on its copy's
 * folder, and a helper an exclusive one on an incomplete copy: what is locked
 * is neither removed nor continued by others. The copy of another version of
 * the source is removed once a new one is complete.
 *
 * All calls block. An error names the file and this host. */

struct stage_copy {
	const struct stage_list *list;
	char host[256];
	char folder[PATH_MAX]; /* keeps all copies */
	char dir[PATH_MAX];    /* keeps this copy */
	int fd;		       /* dir, locked; -1: none */
	int hashes;	       /* the file */
	int is_complete;
	int was_there; /* it was complete when it was opened */
	uint32_t nfiles; /* that are whole */
	uint64_t at;	 /* bytes of the next file that are there */
	crypto_generichash_state state; /* their hash */
	unsigned char (*hash)[STAGE_HASH_SIZE]; /* each whole file's */
	int file; /* the next one, if it is open; else -1 */
};

/* Opens the copy of the list's source in folder: the complete one, if its files
 * still have the sizes and times of the list; else an incomplete one, whose
 * hashes are checked; else a new one. list must outlive c. Checks that the disk
 * has room. It stays open until the process exits, except after an error. */
int stage_copy_open(struct stage_copy *c, const char *folder,
		    const struct stage_list *list, struct err *e);

/* Appends n bytes to the next file. */
int stage_copy_write(struct stage_copy *c, const char *data, size_t n,
		     struct err *e);
/* The next file has all its bytes. hash: what it must be; NULL: as it is.
 * ERR_DATA: it differs; the file is empty again. */
int stage_copy_end_file(struct stage_copy *c, const unsigned char *hash,
			struct err *e);
/* All files are whole: makes links, sets times and permissions, and gives the
 * copy its name. Removes copies of other versions that nobody uses. */
int stage_copy_finish(struct stage_copy *c, struct err *e);

/* The list of the copy in dir, for stage_list_read. */
int stage_copy_read_list(const char *dir, struct buf *text, struct err *e);

/* The copy itself, into out[PATH_MAX]. */
void stage_copy_path(const struct stage_copy *c, char *out);
/* Opens the file of number i for reading; or -errno. */
int stage_copy_open_file(const struct stage_copy *c, uint32_t i);

/* ---- stage_helper_internal.c ---- */

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
