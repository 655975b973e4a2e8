/* launch_env.h: which launcher started this ddprun, what it says about the job,
 * and how it behaves. A table has a row for each source (Slurm, OpenMPI, MPICH,
 * PBS, LSF, clouds, our own ssh); the first row that recognizes its variables
 * fills one struct. All other code reads its fields and never names a launcher.
 *
 * To add a launcher: write NAME_env.c with a const struct launch_source, and
 * add it to the table in launch_env.c. */
#ifndef LAUNCHER_LAUNCH_ENV_H
#define LAUNCHER_LAUNCH_ENV_H

#include "base/buf.h"
#include "base/sock.h"
#include "launcher/env/host_list.h"
#include "launcher/worker/signal_set.h"
#include "pmi/bootstrap_record.h"
#include "pmi/mpirun.h"
#include "rendezvous/auth/auth.h"
#include "slurm/allocation.h"
#include "slurm/step.h"

enum {
	LAUNCH_PORTS = STEP_PORTS,
	LAUNCH_NAME_MAX = HOSTLIST_NAME_MAX + 1,
	LAUNCH_TEXT_MAX = 96,
};

enum launch_role {
	LAUNCH_BY_HAND, /* the command line says everything */
	LAUNCH_TASK,    /* it started one ddprun on each node: we are one */
	LAUNCH_STEP,    /* we have nodes; srun must start ddprun on them */
	LAUNCH_HOSTS,   /* we have hosts, and reach each over ssh or srun */
};

/* What the user has decided and a source must not. */
struct launch_request {
	int standalone;
	int nnodes, node_rank; /* given */
	int one_node; /* --nnodes 1 */
	int place;     /* the place where the nodes meet is given */
	int free_port; /* the place is given, but we choose a free port */
	int etcd;      /* the nodes meet at an etcd, which is not a node */
	int terminal;  /* --tty: a worker gets this ddprun's terminal */
};

/* The meeting place that a node offers, if the launcher passes it on. */
struct launch_offer {
	int timeout_ms; /* for all nodes to take part */
	const struct endpoint *at; /* as given, with port 0; NULL: any */
	const char *local_addr;    /* as given; NULL: all of this host's */
	uint16_t port;             /* 0: a free one */
};

struct launch_env {
	const struct launch_source *source; /* NULL: none of the table */
	enum launch_role role;

	/* ---- texts for people ---- */
	const char *command; /* starts ddprun on the nodes: "srun" */
	/* node_rank was read from it; NULL: it was derived */
	const char *rank_variable;
	char started[LAUNCH_TEXT_MAX]; /* "in Slurm step 12.0" */
	char job_title[48];            /* "Slurm's job 12" */
	/* "this step of Slurm's has 2 nodes", and how to get more */
	char has_nodes[LAUNCH_TEXT_MAX];
	const char *more;
	/* How to get fewer nodes, to follow "--nnodes N: "; "": any number is
	 * possible */
	char fewer[2 * LAUNCH_TEXT_MAX];

	/* LAUNCH_HOSTS: the program that reaches them, in place of ssh, and its
	 * arguments; NULL: ssh does */
	const char *reach;
	char reach_args[LAUNCH_TEXT_MAX];

	/* ---- facts; 0 or "" if the launcher does not report them ---- */
	char job[ALLOCATION_ID_MAX]; /* a name for the job: "slurm-12.0" */
	uint32_t nodes;      /* in the job of a task or step */
	uint32_t node_rank;  /* this node's, if all nodes take part */
	uint32_t node_index; /* 0: the first node, which hosts the server */
	int is_rankless; /* a task's node_rank and node_index are not known */
	uint32_t host_index; /* --nnodes and above: this host is a spare */
	char first_host[LAUNCH_NAME_MAX], second_host[LAUNCH_NAME_MAX];
	uint16_t ports[LAUNCH_PORTS]; /* for this job's server */
	int nports;
	uint32_t cpus, gpus, tasks; /* on this node, for this job */
	uint64_t end_time;  /* unix time when it ends the job */
	uint32_t restarts;  /* how often it has restarted the job */
	int is_silent; /* another ddprun on this node logs the error */

	/* ---- policies ---- */
	int exchanges;         /* it tells the nodes where to meet */
	int signals_reach_all; /* it passes its signals on to all nodes */
	int echoes_all; /* any signal may be its echo, not only SIGTERM */
	int says_twice; /* it may send the same signal twice */
	int highest_code_wins; /* it exits with the highest code of its tasks */
	int copies_stdin;      /* each node gets its stdin and must read it */
	int shares_console;    /* only the first node logs what all would */
	int logs_apart;        /* each node has its own log, and logs all */
	int can_requeue;       /* the job can go back to its queue */
	int linger_ms; /* how long it may need to read our last output */
	/* Where to note that our stdin, a raw terminal, is lent to a worker
	 * ("1"), or is not any more ("0"), for the ddprun that started us and
	 * has the real terminal. 0: none has */
	int lent_fd;
	struct signal_set warnings; /* signals that warn of the time limit */

	/* ---- private to the sources ---- */
	struct allocation slurm;
	struct mpirun mpi;
};

/* A row of the table; hooks may be NULL. */
struct launch_source {
	/* Variables that every process below it has, even if its row is not
	 * the one chosen. */
	const char *const *marks;
	/* 1: it started us, and *env (zeroed before) is filled. 0: it did not,
	 * or the user has decided everything. Or ERR_USAGE, -errno. */
	int (*read)(struct launch_env *env, const struct launch_request *r,
		    struct err *e);
	/* The name of its command if it has already started ddprun on several
	 * nodes; else NULL. */
	const char *(*has_started)(void);
	/* 1: it has decided everything and given us our options, including -H
	 * and similar ones. */
	int (*has_decided)(void);
	/* 1: its SIGTERM to all nodes may arrive before we parse options. */
	int (*is_early)(void);
	/* Takes this node's credentials out of the environment, if the launcher
	 * put them there; else *a is unchanged. */
	int (*take_auth)(struct auth *a, struct err *e);
	/* Restores for the workers what read() changed. */
	void (*restore)(const struct launch_env *env);
	/* The name of that node, or "". */
	void (*name_of)(const struct launch_env *env, uint32_t rank,
			char name[LAUNCH_NAME_MAX]);
	/* Logs what is unwise about the way in which we were started. */
	void (*log_advice)(const struct launch_env *env, uint32_t nproc);
	/* The addresses of first_host if its name does not resolve, and the
	 * first node's address for others (launch_env_resolve). */
	int (*resolve)(const struct launch_env *env, const struct endpoint *at,
		       int hosts, struct sock_addr *out, int max,
		       int *is_guess, struct err *e);
	int (*own_addr)(const struct launch_env *env, char *text);
	/* LAUNCH_HOSTS: the list. */
	int (*list_hosts)(struct host_list *l, struct err *e);
	/* exchanges: see launch_env_exchange. */
	int (*exchange)(const struct launch_env *env,
			const struct launch_offer *o,
			struct bootstrap_record *out, struct err *e);
	/* Called while the job runs (launch_env_is_gone and so on). */
	int (*is_gone)(void);
	int (*passed_signal)(void); /* NULL: always */
	int (*send_page)(struct slice page, int first_is_here);
};

/* ---- at the start ---- */

/* Call it first in main: if the launcher may send SIGTERM this early, SIGTERM
 * ends the program with exit code 1 from now on, as it does later on a node
 * that has not joined. When the agent has installed its own handlers,
 * launch_env_drop_early undoes this unless one of them is for SIGTERM. */
void launch_env_catch_early(void);
void launch_env_drop_early(void);

/* Fills *env from the environment: 0, ERR_USAGE, -errno, ERR_REMOTE. */
int launch_env_init(struct launch_env *env, const struct launch_request *r,
		    struct err *e);

/* The command that has already started ddprun on several nodes; NULL: none. */
const char *launch_env_has_started(void);

/* 1 if the launcher has decided everything, so that nothing is chosen here and
 * -H is only for the ddprun that the user typed. */
int launch_env_has_decided(void);

/* See take_auth: 0 or ERR_USAGE. */
int launch_env_take_auth(struct auth *a, struct err *e);

/* Call it before workers start: restores their environment. */
void launch_env_restore(const struct launch_env *env);

/* ---- where the nodes meet ---- */

/* All nodes call it and get the same record. Its at[0] is an address of the
 * first node to which the second has connected, on a port that stays reserved.
 */
int launch_env_exchange(const struct launch_env *env,
			const struct launch_offer *o,
			struct bootstrap_record *out, struct err *e);
/* Call it if launch_env_exchange is not called: ends the session with the
 * launcher that launch_env_init may have begun. */
void launch_env_end_exchange(void);

/* Finds up to max other addresses for a first node whose name does not resolve,
 * and logs that. hosts: this node hosts the server. *is_guess: they may be
 * wrong. On entry *e says why the name does not resolve; if no address is
 * found, advice is added to it and its code is returned. Blocks. */
int launch_env_resolve(const struct launch_env *env, const struct endpoint *at,
		       int hosts, struct sock_addr *out, int max,
		       int *is_guess, struct err *e);
/* On that first node: writes its address for others to text[SOCK_TEXT_MAX]. */
void launch_env_own_addr(const struct launch_env *env,
			 const struct endpoint *at, char *text);

/* Appends the server's text, "node 1 (not connected), node 3 and 2 more", with
 * the launcher's names of these nodes added. */
void launch_env_name_nodes(const struct launch_env *env, const char *nodes,
			   struct buf *out);

/* ---- signals and the end ---- */

/* 1 if the launcher itself may have sent that signal, to all nodes, because one
 * of them failed: it is then no second request to stop. */
int launch_env_is_echo(const struct launch_env *env, int number);

/* The exit code of a node that this signal ends: 128+signal. A node that was
 * not in the job yet gets a code that does not hide the failed node's. */
int launch_env_exit_code(const struct launch_env *env, int number, int was_in);

/* Call it when the exit code is decided: blocks echoes, and warnings that other
 * nodes got first. */
void launch_env_block_echoes(const struct launch_env *env,
			     const struct signal_set *ending,
			     const struct signal_set *warning);

/* Call it before the end: waits until the launcher has read our last output. */
void launch_env_linger(const struct launch_env *env);

/* 1 if the launcher is gone or unreachable: nobody reads what we write. */
int launch_env_is_gone(const struct launch_env *env);
/* 0 if a signal that we got may have been sent to this node alone. */
int launch_env_passed_signal(const struct launch_env *env);
/* Sends the launcher the failure page. 1, or 0 if we must print it ourselves.
 * first_is_here: the first failure was on this host, so this page has the most
 * details. */
int launch_env_send_page(const struct launch_env *env, struct slice page,
			 int first_is_here);

/* ---- ssh_env.c ----
 *
 * The row of a ddprun that another ddprun started on this host over ssh. For
 * these two programs; all other code uses launch_env.h. */

/* "NUMBER PAGE-FD SECRET-FD TOLD-FD LENT-FD": the host's index and four
 * descriptors. ddprun writes the failure page to the first and reads the secret
 * from the second; the third is readable once the head has sent a signal; the
 * fourth is struct launch_env's lent_fd. */
#define SSH_ENV_NODE "DDP_REMOTE_NODE"

/* Reads the variable and removes it from the workers' environment. From then on
 * log lines name this host, and only the first host logs what all would log. */
void ssh_env_init(void);

#endif
