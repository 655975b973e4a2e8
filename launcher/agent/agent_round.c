/* agent_round.c: a round begins (the exchange of its workers' addresses, its
 * plan, and the start of its workers), and another one follows it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "launcher/agent/agent_internal.h"
#include "launcher/plan/framework.h"
#include "launcher/plan/lone_script.h"

extern char **environ;

static const struct sock_addr *agent_round_find_server(void *arg)
{
	const struct agent *a = arg;

	return member_server_addr(&a->member);
}

struct pmi_exchange_round agent_exchange_round(struct agent *a,
					       const struct wire_start *start,
					       const char *name)
{
	return (struct pmi_exchange_round){
		.name = name,
		.self = {
			.job = a->rdzv->job, .host = a->member.host,
			.auth = member_auth(&a->member), .round = start->round,
			.rank = start->base_rank,
			.find_server = agent_round_find_server, .arg = a,
		},
		.node_rank = start->node_rank, .nnodes = start->nnodes,
	};
}

/* ---- the addresses of all workers ----
 *
 * For --env tf, --env paddle and ${peers_file}. */

enum { PEERS_MAX = 64 << 20 };

static int agent_needs_peers(const struct agent *a)
{
	return a->parts->program.peers ||
	       framework_needs_peers(a->options->frameworks);
}

struct agent_peers {
	struct agent *agent;
	struct pmi_exchange exchange;
};

/* Appends "host:port" of this node's workers. */
static void agent_peers_put_own(const struct agent *a, struct buf *out)
{
	struct endpoint ep;
	char text[SOCK_TEXT_MAX];

	snprintf(ep.host, sizeof(ep.host), "%.*s", SOCK_HOST_MAX - 1,
		 a->member.addr_text);
	sock_host_unscope(ep.host);
	for (uint32_t i = 0; i < a->rdzv->nproc; i++) {
		ep.port = a->ports.ports[i];
		buf_printf(out, "%s%s", i ? "," : "",
			   endpoint_text(&ep, text));
	}
}

/* DDP_PEERS_FILE: lines "host port". It lies in memory, and ends with us. */
static int agent_peers_write(struct agent *a, struct err *e)
{
	struct buf lines = BUF_INIT(PEERS_MAX);
	const char *at = (const char *)a->peers_text.data;
	int rc = 0;

	for (; rc == 0 && *at; at += *at == ',') {
		char text[SOCK_TEXT_MAX];
		size_t n = strcspn(at, ",");
		struct endpoint ep;

		snprintf(text, sizeof(text), "%.*s", (int)n, at);
		rc = endpoint_parse(&ep, text, 0, e);
		if (rc == 0)
			buf_printf(&lines, "%s %u\n", ep.host, ep.port);
		at += n;
	}
	if (rc == 0 && lines.failed)
		rc = err_no_memory(e, "the addresses of all workers");
	if (rc == 0) {
		a->peers_fd = memfd_create("ddprun-peers", MFD_CLOEXEC);
		rc = a->peers_fd < 0 ? -errno
				     : file_write_all(a->peers_fd, lines.data,
						      lines.len);
		if (rc < 0)
			err_set(e, rc, "cannot write the file of all workers' "
				"addresses: %s", strerror(-rc));
	}
	buf_release(&lines);
	return rc;
}

/* The text is complete. */
static int agent_peers_finish(struct agent *a, struct err *e)
{
	buf_put_u8(&a->peers_text, '\0');
	if (a->peers_text.failed)
		return err_no_memory(e, "the addresses of all workers");
	return agent_peers_write(a, e);
}

static void agent_peers_on_done(struct pmi_exchange *x,
				const struct slice *values)
{
	struct agent_peers *p = x->owner;
	struct agent *a = p->agent;
	struct err e = ERR_INIT;

	buf_reset(&a->peers_text);
	for (uint32_t i = 0; i < x->round.nnodes; i++) {
		if (i)
			buf_put_u8(&a->peers_text, ',');
		buf_put(&a->peers_text, values[i].data, values[i].len);
	}
	agent_peers_end(a);
	if (agent_peers_finish(a, &e) < 0)
		member_failed(&a->member, a->round, 0, e.text);
	else
		agent_continue(a);
}

static void agent_peers_on_failed(struct pmi_exchange *x, const struct err *why)
{
	struct agent_peers *p = x->owner;
	struct agent *a = p->agent;

	agent_peers_end(a);
	member_failed(&a->member, a->round, 0, why->text);
}

static void agent_peers_on_closed(struct pmi_exchange *x)
{
	free(x->owner);
}

static const struct pmi_exchange_events exchange_events = {
	.on_done = agent_peers_on_done,
	.on_failed = agent_peers_on_failed,
	.on_closed = agent_peers_on_closed,
};

static int agent_peers_exchange(struct agent *a, const struct wire_start *start,
				struct err *e)
{
	const struct pmi_exchange_round round =
		agent_exchange_round(a, start, "ports");
	struct agent_peers *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return err_no_memory(e, "the exchange of ports");
	p->agent = a;
	p->exchange.owner = p;
	rc = pmi_exchange_start(&p->exchange, &a->loop, &round,
				&exchange_events, e);
	if (rc < 0) {
		free(p);
		return rc;
	}
	a->peers = p;
	agent_hold(a, start);
	pmi_exchange_begin(&p->exchange, SLICE(a->peers_text.data,
					       a->peers_text.len));
	return AGENT_LATER;
}

/* Before MPI's start-up; the ports are reserved. AGENT_LATER: agent_continue is
 * called when the other nodes' ports are known. */
static int agent_peers_begin(struct agent *a, const struct wire_start *start,
			     struct err *e)
{
	agent_peers_end(a);
	buf_release(&a->peers_text);
	buf_init(&a->peers_text, PEERS_MAX);
	if (a->peers_fd >= 0)
		close(a->peers_fd);
	a->peers_fd = -1;
	if (!agent_needs_peers(a))
		return 0;
	agent_peers_put_own(a, &a->peers_text);
	if (!a->peers_text.failed && start->nnodes > 1)
		return agent_peers_exchange(a, start, e);
	return agent_peers_finish(a, e);
}

void agent_peers_end(struct agent *a)
{
	if (a->peers)
		pmi_exchange_close(&a->peers->exchange);
	a->peers = NULL;
}

/* "host:port" of all workers by rank, with commas; or "". */
static const char *agent_peers_list(const struct agent *a)
{
	return a->peers_text.len ? (const char *)a->peers_text.data : "";
}

/* ---- the beginning ---- */

static int agent_make_plan(struct agent *a, const struct wire_start *start,
			   struct plan *plan, struct err *e)
{
	char master[SOCK_HOST_MAX], server[SOCK_TEXT_MAX];
	char key[PROOF_HEX_SIZE], topology[HOST_TOPOLOGY_PATH_MAX];
	char peers_file[64] = "";
	struct environment_job job = {
		.job = a->rdzv->job, .agent_id = agent_id(a),
		.master_addr = master, .master_port = start->master_port,
		.coordinator_port = start->coordinator_port,
		.ports = a->ports.ports,
		.agent_store = start->agent_store,
		.rdzv = member_server_text(&a->member, server),
		.job_key = member_job_key(&a->member, key),
		.node_addr = a->member.addr_text, .role = a->rdzv->role,
		.round = start->round, .attempt = start->attempt,
		.max_restarts = (uint32_t)a->rdzv->max_restarts,
		.node_rank = start->node_rank, .nnodes = start->nnodes,
		.nproc = a->rdzv->nproc, .world_size = start->world_size,
		.signals = a->options->signals_to_handle,
		.role_base_rank = start->role_base_rank,
		.role_world_size = start->role_world_size,
		.virtual_local_rank = a->options->virtual_local_rank,
		.worker_gpus = a->options->worker_gpus,
		.error_file = failure_error_file, .error_file_arg = &a->failure,
		.step_file = agent_step_file, .step_file_arg = a,
		.recorder = failure_recorder(&a->failure),
		.crash_library = failure_crash_library(&a->failure),
		.crash_records = failure_crash_records(&a->failure),
		.log_dir = logdir_attempt(&a->logdir),
		.has_pipes = logdir_has_pipes(&a->logdir),
		.again_ms = a->rdzv->reconnect_ms,
		.encrypt_data = a->options->encrypt_data,
		.uses_mpi = a->parts->uses_mpi,
		.serves_pmi = a->parts->serves_pmi,
		.serves_pmix = a->parts->serves_pmix,
		.pmi_fd = agent_mpi_fd, .pmix_vars = agent_mpi_vars,
		.mpi_arg = a, .topology = topology,
		.frameworks = a->options->frameworks,
		.peers = agent_peers_list(a), .peers_file = peers_file,
		 .has_gpus = a->parts->has_gpus,
	};

	host_topology_path(&a->topology, topology);
	if (a->peers_fd >= 0)
		snprintf(peers_file, sizeof(peers_file), "/proc/%d/fd/%d",
			 (int)getpid(), a->peers_fd);
	snprintf(master, sizeof(master), "%.*s",
		 SLICE_FMT(start->master_addr));
	sock_host_scope(master, a->member.addr_text);
	output_terminal(&a->output, &job.columns, &job.rows);
	return plan_init(plan, a->parts, environ, &job, start->base_rank, e);
}

/* The loop does not run while a round is set up, and that may take longer than
 * a lease lasts: with thousands of workers, or on a slow file system. */
void agent_extend_lease(void *arg)
{
	struct agent *a = arg;
	uint64_t now = clock_ns();

	if (now - a->alive_ns < member_ping_ms(&a->member) * 1000000)
		return;
	a->alive_ns = now;
	member_ping(&a->member);
}

/* For `ddprun logs`: which ranks the folders of the round's attempt have, and
 * the time here when the round began for all nodes. */
static void agent_write_place(struct agent *a, const struct wire_start *start,
			      const struct timespec *began)
{
	char path[LOGDIR_PATH_MAX + 16], text[SOCK_HOST_MAX + 128];
	int n;

	if (!*logdir_attempt(&a->logdir))
		return;
	snprintf(path, sizeof(path), "%s/node.json",
		 logdir_attempt(&a->logdir));
	n = snprintf(text, sizeof(text), "{\"host\":\"%s\",\"node_rank\":%u,"
		     "\"first_rank\":%u,\"workers\":%u,"
		     "\"world_size\":%u,\"began\":%lld}\n",
		     a->output.host, start->node_rank, start->base_rank,
		     a->rdzv->nproc, start->world_size,
		     (long long)began->tv_sec);
	/* if the disk is full, logdir_begin has warned */
	if (log_queue_do(&a->logdir.queue, log_job_write, path,
			 SLICE(text, (size_t)n)) < 0)
		log_debug("%s cannot be written", path);
}

static void agent_begin_output(struct agent *a, const struct wire_start *start)
{
	struct output_round round = {
		.base_rank = start->base_rank, .node_rank = start->node_rank,
		.world_size = start->world_size,
	};
	struct timespec began;

	clock_gettime(CLOCK_REALTIME, &began);
	a->alive_ns = clock_ns();
	logdir_begin(&a->logdir, start->attempt, start->round,
		     agent_extend_lease, a);
	agent_write_place(a, start, &began);
	redirect_open_copies(&a->group.redirect_rules, round.copies);
	output_begin(&a->output, &round);
}

/* The server ends the round for all nodes, including this one. */
static void agent_fail_start(struct agent *a, const struct wire_start *start,
			     const struct err *why)
{
	member_failed(&a->member, start->round, 0, why->text);
}

void agent_start_group(struct agent *a, const struct wire_start *start)
{
	struct plan plan;
	struct err e = ERR_INIT;
	char text[RESTART_TIME_TEXT_MAX];
	int rc = agent_make_plan(a, start, &plan, &e);

	if (rc == 0) {
		rc = worker_group_start(&a->group, &plan, a->open_files, &e);
		if (a->pmi)
			pmi_service_begin(a->pmi);
		failure_record_pids(&a->failure);
		agent_begin_watch(a);
		if (rc == 0)
			agent_record_starts(a);
		plan_release(&plan);
	}
	if (rc < 0)
		agent_fail_start(a, start, &e);
	else if (a->times.ended)
		log_info("%s", restart_time_text(&a->times, a->wait_ms != 0,
						 clock_ns(), text));
}

/* A worker that has joined libddp's world cannot be replaced in it. */
static int agent_may_start_again(struct agent *a, const struct worker *w,
				 struct err *e)
{
	if (a->state != RUNNING || a->stop.level ||
	    w->restarts >= (uint32_t)a->rdzv->max_restarts)
		return 0;
	if (recorder_has_begun(&a->failure.recorder, w->local_rank)) {
		err_set(e, ERR_USAGE, "it has called ddp_init, and cannot "
			"join that world again");
		return 0;
	}
	return 1;
}

/* For exit_reports.h. */
int agent_start_again(void *owner, struct worker *w, struct err *e)
{
	struct agent *a = owner;
	struct plan plan;
	int rc;

	if (!agent_may_start_again(a, w, e))
		return 0;
	rc = agent_make_plan(a, &a->held.start, &plan, e);
	if (rc < 0)
		return 0;
	failure_forget(&a->failure, w->local_rank);
	rc = worker_start_again(w, &plan, a->open_files, e);
	plan_release(&plan);
	if (!w->running)
		return 0;
	if (rc < 0) /* and it is about to end */
		log_warn("%s", e->text);
	recorder_started(&a->failure.recorder, w->local_rank, w->pid);
	watch_again(&a->watch, w->local_rank);
	return 1;
}

/* The news may be this node's own, which has logged them. */
void agent_on_role_news(struct member *m, const struct wire_role_news *news)
{
	struct agent *a = m->owner;
	char text[ERR_TEXT_MAX];

	if (news->round != a->round)
		return;
	snprintf(text, sizeof(text), "node %u (%.*s): %.*s", news->node_rank,
		 SLICE_FMT(news->host), SLICE_FMT(news->text));
	if (news->node_rank != a->node_rank && !a->rdzv->env->shares_console)
		log_info("%s", text);
	agent_run_event(a, news->left_out ? "left_out" : "started_again",
			news->rank, text);
}

/* Steps that may have to wait for other nodes or helpers; they end with
 * agent_start_group. */
static void agent_serve(struct agent *a, const struct wire_start *start)
{
	struct err e = ERR_INIT;
	int rc = agent_mpi_begin(a, start, &e);

	if (rc < 0)
		agent_fail_start(a, start, &e);
	else if (rc != AGENT_LATER)
		agent_start_group(a, start);
}

void agent_hold(struct agent *a, const struct wire_start *start)
{
	if (start == &a->held.start)
		return;
	a->held.start = *start;
	snprintf(a->held.master, sizeof(a->held.master), "%.*s",
		 SLICE_FMT(start->master_addr));
	a->held.start.master_addr = SLICE_STR(a->held.master);
}

/* A stop may have been requested meanwhile: the workers then get it at once,
 * because the server waits until they have ended. Or the round is over. */
void agent_continue(struct agent *a)
{
	if (a->state != RUNNING && a->state != NOTIFIED && a->state != KILLING)
		return;
	if (a->pmix)
		agent_start_group(a, &a->held.start);
	else
		agent_serve(a, &a->held.start);
	if (a->state == NOTIFIED)
		worker_shutdown_notify(&a->shutdown, a->stop.signal);
	else if (a->state == KILLING)
		worker_shutdown_kill(&a->shutdown);
}

static void agent_run_round(struct agent *a, const struct wire_start *start)
{
	struct err e = ERR_INIT;
	char key[PROOF_HEX_SIZE];
	int rc;

	a->times.start = clock_ns();
	agent_hold(a, start);
	a->round = a->exit_reports.round = start->round;
	a->nnodes = start->nnodes;
	a->node_rank = start->node_rank;
	a->is_first = start->node_rank == 0;
	a->attempt = start->attempt;
	a->world_size = start->world_size;
	log_debug("round %u: node %u of %u, ranks %u to %u of %u",
		  start->round, start->node_rank, start->nnodes,
		  start->base_rank, start->base_rank + a->rdzv->nproc - 1,
		  start->world_size);
	agent_begin_output(a, start);
	failure_begin(&a->failure, start, agent_id(a),
		      member_server_addr(&a->member),
		      member_job_key(&a->member, key));
	rc = agent_peers_begin(a, start, &e);
	if (rc < 0)
		agent_fail_start(a, start, &e);
	else if (rc != AGENT_LATER)
		agent_serve(a, start);
}

static void agent_log_other_world(const struct agent *a)
{
	char room[OTHER_WORLD_TEXT_MAX];
	const char *text = other_world_text(environ, a->options->frameworks,
					    a->rdzv->nproc,
					    a->starting->world_size, room);

	if (text)
		log_warn("%s", text);
}

static void agent_log_lone_script(const struct agent *a)
{
	const struct lone_script s = {
		.path = a->parts->script, .uses = a->parts->script_uses,
		.served = a->parts->script_served, .nproc = a->rdzv->nproc,
		.world_size = a->starting->world_size,
	};
	char room[LONE_SCRIPT_TEXT_MAX];
	const char *text = lone_script_text(&s, environ, room);

	if (text)
		log_warn("%s", text);
}

/* Once for the whole job. */
static void agent_log_worlds(const struct agent *a)
{
	const struct wire_start *start = a->starting;

	if (start->node_rank || start->attempt + start->changes)
		return;
	agent_log_other_world(a);
	agent_log_lone_script(a);
}

static int agent_needs_ports(const struct agent *a)
{
	return a->parts->program.ports || agent_needs_peers(a);
}

void agent_start_round(struct agent *a)
{
	const struct wire_start *start = a->starting;
	struct err e = ERR_INIT;

	if (!a->parts) { /* every node logs why, not only this terminal */
		member_failed(&a->member, start->round, a->unable->exit_code,
			      a->unable->why.text);
		return;
	}
	agent_log_worlds(a);
	if (agent_needs_ports(a) &&
	    worker_ports_reserve(&a->ports, a->rdzv->nproc, &e) < 0)
		agent_fail_start(a, start, &e);
	else
		agent_run_round(a, start);
}

/* ---- the end ---- */

static void agent_report_restart(struct agent *a, const struct wire_end *end)
{
	char when[40] = "", text[ERR_TEXT_MAX];

	if (a->wait_ms)
		snprintf(when, sizeof(when), " in %g s",
			 (double)a->wait_ms / 1000);
	log_info("restarting (%u of %u)%s: %.*s",
		 (uint32_t)a->rdzv->max_restarts - end->restarts_left,
		 (uint32_t)a->rdzv->max_restarts, when, SLICE_FMT(end->text));
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(end->text));
	agent_run_event(a, "restarted", -1, text);
	if (!end->swap.len)
		return;
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(end->swap));
	log_info("%s", text);
	agent_run_event(a, "swapped", -1, text);
}

void agent_end_round(struct agent *a, const struct wire_end *end,
		     const char *text)
{
	if (a->stop.level) { /* the job continues without this node */
		agent_decide_exit(a, a->stop.exit_code, text);
	} else if (end->verdict == WIRE_REGROUP) {
		failure_record_attempt(&a->failure, end, a->attempt);
		log_info("regrouping: %s", text);
		agent_run_event(a, "swapped", -1, text);
	} else {
		failure_record_attempt(&a->failure, end, a->attempt);
		a->wait_ms = restart_backoff_next(&a->backoff, end->ran_ms);
		agent_report_restart(a, end);
	}
	agent_handle(a, EV_RESTART, text);
}
