/* journal_file.h: a journal in a file, or in memory that outlives the process
 * (an inherited memfd). Locked: one server at a time. An append is a copy into
 * a mapping, so that a batch survives the process either completely or not at
 * all. */
#ifndef RENDEZVOUS_JOURNAL_FILE_H
#define RENDEZVOUS_JOURNAL_FILE_H

#include "base/buf.h"
#include "base/error.h"

struct journal_file;

/* Opens or makes the journal at path, or in fd (path NULL), which it takes.
 * ERR_REFUSED: another server has it, and the text names its pid; ERR_USAGE: it
 * is not a journal; -errno. */
int journal_file_open(struct journal_file **out, const char *path, int fd,
		      struct err *e);
/* NULL is fine. The journal stays. */
void journal_file_close(struct journal_file *f);

/* Calls take for each complete batch, in order, from the last snapshot; a torn
 * end is dropped. Call it once, before anything is appended. Stops if take
 * returns < 0. Returns the number of batches; after any, a snapshot must be
 * written. */
int journal_file_replay(struct journal_file *f,
			int (*take)(void *arg, struct slice batch), void *arg,
			struct err *e);

/* 0: the batch is kept, whatever happens to this process. -ENOSPC or another
 * error, with a text: the journal is unchanged, and nothing can be appended
 * until a snapshot that includes this batch is written. If that fails as well,
 * call journal_file_lose: the journal is older than the replies that clients
 * have. */
int journal_file_append(struct journal_file *f, struct slice batch,
			struct err *e);
/* Empties the journal: the next replay finds nothing, and nothing can be
 * appended until a snapshot is written, which may overwrite the old content. */
void journal_file_lose(struct journal_file *f);
/* Replaces everything appended so far with these n batches. A failure changes
 * nothing. */
int journal_file_snapshot(struct journal_file *f, const struct slice *parts,
			  size_t n, struct err *e);
/* It is time for a snapshot. */
int journal_file_is_long(const struct journal_file *f);
/* Its size in bytes. */
size_t journal_file_bytes(const struct journal_file *f);
/* 1 from journal_file_lose until a snapshot is written. */
int journal_file_is_lost(const struct journal_file *f);

#endif
