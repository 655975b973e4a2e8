/* rdzv_options.h: what this node's membership needs to know: which job, where
 * and how its nodes meet, and for how long they wait. launcher/config fills it
 * from the command line. */
#ifndef LAUNCHER_RDZV_OPTIONS_H
#define LAUNCHER_RDZV_OPTIONS_H

#include "base/sock.h"
#include "launcher/env/launch_env.h"
#include "rendezvous/auth/auth.h"

/* ---- etcd (--rdzv-backend etcd) ----
 *
 * Its members, and how to speak to them. Each node's ddprdzv is etcd's client.
 * docs/etcd.md has the whole story. */

enum {
	ETCD_OPTIONS_FILE_MAX = 256,
	ETCD_OPTIONS_PORT = 2379,
	ETCD_OPTIONS_MEMBERS_MAX = 16,
	ETCD_OPTIONS_TTL_S = 10,
	ETCD_OPTIONS_TTL_MAX_S = 3600,
};

struct etcd_options {
	const char *members; /* "h1:2379,h2"; NULL: the job has no etcd */
	int https;
	/* files; "": the system's certificates, none of our own */
	char cacert[ETCD_OPTIONS_FILE_MAX];
	char cert[ETCD_OPTIONS_FILE_MAX], key[ETCD_OPTIONS_FILE_MAX];
	long ttl_s; /* a server that is gone without a word is replaced then */
};

/* 1 for torchrun's names of it, "etcd" and "etcd-v2". */
int etcd_options_is_backend(const char *name);

/* The members into out[ETCD_OPTIONS_MEMBERS_MAX]: how many, or ERR_USAGE
 * naming the member that cannot be read. */
int etcd_options_members(const char *text, struct endpoint *out, struct err *e);

/* The options that go together do. */
int etcd_options_check(const struct etcd_options *p, struct err *e);

/* "etcd (h1:2379, h2:2379)", for people; cut where it is too long. */
char *etcd_options_text(const struct etcd_options *p, char text[SOCK_TEXT_MAX]);

/* --rdzv-conf: 1: the key is one of ours, and taken; 0: it is another; or
 * ERR_USAGE, *why says what the value should be. */
int etcd_options_take(struct etcd_options *p, const char *key,
		      const char *value,
		    const char **why);

/* ---- the rendezvous ---- */

/* Texts are borrowed. */
struct rdzv_options {
	const struct launch_env *env; /* the launcher that started us */

	/* ---- the job, and this node in it ---- */
	const char *job; /* --rdzv-id */
	uint32_t min_nodes, max_nodes;
	uint32_t nproc;
	long node_rank; /* -1: any */
	const char *role;
	long max_restarts;
	long max_no_progress, swap_after;
	double backoff_s; /* before a restart */
	int agent_store; /* the server may be PyTorch's store */
	int store_open;  /* anybody who reaches it may use it */
	/* PyTorch's store has the endpoint's port as well: MASTER_PORT */
	int shares_port;

	/* ---- where the nodes meet ---- */
	struct endpoint endpoint;
	struct etcd_options etcd; /* then endpoint is its first member */
	int private_endpoint; /* 127.0.0.1 and any free port: no one joins */
	uint16_t ports[LAUNCH_PORTS]; /* the endpoint's: the first free one */
	int nports;                   /* 0: only its own */
	int is_host; /* this node hosts the server: 1, 0; -1: find out */
	const char *journal; /* for a server that we start; NULL: in memory */
	const char *web; /* where such a server serves its page, or NULL */
	const char *local_addr; /* where others reach this node; NULL: any */
	int by_interface;       /* it comes from --interface */

	/* ---- how a node proves itself ---- */
	const char *auth_text, *token_file;
	struct auth handed; /* by the launcher; methods 0: nothing */

	/* ---- times ---- */
	double timeout_s;   /* --rdzv-timeout: for all nodes to come */
	double last_call_s; /* for more than the minimum */
	double heartbeat_s;
	double reconnect_s; /* to find a lost server again; 0: not at all */
	uint32_t reconnect_ms; /* the same */
};

#endif
