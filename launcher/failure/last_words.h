/* last_words.h: finds in the last lines of a worker's stderr the sentence that
 * says why it ended: a Python exception and its place, a failed assertion, an
 * uncaught C++ exception, a sanitizer's summary, a panic. Pure. */
#ifndef LAUNCHER_LAST_WORDS_H
#define LAUNCHER_LAST_WORDS_H

#include "base/buf.h"

enum {
	LAST_WORDS_MAX = 272, /* the first line of a report has room for 300 */
	/* bytes of the end of a longer one, as C++ ends with the status */
	LAST_WORDS_END = 107,
};

/* Appends the sentence, in one line of at most LAST_WORDS_MAX bytes and a place
 * " (FILE:LINE)". code and signal are the worker's exit status. Python exits
 * with 1 after a traceback, so with another code an earlier traceback counts
 * only if nothing follows it. Where no sentence stands out, the last line is
 * taken, but not after a signal other than SIGABRT: a line of a log explains no
 * SIGSEGV. Appends nothing if there is no sentence. */
void last_words_put(struct buf *out, struct slice tail, int code, int signal);

/* The same, but the last line only if it is about an error. */
void last_words_put_clear(struct buf *out, struct slice tail, int code,
			  int signal);

/* The same, but a line only if it has a word like "failed". */
void last_words_put_likely(struct buf *out, struct slice tail, int code,
			   int signal);

/* The same of a worker that has called MPI_Abort: what its MPI library says is
 * wrong, or what the program said before it called it. */
void last_words_put_abort(struct buf *out, struct slice tail);

/* The same of a worker that runs and does nothing: what it said at the end of
 * tail, if that is an exception or the like: a thread or a process of it may
 * have died. */
void last_words_put_error(struct buf *out, struct slice tail);

/* Appends " (FILE:LINE)" from frames that Python prints, the innermost one
 * first: the first frame in the user's own code. */
void last_words_put_python_place(struct buf *out, struct slice frames);

/* The frames of a Python traceback, a line each: the program's own first, then
 * those of libraries, the innermost first among each. Returns how many. */
int last_words_put_stack(struct buf *out, struct slice traceback);

#endif
