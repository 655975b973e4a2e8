/* stage_copy.h: a copy of a source on this node's disk, and the folder that
 * keeps copies:
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
#ifndef LAUNCHER_STAGE_COPY_H
#define LAUNCHER_STAGE_COPY_H

#include <limits.h>
#include <sodium.h>

#include "launcher/stage/stage_list.h"

struct stage_copy {
	const struct stage_list *list;
	char host[256];
	char folder[PATH_MAX]; /* keeps all copies */
	char dir[PATH_MAX];    /* keeps this copy */
	int fd;		       /* dir, locked; -1: none */
	int hashes;	       /* the file */
	int is_complete;
	int was_there; /* it is complete, and was when it was opened */
	uint32_t nfiles; /* that are whole */
	uint64_t at;	 /* bytes of the next file that are there */
	crypto_generichash_state state; /* their hash */
	unsigned char (*hash)[STAGE_HASH_SIZE]; /* each whole file's */
	int file; /* the next one, if it is open; else -1 */
};

/* Opens the copy of the list's source in folder: the complete one, if its files
 * still have the sizes and times of the list; else an incomplete one, whose
 * hashes are checked; else a new one. list must outlive c. Checks that the disk
 * has room. After an error c needs no close. */
int stage_copy_open(struct stage_copy *c, const char *folder,
		    const struct stage_list *list, struct err *e);
void stage_copy_close(struct stage_copy *c);

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

#endif
