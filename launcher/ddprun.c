/* ddprun.c: the launcher: reads the command line, checks what can be checked
 * before anything starts, and runs the agent. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/agent.h"
#include "launcher/exit_code.h"
#include "launcher/spawn.h"

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
	if (config->max_nodes == 1)
		return fail(&unable->why, unable->exit_code);
	log_error("error: %s; telling the other nodes (Ctrl-C ends this)",
		  unable->why.text);
	return agent_run(config, NULL, unable, 0);
}

int main(int argc, char **argv)
{
	struct config config;
	struct program program;
	struct err e = ERR_INIT;
	struct agent_unable unable = {.why = ERR_INIT, .exit_code = EXIT_OS};
	uint64_t open_files;
	int rc;

	open_missing_files();
	log_init("ddprun");
	spawn_remember_signals();
	rc = config_parse(&config, argc, argv, &e);
	if (rc == OPTION_WANT_HELP) {
		config_print_help();
		return 0;
	}
	if (rc == OPTION_WANT_VERSION) {
		printf("ddprun %s\n", DDP_VERSION);
		return 0;
	}
	if (rc < 0)
		return fail(&e, EXIT_BAD_USAGE);
	rc = config_check_limits(config.nproc, &open_files, &unable.why);
	if (rc < 0)
		return run_unable(&config, &unable);
	rc = program_find(&program, config.words, config.no_python,
			  &unable.why);
	if (rc < 0) {
		unable.exit_code = rc == -ENOENT ? EXIT_NOT_FOUND
						 : EXIT_NOT_EXECUTABLE;
		return run_unable(&config, &unable);
	}
	rc = agent_run(&config, &program, NULL, open_files);
	program_release(&program);
	return rc;
}
