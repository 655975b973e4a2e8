/* server.h: the state of a running server that its rooms share: connections,
 * jobs, limits, and the hooks by which jobs notify the rooms above. daemon.c
 * makes and frees it; nobody else owns a part of it. */
#ifndef RENDEZVOUS_SERVER_H
#define RENDEZVOUS_SERVER_H

#include "base/loop.h"
#include "rendezvous/auth/auth.h"
#include "rendezvous/auth/credential.h"
#include "rendezvous/journal/journal_writer.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/net/listener.h"
#include "rendezvous/net/log_limiter.h"
#include "rendezvous/round/finished_jobs.h"
#include "rendezvous/store/account.h"
#include "rendezvous/store/hash_table.h"

/* ---- the ddprun that started us ----
 *
 * The pipe from the ddprun that started this server: it reports that ddprun
 * has ended, that its own node has left the job, and the job's key if that
 * comes later (protocol-etcd.txt). */

struct server;

struct parent_pipe_events {
	void (*on_gone)(struct server *s);
	void (*on_node_gone)(struct server *s); /* late nodes may still join */
};

struct parent_pipe {
	uv_pipe_t pipe;
	const struct parent_pipe_events *events;
	unsigned char record[AUTH_BYTES];
	size_t have; /* bytes of it */
};

/* Takes fd, and ignores the signals that the parent handles for us. */
int parent_pipe_watch(struct server *s, int fd,
		      const struct parent_pipe_events *events, struct err *e);

enum {
	SERVER_CLOSE_MS = 5000, /* from END to closing an agent's connection */
	SERVER_SUSPECT_MS = 50, /* to read what came before a lease ended */
};

struct dump;
struct hosted_job;
struct http_server;
struct job_node;
struct leadership;
struct mute_conn;
struct parked;
struct peer;
struct server;
struct standby_hello;
struct torch_wait;
struct wait_text;

/* What jobs and peers notify the rooms above of; any may be NULL. */
struct server_hooks {
	/* The peer's connection is gone, or is about to be taken away. */
	void (*on_peer_gone)(struct peer *p, const char *why);
	/* An agent has left its job; the peer still exists. */
	void (*on_agent_gone)(struct hosted_job *h, struct peer *agent);
	/* The node is about to be lost and freed. */
	void (*on_node_lost)(struct hosted_job *h, const struct job_node *n,
			     const char *why);
	/* A round begins: PyTorch's store gets its port. */
	void (*on_round)(struct hosted_job *h);
	/* It has ended; job_end says how. */
	void (*on_round_end)(struct hosted_job *h);
	/* A peer of one of the jobs may have to wait from now on. */
	void (*on_wait)(struct server *s);
	/* A client of PyTorch's store gave up waiting. owner is the job. */
	void (*on_torch_gave_up)(void *owner, const struct torch_wait *w);
	/* The job has no nodes any more; and it is being freed. */
	void (*on_job_empty)(struct hosted_job *h);
	void (*on_job_closed)(struct hosted_job *h);
	/* For a worker's session: see peer.h. */
	void (*explain)(const struct parked *p, struct wait_text *text);
	uint64_t (*fate_due)(const struct parked *p);
};

#define SERVER_CALL_HOOK(s, hook, ...)                 \
	do {                                           \
		if ((s)->hooks && (s)->hooks->hook)    \
			(s)->hooks->hook(__VA_ARGS__); \
	} while (0)

/* Peers without proof, in the order in which they came (admission.h). */
struct applicants {
	unsigned count;
	struct peer *first, *last;
	int is_full; /* one more client waits to be accepted */
	void (*on_room)(struct server *s); /* it may be accepted now */
};

/* HELLOs that wait until the job's server is known (standby.c). */
struct standby {
	struct standby_hello *first, *last; /* the oldest first */
	uv_timer_t timer; /* the first has waited long enough */
};

/* Why a round ended. */
enum server_round_end {
	SERVER_ENDED_WELL,	/* all workers exited with 0 */
	SERVER_ENDED_BY_EXIT,	/* a worker exited with another code */
	SERVER_ENDED_BY_SIGNAL, /* a signal killed a worker */
	SERVER_ENDED_BY_NODES,	/* nodes joined or left */
	SERVER_ENDED_OTHERWISE, /* a node was lost, a rank hung, a stop */
	SERVER_ROUND_ENDS
};

enum server_round_end server_round_end_of(const struct wire_end *end);
/* "success", "exit", "signal", "nodes", "other" */
const char *server_round_end_name(enum server_round_end end);

/* Counted since the start. */
struct server_counts {
	uint64_t accepted, refused_full, refused_hello, expired;
	uint64_t rounds, restarts, changes, leases_lost;
	uint64_t ends[SERVER_ROUND_ENDS];
	uint64_t requests[WIRE_RANKS + 1]; /* by type */
};

struct server {
	uv_loop_t *loop;
	const struct server_hooks *hooks;
	char endpoint[330];   /* where it listens first */
	const char *only_job; /* NULL: any */

	/* connections */
	struct conn_pool pool;
	struct listener listeners[SOCK_LISTEN_MAX];
	int nlisteners;
	uint16_t port; /* where it listens first */
	/* PyTorch's clients of this job connect there as well; NULL: none do */
	const char *torch_job;
	struct {
		struct mute_conn *first, **end; /* the oldest first */
		unsigned count;
	} mute; /* they have not said whose they are (listening.c) */
	/* Accepts a client of ours. */
	enum listener_answer (*accept)(struct server *s, int fd, int scarce);
	struct auth auth; /* which clients may come in */
	struct applicants applicants;
	struct log_limiter limiter; /* for lines about refused clients */
	struct standby standby;	    /* with a leadership */
	struct peer *peers;

	/* jobs */
	struct hash_table jobs;	     /* those that new nodes join, by id */
	struct hash_table by_number; /* all, by number */
	uint64_t last_number;	     /* the last job's */
	struct finished_jobs finished;
	struct hosted_job
		*agentless; /* the one job of workers without agents */

	/* limits */
	uint32_t max_connections, max_jobs; /* per job; in all */
	size_t max_keys, max_bytes;	    /* in a round's store */
	struct account_limits accounts;
	struct hash_table tenants; /* their accounts, by name */
	const char *token_dir;	   /* the folder of tenants' tokens, or NULL */
	uint64_t lease_ms, idle_ms;
	uv_timer_t idle_timer;
	uint32_t fd_limit;
	int has_warned_full;

	/* what outlives this process */
	struct journal_writer writer;
	char sealed_key[CREDENTIAL_MAX]; /* elected_server.c; "": none */
	struct leadership *leadership;	 /* in etcd; NULL: always the leader */

	/* queries and monitoring */
	uv_timer_t waits_timer;	 /* active while a peer waits */
	struct dump *dumps;	 /* under way */
	uint32_t last_dump;	 /* number */
	struct http_server *metrics; /* /health and /metrics, or NULL */
	struct web *web; /* the page, or NULL (web/web.h) */
	uv_timer_t watchdog;	 /* if systemd's watchdog expects
				  * notifications */
	int notifies;		 /* systemd wants our state */
	struct server_counts counts;

	/* how this server ends */
	int has_parent;
	struct parent_pipe parent;
	uv_signal_t term, interrupt;
	uv_timer_t drain_timer;
	int parent_gone; /* agentless workers outlive it */
	int is_ending;	 /* the job of the ddprun that started us is over */
	int jobs_end;	 /* we only stay to report how the jobs ended */
	int draining, has_stopped_jobs, closing;
	char why[450]; /* why it drains, for the agents */
};

/* ---- its lists, which only server.c and hosted_job.c walk by hand ---- */

/* A walk begins after NULL and ends with NULL, in no particular order. No peer
 * or job may be added or removed meanwhile, except that a peer may be freed
 * once the one after it is known. */
struct peer *server_next_peer(const struct server *s, const struct peer *after);
/* All jobs; those that new nodes join. */
struct hosted_job *server_next_job(const struct server *s,
				   struct hosted_job *after);
struct hosted_job *server_next_named_job(const struct server *s,
					 struct hosted_job *after);
size_t server_count_jobs(const struct server *s);
size_t server_count_named_jobs(const struct server *s);
/* The job, or NULL. */
struct hosted_job *server_find_job(struct server *s, uint64_t number);
struct hosted_job *server_find_named_job(struct server *s, struct slice id);

void server_add_peer(struct server *s, struct peer *p);
void server_remove_peer(struct peer *p);
/* Enters the job, with a new number unless it has one. 0 or -ENOMEM. */
int server_add_job(struct server *s, struct hosted_job *h);
void server_remove_job(struct hosted_job *h);
/* From now on, or no longer, new nodes join it by its name. */
int server_name_job(struct server *s, struct hosted_job *h);
void server_unname_job(struct hosted_job *h);
/* Drops all jobs (hosted_job_drop). */
void server_drop_jobs(struct server *s);
void server_release_lists(struct server *s);

/* ---- systemd ----
 *
 * Reports the server's state to systemd, and feeds its watchdog. Does nothing
 * outside of a service. */

void service_notify_init(struct server *s);
void service_notify_close(struct server *s);
/* The server listens; it stops; its number of jobs has changed. */
void service_notify_ready(struct server *s);
void service_notify_stops(struct server *s);
void service_notify_jobs(struct server *s);

#endif
