/* config.h: parses and checks the command line and the environment, and decides
 * what follows from them. Starts nothing, opens no socket. */
#ifndef LAUNCHER_CONFIG_H
#define LAUNCHER_CONFIG_H

#include <stdint.h>

#include "base/option.h"
#include "base/sock.h"
#include "launcher/agent/agent.h"
#include "launcher/config/remote_options.h"
#include "launcher/env/launch_env.h"
#include "launcher/env/requeue.h"
#include "launcher/env/srun_exec.h"
#include "launcher/membership/rdzv_options.h"
#include "launcher/output/output_options.h"
#include "launcher/plan/roles.h"
#include "launcher/plan/wrap.h"
#include "launcher/worker/signal_set.h"
#include "rendezvous/auth/auth.h"

/* Names that a job has without options. */
#define CONFIG_JOB "none"
#define CONFIG_ROLE "default"

struct config {
	/* as given; otherwise NULL or the default */
	const char *nnodes_text;
	const char *nproc_text;
	const char *endpoint_text;
	const char *job; /* --rdzv-id */
	const char *backend;
	const char *rdzv_conf;
	const char *auth_text, *token_file; /* --auth, --token-file */
	const char *master_addr;
	const char *local_addr, *interface;
	const char *role;
	const char *multi_prog; /* a file, or lines */
	int role_optional;
	const char *start_method, *event_log_handler, *logs_specs;
	struct output_options output;
	const char *signals_to_handle, *forward_signals, *stdin_to, *tty;
	const char *requeue_on;
	const char *mpi;
	const char *env_text; /* --env */
	unsigned frameworks;  /* the same, as a set of framework.h */
	const char *preload; /* modules, or auto; NULL: none */
	const char *stage;   /* PATH[:FOLDER]; NULL: none */
	const char *cpu_bind; /* --cpu-bind, --numa-binding */
	const char *nccl_debug, *net_interface;
	const char *wrap, *wrap_ranks;
	const char *print_completion;
	const char *preflight; /* none, quick, full */
	const char *on_event;
	const char *preflight_folders, *preflight_command, *preflight_json;
	const char *hosts_text, *hostfile; /* -H, --hostfile */
	const char *ssh_program, *ssh_args;
	double ssh_timeout_s;
	long ssh_width;
	int host_check;
	long node_rank; /* -1: any */
	long world_size; /* 0: not given */
	long master_port;
	long max_restarts;
	long max_no_progress; /* restarts in a row; 0: any number */
	long swap_after; /* failures of a node at the start; 0: never */
	long gpus_per_proc; /* 0: not given */
	double shutdown_timeout_s; /* --shutdown-timeout */
	double restart_backoff_s; /* 0: none */
	double hang_s;       /* --hang-timeout; 0: none */
	double stop_before_s; /* Slurm's time limit; 0: never */
	double rdzv_timeout_s;
	double last_call_s, heartbeat_s;
	char *web; /* where such a server serves its page, or NULL */
	char *journal; /* for a server that we start; NULL: in memory */
	double reconnect_s;  /* time limit to find a server again; 0: do not */
	double monitor_interval_s; /* torchrun's; ignored: nothing polls */
	int standalone;
	int module, no_python, run_path;
	int virtual_local_rank;
	int legacy_launch, use_env;
	int dry_run;
	int store_open, encrypt_data;
	int no_crash_stacks;
	int is_host; /* this node hosts the server: 1, 0; -1: unknown */
	int nnodes_given, nproc_given;
	int endpoint_given, job_given, node_rank_given;
	int master_addr_given, master_port_given, local_addr_given;
	int rdzv_timeout_given, last_call_given, heartbeat_given;
	int shutdown_timeout_given;
	int stop_before_given, reconnect_given, mpi_given, stdin_given;

	/* decided */
	uint32_t min_nodes, max_nodes;
	uint32_t nproc;
	struct endpoint endpoint;
	int is_master_endpoint; /* of --master-addr, --master-port, MASTER_* */
	struct etcd_options etcd; /* if set, endpoint is its first member */
	int private_endpoint; /* 127.0.0.1, any free port: nobody joins */
	struct launch_env env; /* the launcher that started us, if any */
	int meets; /* the endpoint is found later (launch_defaults.c) */
	/* credentials that the launcher gave this node; methods 0: none */
	struct auth handed;
	const char *nproc_why; /* how the launcher determined nproc, or NULL */
	uint16_t ports[LAUNCH_PORTS]; /* the endpoint's: use the first free */
	int nports;                 /* 0: only the endpoint's own */
	uint32_t worker_gpus; /* GPUs that each worker sees; 0: all */
	int agent_store; /* the server may be PyTorch's store */
	struct signal_set ending, forwarded;
	struct signal_set warning; /* sent before the time limit (sbatch
				    * --signal) */
	int on_preempt, on_timeout; /* --requeue-on */
	long stdin_rank; /* INPUT_NONE, INPUT_ALL, or a rank */
	long tty_rank;   /* TTY_NONE, or a rank */
	int no_program;       /* --host-check needs none */
	int noptions;         /* number of words of argv that are options */
	char **words;         /* the program and its arguments, in argv */
	struct roles roles;   /* of --multi-prog; words is the first's */
	char *programs;       /* its text */
	char interface_addr[SOCK_TEXT_MAX]; /* local_addr of an interface */
	char job_text[40];    /* a random job name, for --standalone */
	char nodes_text[16];  /* the number of Slurm's nodes, or of hosts */
	/* the hosts that we reach over ssh (host_choice.c) */
	int over_ssh, from_scheduler;
	struct host_list hosts;
	char slots_text[16];
};

/* launcher/config/config_options.c */
extern const struct option_spec config_options[];

enum {
	CONFIG_WANT_COMPLETION = OPTION_WANT_VERSION - 1,
	CONFIG_WANT_STEP = OPTION_WANT_VERSION - 2,
	CONFIG_WANT_HOSTS = OPTION_WANT_VERSION - 3,
};

/* Returns 0, OPTION_WANT_HELP, OPTION_WANT_VERSION, CONFIG_WANT_COMPLETION,
 * CONFIG_WANT_STEP (in a Slurm allocation: srun must start this command on the
 * nodes; nothing that depends on a node is decided), CONFIG_WANT_HOSTS (the
 * same, by ssh on c->hosts), or ERR_USAGE, which names the option, the value
 * and what to do. argv and the environment must outlive c. */
int config_parse(struct config *c, int argc, char **argv, struct err *e);

/* The options for other rooms. c must outlive them. */
struct rdzv_options config_rdzv_options(const struct config *c);
struct agent_options config_agent_options(const struct config *c);
struct remote_options config_remote_options(const struct config *c);
struct requeue_options config_requeue_options(const struct config *c);
struct srun_exec_options config_srun_exec_options(const struct config *c);

/* Frees the memory of config_parse; call it also after a failure. */
void config_release(struct config *c);

void config_print_help(void);
/* The completion script of bash, zsh or fish (completion.c). */
void config_print_completion(const char *shell);

/* ---- launch_defaults.c ----
 *
 * Derives the options that the user left out from what the launcher says
 * (launch_env.h): the number of nodes, this node's rank, the number of
 * workers, the endpoint, the job's name. Given options stay. A part of
 * config.c. */

/* Sets c->env, and --nnodes if it is not given. Errors as launch_env_init. */
int launch_defaults_init(struct config *c, struct err *e);

/* Call it when --nnodes is decided: sets the node rank and the job's name.
 * ERR_USAGE if the launcher cannot have that many nodes. The user's own
 * endpoint may join the nodes of several steps. */
int launch_defaults_nodes(struct config *c, struct err *e);

/* Sets a task's nproc: the number of its GPUs, else of the tasks that the job
 * asked for, else of its CPUs. */
int launch_defaults_nproc(struct config *c, struct err *e);

/* Sets the endpoint, its ports and is_host. 1, or 0 if the launcher does not
 * determine them. If c->meets is set, launch_defaults_meet finds the endpoint
 * later. */
int launch_defaults_endpoint(struct config *c);
/* The same for port 0 of an endpoint that the user gave. */
void launch_defaults_port(struct config *c);

/* If c->meets is set, all nodes call it and get, within c->rdzv_timeout_s, the
 * same endpoint and, unless it was given, the same job name. The first node is
 * to host the server. Blocks. */
int launch_defaults_meet(struct config *c, struct err *e);

/* On the first node: logs the defaults as one line of equivalent options, and
 * advice about them. */
void launch_defaults_log(const struct config *c);

/* ---- host_choice.c ----
 *
 * Decides whether the job runs on hosts that this ddprun reaches over ssh, and
 * on which: those of -H, --hostfile, PBS or LSF. Fills struct config; starts
 * nothing. */

/* Sets c->over_ssh and c->hosts. If the only host is localhost, or is a
 * scheduler's and this one, sets --nproc-per-node instead. ERR_USAGE for a bad
 * list or an option that is incompatible with it. */
int host_choice_init(struct config *c, struct err *e);

/* Call it when --nnodes is decided: fits the hosts to it. ERR_USAGE if there
 * are too few. */
int host_choice_nodes(struct config *c, struct err *e);

/* 1 if the job can continue without one of its hosts: with MIN:MAX, or with
 * more hosts than MAX, since the others are spares. */
int host_choice_can_lose(const struct config *c);

/* Logs one line about the hosts that a scheduler listed. */
void host_choice_log(const struct config *c);

/* ---- check_command.c ----
 *
 * `ddprun check [quick|full] [OPTIONS]`: a job like any other, whose program
 * is ddprun-check, once on each node. Knows which options that gets; starts
 * nothing. */

enum { CHECK_COMMAND_WORDS = CHECK_WORDS_MAX + 8 };

struct check_command {
	int argc;
	char **argv; /* ddprun's, with ddprun-check as its program */
	struct check_words words; /* private */
};

/* Parses the options of a command that takes no program, whose name is argv[0]
 * or precedes it. Returns their number of words + 1, OPTION_WANT_HELP,
 * OPTION_WANT_VERSION or ERR_USAGE. */
int config_parse_command(struct config *c, const char *name, int argc,
			 char **argv, struct err *e);

/* Makes the command line of the job; argv[0] is "check". 0, OPTION_WANT_HELP,
 * OPTION_WANT_VERSION, ERR_USAGE or -ENOMEM. argv must outlive k. */
int check_command_init(struct check_command *k, int argc, char **argv,
		       struct err *e);
void check_command_release(struct check_command *k); /* also after an error */

void check_command_print_help(void);

#endif
