/* slurm_vars.h: sets Slurm's variables for tests, and reads them as ddprun
 * does: alone (allocation_read) or with a command line. */
#ifndef TESTS_UNIT_SLURM_VARS_H
#define TESTS_UNIT_SLURM_VARS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/config/config.h"
#include "slurm/allocation.h"

enum { VARS_MAX = 60 };

static struct {
	const char *name, *value;
} vars[VARS_MAX];
static int nvars;
static struct allocation a;
static struct err error;

static inline void set(const char *name, const char *value)
{
	int i = 0;

	while (i < nvars && strcmp(vars[i].name, name))
		i++;
	ck_assert_int_lt(i, VARS_MAX);
	vars[i].name = name;
	vars[i].value = value;
	nvars = i < nvars ? nvars : i + 1;
}

static inline const char *get(const char *name)
{
	for (int i = 0; i < nvars; i++)
		if (!strcmp(vars[i].name, name))
			return vars[i].value;
	return NULL;
}

static inline void start(void)
{
	nvars = 0;
	error = (struct err)ERR_INIT;
}

/* Sets variables as srun 22.05: step 3 of job 12, on 2 of the job's 4 nodes. */
static inline void step(void)
{
	set("SLURM_JOB_ID", "12");
	set("SLURM_JOB_NUM_NODES", "4");
	set("SLURM_JOB_NODELIST", "n[08-11]");
	set("SLURM_JOB_CPUS_PER_NODE", "4(x2),2,72");
	set("SLURM_STEP_ID", "3");
	set("SLURM_STEP_NUM_NODES", "2");
	set("SLURM_STEP_NUM_TASKS", "2");
	set("SLURM_STEP_NODELIST", "n[10-11]");
	set("SLURM_STEP_TASKS_PER_NODE", "1(x2)");
	set("SLURM_NODEID", "1");
	set("SLURMD_NODENAME", "n11");
}

static inline void batch(void)
{
	set("SLURM_JOB_ID", "12");
	set("SLURM_JOB_NUM_NODES", "4");
	set("SLURM_JOB_NODELIST", "n[08-11]");
	set("SLURM_TASKS_PER_NODE", "4(x4)");
	/* a batch script has these too */
	set("SLURM_PROCID", "0");
	set("SLURM_NODEID", "0");
}

static inline void taken(void)
{
	ck_assert_msg(allocation_read(&a, get, &error) == 0, "%s", error.text);
}

static inline void refused(const char *part)
{
	ck_assert_int_eq(allocation_read(&a, get, &error), ERR_USAGE);
	ck_assert_msg(strstr(error.text, part) != NULL, "%s", error.text);
	ck_assert_ptr_null(strchr(error.text, '\n'));
}

/* Sets the variables of a 22.05 batch script: 1 node of 2 tasks, 2 of one. */
static inline void groups(void)
{
	set("SLURM_JOB_ID", "12");
	set("SLURM_JOB_NUM_NODES", "1");
	set("SLURM_JOB_NODELIST", "n08");
	set("SLURM_TASKS_PER_NODE", "2");
	set("SLURM_HET_SIZE", "2");
	set("SLURM_JOB_ID_HET_GROUP_0", "12");
	set("SLURM_JOB_ID_HET_GROUP_1", "13");
	set("SLURM_JOB_NUM_NODES_HET_GROUP_0", "1");
	set("SLURM_JOB_NUM_NODES_HET_GROUP_1", "2");
	set("SLURM_TASKS_PER_NODE_HET_GROUP_0", "2");
	set("SLURM_TASKS_PER_NODE_HET_GROUP_1", "1(x2)");
	set("SLURM_GPUS_PER_NODE_HET_GROUP_0", "4");
}

static struct config config;
static char line[256];
static char *words[16];

static inline int parse(const char *text)
{
	int n = 0;

	snprintf(line, sizeof(line), "ddprun %s", text);
	for (char *w = strtok(line, " "); w; w = strtok(NULL, " "))
		words[n++] = w;
	words[n] = NULL;
	for (int i = 0; i < nvars; i++) {
		if (vars[i].value)
			setenv(vars[i].name, vars[i].value, 1);
		else
			unsetenv(vars[i].name);
	}
	return config_parse(&config, n, words, &error);
}

static inline void parses(const char *text)
{
	ck_assert_msg(parse(text) == 0, "'%s': %s", text, error.text);
}

static inline void parse_refused(const char *text, const char *part)
{
	ck_assert_msg(parse(text) == ERR_USAGE, "'%s' was taken", text);
	ck_assert_msg(strstr(error.text, part), "'%s': %s", text, error.text);
}

static inline void clean(void)
{
	extern char **environ;
	char name[64];

	start();
	for (int i = 0; environ[i];) {
		snprintf(name, sizeof(name), "%.*s",
			 (int)strcspn(environ[i], "="), environ[i]);
		if (strncmp(name, "SLURM", 5) && strncmp(name, "PET_", 4) &&
		    strncmp(name, "MASTER_", 7) && strncmp(name, "DDP_", 4) &&
		    strncmp(name, "CUDA_", 5) && strncmp(name, "OMPI_", 5) &&
		    strncmp(name, "PMI_", 4))
			i++;
		else
			unsetenv(name);
	}
}

#endif
