/* rdzv.h: the way to the rendezvous server: hosts it where the endpoint is
 * this host's and free, else connects, again and again until it answers. Where
 * the endpoint has several ports the host takes the first that is free, and the
 * others look for the server of this job at all of them. Where etcd says which
 * server is the job's, each node has one of its own, which all on this node ask
 * first: it is the job's, or says where that is. Knows the greeting and nothing
 * of what is said after it. */
#ifndef LAUNCHER_RDZV_H
#define LAUNCHER_RDZV_H

#include "base/loop.h"
#include "launcher/config/config.h"
#include "launcher/membership/keeper.h"
#include "rendezvous/client/link.h"

enum { RDZV_ADDRS_MAX = 8 };

struct rdzv;

struct rdzv_events {
	/* Frames may be queued with link_out; our own address is known only
	 * where we host, before the greeting. */
	void (*on_calling)(struct rdzv *c);
	void (*on_greeted)(struct rdzv *c);
	void (*on_frame)(struct rdzv *c, const struct wire_frame *f);
	/* Lost after the greeting, without a word of the server's: 1: it is to
	 * be looked for. hopeless: it was ours, and is not started again. */
	int (*on_away)(struct rdzv *c, const struct err *why, int hopeless);
	/* For good: lost after the greeting, no ddprdzv at that port, or the
	 * server cannot be started. At most once, not after rdzv_close. */
	void (*on_lost)(struct rdzv *c, const struct err *why);
};

enum rdzv_phase {
	RDZV_OUT,     /* no connection */
	RDZV_CALLING, /* connecting, or connected and not yet greeted */
	RDZV_IN,      /* greeted by the server */
	RDZV_OVER
};

struct rdzv {
	void *owner;
	const struct rdzv_events *events;
	uv_loop_t *loop;
	const struct config *config;
	const char *host; /* this host's name */
	enum rdzv_phase phase;
	struct auth auth; /* how we prove that we belong to the job */
	struct proof key; /* of the job, for the workers, from RDZV_IN on */
	uint64_t session; /* the same for all our connections */
	int refused;      /* our proof, once: it may have died just then */
	uint64_t refused_since_ms; /* at one of several ports; 0: at none */
	struct sock_addr addrs[RDZV_ADDRS_MAX]; /* the endpoint's */
	int naddrs, next_addr, next_port;
	int nameless; /* its name does not resolve: these are used instead */
	struct sock_addr addr;     /* the one in use: who is not the job's
				    * server sends us on from there */
	char where[SOCK_TEXT_MAX]; /* the endpoint, for people */
	struct keeper keeper;
	int hosts;
	int beside; /* ours is one of those of which etcd chooses */
	struct err beside_over; /* how that one ended for good */
	uint64_t lost_ms;  /* when a server was lost, and */
	int lost_own;      /* it was that one */
	pid_t said_stopped; /* of the ddprdzv that is */
	uint64_t began_ms, called_ms;
	int greeted; /* there has been a server: this one is looked for */
	int renews;  /* it is there, as far as we know */
	int stopped; /* it is not */
	struct link link;
	int link_open; /* from link_start to on_closed */
	uv_timer_t retry, greeting;
	int timers_open;
	uint64_t mute_since_ms; /* it accepts, says nothing, closes; 0: no */
	int port_taken; /* the endpoint is ours, but its port is in use */
	uint64_t unheard_since_ms; /* and nobody listens at it; 0: no */
	unsigned backoff_ms;
	struct err last; /* why there is no connection yet */
	struct err unresolved; /* the endpoint's name, where srun's address is
				* tried instead, until then: */
	uint64_t unresolved_until_ms;
};

/* Resolves the endpoint, which may block on DNS, and decides how to prove that
 * we belong to the job; nothing is started. An error names the host. host must
 * outlive c. */
int rdzv_init(struct rdzv *c, uv_loop_t *loop, const struct config *config,
	      const char *host, const struct rdzv_events *events,
	      struct err *e);

/* Starts hosting or connecting. */
void rdzv_start(struct rdzv *c);

/* The network held our connection up, and is back: another one, at once. Until
 * it is greeted a server that cannot be reached is no news (on_away). */
void rdzv_renew(struct rdzv *c, const struct err *why);
/* Whoever listens there is about to go: another connection, later. */
void rdzv_again(struct rdzv *c, const struct err *why);

/* It says nothing any more: what a lost connection is. 0: that is no reason to
 * look for another server. */
int rdzv_silent(struct rdzv *c, const struct err *why);
/* Where the server is that we are connected to, or last were. */
char *rdzv_server_text(const struct rdzv *c, char text[SOCK_TEXT_MAX]);
/* This node's own, of several, is the one that we are connected to. */
int rdzv_is_beside(const struct rdzv *c);

/* No other connection. */
void rdzv_stop_looking(struct rdzv *c);

/* Closes the connection when what is queued is sent; the phase is OVER. */
void rdzv_hang_up(struct rdzv *c);

/* And all the rest; a server that we host is told to go and ends later. */
void rdzv_close(struct rdzv *c);

/* The job's key as hex digits into text[PROOF_HEX_SIZE], for the workers; ""
 * where nobody proves anything. From RDZV_IN on. */
char *rdzv_job_key(const struct rdzv *c, char *text);
/* Where other nodes reach this one, into text[SOCK_TEXT_MAX]: what the user
 * says; the endpoint's host, where we host; else the address from which we
 * reach the server. Known while a connection is, or earlier where we host. */
void rdzv_own_addr(struct rdzv *c, char *text);

/* A child ended: 1 if it was the server. */
int rdzv_reaped(struct rdzv *c, pid_t pid, int status);

#endif
