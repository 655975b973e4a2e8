/* journal_file.h: a journal in a file, or in memory that outlives us (an
 * inherited memfd). Locked: one server at a time. An append is a copy into a
 * mapping; what dies with the process dies between two batches, never in one.
 * Another place for batches (a replicated one) would offer the same calls. */
#ifndef RENDEZVOUS_JOURNAL_FILE_H
#define RENDEZVOUS_JOURNAL_FILE_H

#include "base/buf.h"
#include "base/error.h"

struct journal_file;

/* Opens, or makes, the journal at path, or in fd (path NULL), which it takes.
 * ERR_REFUSED: another server has it, whose pid the text names; ERR_USAGE: it
 * is something else's file; -errno. */
int journal_file_open(struct journal_file **out, const char *path, int fd,
		      struct err *e);
/* NULL is fine. The journal stays. */
void journal_file_close(struct journal_file *f);

/* Hands on each whole batch, in order, from the last snapshot; what was torn
 * behind them is dropped. Once, before anything is appended. < 0 of take's ends
 * it. Returns how many there were; if any, a snapshot has to come next. */
int journal_file_replay(struct journal_file *f,
			int (*take)(void *arg, struct slice batch), void *arg,
			struct err *e);

/* 0: it is kept, whatever happens to this process. -ENOSPC and the like, with a
 * text: it is not, and the journal says what it said before; nothing can be
 * appended until a snapshot is written, which is to say what this batch said.
 * The journal has to be lost where that cannot be written either: what it says
 * then is older than what the process has answered. */
int journal_file_append(struct journal_file *f, struct slice batch,
			struct err *e);
/* The next replay finds nothing, and nothing can be appended, until a snapshot
 * is written, which may now take the place of what was there. */
void journal_file_lose(struct journal_file *f);
/* All that was appended before says no more than these n batches, which the
 * next replay begins with. A failure changes nothing. */
int journal_file_snapshot(struct journal_file *f, const struct slice *parts,
			  size_t n, struct err *e);
/* So much was appended since the last snapshot that it is time for one. */
int journal_file_is_long(const struct journal_file *f);
/* What is in it, in bytes. */
size_t journal_file_bytes(const struct journal_file *f);
/* 1 from journal_file_lose until a snapshot is written. */
int journal_file_is_lost(const struct journal_file *f);

#endif
