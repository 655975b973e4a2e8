/* rdzv_options.h: what this node's membership needs to know: which job, where
 * and how its nodes meet, and for how long they wait. launcher/config fills it
 * from the command line. */
#ifndef LAUNCHER_RDZV_OPTIONS_H
#define LAUNCHER_RDZV_OPTIONS_H

#include "launcher/env/launch_env.h"
#include "launcher/membership/etcd_options.h"

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
