/* check_command.c: from the words of `ddprun check` to those of a job. */
#include "launcher/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_command_add(struct check_command *k, const char *word)
{
	k->argv[k->argc++] = (char *)word;
}

static void check_command_put(struct check_command *k, char **options, int n)
{
	for (int i = 0; i < n; i++)
		check_command_add(k, options[i]);
	check_command_add(k, "--nproc-per-node=1");
	check_command_add(k, "--max-restarts=0");
	check_command_add(k, "--preflight=none");
	check_command_add(k, "--log-line-prefix-template=");
	check_command_add(k, "--");
	for (int i = 0; i < k->words.n; i++)
		check_command_add(k, k->words.list[i]);
	k->argv[k->argc] = NULL;
}

int config_parse_command(struct config *c, const char *name, int argc,
			 char **argv, struct err *e)
{
	int rc;

	*c = (struct config){.noptions = 0};
	rc = option_parse_program(config_options, c, argc, argv, &c->noptions,
				  e);
	if (rc < 0 || !argv[rc])
		return rc;
	return err_set(e, ERR_USAGE, "ddprun %s takes no program, but '%s' is "
		       "one; to start a program that is called %s, write "
		       "ddprun ./%s", name, argv[rc], name, name);
}

int check_command_init(struct check_command *k, int argc, char **argv,
		       struct err *e)
{
	struct config c;
	int is_full = argc > 1 && strcmp(argv[1], "full") == 0;
	int skip = is_full || (argc > 1 && strcmp(argv[1], "quick") == 0);
	int rc;

	*k = (struct check_command){.argc = 0};
	rc = config_parse_command(&c, "check", argc - skip, argv + skip, e);
	if (rc < 0)
		return rc;
	if (c.preflight && strcmp(c.preflight, "full") == 0)
		is_full = 1;
	rc = check_words_init(&k->words, &(struct check_words_request){
			      .full = is_full, .folders = c.preflight_folders,
			      .command = c.preflight_command,
			      .json = c.preflight_json,
			      .log_dir = c.output.log_dir}, e);
	if (rc < 0)
		return rc;
	k->argv = calloc((size_t)argc + 1 + CHECK_COMMAND_WORDS,
			 sizeof(char *));
	if (!k->argv)
		return err_no_memory(e, "the options");
	check_command_add(k, "ddprun");
	check_command_put(k, argv + skip + 1, c.noptions);
	return 0;
}

void check_command_release(struct check_command *k)
{
	free(k->argv);
	k->argv = NULL;
	check_words_release(&k->words);
}

void check_command_print_help(void)
{
	printf("usage: ddprun check [quick|full] [OPTIONS]\n"
	       "\n"
	       "Checks the nodes of a job, all at once, and prints a table in "
	       "which what is wrong\n"
	       "and what differs is marked: limits, memory, /dev/shm, folders, "
	       "CPUs, GPUs, names,\n"
	       "versions, clocks, and the network between each pair of nodes. "
	       "quick, the default,\n"
	       "takes 2 s, full up to 30 s. Exits with 0 if all nodes are "
	       "fit.\n"
	       "\n"
	       "The options are those of ddprun (ddprun --help) that say which "
	       "nodes there are and\n"
	       "how they meet; run it once on each node, over ssh (-H), or "
	       "under srun. Also:\n"
	       "\n"
	       "  --preflight-folders DIR,...  folders in which workers "
	       "write\n"
	       "  --preflight-command COMMAND  the site's own check\n"
	       "  --preflight-json FILE        write the results as JSON; - is "
	       "stdout\n"
	       "\n"
	       "ddprun-check(1) has more.\n"
	       "\n"
	       "examples:\n"
	       "  ddprun check\n"
	       "  ddprun check full -H h1,h2 --preflight-folders /ckpt\n"
	       "  ddprun check --nnodes 2 --rdzv-endpoint h1:29400\n");
}
