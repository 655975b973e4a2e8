/* log.c: one log line, formatted, in one write. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"

enum { LINE_MAX_BYTES = 4096 };

static const char *program = "ddprun";
static enum log_level threshold = LOG_INFO;
static void (*line_sink)(void *arg, const char *line, unsigned long len);
static void *sink_arg;

static int log_level_parse(const char *text, enum log_level *level)
{
	static const struct {
		const char *name;
		enum log_level level;
	} names[] = {
		{"error", LOG_ERROR}, {"critical", LOG_ERROR},
		{"warn", LOG_WARN},   {"warning", LOG_WARN},
		{"info", LOG_INFO},   {"debug", LOG_DEBUG},
	};

	for (size_t i = 0; text && i < sizeof(names) / sizeof(*names); i++) {
		if (strcasecmp(text, names[i].name) == 0) {
			*level = names[i].level;
			return 1;
		}
	}
	return 0;
}

void log_init(const char *name)
{
	program = name;
	if (!log_level_parse(getenv("DDP_LOG"), &threshold))
		log_level_parse(getenv("LOGLEVEL"), &threshold);
}

void log_set_default(enum log_level level)
{
	threshold = level;
}

void log_set_sink(void (*sink)(void *arg, const char *line, unsigned long len),
		  void *arg)
{
	line_sink = sink;
	sink_arg = arg;
}

int log_enabled(enum log_level level)
{
	return level <= threshold;
}

void log_at(enum log_level level, const char *fmt, ...)
{
	static const char *const marks[] = {"", "warning: ", "", "debug: "};
	char line[LINE_MAX_BYTES];
	int len, more;
	va_list ap;

	if (!log_enabled(level))
		return;
	len = snprintf(line, sizeof(line), "%s: %s", program, marks[level]);
	va_start(ap, fmt);
	more = vsnprintf(line + len, sizeof(line) - (size_t)len - 1, fmt, ap);
	va_end(ap);
	if (more < 0)
		return;
	len += more;
	if (len > (int)sizeof(line) - 2)
		len = (int)sizeof(line) - 2;
	line[len++] = '\n';
	if (line_sink)
		line_sink(sink_arg, line, (unsigned long)len);
	else if (file_write_all(STDERR_FILENO, line, (size_t)len) < 0)
		return; /* there is nowhere else to report it */
}
