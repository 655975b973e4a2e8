/* connection.h: the way to the rendezvous server: hosts one where the endpoint
 * is this host's and free, else connects, again and again until a server
 * greets us. If the endpoint has several ports, the host takes the first free
 * one, and the others look for the job's server at all of them. Where etcd
 * chooses the server each node has a candidate of its own, which all on this
 * node ask first: it is the job's server, or says where that is.
 *
 * Owns the connection, our proof and the server that we host. Knows the
 * greeting and none of the messages after it. What can fail: name
 * resolution (connection_init), and for good, through on_lost, a server that
 * cannot be started, refuses us or is none. */
#ifndef LAUNCHER_CONNECTION_H
#define LAUNCHER_CONNECTION_H

#include "base/loop.h"
#include "launcher/membership/rdzv_options.h"
#include "launcher/membership/server_supervisor.h"
#include "rendezvous/client/async_client.h"

enum { CONNECTION_ADDRS_MAX = 8 };

struct connection;

struct connection_events {
	/* An attempt begins: frames may be queued with async_client_out. Our
	 * own address is known before the greeting only where we host. */
	void (*on_calling)(struct connection *c);
	void (*on_greeted)(struct connection *c);
	void (*on_frame)(struct connection *c, const struct wire_frame *f);
	/* The server that greeted us is lost, and gave no reason. Returns 1:
	 * look for it. hopeless: it was ours and is not started again. */
	int (*on_away)(struct connection *c, const struct err *why,
		       int hopeless);
	/* For good: lost after the greeting, no ddprdzv at that port, or the
	 * server cannot be started. At most once, not after connection_close.
	 */
	void (*on_lost)(struct connection *c, const struct err *why);
};

enum connection_phase {
	CONNECTION_OUT,	    /* no connection */
	CONNECTION_CALLING, /* connecting, or waiting for the greeting */
	CONNECTION_IN,	    /* the server has greeted us */
	CONNECTION_OVER
};

/* What an attempt looks for. */
enum connection_search {
	SEARCH_FIRST,  /* a server: none has greeted us yet */
	SEARCH_AGAIN,  /* the job's server: one has greeted us */
	SEARCH_SAME,   /* the server that greeted us: it runs, only the
			* connection was torn */
	SEARCH_STOPPED /* none, any more */
};

/* What this node starts itself. */
enum connection_role {
	ROLE_GUEST,    /* no server */
	ROLE_HOST,     /* the job's server */
	ROLE_CANDIDATE /* one of those of which etcd chooses */
};

struct connection {
	void *owner;
	const struct connection_events *events;
	uv_loop_t *loop;
	const struct rdzv_options *options;
	const char *host; /* this host's name */
	enum connection_phase phase;
	enum connection_search search;
	enum connection_role role;
	struct auth auth; /* how we prove that we belong to the job */
	struct proof key; /* the job's, for the workers, from IN on */
	uint64_t session; /* the same for all our connections */
	struct sock_addr addrs[CONNECTION_ADDRS_MAX]; /* the endpoint's */
	int naddrs, next_addr, next_port;
	int ended_by; /* a signal, that came while the name was waited for */
	struct name_again *again; /* a look-up while we try; NULL: none runs */
	uint64_t looked_ms;
	int is_nameless; /* the endpoint's name does not resolve: these are
			  * Slurm's addresses */
	struct sock_addr addr;	   /* in use; a candidate that is not the
				    * job's server redirects us from here */
	char where[SOCK_TEXT_MAX]; /* the endpoint, for people */
	struct async_client link;
	int link_open; /* from async_client_start to on_closed */
	uv_timer_t retry, greeting;
	int timers_open;
	unsigned backoff_ms;
	uint64_t began_ms, called_ms;
	struct err last;       /* why there is no connection yet */
	struct err unresolved; /* the endpoint's name, where Slurm's address is
				* a guess that is tried until then: */
	uint64_t unresolved_until_ms;

	/* What earlier attempts met. */
	int refusals; /* how often our proof was refused. After the first, we
		       * try once more at once: the server may have died just
		       * then; 2: we have */
	uint64_t refused_since_ms; /* at one of several ports; 0: at none */
	uint64_t mute_since_ms; /* it accepts, sends nothing, closes; 0: no */

	/* Our own server; connection_host.c. */
	struct server_supervisor supervisor;
	struct err candidate_error; /* how it ended for good */
	uint64_t own_lost_ms; /* when it was lost as the job's server; 0: not
			       * it was lost last */
	pid_t logged_stopped; /* the stopped ddprdzv that people know of */
	int port_taken;	      /* the endpoint is ours, its port is in use */
	uint64_t unheard_since_ms; /* and nobody listens at it; 0: no */
};

/* Resolves the endpoint, which may block on DNS, and decides how to prove that
 * we belong to the job; nothing is started. An error names the host; -EINTR:
 * ended_by. host must outlive c. */
int connection_init(struct connection *c, uv_loop_t *loop,
		    const struct rdzv_options *options, const char *host,
		    const struct connection_events *events, struct err *e);

/* Starts hosting or connecting. */
void connection_start(struct connection *c);

/* Replaces a connection that the network held up, at once. Until it is greeted
 * a server that cannot be reached is not lost. */
void connection_renew(struct connection *c, const struct err *why);
/* Drops the connection and makes another one later: the server that listens
 * there is about to end. */
void connection_retry(struct connection *c, const struct err *why);
/* Treats a server that sends nothing as lost. 0: no other can take its place,
 * and nothing was done. */
int connection_lose_silent(struct connection *c, const struct err *why);
/* Drops the connection and makes no other. */
void connection_stop_search(struct connection *c);
/* Closes the connection when what is queued is sent; the phase is OVER. */
void connection_hang_up(struct connection *c);
/* And all the rest; a server that we host is asked to exit, and does so
 * later. */
void connection_close(struct connection *c);

/* The address of the server that we are connected to, or last were. */
char *connection_server_text(const struct connection *c,
			     char text[SOCK_TEXT_MAX]);
/* This node's candidate is the server that we are connected to. */
int connection_is_own_candidate(const struct connection *c);
/* The job's key as hex digits into text[PROOF_HEX_SIZE], for the workers; ""
 * where nobody proves anything. From IN on. */
char *connection_job_key(const struct connection *c, char *text);
/* Where other nodes reach this one, into text[SOCK_TEXT_MAX]: what the user
 * chose; the endpoint's host, where we host; else the address from which we
 * reach the server. Known while a connection is, or earlier where we host. */
void connection_own_addr(struct connection *c, char *text);

/* A child ended: 1 if it was the server. */
int connection_reaped(struct connection *c, pid_t pid, int status);

#endif
