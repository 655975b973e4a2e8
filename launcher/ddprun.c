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

static int find_program(struct program *program, const struct config *c,
			struct err *e)
{
	const struct program_how how = {
		.no_python = c->no_python, .module = c->module,
		.run_path = c->run_path,
		.local_rank = c->legacy_launch && !c->use_env,
	};

	return program_find(program, c->words, &how, e);
}

int main(int argc, char **argv)
{
	struct config config;
	struct program program;
	struct err e = ERR_INIT;
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
	rc = config_check_limits(config.nproc, &open_files, &e);
	if (rc < 0)
		return fail(&e, EXIT_OS);
	rc = find_program(&program, &config, &e);
	if (rc < 0)
		return fail(&e, rc == -ENOENT ? EXIT_NOT_FOUND
					      : EXIT_NOT_EXECUTABLE);
	rc = agent_run(&config, &program, open_files);
	program_release(&program);
	return rc;
}
