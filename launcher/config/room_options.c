/* room_options.c: the settings that each room needs, from those of the user. */
#include <string.h>

#include "launcher/config/config.h"

/* ---- for launcher/env ---- */

struct requeue_options config_requeue_options(const struct config *c)
{
	return (struct requeue_options){
		.on = c->requeue_on,
		.on_preempt = c->on_preempt, .on_timeout = c->on_timeout,
		.is_first_node = c->env.node_rank == 0,
	};
}

struct srun_exec_options config_srun_exec_options(const struct config *c)
{
	return (struct srun_exec_options){
		.env = &c->env,
		.is_elastic = strchr(c->nnodes_text, ':') != NULL,
		.min_nodes = c->min_nodes, .stdin_rank = c->stdin_rank,
		.other_steps = c->etcd.members != NULL,
		.auth_text = c->auth_text, .token_file = c->token_file,
	};
}

/* ---- for launcher/membership ---- */

static uint32_t config_reconnect_ms(const struct config *c)
{
	double ms = c->reconnect_s * 1000;

	return ms > INT32_MAX ? INT32_MAX : (uint32_t)ms;
}

/* torchrun's static backend has its store where the nodes meet. */
static int config_shares_port(const struct config *c)
{
	return c->is_master_endpoint && c->agent_store && !c->etcd.members &&
	       c->endpoint.port && strcmp(c->backend, "static") == 0;
}

/* There, node 0 has the store, even if another node of its host is faster. */
static int config_is_host(const struct config *c)
{
	if (c->is_host < 0 && c->node_rank > 0 && config_shares_port(c))
		return 0;
	return c->is_host;
}

struct rdzv_options config_rdzv_options(const struct config *c)
{
	struct rdzv_options o = {
		.env = &c->env, .job = c->job,
		.min_nodes = c->min_nodes, .max_nodes = c->max_nodes,
		.nproc = c->nproc, .node_rank = c->node_rank, .role = c->role,
		.max_restarts = c->max_restarts,
		.max_no_progress = c->max_no_progress,
		.swap_after = c->swap_after,
		.backoff_s = c->restart_backoff_s,
		.agent_store = c->agent_store, .store_open = c->store_open,
		.shares_port = config_shares_port(c),
		.endpoint = c->endpoint, .etcd = c->etcd,
		.private_endpoint = c->private_endpoint, .nports = c->nports,
		.is_host = config_is_host(c), .journal = c->journal,
		.web = c->web,
		.local_addr = c->local_addr_given ? c->local_addr : NULL,
		.by_interface = c->interface != NULL,
		.auth_text = c->auth_text, .token_file = c->token_file,
		.handed = c->handed, .timeout_s = c->rdzv_timeout_s,
		.last_call_s = c->last_call_s, .heartbeat_s = c->heartbeat_s,
		.reconnect_s = c->reconnect_s,
		.reconnect_ms = config_reconnect_ms(c),
	};

	memcpy(o.ports, c->ports, sizeof(o.ports));
	return o;
}

/* ---- for launcher/agent ---- */

static struct failure_options config_failure_options(const struct config *c)
{
	return (struct failure_options){
		.env = &c->env, .job = c->job, .max_nodes = c->max_nodes,
		.nproc = c->nproc, .max_restarts = (uint32_t)c->max_restarts,
		.has_log_dir = c->output.log_dir != NULL,
		.roles = c->roles.n ? &c->roles : NULL,
		.no_crash_stacks = c->no_crash_stacks,
	};
}

static struct stop_options config_stop_options(const struct config *c)
{
	return (struct stop_options){
		.ending = c->ending, .warning = c->warning,
		.shutdown_timeout_s = c->shutdown_timeout_s,
		.end_time = c->env.end_time,
		.stop_before_s = c->stop_before_s,
		.stop_before_given = c->stop_before_given,
		.requeues = c->on_timeout,
	};
}

struct agent_options config_agent_options(const struct config *c)
{
	return (struct agent_options){
		.rdzv = config_rdzv_options(c),
		.failure = config_failure_options(c),
		.stop = config_stop_options(c),
		.output = &c->output, .on_event = c->on_event,
		/* torchrun's own, where nobody else can join */
		.backend = c->private_endpoint ? "c10d" : c->backend,
		.prints_events = strcmp(c->event_log_handler, "console") == 0,
		.hang_s = c->hang_s, .forwarded = c->forwarded,
		.stdin_rank = c->stdin_rank, .tty_rank = c->tty_rank,
		.preload = c->preload,
		.stage = c->stage,
		.has_preflight = strcmp(c->preflight, "none") != 0,
		.signals_to_handle = c->signals_to_handle,
		.frameworks = c->frameworks, .worker_gpus = c->worker_gpus,
		.virtual_local_rank = c->virtual_local_rank,
		.encrypt_data = c->encrypt_data,
	};
}

/* ---- for launcher/ssh ---- */

/* ssh encrypts what it carries, and srun does not: a secret crosses it only if
 * the nodes have no munge. */
static int config_draws_secret(const struct config *c)
{
	return c->env.reach ? auth_wants_secret(c->auth_text, c->token_file)
			    : auth_is_free(c->auth_text, c->token_file);
}

struct remote_options config_remote_options(const struct config *c)
{
	return (struct remote_options){
		.hosts = &c->hosts, .min_nodes = c->min_nodes,
		.max_nodes = c->max_nodes,
		.can_lose = host_choice_can_lose(c),
		.host_check = c->host_check, .dry_run = c->dry_run,
		.program = c->ssh_program, .args = c->ssh_args,
		.timeout_s = c->ssh_timeout_s, .width = c->ssh_width,
		.noptions = c->noptions, .words = c->words,
		.programs = c->roles.n ? c->programs : NULL,
		.no_program = c->no_program, .nnodes_text = c->nnodes_text,
		.nproc_text = c->nproc_text,
		.job = c->job_given ? c->job : NULL,
		.draws_secret = config_draws_secret(c),
		.master_addr = c->master_addr_given ? c->master_addr : NULL,
		.master_port = c->master_port_given ? c->master_port : 0,
		.heartbeat_s = c->heartbeat_s,
		.shutdown_timeout_s = c->shutdown_timeout_s,
		.log_dir = c->output.log_dir, .ending = c->ending,
		.forwarded = c->forwarded, .stdin_rank = c->stdin_rank,
		.lends_terminal = c->tty_rank != TTY_NONE,
	};
}
