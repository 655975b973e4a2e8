/* web_internal.h: the parts of the page's server. */
#ifndef RENDEZVOUS_WEB_INTERNAL_H
#define RENDEZVOUS_WEB_INTERNAL_H

#include "base/buf.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/sock.h"
#include "rendezvous/net/http_server.h"
#include "rendezvous/query/query.h"
#include "rendezvous/server/hosted_job.h"
#include "rendezvous/server/server.h"
#include "rendezvous/web/web.h"

enum {
	WEB_STATE_MAX = 32 << 20,
	WEB_STATES = 4,
	WEB_STATE_MS = 1000, /* a state is kept for that long, and */
	WEB_STATE_SHARE = 50, /* times the time that it took to make */
	WEB_SHORT_MAX = 1000, /* jobs in short */
	WEB_DUMP_MAX = 16 << 20,
	WEB_DUMP_MS = 10000, /* for the agents' replies */
	WEB_OUTPUTS = 16, /* ranks whose last lines are kept */
	WEB_OUTPUT_MS = 1000, /* for that long; then they are asked for again */
	WEB_OUTPUT_WAIT_MS = 5000, /* for an agent's answer */
	WEB_OUTPUT_LINES = 20, /* from each stream */
	WEB_JOBS_MAX = 1024, /* whose rounds are kept */
	WEB_TOKEN_BYTES = 16,
	WEB_TOKEN_SIZE = 2 * WEB_TOKEN_BYTES + 1,
};

/* ---- web_access.c ----
 *
 * Which requests are served. Pure. */

struct web_access {
	char token[WEB_TOKEN_SIZE];  /* in the URL */
	char cookie[WEB_TOKEN_SIZE]; /* the session's; random as well */
	char cookie_name[32]; /* cookies of a host belong to all its ports */
	char host[SOCK_HOST_MAX];  /* where it listens, as the option says */
	char own_name[SOCK_HOST_MAX]; /* this host's name */
};

/* The Host header names this server and no domain that somebody else's DNS may
 * point here. NULL: no header. */
int web_access_is_host(const struct web_access *a, const char *host);
/* In constant time. given may be NULL. */
int web_access_is_token(const char *given, const char *token);
/* The Cookie or the Authorization header, which may be NULL, proves that the
 * client knows the token. */
int web_access_is_granted(const struct web_access *a, const char *cookies,
			  const char *authorization);

/* ---- round_log.c ----
 *
 * The last rounds of a job, for the time line. Pure. */

enum { ROUND_LOG_MAX = 64, ROUND_LOG_CAUSE_MAX = 400 };

struct round_entry {
	uint32_t round, world_size, nodes;
	uint64_t began_ms, ended_ms; /* loop time; ended 0: it runs */
	uint8_t verdict;	     /* how it ended */
	char *cause;		     /* NULL: none, or no memory for it */
};

struct round_log {
	struct round_entry entries[ROUND_LOG_MAX]; /* a ring */
	uint64_t n; /* all that have begun */
};

/* NULL: out of memory. */
struct round_log *round_log_new(void);
void round_log_free(struct round_log *l); /* NULL is fine */
void round_log_begin(struct round_log *l, const struct wire_job *m,
		     uint64_t now_ms);
/* The last one ends; ignored if it has ended. */
void round_log_end(struct round_log *l, uint8_t verdict, struct slice cause,
		   uint64_t now_ms);
/* Appends a JSON list, the oldest first. l may be NULL. */
void round_log_put_json(const struct round_log *l, struct buf *out,
			const struct json *j, uint64_t now_ms);

/* ---- web_state.c ----
 *
 * The JSON that the page draws, kept for a second. */

struct web_state {
	char *job;	  /* NULL: this place is free; "": no job in full */
	uint64_t until_ms; /* loop time; then another one is made */
	uint64_t number;  /* its ETag */
	struct buf text;
};

struct web_states {
	struct web_state kept[WEB_STATES];
	uint64_t last; /* number */
};

/* A state of that job, made now or not long ago; NULL with text.
 * Valid until the next call. */
const struct web_state *web_states_get(struct web_states *w, struct server *s,
				       const char *job, struct err *e);
void web_states_release(struct web_states *w);

/* ---- web_dump.c ----
 *
 * One dump of a job, made for the page. */

struct web_dump {
	struct dump_reader reader; /* first */
	struct server *server;
	uv_timer_t timer;
	char *job, *id; /* NULL: there was none yet */
	int is_open;	/* under way */
	struct buf text;
};

void web_dump_init(struct web_dump *d, struct server *s);
/* Fills in the reply: the dump's text, or 202, 409 while another one is under
 * way, 404 without such a job. Returns the status. */
int web_dump_reply(struct web_dump *d, const char *job, const char *id,
		   struct http_reply *r);
/* on_closed is called when the timer is closed. */
void web_dump_close(struct web_dump *d, uv_close_cb on_closed);

/* ---- web_output.c ----
 *
 * The last lines of some ranks' output. However many clients follow a rank, its
 * agent is asked once a second, and not at all when nobody follows it. */

struct web_output {
	struct dump_reader reader; /* first */
	struct web_outputs *all;
	char *job; /* NULL: this place is free */
	uint32_t rank;
	int is_open; /* its agent has been asked */
	uint64_t asked_ms, used_ms; /* loop time */
	struct buf text; /* JSON; empty: there is none yet */
};

struct web_outputs {
	struct server *server;
	uv_timer_t timer; /* ends questions that got no answer */
	struct web_output kept[WEB_OUTPUTS];
};

void web_outputs_init(struct web_outputs *w, struct server *s);
/* Fills in the reply: JSON, or 202 while the agent is asked for the first time,
 * 404 without such a job or rank, 409 while too many others are asked. Returns
 * the status. */
int web_outputs_reply(struct web_outputs *w, const char *job, uint32_t rank,
		      struct http_reply *r);
/* on_closed is called when the timer is closed. */
void web_outputs_close(struct web_outputs *w, uv_close_cb on_closed);

#endif
