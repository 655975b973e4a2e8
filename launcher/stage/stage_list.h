/* stage_list.h: what is staged: the files, folders and links below a path, in
 * an order that every node knows, as bytes that travel and lie beside a copy.
 * Contents are not in it: the stream of all files' bytes, one after the other,
 * follows from it.
 *
 * The list's key names this version of the source: it is a hash of all paths,
 * modes, sizes, times and links. Two lists with the same key count as equal,
 * as with rsync: a change that keeps a file's size and time is not seen. */
#ifndef LAUNCHER_STAGE_LIST_H
#define LAUNCHER_STAGE_LIST_H

#include "base/buf.h"

enum {
	STAGE_HASH_SIZE = 32, /* BLAKE2b-256 */
	STAGE_KEY_SIZE = 33,  /* 32 hex digits and a NUL */
	STAGE_LIST_MAX = 512 << 20,
	STAGE_NAME_MAX = 256,
};

enum stage_kind { STAGE_FOLDER = 1, STAGE_FILE, STAGE_SYMLINK, STAGE_LINK };

struct stage_entry {
	enum stage_kind kind;
	uint32_t mode; /* the permissions of files and folders, without setuid,
			* setgid and sticky bits */
	uint32_t link; /* STAGE_LINK: the entry of the same file, a
			* STAGE_FILE before it */
	uint64_t size;
	int64_t mtime_ns;
	const char *path;   /* below the source; "" for the source itself */
	const char *target; /* STAGE_SYMLINK's */
};

struct stage_list {
	struct buf text;    /* the list as bytes; owns all texts */
	const char *source; /* its absolute path on the node that read it */
	const char *name;   /* the last part of it */
	struct stage_entry *all; /* the first is the source itself */
	uint32_t n;
	uint32_t *files; /* the entries of kind STAGE_FILE */
	uint32_t nfiles;
	uint64_t bytes; /* all files' */
	char key[STAGE_KEY_SIZE];
};

/* Lists what is at path, an absolute path without symbolic links. Sockets,
 * pipes and devices are left out and counted in *skipped. Blocks. An error
 * names the file. After an error l needs no release. */
int stage_list_scan(struct stage_list *l, const char *path, uint32_t *skipped,
		    struct err *e);
/* Reads l->text, which another node or a file has given. ERR_PROTOCOL: it is
 * no list, or one of its paths would lead out of a copy. */
int stage_list_read(struct stage_list *l, struct err *e);
void stage_list_release(struct stage_list *l);

/* 16 hex digits that name a source path, into out[17]. */
void stage_list_id(const char *source, char *out);

#endif
