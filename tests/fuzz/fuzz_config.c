/* fuzz_config: ddprun's command line and environment, one word or variable per
 * line. Lines NAME=VALUE before the first word set a variable, if an option or
 * `others` has it. The result must be a configuration within its limits, or an
 * error with a text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORDS_MAX = 64 };

/* Variables of Slurm, PBS, LSF and torchrun's users. */
static const char *const others[] = {
	"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NODE_RANK",
	"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES",
	"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
	"SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES",
	"SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID",
	"SLURM_PROCID", "SLURM_LOCALID", "SLURM_GPUS_ON_NODE",
	"SLURM_CPUS_PER_TASK", "SLURMD_NODENAME", "PBS_JOBID", "PBS_NODEFILE",
	"LSB_JOBID", "LSB_HOSTS", "LSB_MCPU_HOSTS", "CUDA_VISIBLE_DEVICES"};

static void require(int ok)
{
	if (!ok)
		abort();
}

static int is_variable(const char *name)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (strcmp(name, others[i]) == 0)
			return 1;
	for (const struct option_spec *s = config_options; s->name; s++)
		if (s->env && strcmp(name, s->env) == 0)
			return 1;
	return 0;
}

/* Sets the variable on this line. 0: the line is a word. */
static int set_variable(char *line)
{
	char *value = strchr(line, '=');

	if (!value || line[0] == '-')
		return 0;
	*value = '\0';
	if (is_variable(line))
		setenv(line, value + 1, 1);
	return 1;
}

/* Fills argv with the lines of text, after those that set variables. */
static int split(char *text, char **argv)
{
	int n = 0;

	argv[n++] = (char *)"ddprun";
	for (char *line = text, *end; line && n < WORDS_MAX; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		if (n > 1 || !set_variable(line))
			argv[n++] = line;
	}
	argv[n] = NULL;
	return n;
}

static void check(const struct config *c)
{
	require(c->words && c->words[0]);
	require(c->min_nodes >= 1 && c->min_nodes <= c->max_nodes);
	require(c->nproc >= 1);
	for (int i = 0; c->words[i]; i++)
		require(i < WORDS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *argv[WORDS_MAX + 1];
	struct err e = ERR_INIT;
	struct config c;
	int rc;

	memcpy(text, data, size);
	text[size] = '\0';
	clearenv();
	rc = config_parse(&c, split(text, argv), argv, &e);
	if (rc == 0)
		check(&c);
	else
		require(rc <= OPTION_WANT_HELP || e.text[0]);
	config_release(&c);
	free(text);
	return 0;
}
