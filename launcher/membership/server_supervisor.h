/* server_supervisor.h: supervises the ddprdzv that we started: keeps its
 * sockets and its journal open, so that a new one can continue with them when
 * it dies. It is started again up to three times a minute, and only if its
 * state is in a journal or in etcd; a candidate that etcd has replaced is
 * always started again, as a standby. Owns all that it was started with. */
#ifndef LAUNCHER_SERVER_SUPERVISOR_H
#define LAUNCHER_SERVER_SUPERVISOR_H

#include <stdint.h>
#include <sys/types.h>

#include "base/sock.h"
#include "launcher/membership/rdzv_options.h"
#include "rendezvous/auth/auth.h"

/* ---- one ddprdzv as our child ----
 *
 * Asked to exit by the end of a pipe. Owns the pid and our end of that pipe. */

struct server_process {
	pid_t pid; /* 0: none runs */
	int pipe;  /* its end asks the server to exit; -1: closed */
};

/* clang-format off */
#define SERVER_PROCESS_INIT {0, -1}
/* clang-format on */

/* It runs, and is stopped by a signal (SIGSTOP). */
int server_process_is_stopped(const struct server_process *s);

/* ---- and its successors ---- */

enum { SERVER_RESTARTS_MAX = 3 };

struct server_supervisor {
	struct server_process server;
	int fds[SOCK_LISTEN_MAX], n;   /* where it listens */
	int journal_fd;	/* where it keeps its state; -1: not there */
	const char *journal; /* but in this file; NULL: in none */
	const char *job; /* it serves no other; NULL: any */
	const char *torch_job; /* its PyTorch clients also connect here */
	const char *web; /* where it serves its page, or NULL */
	/* The etcd that chooses one server among several candidates; NULL: this
	 * server is no candidate. */
	const struct etcd_options *etcd;
	int64_t lease; /* in etcd, the same for all that we start */
	struct auth auth;	       /* also for the next one */
	int has_journal;
	int is_node_gone; /* the next one has to know it as well */
	int cut_off; /* the last one reached neither etcd nor other nodes */
	uint64_t again_ms; /* when its restart was last logged; 0: never */
	uint64_t restarts_ms[SERVER_RESTARTS_MAX];
	unsigned restarts;
};

/* clang-format off */
#define SERVER_SUPERVISOR_INIT {.server = SERVER_PROCESS_INIT, .journal_fd = -1}
/* clang-format on */

struct server_supervisor_options {
	const int *fds; /* n listening sockets; taken, even on failure */
	int n;
	const char *job, *torch_job; /* as in server_supervisor; borrowed */
	const char *web; /* likewise */
	const char *journal; /* a file; "none"; NULL: in memory, gone with us */
	const struct etcd_options *etcd; /* has the state; NULL: no etcd */
};

/* Starts the program that server_exec_init finds; its auth goes through the
 * pipe, where no other process sees it. Fails if there is no such program, or
 * no process or descriptors. client: how we prove ourselves to it, which
 * changes as auth_for_server says; not with etcd, where the job's server may be
 * another node's. */
int server_supervisor_start(struct server_supervisor *s,
			    const struct server_supervisor_options *o,
			    struct auth *client, struct err *e);

/* The job's key, as the job's server has sent it. With munge each candidate has
 * drawn a key of its own: ours accepts the job's workers by this one from now
 * on. */
void server_supervisor_learn_key(struct server_supervisor *s,
				 const struct proof *key);

enum server_end {
	SERVER_NOT_OURS,  /* another child ended */
	SERVER_ENDED,	  /* as it was asked to */
	SERVER_RESTARTED, /* it died, and another one runs; logged */
	SERVER_LOST,	  /* it died, e says how, and nobody listens any more */
};

/* A child has ended. */
enum server_end server_supervisor_reaped(struct server_supervisor *s, pid_t pid,
					 int status, struct err *e);

/* This node has left: jobs that are not over end, and late nodes learn how,
 * until server_supervisor_stop. */
void server_supervisor_node_gone(struct server_supervisor *s);

/* Asks it to exit, which it does later. Idempotent. */
void server_supervisor_stop(struct server_supervisor *s);

#endif
