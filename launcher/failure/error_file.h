/* error_file.h: what a worker wrote into $TORCHELASTIC_ERROR_FILE before it
 * failed (torch's @record, libddp's ddp_record_error), and the same for the
 * launcher above us, if there is one. Two forms, both torchrun's:
 *   {"message": {"message": text, "extraInfo": {"py_callstack": text,
 *                                               "timestamp": "seconds"}}}
 *   {"message": text, "timestamp": seconds} */
#ifndef LAUNCHER_ERROR_FILE_H
#define LAUNCHER_ERROR_FILE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum { ERROR_FILE_MAX = 63 << 10 }; /* it travels in a message's text */

/* Reads path. 1 and the text in json, if it is JSON of either form; 0 if no
 * file or path is ""; ERR_DATA or -errno, and what is wrong with it: empty,
 * torn, too large, not of a known form, no regular file. Never waits. */
int error_file_read(const char *path, struct buf *json, struct err *e);

struct error_file {
	char *message;     /* its text, NULL if there is none */
	char *callstack;   /* Python's traceback, or NULL */
	int64_t timestamp; /* unix seconds, 0 if it has none */
};

/* Takes a text apart. ERR_DATA if it is of no known form. */
int error_file_parse(struct error_file *f, struct slice json, struct err *e);
void error_file_release(struct error_file *f);

/* Writes what torchrun would write for its own launcher: json with errorCode
 * added, or, where json is "", text. Whole or not at all. */
int error_file_pass_on(const char *path, struct slice json, struct slice text,
		       int error_code, int64_t now, struct err *e);

/* Writes a file beside its name, then renames it. A link, a device or a FIFO is
 * written to as it is. */
int error_file_replace(const char *path, const char *text, struct err *e);

#endif
