/* connection.h: the way to the rendezvous server: hosts it where the endpoint
 * is this host's and free, else connects, again and again until it answers.
 * Where the endpoint has several ports the host takes the first that is free,
 * and the others look for the server of this job at all of them. Where etcd
 * says which server is the job's, each node has one of its own, which all on
 * this node ask first: it is the job's, or says where that is. Knows the
 * greeting and nothing of what is said after it. */
#ifndef LAUNCHER_CONNECTION_H
#define LAUNCHER_CONNECTION_H

#include "base/loop.h"
#include "launcher/config/config.h"
#include "launcher/membership/server_supervisor.h"
#include "rendezvous/client/async_client.h"

enum { CONNECTION_ADDRS_MAX = 8 };

struct connection;

struct connection_events {
	/* Frames may be queued with async_client_out; our own address is known
	 * only where we host, before the greeting. */
	void (*on_calling)(struct connection *c);
	void (*on_greeted)(struct connection *c);
	void (*on_frame)(struct connection *c, const struct wire_frame *f);
	/* Lost after the greeting, without a word of the server's: 1: it is to
	 * be looked for. hopeless: it was ours, and is not started again. */
	int (*on_away)(struct connection *c, const struct err *why,
		       int hopeless);
	/* For good: lost after the greeting, no ddprdzv at that port, or the
	 * server cannot be started. At most once, not after connection_close.
	 */
	void (*on_lost)(struct connection *c, const struct err *why);
};

enum connection_phase {
	CONNECTION_OUT,	    /* no connection */
	CONNECTION_CALLING, /* connecting, or connected and not yet greeted */
	CONNECTION_IN,	    /* greeted by the server */
	CONNECTION_OVER
};

struct connection {
	void *owner;
	const struct connection_events *events;
	uv_loop_t *loop;
	const struct config *config;
	const char *host; /* this host's name */
	enum connection_phase phase;
	struct auth auth; /* how we prove that we belong to the job */
	struct proof
		key; /* of the job, for the workers, from CONNECTION_IN on */
	uint64_t session; /* the same for all our connections */
	int refused;	  /* our proof, once: it may have died just then */
	uint64_t refused_since_ms; /* at one of several ports; 0: at none */
	struct sock_addr addrs[CONNECTION_ADDRS_MAX]; /* the endpoint's */
	int naddrs, next_addr, next_port;
	int nameless; /* its name does not resolve: these are used instead */
	struct sock_addr addr;	   /* the one in use: who is not the job's
				    * server sends us on from there */
	char where[SOCK_TEXT_MAX]; /* the endpoint, for people */
	struct server_supervisor supervisor;
	int hosts;
	int is_candidate; /* ours is one of those of which etcd chooses */
	struct err candidate_error; /* how that one ended for good */
	uint64_t lost_ms;	    /* when a server was lost, and */
	int lost_own;		    /* it was that one */
	pid_t said_stopped;	    /* of the ddprdzv that is */
	uint64_t began_ms, called_ms;
	int greeted; /* there has been a server: this one is looked for */
	int renews;  /* it is there, as far as we know */
	int stopped; /* it is not */
	struct async_client link;
	int link_open; /* from async_client_start to on_closed */
	uv_timer_t retry, greeting;
	int timers_open;
	uint64_t mute_since_ms; /* it accepts, says nothing, closes; 0: no */
	int port_taken; /* the endpoint is ours, but its port is in use */
	uint64_t unheard_since_ms; /* and nobody listens at it; 0: no */
	unsigned backoff_ms;
	struct err last;       /* why there is no connection yet */
	struct err unresolved; /* the endpoint's name, where srun's address is
				* tried instead, until then: */
	uint64_t unresolved_until_ms;
};

/* Resolves the endpoint, which may block on DNS, and decides how to prove that
 * we belong to the job; nothing is started. An error names the host. host must
 * outlive c. */
int connection_init(struct connection *c, uv_loop_t *loop,
		    const struct config *config, const char *host,
		    const struct connection_events *events, struct err *e);

/* Starts hosting or connecting. */
void connection_start(struct connection *c);

/* The network held our connection up, and is back: another one, at once. Until
 * it is greeted a server that cannot be reached is no news (on_away). */
void connection_renew(struct connection *c, const struct err *why);
/* Whoever listens there is about to go: another connection, later. */
void connection_retry(struct connection *c, const struct err *why);

/* It says nothing any more: what a lost connection is. 0: that is no reason to
 * look for another server. */
int connection_on_silence(struct connection *c, const struct err *why);
/* Where the server is that we are connected to, or last were. */
char *connection_server_text(const struct connection *c,
			     char text[SOCK_TEXT_MAX]);
/* This node's own, of several, is the one that we are connected to. */
int connection_is_own_candidate(const struct connection *c);

/* No other connection. */
void connection_stop_search(struct connection *c);

/* Closes the connection when what is queued is sent; the phase is OVER. */
void connection_hang_up(struct connection *c);

/* And all the rest; a server that we host is told to go and ends later. */
void connection_close(struct connection *c);

/* The job's key as hex digits into text[PROOF_HEX_SIZE], for the workers; ""
 * where nobody proves anything. From CONNECTION_IN on. */
char *connection_job_key(const struct connection *c, char *text);
/* Where other nodes reach this one, into text[SOCK_TEXT_MAX]: what the user
 * says; the endpoint's host, where we host; else the address from which we
 * reach the server. Known while a connection is, or earlier where we host. */
void connection_own_addr(struct connection *c, char *text);

/* A child ended: 1 if it was the server. */
int connection_reaped(struct connection *c, pid_t pid, int status);

#endif
