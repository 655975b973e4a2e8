/* config.c: checks the options, and decides what follows from them, before
 * anything starts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/config/config.h"
#include "launcher/config/config_internal.h"
#include "launcher/output/log_rules.h"
#include "launcher/plan/cpus.h"
#include "launcher/plan/framework.h"
#include "launcher/plan/gpu.h"
#include "launcher/plan/nccl.h"
#include "launcher/stage/stage.h"
#include "rendezvous/wire.h"

enum { RECONNECT_S = 30 }; /* --rdzv-conf reconnect_timeout */

/* Parses --nnodes, "N" or "MIN:MAX". */
static int config_decide_nnodes(struct config *c, struct err *e)
{
	char number[OPTION_NUMBER_MAX];
	const char *text = option_trim(c->nnodes_text, number);
	const char *colon = strchr(text, ':');
	char low[24];
	long min, max;
	int rc;

	snprintf(low, sizeof(low), "%.*s",
		 (int)(colon ? (size_t)(colon - text) : strlen(text)), text);
	rc = parse_long(low, 1, WIRE_NODES_MAX, "--nnodes", &min, NULL);
	max = min;
	if (rc == 0 && colon)
		rc = parse_long(colon + 1, 1, WIRE_NODES_MAX, "--nnodes", &max,
				NULL);
	if (rc < 0)
		return err_set(e, ERR_USAGE,
			       "--nnodes '%s': give the number of nodes, 1 to "
			       "%d, or MIN:MAX", text, WIRE_NODES_MAX);
	if (min > max)
		return err_set(e, ERR_USAGE, "--nnodes '%s': the minimum is "
			       "above the maximum", text);
	c->min_nodes = (uint32_t)min;
	c->max_nodes = (uint32_t)max;
	return 0;
}

/* The CPUs that this process may use; containers and Slurm restrict them. */
static long config_count_cpus(void)
{
	struct cpus allowed;

	if (cpus_allowed(&allowed, NULL) == 0)
		return cpus_count(&allowed);
	return sysconf(_SC_NPROCESSORS_ONLN);
}

/* How many workers the GPUs suffice for. */
static long config_gpu_workers(const struct config *c, const char **why)
{
	long n = gpu_count(why);

	if (n == 0 || c->gpus_per_proc == 0)
		return n;
	*why = "it has fewer than --gpus-per-proc";
	return n / c->gpus_per_proc;
}

static int config_decide_nproc(struct config *c, struct err *e)
{
	const char *why, *text = c->nproc_text;
	char number[OPTION_NUMBER_MAX];
	long n = 0;

	if (!c->nproc_given && c->env.role == LAUNCH_TASK)
		return launch_defaults_nproc(c, e);
	if (strcmp(text, "cpu") == 0) {
		n = config_count_cpus();
	} else if (strcmp(text, "auto") == 0) {
		n = config_gpu_workers(c, &why);
		n = n ? n : (long)c->env.tasks;
		n = n ? n : config_count_cpus();
	} else if (strcmp(text, "gpu") == 0) {
		n = config_gpu_workers(c, &why);
		if (n == 0)
			return err_set(e, ERR_USAGE,
				       "--nproc-per-node gpu: this host has no "
				       "GPU to use: %s; give a number, cpu or "
				       "auto", why);
	} else if (strcmp(text, "xpu") == 0) {
		return err_set(
			e, ERR_USAGE,
			"--nproc-per-node xpu: ddprun counts only NVIDIA GPUs; "
			"give the number, or auto, cpu, gpu");
	} else if (parse_long(option_trim(text, number), 1, WIRE_NPROC_MAX, "",
			      &n, NULL) < 0) {
		return err_set(e, ERR_USAGE,
			       "--nproc-per-node '%s': give a number from 1 to "
			       "%d, or auto, cpu, gpu", text, WIRE_NPROC_MAX);
	}
	c->nproc = (uint32_t)n;
	return 0;
}

/* Checks that the host has all GPUs that its workers are to see. */
static int config_decide_gpus(struct config *c, struct err *e)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES"), *why = "";
	const char *option = c->gpus_per_proc ? "--gpus-per-proc"
					      : "--virtual-local-rank";
	uint64_t need, have;

	if (c->gpus_per_proc || c->virtual_local_rank)
		c->worker_gpus = c->gpus_per_proc ? (uint32_t)c->gpus_per_proc
						  : 1;
	need = (uint64_t)c->worker_gpus * c->nproc;
	if (!need || c->roles.n) /* plan.c counts those of each program */
		return 0;
	if (list) {
		have = gpu_list_count(list);
		if (have < need)
			return err_set(e, ERR_USAGE,
				       "%s: %u workers need %llu GPUs, but "
				       "CUDA_VISIBLE_DEVICES '%s' has %llu; "
				       "start fewer workers, or list more GPUs",
				       option, c->nproc,
				       (unsigned long long)need, list,
				       (unsigned long long)have);
		return 0;
	}
	if (!c->gpus_per_proc) /* torchrun does not count them here, either */
		return 0;
	have = (uint64_t)gpu_count(&why);
	if (have < need)
		return err_set(e, ERR_USAGE,
			       "%s: %u workers need %llu GPUs, but this host "
			       "has %llu%s%s; start fewer workers",
			       option, c->nproc, (unsigned long long)need,
			       (unsigned long long)have, have ? "" : ": ",
			       have ? "" : why);
	return 0;
}

/* Reads torchrun's variable unless our own option is given. */
static int config_decide_grace(struct config *c, struct err *e)
{
	const char *text = getenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
	long seconds;
	int rc;

	if (c->shutdown_timeout_given || !text || !*text)
		return 0;
	rc = parse_long(text, 0, 1000000000,
			"TORCH_ELASTIC_SHUTDOWN_TIMEOUT in the environment",
			&seconds, e);
	if (rc == 0)
		c->shutdown_timeout_s = (double)seconds;
	return rc;
}

static int config_is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++) {
		if (strcmp(text, *words) == 0)
			return 1;
	}
	return 0;
}

static int config_check_mpi(const struct config *c, struct err *e)
{
	static const char *const ways[] = {"auto", "pmi", "pmix", "none", NULL};

	if (config_is_one_of(c->mpi, ways))
		return 0;
	return err_set(e, ERR_USAGE, "--mpi '%s': give auto, pmi, pmix or none",
		       c->mpi);
}

static int config_check_preflight(const struct config *c, struct err *e)
{
	static const char *const ways[] = {"none", "quick", "full", NULL};

	if (config_is_one_of(c->preflight, ways))
		return 0;
	return err_set(e, ERR_USAGE, "--preflight '%s': give quick or full",
		       c->preflight);
}

/* Letters of any script: Python's names may be any UTF-8. */
static int config_is_module_char(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c & 0x80) ||
	       ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* A,B.C: names and dots between commas. */
static int config_check_preload(const struct config *c, struct err *e)
{
	const char *at = c->preload;
	int is_name = 0;

	for (; at && (*at || !is_name); at++) {
		if (config_is_module_char(*at) &&
		    (is_name || *at < '0' || *at > '9'))
			is_name = 1;
		else if (is_name && (*at == ',' || *at == '.'))
			is_name = 0;
		else
			return err_set(e, ERR_USAGE, "--preload '%s': give "
				       "the names of Python modules, "
				       "separated by commas, or auto",
				       c->preload);
	}
	return 0;
}

/* Checks the options that have a meaning only if Python loads something. */
static int config_check_python(const struct config *c, struct err *e)
{
	static const char *const methods[] = {"spawn", "fork", "forkserver",
					      NULL};
	static const char *const handlers[] = {"null", "console", NULL};

	if (!config_is_one_of(c->start_method, methods))
		return err_set(e, ERR_USAGE, "--start-method '%s': give spawn, "
			       "fork or forkserver, or leave it out",
			       c->start_method);
	if (!config_is_one_of(c->event_log_handler, handlers))
		return err_set(e, ERR_USAGE, "--event-log-handler '%s' is "
			       "Python code, which ddprun cannot load; leave "
			       "it out", c->event_log_handler);
	if (c->logs_specs && strcmp(c->logs_specs, "default") != 0)
		return err_set(
			e, ERR_USAGE,
			"--logs-specs '%s' is Python code, which ddprun cannot "
			"load; use --log-dir, --redirects and --tee instead",
			c->logs_specs);
	if (c->module && c->no_python)
		return err_set(e, ERR_USAGE, "--module runs PROGRAM with "
			       "Python and --no-python without; leave one of "
			       "them out");
	if (c->legacy_launch && c->no_python && !c->use_env)
		return err_set(e, ERR_USAGE, "--legacy-launch with --no-python "
			       "needs --use-env: the program reads LOCAL_RANK");
	return 0;
}

static int config_decide_signals(struct config *c, struct err *e)
{
	char name[SIGNAL_NAME_MAX];
	int rc = signal_set_parse(&c->ending, c->signals_to_handle,
				  "--signals-to-handle", e);

	if (rc == 0)
		rc = signal_set_parse(&c->forwarded, c->forward_signals,
				      "--forward-signals", e);
	if (rc < 0)
		return rc;
	if (!c->ending.bits)
		return err_set(e, ERR_USAGE, "--signals-to-handle names no "
			       "signal; nothing could end the job cleanly");
	rc = signal_set_common(&c->ending, &c->forwarded);
	if (rc)
		return err_set(e, ERR_USAGE, "--forward-signals: %s is in "
			       "--signals-to-handle as well; it can end the "
			       "job or be passed on, not both",
			       signal_name(rc, name));
	/* a signal that the user lists keeps the user's meaning */
	c->warning.bits = c->env.warnings.bits & ~c->ending.bits &
			  ~c->forwarded.bits;
	return 0;
}

/* Parses --requeue-on and checks that there is a queue. */
static int config_decide_requeue(struct config *c, struct err *e)
{
	const char *text = c->requeue_on;
	int has_cause;

	if (!c->stop_before_given)
		c->stop_before_s = c->shutdown_timeout_s;
	while (text && *text) {
		size_t n = strcspn(text, ",");

		if (n == 7 && strncmp(text, "preempt", n) == 0)
			c->on_preempt = 1;
		else if (n == 7 && strncmp(text, "timeout", n) == 0)
			c->on_timeout = 1;
		else
			break;
		text += n;
		if (*text == ',' && text[1])
			text++;
	}
	has_cause = c->on_preempt || c->on_timeout;
	if (text && (*text || !has_cause))
		return err_set(e, ERR_USAGE, "--requeue-on '%s': give preempt, "
			       "timeout, or both with a comma between them",
			       c->requeue_on);
	if (has_cause && !c->env.can_requeue)
		return err_set(
			e, ERR_USAGE,
			"--requeue-on %s: %s; leave it out, or start ddprun in "
			"a batch script (sbatch)",
			c->requeue_on,
			c->standalone
				? "with --standalone, ddprun does not use Slurm"
				: "this is not a Slurm job");
	return 0;
}

static int config_is_remote(const struct config *c)
{
	return c->over_ssh || c->env.role == LAUNCH_STEP;
}

static int config_check_rest(struct config *c, struct err *e)
{
	struct nccl nccl;
	int rc = config_rdzv_check(c, e);

	if (rc == 0 && !config_is_name(c->role))
		rc = err_set(e, ERR_USAGE, "--role: the name must have 1 to "
			     "256 printable bytes");
	if (rc == 0 && c->encrypt_data && auth_is_none(c->auth_text))
		rc = err_set(
			e, ERR_USAGE,
			"--encrypt-data with --auth none: the encryption key "
			"would be sent unencrypted; leave one of them out");
	if (rc == 0)
		rc = config_check_python(c, e);
	if (rc == 0)
		rc = config_check_mpi(c, e);
	if (rc == 0)
		rc = framework_parse(c->env_text, &c->frameworks, e);
	if (rc == 0)
		rc = config_check_preflight(c, e);
	if (rc == 0)
		rc = config_check_preload(c, e);
	if (rc == 0 && c->stage)
		rc = stage_spec_check(c->stage, e);
	if (rc == 0)
		rc = log_rules_check(&c->output, c->nproc, e);
	if (rc == 0)
		rc = nccl_parse_debug(&nccl, c->nccl_debug, e);
	return rc;
}

/* What depends on this node, on which workers will run. */
static int config_decide_node(struct config *c, struct err *e)
{
	int rc = config_decide_nproc(c, e);

	if (rc == 0)
		rc = config_programs_check(c, e);
	if (rc == 0)
		rc = config_decide_gpus(c, e);
	if (rc == 0 && c->rdzv_conf)
		rc = rdzv_conf_apply(c, c->rdzv_conf, e);
	if (rc == 0)
		rc = config_rdzv_decide(c, e);
	return rc == 0 ? config_decide_grace(c, e) : rc;
}

/* No worker will run here: the nodes decide for themselves. */
static int config_decide_remote(struct config *c, struct err *e)
{
	c->private_endpoint = 1; /* the step finds its own endpoint */
	return c->rdzv_conf ? rdzv_conf_apply(c, c->rdzv_conf, e) : 0;
}

static int config_decide(struct config *c, struct err *e)
{
	int rc = config_is_remote(c) ? config_decide_remote(c, e)
				     : config_decide_node(c, e);

	if (rc == 0)
		rc = config_decide_signals(c, e);
	if (rc == 0)
		rc = config_decide_requeue(c, e);
	return rc == 0 ? config_decide_input(c, config_is_remote(c), e) : rc;
}

/* For --print-completion, which has no program to check. */
static int config_check_completion(const struct config *c, struct err *e)
{
	static const char *const shells[] = {"bash", "zsh", "fish", NULL};

	if (config_is_one_of(c->print_completion, shells))
		return CONFIG_WANT_COMPLETION;
	return err_set(e, ERR_USAGE, "--print-completion '%s': give bash, "
		       "zsh or fish", c->print_completion);
}

/* An option whose value is empty, as that of a variable that is not set, counts
 * as not given, as in torchrun. */
static void config_drop_empty(struct config *c)
{
	if (c->endpoint_given && !*c->endpoint_text) {
		c->endpoint_text = NULL;
		c->endpoint_given = 0;
	}
	if (c->master_addr_given && !*c->master_addr)
		c->master_addr_given = 0;
	if (c->local_addr_given && !*c->local_addr)
		c->local_addr_given = 0;
	if (c->output.log_dir && !*c->output.log_dir)
		c->output.log_dir = NULL;
}

/* The same for names, but only on one node: with several, jobs without a name
 * would meet each other. */
static void config_drop_empty_names(struct config *c)
{
	if (c->max_nodes > 1 || c->etcd.members)
		return;
	if (!*c->job) {
		c->job = CONFIG_JOB;
		c->job_given = 0;
	}
	if (!*c->role)
		c->role = CONFIG_ROLE;
}

/* argparse, which parses torchrun's command line, drops a "--" right after
 * PROGRAM, unless one precedes it. The command that srun starts again keeps it:
 * it is parsed like this one. */
static void config_drop_dashes(struct config *c)
{
	char **words = c->words;

	if (!words[0] || !words[1] || strcmp(words[1], "--") != 0 ||
	    (config_is_remote(c) && !c->over_ssh))
		return;
	words[1] = words[0];
	c->words = words + 1;
}

/* With --log-dir alone the workers' output goes both to the folder and to the
 * console. */
static void config_decide_streams(struct output_options *o)
{
	int keep = o->log_dir && strcmp(o->log_dir, "/dev/null") != 0 &&
		   !o->redirects && !o->tee;

	if (!o->tee)
		o->tee = keep ? "3" : "0";
	if (!o->redirects)
		o->redirects = "0";
}

int config_parse(struct config *c, int argc, char **argv, struct err *e)
{
	static char *nothing[] = {(char *)"true", NULL};
	int rc, ended;

	*c = (struct config){
		/* the options' defaults are in config_options */
		.node_rank = -1, .is_host = -1,
		.reconnect_s = RECONNECT_S,
		.etcd = {.ttl_s = ETCD_OPTIONS_TTL_S},
	};
	rc = option_parse_program(config_options, c, argc, argv, &c->noptions,
				  e);
	if (rc < 0)
		return rc;
	c->words = argv + rc;
	ended = c->noptions < rc - 1;
	if (c->print_completion)
		return config_check_completion(c, e);
	config_drop_empty(c);
	rc = config_programs_init(c, e);
	if (rc == 0)
		rc = launch_env_take_auth(&c->handed, e);
	if (rc == 0)
		rc = config_rdzv_backend(c, e);
	if (rc == 0)
		rc = host_choice_init(c, e);
	if (rc == 0)
		rc = config_decide_nnodes(c, e);
	if (rc == 0) {
		config_drop_empty_names(c);
		rc = c->over_ssh ? host_choice_nodes(c, e)
				 : launch_defaults_nodes(c, e);
	}
	if (rc == 0 && !c->over_ssh)
		rc = world_size_split(c, e);
	if (!ended)
		config_drop_dashes(c);
	if (rc == 0)
		rc = config_decide(c, e);
	config_decide_streams(&c->output);
	if (rc == 0)
		rc = config_check_rest(c, e);
	c->no_program = c->host_check && !c->words[0];
	if (c->no_program)
		c->words = nothing;
	if (rc == 0 && !c->words[0])
		rc = err_set(e, ERR_USAGE, "no program to run; write ddprun "
			     "[OPTIONS] PROGRAM [ARGUMENTS] (--help lists the "
			     "options)");
	if (rc == 0 && config_is_remote(c))
		rc = c->over_ssh ? CONFIG_WANT_HOSTS : CONFIG_WANT_STEP;
	return rc;
}

void config_release(struct config *c)
{
	host_list_release(&c->hosts);
	config_programs_release(c);
}

void config_print_help(void)
{
	printf("usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS]\n"
	       "       ddprun COMMAND [OPTIONS]\n"
	       "\n"
	       "Starts PROGRAM as the workers of a distributed job and "
	       "supervises them. Run it\n"
	       "once on each node. $PYTHON_EXEC, else python3, runs a PROGRAM "
	       "that ends with\n"
	       ".py.\n"
	       "\n"
	       "commands, each of which has its own --help:\n"
	       "  check   check the nodes of a job, and the network between "
	       "them\n"
	       "  doctor  report what is found on the hosts, and what is "
	       "wrong\n"
	       "  dump    show what each rank of a running job does, with "
	       "stacks\n"
	       "  logs    show what the workers have written below --log-dir\n"
	       "  status  show the nodes and ranks of a running job\n"
	       "  top     show running jobs on a screen\n"
	       "  install-mpiexec, install-torchrun\n"
	       "          make ddprun known by these names in a folder\n"
	       "\n");
	option_print_help(config_options);
	printf("\n"
	       "Every option also works with underscores and as --x=v; nearly "
	       "all can be set\n"
	       "in a variable PET_X (PET_NPROC_PER_NODE=4). Exit code: 0, that "
	       "of the first\n"
	       "failed worker (128+signal), or 64 and up for ddprun's own "
	       "failures.\n"
	       "ddprun(1) has more.\n"
	       "\n"
	       "examples:\n"
	       "  ddprun --standalone --nproc-per-node 2 ./trainer\n"
	       "  ddprun --nnodes 2 --nproc-per-node 4 --rdzv-endpoint "
	       "h1:29400 ./trainer\n"
	       "  ddprun -H h1:4,h2:4 ./trainer\n");
}
