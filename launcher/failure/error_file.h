/* error_file.h: reads the error file that a worker wrote before it failed
 * ($TORCHELASTIC_ERROR_FILE: torch's @record, libddp's ddp_record_error), and
 * writes one for the launcher that started us. torchrun has two forms:
 *   {"message": {"message": text, "extraInfo": {"py_callstack": text,
 *                                               "timestamp": "seconds"}}}
 *   {"message": text, "timestamp": seconds} */
#ifndef LAUNCHER_ERROR_FILE_H
#define LAUNCHER_ERROR_FILE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum { ERROR_FILE_MAX = 63 << 10 }; /* it must fit in a message's text */

/* Reads path into json: 1 if it is JSON of either form; 0 if there is no such
 * file, or path is "". Otherwise ERR_DATA or -errno, and what is wrong: empty,
 * truncated, too large, in an unknown form, not a regular file. Never waits. */
int error_file_read(const char *path, struct buf *json, struct err *e);

struct error_file {
	char *message;     /* or NULL */
	char *callstack;   /* Python's traceback, or NULL */
	int64_t timestamp; /* unix seconds, or 0 */
};

/* Parses the text of an error file. ERR_DATA if it is of no known form. */
int error_file_parse(struct error_file *f, struct slice json, struct err *e);
void error_file_release(struct error_file *f);

/* Writes what torchrun would write for its own launcher: json with errorCode
 * added or, if json is "", text. The file is written whole or not at all. */
int error_file_forward(const char *path, struct slice json, struct slice text,
		       int error_code, int64_t now, struct err *e);

/* Replaces path by a new file with this text, by rename. Writes into a link, a
 * device or a FIFO instead. */
int error_file_replace(const char *path, const char *text, struct err *e);

#endif
