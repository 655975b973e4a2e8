/* ddprun.c: the launcher: reads the command line, checks what can be checked
 * before anything starts, and runs the agent. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launcher/agent/agent.h"
#include "launcher/completion.h"
#include "launcher/config/exit_code.h"
#include "launcher/config/inferred.h"
#include "launcher/config/inferred_mpi.h"
#include "launcher/config/meet.h"
#include "launcher/config/prepare.h"
#include "launcher/config/remote_node.h"
#include "launcher/config/step_command.h"
#include "launcher/dry_run.h"
#include "launcher/inspect/dump.h"
#include "launcher/inspect/status.h"
#include "launcher/requeue.h"
#include "launcher/ssh/launch.h"
#include "launcher/ssh/proxy.h"
#include "launcher/worker/spawn.h"
#include "launcher/worker/sweep.h"

/* srun -K ends all tasks when one has, also who has yet to say why. */
enum { SAID_MS = 1000 };

/* A descriptor that was closed would be given to a socket, and then written to
 * as stdout. */
static void open_missing_files(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static int fail(const struct err *e, int code)
{
	log_error("error: %s", e->text);
	return code;
}

/* Other nodes would wait for this one: they are told why it cannot run. */
static int run_unable(const struct config *config,
		      const struct agent_unable *unable)
{
	struct agent_ended ended;

	/* a line that is wrong here is wrong there, too */
	if (config->max_nodes == 1 || config->dry_run ||
	    unable->exit_code == EXIT_BAD_USAGE)
		return fail(&unable->why, unable->exit_code);
	log_error("error: %s; telling the other nodes (Ctrl-C ends this)",
		  unable->why.text);
	return agent_run(config, NULL, unable, 0, &ended);
}

static int run_agent(const struct config *c, const struct plan_parts *parts,
		     uint64_t open_files)
{
	struct agent_ended ended;
	int rc = agent_run(c, parts, NULL, open_files, &ended);
	const struct requeue_told told = {
		.warned = ended.warned, .cut = ended.level == WIRE_CUT,
		.restarts = c->slurm.restarts,
	};

	/* all checkpoints are complete: requeueing kills what runs */
	if (ended.level)
		requeue_run(c, &told);
	return rc;
}

static int run_here(struct config *config, const struct plan_parts *parts,
		    const struct agent_unable *unable, uint64_t open_files)
{
	struct err e = ERR_INIT;

	if (config->dry_run && !unable->exit_code)
		return dry_run(config, parts, &e) < 0 ? fail(&e, EXIT_OS) : 0;
	/* also who is unable goes there, to tell the others */
	if (config->meets && !config->dry_run &&
	    unable->exit_code != EXIT_BAD_USAGE && meet(config, &e) < 0)
		return fail(&e, exit_code_of(&e));
	meet_dismiss();
	inferred_mpi_say(config);
	if (unable->exit_code)
		return run_unable(config, unable);
	return run_agent(config, parts, open_files);
}

static int run(struct config *config)
{
	struct plan_parts parts = {.program = {NULL}};
	struct agent_unable unable = {.why = ERR_INIT};
	uint64_t open_files = 0;
	int rc;

	inferred_say(config);
	inferred_restore(config);
	unable.exit_code = prepare(&parts, config, &open_files, &unable.why);
	rc = run_here(config, &parts, &unable, open_files);
	prepare_release(&parts);
	inferred_linger(config, rc == EXIT_LOST);
	return rc;
}

/* In an allocation of Slurm's: this command again, by srun, on its nodes. */
static int run_step(const struct config *c, char **args)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	struct step_command command;
	struct buf line;
	struct err e = ERR_INIT;
	char restart[ALLOCATION_RESTART_MAX];

	if (n <= 0)
		n = snprintf(self, sizeof(self), "ddprun");
	self[n] = '\0';
	if (!c->dry_run && requeue_prepare(c, &e) < 0)
		return fail(&e, EXIT_BAD_USAGE);
	if (step_command_init(&command, c, self, args, &e) < 0)
		return fail(&e, exit_code_of(&e));
	buf_init(&line, SIZE_MAX);
	step_command_put(&line, &command);
	if (c->dry_run) {
		printf("%.*s\n", (int)line.len, line.data);
	} else {
		log_info("in Slurm's job %llu%s, of %u node%s: %.*s",
			 (unsigned long long)c->slurm.job,
			 allocation_restart(&c->slurm, restart), c->slurm.nodes,
			 c->slurm.nodes == 1 ? "" : "s", (int)line.len,
			 line.data);
		step_command_clean(c);
		if (step_command_add_secret(c, &e) == 0)
			step_command_exec(&command, &e);
	}
	buf_release(&line);
	step_command_release(&command);
	return c->dry_run ? 0 : fail(&e, EXIT_NOT_FOUND);
}

static int run_command(int argc, char **argv)
{
	struct config config;
	struct err e = ERR_INIT;
	int rc;

	if (argc > 1 && strcmp(argv[1], "dump") == 0)
		return dump_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "status") == 0)
		return status_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "--remote-end") == 0)
		return proxy_main(argc, argv);
	remote_node_init();
	rc = config_parse(&config, argc, argv, &e);
	if (rc == OPTION_WANT_HELP) {
		config_print_help();
		return 0;
	}
	if (rc == OPTION_WANT_VERSION) {
		printf("ddprun %s\n", DDP_VERSION);
		return 0;
	}
	if (rc == CONFIG_WANT_COMPLETION) {
		if (config.print_completion[0] == 'b')
			completion_print_bash();
		else
			completion_print_zsh();
		return 0;
	}
	if (rc == CONFIG_WANT_STEP)
		return run_step(&config, argv + 1);
	if (rc == ERR_USAGE && inferred_is_said(&config)) {
		inferred_end_echoes(&config);
		poll(NULL, 0, SAID_MS);
		return EXIT_BAD_USAGE;
	}
	if (rc == CONFIG_WANT_HOSTS)
		rc = launch_run(&config, argv);
	else if (rc < 0)
		rc = fail(&e, rc == -ENOMEM ? EXIT_OS : EXIT_BAD_USAGE);
	else
		rc = run(&config);
	config_release(&config);
	return rc;
}

int main(int argc, char **argv)
{
	int code, rc;

	inferred_catch_early();
	spawn_take_over_signals();
	sweep_note_strangers();
	open_missing_files();
	log_init("ddprun");
	code = run_command(argc, argv);
	/* --help, --version, a dump: nobody has them if the disk is full */
	rc = file_flush_stdout();
	if (rc == 0 || code)
		return code;
	log_error("error: cannot write to stdout: %s", err_name(rc));
	return EXIT_OS;
}
