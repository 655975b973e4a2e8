/* member.h: this node's membership in the job: joins, waits for the other nodes
 * and says so, keeps the lease. Knows no workers; what the server decides goes
 * to the owner. */
#ifndef LAUNCHER_MEMBER_H
#define LAUNCHER_MEMBER_H

#include "launcher/inspect/page.h"
#include "launcher/membership/connection.h"
#include "launcher/membership/reconnect.h"
#include "launcher/membership/vouch.h"

enum { MEMBER_AWAITED_MAX = 640 };

struct member;

struct member_events {
	void (*on_start)(struct member *m, const struct wire_start *start);
	void (*on_end)(struct member *m, const struct wire_end *end);
	/* The job is to stop, as this node may have said itself. */
	void (*on_stop)(struct member *m, const struct wire_stop *stop);
	/* A round runs, and this node is a spare of it. */
	void (*on_spare)(struct member *m);
	/* It has waited for a second, and was told whom for. */
	void (*on_waiting)(struct member *m);
	/* Which rank, and which process of its, has that socket: 1, or 0: it is
	 * not known. */
	int (*find_holder)(struct member *m, uint64_t inode, uint32_t *rank,
			   pid_t *pid);
	/* The server is not looked for any more; what the workers do is theirs
	 * until somebody has to hear of it: then on_lost. */
	void (*on_adrift)(struct member *m);
	/* Refused, timed out, lost, or the server cannot be started: code and
	 * text say which. At most once; the membership is over. */
	void (*on_lost)(struct member *m, const struct err *why);
};

struct member {
	void *owner;
	const struct member_events *events;
	const struct config *config;
	const char *node_id;
	char host[SOCK_HOST_MAX];
	struct connection connection;
	struct reconnect reconnect; /* where the server is away */
	int over;
	uint32_t id; /* of the last request */
	int waiting; /* a JOIN is to be sent, or waits for its START */
	int join_sent;
	int started;	 /* a round has been: the others know the way */
	int reserved_fd; /* holds the port that workers get as MASTER_PORT */
	char addr_text[SOCK_TEXT_MAX]; /* where other nodes reach this one */
	struct pages pages; /* for those who ask what this node does */
	struct vouch vouch; /* for those who ask who connects from here */
	uv_timer_t speak, ping, deadline;
	uint64_t began_ms;
	unsigned unheard; /* pings since anything came */
	/* what STATE said last */
	uint32_t joined, spares;
	int spare;	    /* this node waits for another's place */
	uint64_t starts_ms; /* the last call ends then; 0: it has not begun */
	/* what WAITING said last, of this wait: whom for; "" before */
	char awaited[MEMBER_AWAITED_MAX];
};

/* Resolves the endpoint, which may block on DNS; nothing is started. An error
 * names the host. */
int member_init(struct member *m, uv_loop_t *loop, const struct config *config,
		const char *node_id, const struct member_events *events,
		struct err *e);

/* Asks to be in the next round: connects first where that is needed. The answer
 * is on_start or on_lost, later. */
void member_join(struct member *m);

/* Sent by member_flush, or when there is much: workers tend to end together. */
void member_exited(struct member *m, const struct wire_exited *x);
void member_flush(struct member *m);
/* exit_code: what the job is to exit with; 0: as the server finds right. */
void member_failed(struct member *m, uint32_t round, int exit_code,
		   const char *text);
void member_leave(struct member *m, int signal, const char *text);
void member_stop(struct member *m, const struct wire_stop *stop);

/* Between two signs of life; and one more of them, for an owner who keeps the
 * loop from running. */
uint64_t member_ping_ms(const struct member *m);
void member_ping(struct member *m);

/* No server, and none is looked for. */
int member_is_adrift(const struct member *m);

/* For reconnect.c. */
void member_give_up(struct member *m, const struct err *why);
void member_send_join(struct member *m);

/* Closes all; the server that we host, if any, is told to go and ends later. */
void member_close(struct member *m);

/* A child ended: 1 if it was the server, or wrote a page. */
int member_reaped(struct member *m, pid_t pid, int status);
/* 0 if none runs here. */
pid_t member_server_pid(const struct member *m);
/* It runs, and was not the job's: nobody needs it, but it may have to remove
 * what that one left in etcd. It ends by itself, also when we are gone. */
int member_server_stands_by(const struct member *m);
void member_leave_server(struct member *m);

/* The job's key for its workers, as connection_job_key. */
char *member_job_key(const struct member *m, char *text);

/* Where this node's workers and tools reach the server; text[SOCK_TEXT_MAX]. */
const struct sock_addr *member_server_addr(const struct member *m);
char *member_server_text(const struct member *m, char *text);

#endif
