/* hosted.h: the server's insides: its members, the jobs that it hosts, and how
 * a job's actions become frames (hosted.c). server.c owns the sockets. */
#ifndef RENDEZVOUS_HOSTED_H
#define RENDEZVOUS_HOSTED_H

#include <stddef.h>

#include "rendezvous/net/conn.h"
#include "rendezvous/net/listener.h"
#include "rendezvous/round/ended.h"
#include "rendezvous/round/round.h"
#include "rendezvous/server/door.h"
#include "rendezvous/server/history.h"
#include "rendezvous/server/parent.h"
#include "rendezvous/server/session.h"
#include "rendezvous/server/standby.h"
#include "rendezvous/server/voucher.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/table.h"
#include "rendezvous/torch/torch_port.h"

enum {
	STATE_DELAY_MS = 20,  /* joins go on: they are told about once */
	STATE_LATEST_MS = 250,
	STATES_A_MS = 10,     /* so many are told in a ms at most */
	MOMENT_MS = 5000,     /* from END to closing an agent's connection */
	DRAIN_MS = 5000,      /* from the parent's end to ours */
	LAST_WORDS_MS = 200,  /* what came before the parent's end arrives */
	SUSPECT_MS = 50,      /* to read what waits before a lease ends */
	/* beyond its lease, to find a server again: where it was sent to one
	 * that is stopped it hears nothing for so long */
	BACK_MS = 5000,
};

struct hosted;

/* A client: an agent (perhaps with a node of a job), a worker of a round, or a
 * tool. */
struct member {
	struct conn conn; /* first: the connection's callbacks get it */
	int role; /* 0 before its proof, then an enum wire_role */
	int left; /* of a guest: how it went is known */
	struct hosted *hosted;
	struct session session; /* of a worker */
	struct server *server;
	struct member *next, **pprev;           /* all members */
	struct member *worker_next, **worker_pprev; /* the round's workers */
	struct caller caller; /* while role is 0 */
	char *job_id;
	char *host; /* of a guest or an agent; NULL where memory ran out */
	struct waited waited; /* of an agent; since 0: it does not */
	struct waited torch;  /* of its node's clients of PyTorch's store */
	struct job_node *node;  /* of an agent that has joined */
	struct addr_owner addrs; /* of an agent: its host's */
	uint64_t lease_ms;      /* of an agent: how long it may be silent */
	int full; /* it is told so, and closed, when it says HELLO */
	int suspect;            /* a lease has ended, once more to look */
	uint64_t close_at;      /* a moment after END; 0: not yet */
};

/* A job on this server. */
struct hosted {
	struct table_item item; /* first: by job id */
	struct table_item numbered; /* by number: all of them */
	uint64_t number;            /* in the history */
	struct server *server;
	struct job *job;
	struct pasts pasts; /* of the running round's workers */
	struct account *account; /* of all that its clients make us hold */
	size_t gone_bytes; /* of those, what job remembers of gone nodes */
	struct store *store; /* of the running round */
	struct torch_port *torch; /* its other door, or the last round's */
	uint16_t torch_port;      /* 0: it has none */
	struct sock_addr torch_at[TORCH_ADDRS_MAX]; /* there it is */
	int ntorch_at;
	struct vouchers vouchers; /* for who comes there */
	struct member *workers;
	uint32_t nworkers;
	uint64_t touched; /* something happened in it; loop time */
	uint64_t since; /* the job's state, or its round; loop time */
	struct job_node *guests; /* stands for all of them; NULL: agents do */
	uv_timer_t state_timer; /* STATE is due */
	uint32_t told_state;    /* to so many the last time */
	int more_state;         /* since the timer was set there is more */
	uint64_t state_since;
	uv_timer_t call_timer;  /* the last call is over */
	uv_timer_t back_timer;  /* who has not come back is lost */
	struct absent *absent;  /* they; the first to be lost is first */
	struct lost_node *lost; /* the last ones, for those who come late */
	int named;              /* new joins find it */
	int broken; /* by a record: what the journal has of it is left out */
	int closing; /* handles that are not closed yet */
};

/* What has happened since the start. */
struct server_counts {
	uint64_t accepted, refused_full, refused_hello, expired;
	uint64_t rounds, restarts, changes, leases_lost;
	uint64_t requests[WIRE_JOB + 1]; /* by type */
};

struct server {
	uv_loop_t *loop;
	struct conn_pool pool;
	struct door door;
	struct listener listeners[SOCK_LISTEN_MAX];
	int nlisteners;
	struct parent parent;
	uv_signal_t term, interrupt;
	uv_timer_t drain_timer;
	uv_timer_t waits_timer; /* active while somebody waits */
	uv_timer_t idle_timer;
	uint32_t max_connections, max_jobs; /* a job's; in all */
	size_t max_keys, max_bytes;         /* of a round's store */
	struct account_limits accounts;
	struct table tenants; /* their accounts, by name */
	uint64_t idle_ms;
	uint32_t fd_limit;
	const char *token_dir; /* of tenants' tokens, or NULL */
	int said_full;
	struct server_counts counts;
	struct web *web; /* /health and /metrics; NULL: nobody may ask */
	uv_timer_t watchdog;  /* of a service's manager, who expects it */
	int notifies;         /* somebody is told of our state */
	uint64_t lease_ms;
	int has_parent;
	struct place *place; /* in etcd; NULL: this is the server in any case */
	struct standby standby; /* with a place */
	struct table jobs;
	struct history history;
	struct ended ended;
	const char *only_job;  /* NULL: any */
	struct hosted *guests; /* the one job, of workers without agents */
	int parent_gone;       /* of a server with guests, which it outlives */
	struct member *members;
	struct dump *dumps;   /* under way */
	uint32_t last_dump;   /* the last one's number */
	int leaving; /* the job of who started us is over */
	int jobs_end; /* we are here only to say how they ended */
	int draining, stopped_jobs, closing;
	char endpoint[330];
	char why[450]; /* why it drains, for the agents */
};

/* The job of that name, to be joined; made if there is none. It may be over
 * where no other will follow it. NULL when memory ran out. */
struct hosted *hosted_for_join(struct server *s, struct slice id);
/* The job of that name, or NULL. */
struct hosted *hosted_find(struct server *s, struct slice id);
/* m's node may be silent for its lease: so may its workers, and it. */
void hosted_bear_with(struct member *m);
static inline struct hosted *hosted_of_number(struct table_item *item)
{
	return (struct hosted *)((char *)item -
				 offsetof(struct hosted, numbered));
}
/* From a journal: takes the job; NULL when memory ran out. */
struct hosted *hosted_restore(struct server *s, struct job *job,
			      uint64_t number, int named);
/* For the round that runs. 0 or -ENOMEM. */
int hosted_make_store(struct hosted *h);
/* With all that is in it; nobody is told. */
void hosted_drop(struct hosted *h);
/* START to that node, if it runs and is here; STATE to all who wait, soon. */
void hosted_tell_start(struct hosted *h, const struct job_node *n);
void hosted_tell_state(struct hosted *h);
/* Does what the job wants done, after each event. */
void hosted_act(struct hosted *h);
/* A worker's HELLO: it is in its round from now on, or is told why not. */
int hosted_admit_worker(struct member *m, const struct wire_hello *hello,
			struct err *e);
void hosted_add_worker(struct hosted *h, struct member *m);
/* The member's connection is gone; why is for "lost: ". */
void hosted_lose(struct member *m, const char *why);
/* Goes when nobody is in it any more, unless others may come that are to be
 * told how it ended. */
void hosted_free_if_empty(struct hosted *h);

#endif
