/* tool.h: one question to a rendezvous server, as a tool: its notices, then its
 * reply. Blocks, with a loop of its own; what they mean is the caller's. */
#ifndef LAUNCHER_TOOL_H
#define LAUNCHER_TOOL_H

#include <stddef.h>

#include "base/option.h"
#include "base/sock.h"
#include "rendezvous/auth/auth.h"

struct tool_question {
	const char *job; /* "": none */
	const struct auth *auth; /* how to prove who asks */
	/* Puts the request, of that id. */
	void (*put)(struct buf *out, uint32_t id, const void *arg);
	/* Of each notice: 0, or an error that ends it. */
	int (*take)(void *arg, const struct wire_frame *f, struct err *e);
	void *arg;
	uint32_t timeout_ms; /* silence for that long is an error */
};

/* 0 once the reply is there; or the server cannot be reached, is none, refuses,
 * or says nothing. */
int tool_ask(const struct endpoint *server, const struct tool_question *q,
	     struct err *e);

/* Which job, and which server it asks: the first rows of a tool's options, of a
 * struct with job, server, auth and token_file. endpoint_help: what it asks. */
#define TOOL_OPTIONS(type, endpoint_help)                                     \
	{.name = "job", .kind = OPTION_STRING, .offset = offsetof(type, job), \
	 .arg = "ID", .help = "Only of the job with this --rdzv-id."},        \
	{.name = "rdzv-endpoint", .kind = OPTION_STRING,                      \
	 .offset = offsetof(type, server), .arg = "HOST:PORT",                \
	 .help = endpoint_help},                                              \
	{.name = "auth", .kind = OPTION_STRING,                               \
	 .offset = offsetof(type, auth), .arg = "auto|secret|munge|none",     \
	 .help = "How to prove to that server who asks (as ddprun --auth)."}, \
	{.name = "token-file", .kind = OPTION_STRING,                         \
	 .offset = offsetof(type, token_file), .arg = "FILE",                 \
	 .help = "The secret of that server's nodes."}

#endif
