/* event_command.h: --on-event: runs the user's command when something happens
 * to the job, with what happened as JSON on its standard input. The job never
 * waits for it: the input is a file in memory, and a command that takes too
 * long is killed. What goes wrong is a warning. Owns the processes and their
 * timers. */
#ifndef LAUNCHER_EVENT_COMMAND_H
#define LAUNCHER_EVENT_COMMAND_H

#include <sys/types.h>

#include "base/loop.h"

enum {
	EVENT_COMMANDS_MAX = 8,	  /* at a time; more events are dropped */
	EVENT_COMMAND_MS = 30000, /* for one command */
	EVENT_COMMAND_END_MS = 5000, /* when the job is over */
};

struct event_command_run {
	pid_t pid; /* 0: none */
	const char *event;
	int is_late;
	uv_timer_t timer;
};

struct event_commands {
	const char *command; /* NULL: none; borrowed, as job is */
	const char *job;
	struct event_command_run runs[EVENT_COMMANDS_MAX];
};

/* An event; text describes it in one line. */
struct event_command_news {
	const char *event; /* "failed", "hung", "slow", ... */
	const char *text;
	uint32_t round, attempt;
	int64_t rank; /* -1: none */
};

void event_commands_init(struct event_commands *c, uv_loop_t *loop,
			 const char *command, const char *job);
/* Does nothing without a command. */
void event_commands_run(struct event_commands *c,
			const struct event_command_news *n);
/* A child ended: 1 if it was one of these. */
int event_commands_reaped(struct event_commands *c, pid_t pid, int status);
/* The job is over: commands that still run get EVENT_COMMAND_END_MS, during
 * which the loop continues. */
void event_commands_end(struct event_commands *c);
/* Closes the timers, for the loop's last turn. */
void event_commands_close(struct event_commands *c);

#endif
