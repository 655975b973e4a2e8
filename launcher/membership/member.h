/* member.h: this node as a member of the job: joins rounds, keeps the lease,
 * tells the server how workers end, finds the server again when it is lost.
 * Runs the actions of membership.h's table. Knows no workers: what the server
 * decides goes to the owner, through member_events. */
#ifndef LAUNCHER_MEMBER_H
#define LAUNCHER_MEMBER_H

#include "launcher/inspect/node_dump.h"
#include "launcher/membership/join_progress.h"
#include "launcher/membership/membership.h"
#include "launcher/membership/reconnect.h"
#include "launcher/membership/vouch.h"

struct member;

struct member_events {
	void (*on_start)(struct member *m, const struct wire_start *start);
	void (*on_end)(struct member *m, const struct wire_end *end);
	/* The job is to stop; the request may be this node's own. */
	void (*on_stop)(struct member *m, const struct wire_stop *stop);
	/* The round's ranks wait for one of them: a line for the terminal, or
	 * news of this node's own rank. */
	void (*on_stalled)(struct member *m, const struct wire_stalled *stall);
	/* A rank slows the round down, or no longer does. */
	void (*on_slow)(struct member *m, const struct wire_slow *slow);
	void (*on_gpu_news)(struct member *m, const struct wire_gpu_news *n);
	void (*on_role_news)(struct member *m, const struct wire_role_news *n);
	/* member_stack is to send the stack of that rank of this node. */
	void (*on_look)(struct member *m, const struct wire_look *look);
	/* member_send_page is to send the last lines of that worker's output,
	 * at once. */
	void (*on_output)(struct member *m, const struct wire_dump_request *q);
	/* A round runs, and this node is a spare of it. */
	void (*on_spare)(struct member *m);
	/* The node has waited for a second: the server named the missing. */
	void (*on_waiting)(struct member *m);
	/* Finds the rank and the process that have this socket. 1, or 0: not
	 * known. */
	int (*find_holder)(struct member *m, uint64_t inode, uint32_t *rank,
			   pid_t *pid);
	/* The server is not looked for any more. The workers go on until one
	 * has news that the server must hear; then on_lost. */
	void (*on_detached)(struct member *m);
	/* Refused, timed out, lost, or the server cannot be started: code and
	 * text say which. At most once; the membership is closed. */
	void (*on_lost)(struct member *m, const struct err *why);
};

struct member {
	void *owner;
	const struct member_events *events;
	const struct rdzv_options *options;
	const char *node_id;
	char host[SOCK_HOST_MAX];
	struct membership membership;
	uint32_t round; /* the last that has started */
	int has_started;
	uint64_t steps; /* for JOIN */
	struct slice alike; /* likewise; set by the owner */
	struct connection connection;
	struct reconnect reconnect;
	struct outbox outbox;
	struct join_progress progress;
	uint32_t id; /* the last request's on this connection */
	uint32_t resume_id;
	unsigned unanswered; /* pings since anything came */
	int reserved_fd; /* holds the port that workers get as MASTER_PORT */
	char addr_text[SOCK_TEXT_MAX]; /* where other nodes reach this one */
	struct node_dumps
		pages;	    /* answers to DUMP_REQUEST */
	struct vouch vouch; /* answers to VOUCH */
	uv_timer_t report, ping, deadline;
};

/* Resolves the endpoint, which may block on DNS; nothing is started. An error
 * names the host. */
int member_init(struct member *m, uv_loop_t *loop,
		const struct rdzv_options *options,
		const char *node_id, const struct member_events *events,
		struct err *e);

/* Asks to be in the next round; the first call also connects. The answer is
 * on_start or on_lost, later. steps: the highest step that a worker of this
 * node reported in the last round, plus 1; 0: none. */
void member_join(struct member *m, uint64_t steps);

/* Kept in the outbox; sent by member_flush, or when there is much: workers tend
 * to end together. */
void member_exited(struct member *m, const struct wire_exited *x);
void member_flush(struct member *m);
/* exit_code: the job's; 0: the server chooses it. */
void member_failed(struct member *m, uint32_t round, int exit_code,
		   const char *text);
void member_stop(struct member *m, const struct wire_stop *stop);
/* Not kept: a server that is away counts this node as lost anyway. */
void member_leave(struct member *m, int signal, const char *text);

/* Not kept: the next report follows soon. */
void member_progress(struct member *m, const struct wire_progress *progress);
/* The same for these, which a server that is away never gets. */
void member_gpus(struct member *m, const struct wire_gpus *gpus);
void member_gpu_news(struct member *m, const struct wire_gpu_news *news);
void member_role_news(struct member *m, const struct wire_role_news *news);
void member_stack(struct member *m, const struct wire_stack *stack);
/* Answers a DUMP_REQUEST. */
void member_send_page(void *member, const struct wire_dump_reply *page);

/* The time between two signs of life; and one more of them, for an owner that
 * keeps the loop from running. */
uint64_t member_ping_ms(const struct member *m);
void member_ping(struct member *m);

/* There is no server, and none is waited for. */
int member_is_detached(const struct member *m);
/* This node waits for another's place. */
int member_is_spare(const struct member *m);
/* A round has been, or is. */
int member_has_started(const struct member *m);

/* Closes all; a server that we host is asked to exit, and does so later. */
void member_close(struct member *m);

/* A child ended: 1 if it was the server, or wrote a page. */
int member_reaped(struct member *m, pid_t pid, int status);
/* 0 if none runs here. */
pid_t member_server_pid(const struct member *m);
/* It runs, and was not the job's: nobody needs it, but it may have to remove
 * the job's entries from etcd. It exits on its own, even after us. */
int member_server_stands_by(const struct member *m);
void member_leave_server(struct member *m);

/* The job's key for its workers, as connection_job_key. */
char *member_job_key(const struct member *m, char *text);

/* How this node proves that it belongs to the job. */
const struct auth *member_auth(const struct member *m);

/* Where this node's workers and tools reach the server; text[SOCK_TEXT_MAX]. */
const struct sock_addr *member_server_addr(const struct member *m);
char *member_server_text(const struct member *m, char *text);

#endif
