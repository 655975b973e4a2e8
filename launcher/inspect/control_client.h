/* control_client.h: what `ddprun dump` and `ddprun status` share: one request
 * to a rendezvous server, how to authenticate it, and their common options.
 * Blocks, with a loop of its own; does not know what a message means. */
#ifndef LAUNCHER_CONTROL_CLIENT_H
#define LAUNCHER_CONTROL_CLIENT_H

#include <stddef.h>

#include "base/flight_recorder.h"
#include "base/option.h"
#include "base/sock.h"
#include "rendezvous/auth/auth.h"

enum {
	CONTROL_CLIENT_PORT = 29400, /* for an endpoint without a port */
	CONTROL_CLIENT_NOTHING = 1,  /* exit code: there is no such job */
};

struct control_request {
	const char *job; /* "": none */
	const struct auth *auth;
	/* Appends the request, with that id. */
	void (*put)(struct buf *out, uint32_t id, const void *arg);
	/* Handles a notice that comes before the reply; an error ends it. */
	int (*on_notice)(void *arg, const struct wire_frame *f, struct err *e);
	void *arg;
	uint32_t timeout_ms; /* silence for that long is an error */
};

/* 0 once the reply is there. Otherwise the server cannot be reached, is not a
 * rendezvous server, refuses, or sends nothing. */
int control_client_request(const struct endpoint *server,
			   const struct control_request *q, struct err *e);

/* Authenticates as the agents and workers of that job do: with the key in its
 * flight recorder, which only its user can open. ERR_USAGE: the key is damaged.
 */
int control_client_job_auth(struct auth *a, const struct flight_file *job,
			    struct err *e);

/* Prints usage, the options and the exit codes. `what` completes "1 if there is
 * no such". */
void control_client_print_help(const char *usage,
			       const struct option_spec *options,
			       const char *what);
/* Logs e and returns code. */
int control_client_fail(const struct err *e, int code);

/* The first and the last rows of an option table, for a struct with job,
 * server, auth, token_file and json. endpoint_help: for --rdzv-endpoint. */
#define CONTROL_CLIENT_OPTIONS(type, endpoint_help)                           \
	{.name = "job", .kind = OPTION_STRING, .offset = offsetof(type, job), \
	 .arg = "ID", .help = "Only the job with this --rdzv-id."},           \
	{.name = "rdzv-endpoint", .kind = OPTION_STRING,                      \
	 .offset = offsetof(type, server), .arg = "HOST:PORT",                \
	 .help = endpoint_help},                                              \
	{.name = "auth", .kind = OPTION_STRING,                               \
	 .offset = offsetof(type, auth), .arg = "auto|secret|munge|none",     \
	 .help = "How to authenticate to that server (ddprun --auth)."},      \
	{.name = "token-file", .kind = OPTION_STRING,                         \
	 .offset = offsetof(type, token_file), .arg = "FILE",                 \
	 .help = "The secret of that server's nodes."}
#define CONTROL_CLIENT_LAST_OPTIONS(type)                                     \
	{.name = "json", .kind = OPTION_FLAG, .offset = offsetof(type, json), \
	 .help = "Print JSON."},                                              \
	{.name = "help", .letter = 'h', .kind = OPTION_HELP,                  \
	 .help = "Show this help."},                                          \
	{.name = NULL}

#endif
