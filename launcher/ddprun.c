/* ddprun.c: the launcher: reads the command line, checks what can be checked
 * before anything starts, and runs the agent. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launcher/agent/agent.h"
#include "launcher/commands.h"
#include "launcher/config/config.h"
#include "launcher/config/mpi_words.h"
#include "launcher/config/preflight.h"
#include "launcher/doctor/doctor.h"
#include "launcher/env/launch_env.h"
#include "launcher/env/requeue.h"
#include "launcher/env/srun_exec.h"
#include "launcher/failure/exit_code.h"
#include "launcher/failure/failure.h"
#include "launcher/gpu/gpu_helper.h"
#include "launcher/inspect/backtrace.h"
#include "launcher/inspect/mpi_calls.h"
#include "launcher/inspect/dump.h"
#include "launcher/inspect/status.h"
#include "launcher/logs/logs.h"
#include "launcher/pmi/host_topology.h"
#include "launcher/pmix/pmix_helper.h"
#include "launcher/ssh/ssh.h"
#include "launcher/stage/stage_helper.h"
#include "launcher/top/top.h"
#include "launcher/worker/spawn.h"
#include "launcher/worker/sweep.h"

/* srun -K ends all tasks when one exits: the task that reports the error gets
 * this much time. */
enum { LINGER_MS = 1000 };

/* If stdin, stdout or stderr were closed, a socket could get their number, and
 * our output would go there. */
static void ddprun_open_missing_files(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
			return;
}

static int ddprun_fail(const struct err *e, int code)
{
	log_error("error: %s", e->text);
	termination_log_write(SLICE_STR(e->text));
	return code;
}

/* This node cannot run: joins only to tell the other nodes, which would wait
 * for it, why. */
static int ddprun_run_unable(const struct config *config,
			     const struct agent_unable *unable)
{
	const struct agent_options options = config_agent_options(config);
	struct agent_ended ended;

	/* a bad command line is the same on all nodes */
	if (config->max_nodes == 1 || config->dry_run ||
	    unable->exit_code == EXIT_BAD_USAGE)
		return ddprun_fail(&unable->why, unable->exit_code);
	log_error("error: %s; notifying the other nodes (Ctrl-C aborts this)",
		  unable->why.text);
	return agent_run(&options, NULL, unable, 0, &ended);
}

static int ddprun_run_agent(const struct config *c,
			    const struct plan_parts *parts, uint64_t open_files)
{
	const struct requeue_options requeue = config_requeue_options(c);
	const struct agent_options options = config_agent_options(c);
	struct agent_ended ended;
	int rc = agent_run(&options, parts, NULL, open_files, &ended);
	const struct requeue_notice notice = {
		.warned = ended.warned, .cut = ended.level == WIRE_CUT,
		.restarts = c->env.restarts,
	};

	/* all checkpoints are complete: requeueing kills what runs */
	if (ended.level)
		requeue_run(&requeue, &notice);
	return rc;
}

static int ddprun_show(const struct config *c, const struct plan_parts *parts)
{
	const struct agent_options agent = config_agent_options(c);
	const struct dry_run_options options = {
		.agent = &agent, .wrap_ranks = c->wrap_ranks,
		.world_size = (uint32_t)c->world_size,
		.draws_job = c->standalone,
	};
	struct err e = ERR_INIT;

	return dry_run(&options, parts, &e) < 0 ? ddprun_fail(&e, EXIT_OS) : 0;
}

static int ddprun_run_here(struct config *config,
			   const struct plan_parts *parts,
			   const struct agent_unable *unable,
			   uint64_t open_files)
{
	struct err e = ERR_INIT;

	if (config->dry_run && !unable->exit_code)
		return ddprun_show(config, parts);
	/* a node that cannot run meets the others as well, to tell them */
	if (config->meets && !config->dry_run &&
	    unable->exit_code != EXIT_BAD_USAGE) {
		if (launch_defaults_meet(config, &e) < 0)
			return ddprun_fail(&e, exit_code_of(&e));
		launch_defaults_log(config);
	}
	launch_env_end_exchange();
	if (unable->exit_code)
		return ddprun_run_unable(config, unable);
	return ddprun_run_agent(config, parts, open_files);
}

/* A program that is not found may be a command that was mistyped. */
static void ddprun_suggest(const char *word, struct err *why)
{
	static const struct {
		const char *typed, *meant;
	} words[] = {
		{"check", "check"}, {"doctor", "doctor"}, {"dump", "dump"},
		{"help", "--help"}, {"status", "status"}, {"top", "top"},
		{"version", "--version"},
		{"install-mpiexec", "install-mpiexec"},
		{"install-torchrun", "install-torchrun"},
	};
	const size_t n = sizeof(words) / sizeof(*words);
	size_t best = n;
	int least = 3; /* letters that may differ, and fewer than half */

	for (size_t i = 0; i < n; i++) {
		int d = option_distance(word, words[i].typed);

		if (d < least && 2 * (size_t)d < strlen(words[i].typed)) {
			least = d;
			best = i;
		}
	}
	if (best < n)
		snprintf(why->text + strlen(why->text),
			 sizeof(why->text) - strlen(why->text),
			 "; did you mean ddprun %s?", words[best].meant);
}

static int ddprun_run(struct config *config)
{
	struct plan_parts parts = {.program = {NULL}};
	struct agent_unable unable = {.why = ERR_INIT};
	uint64_t open_files = 0;
	int rc;

	if (!config->meets) /* else where is not known yet */
		launch_defaults_log(config);
	launch_env_restore(&config->env);
	unable.exit_code = preflight_run(&parts, config, &open_files,
					 &unable.why);
	if (unable.exit_code == EXIT_NOT_FOUND && !config->roles.n &&
	    !config->module && !strchr(config->words[0], '/'))
		ddprun_suggest(config->words[0], &unable.why);
	rc = ddprun_run_here(config, &parts, &unable, open_files);
	preflight_release(&parts);
	if (config->nports &&
	    (rc == EXIT_LOST || config->min_nodes < config->max_nodes))
		launch_env_linger(&config->env);
	return rc;
}

/* In a Slurm allocation: starts this command again on its nodes, with srun. */
static int ddprun_run_step(const struct config *c, char **args)
{
	const struct requeue_options requeue = config_requeue_options(c);
	const struct srun_exec_options step = config_srun_exec_options(c);
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	struct srun_exec command;
	struct buf line;
	struct err e = ERR_INIT;

	if (n <= 0)
		n = snprintf(self, sizeof(self), "ddprun");
	self[n] = '\0';
	if (!c->dry_run && requeue_prepare(&requeue, &e) < 0)
		return ddprun_fail(&e, EXIT_BAD_USAGE);
	if (srun_exec_init(&command, &step, self, args, &e) < 0)
		return ddprun_fail(&e, exit_code_of(&e));
	buf_init(&line, SIZE_MAX);
	srun_exec_put(&line, &command);
	if (c->dry_run) {
		printf("%.*s\n", (int)line.len, line.data);
	} else {
		log_info("%s, of %u node%s: %.*s", c->env.started,
			 c->env.nodes, c->env.nodes == 1 ? "" : "s",
			 (int)line.len, line.data);
		srun_exec_clean(&step);
		if (srun_exec_add_secret(&step, &e) == 0)
			srun_exec_run(&command, &e);
	}
	buf_release(&line);
	srun_exec_release(&command);
	return c->dry_run ? 0 : ddprun_fail(&e, EXIT_NOT_FOUND);
}

/* Over ssh, or over one srun each, on the hosts of config. */
static int ddprun_run_hosts(const struct config *c, char **argv)
{
	const struct remote_options options = config_remote_options(c);
	const struct srun_exec_options step = config_srun_exec_options(c);

	if (!c->dry_run)
		host_choice_log(c);
	if (c->env.reach)
		srun_exec_clean_links(&step);
	return launch_run(&options, argv);
}

static void ddprun_print_version(void)
{
	printf("ddprun %s\n", DDP_VERSION);
	link_command_print_python();
}

/* A job; args: the words after ddprun of the command that the user gave. */
static int ddprun_run_job(int argc, char **argv, char **args)
{
	struct config config;
	struct err e = ERR_INIT;
	int rc = config_parse(&config, argc, argv, &e);

	switch (rc) {
	case OPTION_WANT_HELP:
		config_print_help();
		return 0;
	case OPTION_WANT_VERSION:
		ddprun_print_version();
		return 0;
	case CONFIG_WANT_COMPLETION:
		config_print_completion(config.print_completion);
		return 0;
	case CONFIG_WANT_STEP:
		return ddprun_run_step(&config, args);
	case CONFIG_WANT_HOSTS:
		rc = ddprun_run_hosts(&config, argv);
		break;
	default:
		if (rc == ERR_USAGE && config.env.is_silent) {
			launch_env_block_echoes(&config.env, &config.ending,
						&config.warning);
			poll(NULL, 0, LINGER_MS);
			return EXIT_BAD_USAGE;
		}
		rc = rc < 0 ? ddprun_fail(&e, rc == -ENOMEM ? EXIT_OS
							    : EXIT_BAD_USAGE)
			    : ddprun_run(&config);
	}
	config_release(&config);
	return rc;
}

static int ddprun_run_check(int argc, char **argv)
{
	struct check_command k;
	struct err e = ERR_INIT;
	int rc = check_command_init(&k, argc, argv, &e);

	if (rc == OPTION_WANT_HELP)
		check_command_print_help();
	else if (rc == OPTION_WANT_VERSION)
		ddprun_print_version();
	if (rc == 0)
		rc = ddprun_run_job(k.argc, k.argv, argv);
	else
		rc = rc == OPTION_WANT_HELP || rc == OPTION_WANT_VERSION
			     ? 0
			     : ddprun_fail(&e, exit_code_of(&e));
	check_command_release(&k);
	return rc;
}

/* ---- ddprun doctor ---- */

/* The command line of a job with the options of `ddprun doctor [host]`, which
 * has no program of its own. 0, OPTION_WANT_HELP or _VERSION, ERR_USAGE or
 * -ENOMEM. The caller frees *words. */
static int ddprun_doctor_words(int argc, char **argv, char ***words,
			       struct err *e)
{
	struct config c;
	int rc = config_parse_command(&c, "doctor", argc, argv, e);

	if (rc < 0)
		return rc;
	*words = calloc((size_t)c.noptions + 4, sizeof(**words));
	if (!*words)
		return err_no_memory(e, "the options");
	memcpy(*words, argv, ((size_t)c.noptions + 1) * sizeof(**words));
	(*words)[c.noptions + 1] = (char *)"--";
	(*words)[c.noptions + 2] = (char *)"true";
	return c.noptions + 3;
}

/* why: the error of config_parse, "" if a job could start. */
static int ddprun_doctor_report(const struct config *c, int rc, int is_host,
				const char *why)
{
	const struct remote_options remote = config_remote_options(c);
	char at[SOCK_TEXT_MAX];
	const struct doctor_options o = {
		.error = why, .started = c->env.started,
		.nnodes_text = c->nnodes_text,
		.nodes = is_host ? 0 : c->max_nodes,
		.nproc = c->nproc,
		.nproc_why = c->nproc_given ? NULL : c->nproc_why,
		.endpoint = c->meets || rc == CONFIG_WANT_HOSTS
				    ? "a free port of the first node"
				    : endpoint_text(&c->endpoint, at),
		.job = c->job, .node_rank = c->node_rank,
		.auth = c->auth_text, .token_file = c->token_file,
		.is_host_only = is_host,
	};

	return rc == CONFIG_WANT_HOSTS ? doctor_run_hosts(&o, &remote)
				       : doctor_run(&o);
}

static int ddprun_run_doctor(int argc, char **argv)
{
	int is_host = argc > 1 && strcmp(argv[1], "host") == 0;
	struct config config;
	struct err e = ERR_INIT;
	char **words = NULL;
	int rc = ddprun_doctor_words(argc - is_host, argv + is_host, &words,
				     &e);

	if (rc == OPTION_WANT_HELP || rc == OPTION_WANT_VERSION) {
		if (rc == OPTION_WANT_HELP)
			doctor_print_help();
		else
			ddprun_print_version();
		return 0;
	}
	if (rc < 0)
		return ddprun_fail(&e, exit_code_of(&e));
	rc = config_parse(&config, rc, words, &e);
	if (rc == CONFIG_WANT_COMPLETION)
		config_print_completion(config.print_completion);
	else if (rc == CONFIG_WANT_STEP)
		rc = ddprun_run_step(&config, argv);
	else
		rc = ddprun_doctor_report(&config, rc, is_host, e.text);
	config_release(&config);
	free(words);
	return rc == CONFIG_WANT_COMPLETION ? 0 : rc;
}

/* A job, whose options may be mpirun's. */
static int ddprun_run_words(int argc, char **argv)
{
	struct mpi_words w;
	struct err e = ERR_INIT;
	int rc = mpi_words_init(&w, argc, argv, &e);

	if (rc == 0)
		rc = mpi_words_apply(&w, &e);
	rc = rc < 0 ? ddprun_fail(&e, exit_code_of(&e))
		    : ddprun_run_job(w.argc, w.argv, w.argv + 1);
	mpi_words_release(&w);
	return rc;
}

/* By the word after ddprun; under the name mpiexec only those that ddprun uses
 * itself. A program named like one of the others needs ./ to be started. */
static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
	int is_own;
} commands[] = {
	{"dump", dump_main},
	{"logs", logs_main},
	{"status", status_main},
	{"top", top_main},
	{"install-mpiexec", link_command_main},
	{"install-torchrun", link_command_main},
	{"doctor", ddprun_run_doctor},
	{"check", ddprun_run_check},
	{CRASH_STACK_COMMAND, crash_stack_main, 1},
	{MPI_CALLS_COMMAND, mpi_calls_main, 1},
	{PMIX_HELPER_COMMAND, pmix_helper_main, 1},
	{HOST_TOPOLOGY_COMMAND, topology_helper_main, 1},
	{GPU_HELPER_COMMAND, gpu_helper_main, 1},
	{STAGE_HELPER_COMMAND, stage_helper_main, 1},
	{"--remote-end", proxy_main, 1},
};

static int ddprun_run_command(int argc, char **argv)
{
	int is_mpiexec = mpi_words_is_mpiexec(argv[0]);

	ssh_env_init();
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (argc > 1 && strcmp(argv[1], commands[i].name) == 0 &&
		    (commands[i].is_own || !is_mpiexec))
			return commands[i].main(argc - 1, argv + 1);
	return ddprun_run_words(argc, argv);
}

int main(int argc, char **argv)
{
	int code, rc;

	launch_env_catch_early();
	spawn_take_over_signals();
	sweep_note_strangers();
	ddprun_open_missing_files();
	log_init("ddprun");
	log_report_crashes();
	file_buffer_stdout();
	code = ddprun_run_command(argc, argv);
	/* --help, --version and dump fail if their output cannot be written */
	rc = file_flush_stdout();
	if (rc == 0 || code)
		return code;
	log_error("error: cannot write to stdout: %s", err_name(rc));
	return EXIT_OS;
}
