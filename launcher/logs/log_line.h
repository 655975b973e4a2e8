/* log_line.h: what a line of a worker says about itself: when it was written,
 * and how serious it is. Pure. */
#ifndef LAUNCHER_LOG_LINE_H
#define LAUNCHER_LOG_LINE_H

#include <stdint.h>
#include <time.h>

#include "base/buf.h"

enum line_level {
	LINE_UNKNOWN, /* it does not say */
	LINE_DEBUG,
	LINE_INFO,
	LINE_WARNING,
	LINE_ERROR,
	LINE_FATAL,
};

/* From "debug", "info", "warning", "error" or "fatal", in any case, and their
 * usual other names; LINE_UNKNOWN: none of them. */
enum line_level line_level_named(const char *name);

/* The level in the line's first 100 bytes: a word such as WARNING in capitals,
 * "error:", the letter of glog and PyTorch ("W1129 18:43:53"), or the first
 * line of a Python traceback. */
enum line_level line_level_of(struct slice text);

/* The time in the line's first 64 bytes, in ns since 1970; -1: there is none.
 * "2026-11-29 18:43:53,123", also with T, and with Z or an offset; else local
 * time. "W1129 18:43:53.123456" has the year of near, "18:43:53" its day. */
int64_t line_time_of(struct slice text, time_t near);

#endif
