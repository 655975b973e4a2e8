/* launch_env.h: who started this ddprun, what that launcher says about the job,
 * and how it behaves. The first row of a table of sources (Slurm, OpenMPI,
 * MPICH, PBS, LSF, our own ssh) that recognizes its variables fills one struct.
 * Everybody else reads its fields and never asks for a launcher by name.
 *
 * To add a launcher: write NAME_env.c with a const struct launch_source, and
 * add it to the table in launch_env.c. */
#ifndef LAUNCHER_LAUNCH_ENV_H
#define LAUNCHER_LAUNCH_ENV_H

#include "base/buf.h"
#include "base/sock.h"
#include "launcher/env/host_list.h"
#include "launcher/worker/signal_set.h"
#include "pmi/mpirun.h"
#include "pmi/place.h"
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
	LAUNCH_TASK,    /* one ddprun was started on each node: we are one */
	LAUNCH_STEP,    /* nodes are ours; srun has to start ddprun on them */
	LAUNCH_HOSTS,   /* hosts are ours; we reach them over ssh */
};

/* What the user has decided, so that a source must not. */
struct launch_request {
	int standalone;
	int nnodes, node_rank; /* are given */
	int place;     /* where the nodes meet is given */
	int free_port; /* but its port is to be a free one */
	int etcd;      /* the nodes meet at an etcd, which is no node */
};

/* How a node offers to be met, where the launcher passes that on. */
struct launch_offer {
	int timeout_ms; /* for all nodes to take part */
	const struct endpoint *at; /* as given, with port 0; NULL: anywhere */
	const char *local_addr;    /* as given; NULL: all of this host's */
	uint16_t port;             /* 0: a free one */
};

struct launch_env {
	const struct launch_source *source; /* NULL: none of the table */
	enum launch_role role;

	/* ---- texts for people ---- */
	const char *command; /* what starts ddprun on the nodes: "srun" */
	const char *rank_variable; /* where node_rank is from */
	char started[LAUNCH_TEXT_MAX]; /* "in Slurm's step 12.0" */
	char job_title[48];            /* "Slurm's job 12" */
	/* "this step of Slurm's has 2 nodes", and how to get more */
	char has_nodes[LAUNCH_TEXT_MAX];
	const char *more;
	/* How to get fewer, to follow "--nnodes N: "; "": any number will do */
	char fewer[2 * LAUNCH_TEXT_MAX];

	/* ---- facts; 0 or "" where it does not say ---- */
	char job[ALLOCATION_ID_MAX]; /* a name for the job: "slurm-12.0" */
	uint32_t nodes;      /* of a task's or a step's job */
	uint32_t node_rank;  /* this node's, if all of them take part */
	uint32_t node_index; /* 0: the first node, which hosts the server */
	uint32_t host_index; /* from --nnodes on it is a spare's */
	char first_host[LAUNCH_NAME_MAX], second_host[LAUNCH_NAME_MAX];
	uint16_t ports[LAUNCH_PORTS]; /* of this job, for its server */
	int nports;
	uint32_t cpus, gpus, tasks; /* of this node, for this job */
	uint64_t end_time;  /* unix time at which it ends the job */
	uint32_t restarts;  /* times that it has started the job again */
	int is_silent; /* another ddprun on this node logs the error */

	/* ---- policies ---- */
	int exchanges;         /* it passes on where the nodes meet */
	int signals_reach_all; /* a signal to it reaches all nodes */
	int echoes_all; /* any signal may be such an echo, not only SIGTERM */
	int says_twice; /* it may send the same signal twice */
	int highest_code_wins; /* it exits with the highest code of its tasks */
	int copies_stdin;      /* each node gets its stdin, and must read it */
	int shares_console;    /* the first node's log lines stand for all */
	int can_requeue;       /* the job can go back to its queue */
	int linger_ms; /* it may drop output that it has not read by then */
	struct signal_set warnings; /* signals that say that the time ends */

	/* ---- private to the sources ---- */
	struct allocation slurm;
	struct mpirun mpi;
};

/* A row of the table; hooks may be NULL. */
struct launch_source {
	/* Variables of every process below it, whether or not it is taken. */
	const char *const *marks;
	/* 1: it started us, and *env, zeroed before, says what follows; 0: it
	 * did not, or the user has decided all; ERR_USAGE, -errno. */
	int (*read)(struct launch_env *env, const struct launch_request *r,
		    struct err *e);
	/* The name of its command, if that started ddprun on several nodes
	 * already; else NULL. */
	const char *(*has_started)(void);
	/* 1: it has decided all: of our options -H and the like are its. */
	int (*has_decided)(void);
	/* 1: its SIGTERM to all nodes may come before we have read options. */
	int (*is_early)(void);
	/* How this node proves itself, where the launcher handed that over;
	 * else *a stays. Takes it out of the environment. */
	int (*take_auth)(struct auth *a, struct err *e);
	/* Gives the workers back what it hid from us. */
	void (*restore)(const struct launch_env *env);
	/* The name of that node, or "". */
	void (*name_of)(const struct launch_env *env, uint32_t rank,
			char name[LAUNCH_NAME_MAX]);
	/* Logs what is unwise about the way in which we were started. */
	void (*log_advice)(const struct launch_env *env, uint32_t nproc);
	/* The addresses of first_host where its name does not resolve, and the
	 * one that the first node has for others (launch_env_resolve). */
	int (*resolve)(const struct launch_env *env, const struct endpoint *at,
		       int hosts, struct sock_addr *out, int max,
		       int *is_guess, struct err *e);
	int (*own_addr)(const struct launch_env *env, char *text);
	/* LAUNCH_HOSTS: the list. */
	int (*list_hosts)(struct host_list *l, struct err *e);
	/* exchanges: see launch_env_exchange. */
	int (*exchange)(const struct launch_env *env,
			const struct launch_offer *o, struct place *out,
			struct err *e);
	/* What it does while the job runs (launch_env_is_gone and so on). */
	int (*is_gone)(void);
	int (*passed_signal)(void); /* NULL: always */
	int (*send_page)(struct slice page, int first_is_here);
};

/* ---- at the start ---- */

/* First in main: where SIGTERM may come this early it ends the program with 1
 * from here on, as it does later on a node that is not in the job yet. Once the
 * agent has its own handlers launch_env_drop_early undoes it where SIGTERM is
 * not one of theirs. */
void launch_env_catch_early(void);
void launch_env_drop_early(void);

/* Fills *env from the environment: 0, ERR_USAGE, -errno, ERR_REMOTE. */
int launch_env_init(struct launch_env *env, const struct launch_request *r,
		    struct err *e);

/* The command that has started ddprun on several nodes already; NULL: none. */
const char *launch_env_has_started(void);

/* 1 if the launcher has decided everything, so that nothing is to be chosen
 * here, as -H says to the one that was typed. */
int launch_env_has_decided(void);

/* See take_auth: 0 or ERR_USAGE. */
int launch_env_take_auth(struct auth *a, struct err *e);

/* Before workers start: their environment is theirs again. */
void launch_env_restore(const struct launch_env *env);

/* ---- where the nodes meet ---- */

/* All nodes call it, and get the same record: at[0] is an address of the first
 * node's that the second has connected to, on a port that stays reserved. */
int launch_env_exchange(const struct launch_env *env,
			const struct launch_offer *o, struct place *out,
			struct err *e);
/* Where it is not called: what was asked of the launcher before ends. */
void launch_env_end_exchange(void);

/* Other addresses for a first node whose name does not resolve: up to max, with
 * a log line that says so. hosts: this node is to host the server. *is_guess:
 * they may be wrong. *e says why the name
 * does not resolve; if there is nothing to use it also says what to do, and its
 * code is returned. Blocks. */
int launch_env_resolve(const struct launch_env *env, const struct endpoint *at,
		       int hosts, struct sock_addr *out, int max,
		       int *is_guess, struct err *e);
/* On that first node: how others find it, into text[SOCK_TEXT_MAX]. */
void launch_env_own_addr(const struct launch_env *env,
			 const struct endpoint *at, char *text);

/* The server's "node 1 (not connected), node 3 and 2 more" with the names that
 * the launcher has for these nodes. */
void launch_env_name_nodes(const struct launch_env *env, const char *nodes,
			   struct buf *out);

/* ---- signals and the end ---- */

/* 1 if that signal may be the launcher's own, to all nodes, because one of them
 * failed: it is no second request to stop. */
int launch_env_is_echo(const struct launch_env *env, int number);

/* What a node exits with that leaves by this signal: 128+signal. Before it was
 * in the job it must not hide the code of the node that failed. */
int launch_env_exit_code(const struct launch_env *env, int number, int was_in);

/* When the exit code is decided: blocks echoes, and warnings that other nodes
 * got first. */
void launch_env_block_echoes(const struct launch_env *env,
			     const struct signal_set *ending,
			     const struct signal_set *warning);

/* Before the end: waits until the launcher has read our last words. */
void launch_env_linger(const struct launch_env *env);

/* 1 if the launcher is gone or unreachable: nobody reads what we write. */
int launch_env_is_gone(const struct launch_env *env);
/* 0 if a signal that we got may be from somebody who meant this node alone. */
int launch_env_passed_signal(const struct launch_env *env);
/* Gives it the failure page: 1; 0: the page is ours to print. first_is_here:
 * the first failure was on this host, so this page knows most. */
int launch_env_send_page(const struct launch_env *env, struct slice page,
			 int first_is_here);

#endif
