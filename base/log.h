/* log.h: log lines on stderr, each in one write. For programs only: libddp
 * never prints. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* name is borrowed for the life of the program ("ddprun"). The level comes
 * from DDP_LOG (error, warn, info, debug), else LOGLEVEL, else LOG_INFO. */
void log_init(const char *name);

/* The level if the environment sets none. Call it before log_init. */
void log_set_default(enum log_level level);

/* The sink gets each line with its newline; NULL: write(2) to stderr. The agent
 * uses it to send its own lines through the writer of its workers' lines. */
void log_set_sink(void (*sink)(void *arg, const char *line, unsigned long len),
		  void *arg);

int log_enabled(enum log_level level);

/* Logs "name: text\n" or "name: warning: text\n"; fmt has no newline. */
void log_at(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Makes a crash of this process write one line to stderr before it ends as
 * usual. libuv aborts without a word if the kernel refuses it what it needs;
 * the line says what was refused. A signal that another process sends, or for
 * which there is a handler already, is left alone. exec ends this. */
void log_report_crashes(void);

#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                                        \
	(log_enabled(LOG_DEBUG) ? log_at(LOG_DEBUG, __VA_ARGS__) : (void)0)

#endif
