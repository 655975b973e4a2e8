/* seeds_config.c: each option of ddprun with a value, alone and as a variable,
 * and what users write. */
#include <stdio.h>
#include <stdlib.h>

#include "launcher/config/config.h"
#include "tests/fuzz/seeds.h"

static const char *const commands[] = {
	"--standalone\n--nproc-per-node\n4\n./a\n--x",
	"--nnodes\n1:4\n--nproc-per-node\nauto\n--rdzv-endpoint\nh:29400\n"
	"--rdzv-id\nj\n--max-restarts\n3\n./a",
	"-H\nh1:4,h2:2\n--wrap\ngdb --args\n--\n./a\n:\n-n\n2\n./b",
	"--multi-prog\n0-3 ./a\n--role\nx\n--log-dir\nL\n--tee\n0:3,1:1\n./a",
	"--etcd\n10.0.0.1:2379,10.0.0.2:2379\n--rdzv-conf\n"
	"timeout=30,read_timeout=60\n./a",
	"SLURM_JOB_ID=1\nSLURM_JOB_NODELIST=h[1-2]\nSLURM_JOB_NUM_NODES=2\n"
	"SLURM_NTASKS=2\nSLURM_STEP_ID=0\nSLURM_NODEID=1\nSLURM_PROCID=1\n"
	"SLURM_STEP_NODELIST=h[1-2]\nSLURM_STEP_NUM_NODES=2\n"
	"SLURM_STEP_NUM_TASKS=2\nSLURM_STEP_TASKS_PER_NODE=1(x2)\n./a",
	"MASTER_ADDR=h\nMASTER_PORT=29500\nWORLD_SIZE=4\nNODE_RANK=1\n"
	"--nnodes\n2\n./a",
};

static void seeds_option(const struct option_spec *s)
{
	const char *value = s->def && *s->def ? s->def :
			    s->kind == OPTION_STRING ? "1" : "2";
	struct buf b = BUF_INIT(SEED_MAX);

	if (s->env)
		buf_printf(&b, "%s=%s\n", s->env, value);
	buf_printf(&b, "--%s", s->name);
	if (option_takes_value(s))
		buf_printf(&b, "\n%s", value);
	buf_printf(&b, "\n./a");
	seeds_write("config", s->name, &b);
}

void seeds_config(void)
{
	struct buf b = BUF_INIT(SEED_MAX);
	char name[32];

	for (const struct option_spec *s = config_options; s->name; s++)
		seeds_option(s);
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		buf_printf(&b, "%s", commands[i]);
		snprintf(name, sizeof(name), "command_%zu", i);
		seeds_write("config", name, &b);
	}
}
