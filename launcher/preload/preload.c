/* preload.c: when a template process is started, and what its messages mean. */
#include "launcher/preload/preload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/crash/crash_record.h"

enum {
	/* At most this many template processes that are killed are replaced
	 * within this time. */
	DEATHS_MAX = 5, DEATHS_MS = 60000,
	SAY_FIRST_MS = 5000, SAY_MS = 60000, /* what the workers wait for */
	LINE_MAX_BYTES = 4096,
};

/* A process, its handles, and the line that it has begun to print. */
struct preload_run {
	struct preload *owner;
	struct template template;
	uv_poll_t link, output;
	int open_handles;
	struct buf line;
};

static void preload_replace(struct preload *p);

/* ---- what it prints ---- */

static void preload_log_lines(struct buf *b, int is_end)
{
	for (;;) {
		char *end = b->len ? memchr(b->data, '\n', b->len) : NULL;
		size_t n = end ? (size_t)(end - b->data) : b->len;

		if (!end && !(b->len && (is_end || n >= LINE_MAX_BYTES)))
			return;
		log_info("--preload: %.*s", (int)n, b->data);
		buf_consume(b, n + (end != NULL));
	}
}

static void preload_read_output(struct preload_run *run)
{
	char bytes[LINE_MAX_BYTES];
	ssize_t n;

	do {
		n = read(run->template.output, bytes, sizeof(bytes));
		if (n > 0)
			buf_put(&run->line, bytes, (size_t)n);
		if (run->line.failed)
			buf_reset(&run->line);
		preload_log_lines(&run->line, 0);
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n == 0)
		uv_poll_stop(&run->output);
}

static void preload_on_output(uv_poll_t *h, int status, int events)
{
	preload_read_output(h->data);
}

/* ---- the handles ---- */

static void preload_on_run_closed(uv_handle_t *h)
{
	struct preload_run *run = h->data;

	if (--run->open_handles == 0) {
		buf_release(&run->line);
		free(run);
	}
}

static void preload_end_run(struct preload *p)
{
	struct preload_run *run = p->run;

	if (!run)
		return;
	p->run = NULL;
	preload_read_output(run);
	preload_log_lines(&run->line, 1);
	uv_close((uv_handle_t *)&run->link, preload_on_run_closed);
	uv_close((uv_handle_t *)&run->output, preload_on_run_closed);
	template_stop(&run->template);
}

pid_t preload_pid(const struct preload *p)
{
	return p->run ? p->run->template.pid : 0;
}

/* ---- the state ---- */

/* The workers are not to be started any more. */
static void preload_forget(struct preload *p)
{
	p->is_awaited = 0;
	if (p->loop && !p->is_closing)
		uv_timer_stop(&p->timer);
}

static void preload_settle(struct preload *p, enum preload_state state)
{
	int was_awaited = p->is_awaited;

	p->state = state;
	preload_forget(p);
	if (was_awaited)
		p->on_settled(p->owner);
}

void preload_refuse(struct preload *p, const char *why)
{
	log_warn("--preload: %s; starting the workers of this node without a "
		 "fork", why);
	preload_end_run(p);
	preload_settle(p, PRELOAD_OFF);
}

static void preload_on_timer(uv_timer_t *t)
{
	struct preload *p = t->data;

	log_info("--preload: waiting %llu s for the import of %s (pid %d)",
		 (unsigned long long)(clock_ms() - p->started_ms) / 1000,
		 p->importing[0] ? p->importing : "the modules",
		 (int)preload_pid(p));
}

static void preload_handle(struct preload *p, const struct template_reply *r)
{
	switch (r->word) {
	case TEMPLATE_IMPORTING:
		snprintf(p->importing, sizeof(p->importing), "%.100s",
			 r->text);
		break;
	case TEMPLATE_READY:
		log_debug("--preload: pid %d is ready after %llu ms",
			  (int)preload_pid(p),
			  (unsigned long long)(clock_ms() - p->started_ms));
		p->importing[0] = '\0';
		preload_read_output(p->run);
		preload_log_lines(&p->run->line, 1);
		preload_settle(p, PRELOAD_READY);
		break;
	case TEMPLATE_FRESH:
		preload_settle(p, PRELOAD_READY);
		break;
	case TEMPLATE_STALE:
		log_info("--preload: %s has changed: importing again", r->text);
		preload_replace(p);
		break;
	case TEMPLATE_REFUSED:
		preload_refuse(p, r->text);
		break;
	default:
		break;
	}
}

static void preload_on_link(uv_poll_t *h, int status, int events)
{
	struct preload_run *run = h->data;
	struct preload *p = run->owner;
	struct template_reply reply = {.word = TEMPLATE_NOTHING};

	do {
		if (run != p->run)
			return;
		template_receive(&run->template, &reply);
		preload_handle(p, &reply);
	} while (reply.word != TEMPLATE_NOTHING && reply.word != TEMPLATE_GONE);
	/* its death follows, or it is killed here */
	if (reply.word == TEMPLATE_GONE && run == p->run) {
		uv_poll_stop(&run->link);
		kill(run->template.pid, SIGKILL);
	}
}

/* ---- a new process ---- */

static int preload_watch(struct preload_run *run, struct err *e)
{
	uv_loop_t *loop = run->owner->loop;
	int rc;

	run->link.data = run->output.data = run;
	rc = loop_check(uv_poll_init(loop, &run->link, run->template.link), e,
			"cannot watch the template process");
	if (rc < 0)
		return rc;
	run->open_handles = 1;
	rc = loop_check(uv_poll_init(loop, &run->output,
				     run->template.output),
			e, "cannot watch the template process");
	if (rc < 0)
		return rc;
	run->open_handles = 2;
	rc = uv_poll_start(&run->link, UV_READABLE, preload_on_link);
	if (rc == 0)
		rc = uv_poll_start(&run->output, UV_READABLE,
				   preload_on_output);
	return loop_check(rc, e, "cannot watch the template process");
}

static int preload_start_run(struct preload *p, struct err *e)
{
	struct preload_run *run = calloc(1, sizeof(*run));
	int rc;

	if (!run)
		return err_no_memory(e, "the template process");
	run->owner = p;
	buf_init(&run->line, 2 * LINE_MAX_BYTES);
	rc = template_start(&run->template, &p->order, e);
	if (rc < 0) {
		free(run);
		return rc;
	}
	rc = preload_watch(run, e);
	if (rc == 0) {
		p->run = run;
		p->state = PRELOAD_IMPORTING;
		p->started_ms = clock_ms();
		return 0;
	}
	if (run->open_handles)
		uv_close((uv_handle_t *)&run->link, preload_on_run_closed);
	if (run->open_handles == 2)
		uv_close((uv_handle_t *)&run->output, preload_on_run_closed);
	template_stop(&run->template);
	if (!run->open_handles)
		free(run);
	return rc;
}

static void preload_replace(struct preload *p)
{
	struct err e = ERR_INIT;

	preload_end_run(p);
	if (preload_start_run(p, &e) < 0)
		preload_refuse(p, e.text);
}

int preload_reaped(struct preload *p, pid_t pid, int status)
{
	char why[256], name[SIGNAL_NAME_MAX];
	uint64_t now = clock_ms();

	if (!p->run || pid != p->run->template.pid)
		return 0;
	p->run->template.pid = 0; /* so that nothing kills it now */
	if (!WIFSIGNALED(status)) {
		snprintf(why, sizeof(why), "%s%s ended the template process "
			 "with code %d",
			 p->importing[0] ? "the import of " : "something",
			 p->importing, WEXITSTATUS(status));
		preload_refuse(p, why);
		return 1;
	}
	if (!p->deaths || now - p->deaths_since > DEATHS_MS) {
		p->deaths = 0;
		p->deaths_since = now;
	}
	snprintf(why, sizeof(why), "the template process (pid %d) was killed "
		 "by %s%s%s", (int)pid, signal_name(WTERMSIG(status), name),
		 p->importing[0] ? " while it imported " : "", p->importing);
	if (++p->deaths > DEATHS_MAX) {
		preload_refuse(p, why);
		return 1;
	}
	log_warn("--preload: %s; starting another one", why);
	preload_replace(p);
	return 1;
}

/* ---- the workers ---- */

int preload_await(struct preload *p)
{
	if (p->state == PRELOAD_OFF)
		return 0;
	p->is_awaited = 1;
	if (p->state == PRELOAD_READY) {
		/* if it cannot be asked, it is killed and replaced */
		p->state = PRELOAD_CHECKING;
		if (template_check(&p->run->template) < 0)
			kill(p->run->template.pid, SIGKILL);
	}
	uv_timer_start(&p->timer, preload_on_timer, SAY_FIRST_MS, SAY_MS);
	return 1;
}

pid_t preload_fork(struct preload *p, const struct spawn *s)
{
	struct template_reply reply;
	char why[ERR_TEXT_MAX + 64];
	pid_t pid;

	if (p->state != PRELOAD_READY || strcmp(s->path, p->order.path) != 0)
		return 0; /* a wrapper's path */
	pid = template_fork(&p->run->template, &p->command, s, p->waits,
			    p->owner, &reply);
	if (pid > 0)
		return pid;
	if (pid < 0) {
		log_warn("--preload: the template process (pid %d) does not "
			 "answer: %s; starting this worker without a fork",
			 (int)preload_pid(p), err_name(pid));
		p->state = PRELOAD_IMPORTING; /* the next one, then */
		kill(preload_pid(p), SIGKILL);
		return 0;
	}
	if (reply.word == TEMPLATE_REFUSED) {
		preload_refuse(p, reply.text);
		return 0;
	}
	snprintf(why, sizeof(why), "cannot fork a worker: %s", reply.text);
	log_warn("--preload: %s; starting it without a fork", why);
	return 0;
}

/* ---- the beginning and the end ---- */

/* Different for each worker, round or attempt. */
static const char *const own_variables[] = {
	"RANK", "LOCAL_RANK", "ROLE_RANK", "GROUP_RANK", "WORLD_SIZE",
	"GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
	"TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE",
	"TORCHELASTIC_ERROR_FILE", "DDP_RDZV_ENDPOINT", "DDP_JOB_KEY",
	"DDP_ROUND", "DDP_NODE_ADDR", "DDP_RECORDER", "DDP_STEP_FILE",
	"DDP_WORKER_PORT", "DDP_TERMINAL", "PMI_RANK", "PMI_SIZE", "PMI_FD",
	"MPI_LOCALRANKID",
};

/* The same, unless the launcher's own environment has it. */
static const char *const perhaps_own[] = {
	"JAX_COORDINATOR_PORT", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
	"NCCL_DEBUG_FILE", "CUDA_VISIBLE_DEVICES",
};

static int preload_is_in(const char *var, const char *const *names, size_t n)
{
	size_t len = strcspn(var, "=");

	for (size_t i = 0; i < n; i++) {
		if (strncmp(var, names[i], len) == 0 && !names[i][len])
			return 1;
	}
	return 0;
}

static int preload_is_inherited(const char *var, char *const *base)
{
	for (; *base; base++) {
		if (strcmp(var, *base) == 0)
			return 1;
	}
	return 0;
}

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static int preload_is_common(const char *var, char *const *base)
{
	return !preload_is_in(var, own_variables, COUNT(own_variables)) &&
	       (!preload_is_in(var, perhaps_own, COUNT(perhaps_own)) ||
		preload_is_inherited(var, base));
}

static int preload_copy_environ(struct preload *p,
				const struct preload_request *r, struct err *e)
{
	size_t n = 0, at = 0;

	while (r->envp[n])
		n++;
	p->environ = calloc(n + 1, sizeof(*p->environ));
	for (size_t i = 0; p->environ && i < n; i++) {
		if (!preload_is_common(r->envp[i], r->base))
			continue;
		p->environ[at] = strdup(r->envp[i]);
		if (!p->environ[at++])
			return err_no_memory(e, "the template's environment");
	}
	return p->environ ? 0 : err_no_memory(e, "the template's environment");
}

void preload_start(struct preload *p, uv_loop_t *loop,
		   const struct preload_request *r)
{
	struct err e = ERR_INIT;
	int rc;

	p->loop = loop;
	uv_timer_init(loop, &p->timer);
	uv_unref((uv_handle_t *)&p->timer);
	p->timer.data = p;
	p->order = (struct template_order){
		.command = &p->command, .modules = r->modules, .path = r->path,
		.argv = r->argv, .open_files = r->open_files,
		.locks = r->locks, .timer_slack = r->timer_slack};
	if (r->cpus) {
		p->cpus = *r->cpus;
		p->order.cpus = &p->cpus;
	}
	rc = python_command_find(&p->command, r->path, r->argv, &e);
	if (rc == 0)
		rc = preload_copy_environ(p, r, &e);
	p->order.envp = p->environ;
	if (rc == 0)
		rc = preload_start_run(p, &e);
	if (rc < 0)
		preload_refuse(p, e.text);
}

void preload_close(struct preload *p)
{
	if (!p->loop || p->is_closing)
		return;
	p->is_closing = 1;
	p->state = PRELOAD_OFF;
	preload_end_run(p);
	uv_close((uv_handle_t *)&p->timer, NULL);
	for (char **var = p->environ; var && *var; var++)
		free(*var);
	free(p->environ);
	p->environ = NULL;
	python_command_release(&p->command);
}
