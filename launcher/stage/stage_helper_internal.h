/* stage_helper_internal.h: what the threads of a stage helper share. */
#ifndef LAUNCHER_STAGE_HELPER_INTERNAL_H
#define LAUNCHER_STAGE_HELPER_INTERNAL_H

#include <limits.h>
#include <pthread.h>
#include <sodium.h>

#include "launcher/stage/stage_frame.h"
#include "launcher/stage/stage_link.h"
#include "launcher/stage/stage_list.h"
#include "launcher/stage/stage_order.h"
#include "launcher/stage/stage_ring.h"

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
	int makes_hashes; /* this node reads the source; set after it was
			   * opened, before anything is written */
	int is_unsure; /* bytes of the next file were read from a disk: its hash
			* must be checked */
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
/* The next file has all its bytes. hash: what it must be, unless this node
 * makes the hashes. It came with the bytes, all of them authenticated; only a
 * file that is_unsure is read again and compared. ERR_DATA: it differs; the
 * file is empty again. */
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

/* ---- stage_helper.c ----
 *
 * One thread fills the copy, and adds each frame that the next node may need to
 * the ring; the other one sends them. */

enum stage_reader {
	STAGE_READER_NONE,  /* the next node is not connected */
	STAGE_READER_TAKES, /* it takes what it lacks */
	STAGE_READER_FULL,  /* it has all files, or there is none */
};

enum { STAGE_ASK_ZIPPED = 1 }; /* a flag of an ask: zstd is understood */

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
	struct stage_ring ring;
	enum stage_reader reader;
	uint64_t reader_ns; /* STAGE_READER_NONE: since when */
};

/* One line to the agent (stage_order.h), in one write. */
__attribute__((format(printf, 1, 2)))
void stage_helper_report(const char *fmt, ...);
/* The list is known: opens this node's copy of it. */
int stage_helper_open_copy(struct stage_helper *h, struct err *e);
/* Room for n bytes in the ring, after `used` ones at its head. Waits until the
 * next node has taken enough; if it is not there, not for long. */
char *stage_helper_room(struct stage_helper *h, size_t used, size_t n);
/* Publishes and reports how much of the copy h->copy has, and a frame of n
 * bytes at the ring's head, which led there. */
void stage_helper_move(struct stage_helper *h, size_t n);

/* stage_fetch.c: fills the copy from the node before this one. The connection
 * in l stays open. */
int stage_fetch_run(struct stage_helper *h, struct stage_link *l,
		    struct err *e);
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
