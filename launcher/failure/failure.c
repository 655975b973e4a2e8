/* failure.c: gathers the facts for the failure page. */
#include "launcher/failure/failure.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "launcher/env/launch_env.h"
#include "launcher/failure/failure_internal.h"

enum { FAILURE_TAIL_MAX = 16 << 10, FAILURE_RECORD_MAX = 1 << 30 };

#define REPORT_NAME "report.json"
#define ERROR_FILE "TORCHELASTIC_ERROR_FILE"

void failure_init(struct failure *f, const struct failure_options *options,
		  struct logdir *logdir, const struct worker_group *group)
{
	memset(f, 0, sizeof(*f));
	f->options = *options;
	f->logdir = logdir;
	f->group = group;
	postmortem_init(&f->postmortem);
	recorder_init(&f->recorder);
	crash_catcher_init(&f->catcher);
	buf_init(&f->why, FAILURE_WHY_MAX);
	buf_init(&f->error, ERROR_FILE_MAX + 4096);
	buf_init(&f->tail, FAILURE_TAIL_MAX);
	buf_init(&f->end_bytes, WIRE_BODY_MAX);
	buf_init(&f->page, FAILURE_PAGE_MAX);
	sock_host_name(f->host);
}

void failure_release(struct failure *f)
{
	postmortem_release(&f->postmortem);
	recorder_release(&f->recorder);
	crash_catcher_release(&f->catcher);
	gpu_news_reset(&f->gpu_news);
	attempts_release(&f->attempts);
	buf_release(&f->why);
	buf_release(&f->error);
	buf_release(&f->tail);
	buf_release(&f->end_bytes);
	buf_release(&f->page);
}

void failure_prepare(struct failure *f)
{
	postmortem_prepare(&f->postmortem);
	/* --preload needs it before the first round */
	if (!f->options.no_crash_stacks)
		crash_catcher_prepare(&f->catcher);
}

void failure_publish_job(struct failure *f, const char *agent_id,
			 const struct sock_addr *server, const char *job_key)
{
	char at[SOCK_TEXT_MAX];
	const struct recorder_round round = {
		.agent_id = agent_id, .job = f->options.job, .host = f->host,
		.server = sock_addr_text(server, at), .job_key = job_key,
		.nodes = f->options.max_nodes,
	};

	if (!f->recorder.head)
		recorder_begin(&f->recorder, &round);
}

/* A round failed: its recorder will be saved once its workers have ended. */
static void failure_choose_record(struct failure *f)
{
	const char *dir = f->options.has_log_dir ? logdir_attempt(f->logdir)
						 : "";

	if (*dir && f->recorder.head)
		snprintf(f->record, sizeof(f->record), "%s/recorder_%u", dir,
			 f->recorder.head->node_rank);
}

/* Through memory, for a log folder on a server. */
static int failure_queue_record(struct failure *f)
{
	struct buf text = BUF_INIT(FAILURE_RECORD_MAX);
	struct slice bytes;
	int rc = recorder_put(&f->recorder, &text);

	if (rc == 0)
		rc = buf_bytes(&text, &bytes);
	if (rc == 0)
		rc = log_queue_do(&f->logdir->queue, log_job_write_private,
				  f->record, bytes);
	buf_release(&text);
	return rc;
}

static void failure_save_record(struct failure *f)
{
	int rc = 0;

	if (f->record[0])
		rc = f->logdir->queue.files
			     ? failure_queue_record(f)
			     : recorder_save(&f->recorder, f->record);
	if (rc < 0)
		log_warn("cannot write %s: %s", f->record, strerror(-rc));
	f->record[0] = '\0';
}

void failure_begin(struct failure *f, const struct wire_start *start,
		   const char *agent_id, const struct sock_addr *server,
		   const char *job_key)
{
	char at[SOCK_TEXT_MAX];
	const struct recorder_round round = {
		.agent_id = agent_id, .job = f->options.job, .host = f->host,
		.server = sock_addr_text(server, at), .job_key = job_key,
		.round = start->round, .attempt = start->attempt,
		.base_rank = start->base_rank, .nproc = f->options.nproc,
		.world_size = start->world_size,
		.node_rank = start->node_rank, .nodes = start->nnodes,
	};

	failure_save_record(f);
	recorder_begin(&f->recorder, &round);
	if (!f->options.no_crash_stacks)
		crash_catcher_begin(&f->catcher, f->options.nproc);
	f->has_stack = 0;
	f->slow = (struct report_slow){0};
	gpu_news_reset(&f->gpu_news);
	f->began = time(NULL);
	f->round_ran = 1;
	postmortem_begin(&f->postmortem);
}

void failure_record_pids(struct failure *f)
{
	for (uint32_t i = 0; i < f->group->n; i++)
		recorder_started(&f->recorder, i, f->group->workers[i].pid);
}

void failure_forget(struct failure *f, uint32_t local_rank)
{
	char path[LOGDIR_PATH_MAX];

	logdir_error_file(f->logdir, local_rank, path);
	if (*path && log_queue_do(&f->logdir->queue, log_job_remove, path,
				  SLICE_STR("")) < 0)
		log_debug("cannot remove %s", path);
}

const char *failure_recorder(const struct failure *f)
{
	return f->recorder.path[0] ? f->recorder.path : NULL;
}

const char *failure_crash_library(const struct failure *f)
{
	return f->catcher.library_path[0] ? f->catcher.library_path : NULL;
}

const char *failure_crash_records(const struct failure *f)
{
	return f->catcher.records_path[0] ? f->catcher.records_path : NULL;
}

struct slice failure_text(const struct buf *b)
{
	return b->failed || !b->data ? SLICE_STR("") : SLICE(b->data, b->len);
}

/* The end of what it wrote to its stderr. */
static struct slice failure_tail(const struct failure *f,
				 const struct worker *w)
{
	struct slice own = tail_last(tail_text(&w->tail), TAIL_SHOWN);

	return own.len ? own : failure_text(&f->tail);
}

void failure_examine(struct failure *f, const struct worker *w, int status,
		     struct wire_exited *x)
{
	const struct postmortem_death death = {
		.pid = w->pid, .status = status, .started = f->began,
		.host = f->host,
	};
	const struct crash_report_of of = {
		.local_rank = w->local_rank, .pid = w->pid,
		.signal = w->signal, .with_stack = !f->has_stack,
	};
	char path[LOGDIR_PATH_MAX];
	struct crash_report crash;
	struct err e = ERR_INIT;

	buf_reset(&f->why);
	buf_reset(&f->error);
	buf_reset(&f->tail);
	f->is_stderr_lost =
		f->put_stderr && f->put_stderr(f->owner, w->local_rank,
					       f->began, &f->tail) < 0;
	crash_report_init(&crash);
	crash_report_read(&crash, &f->catcher, &of);
	f->has_stack |= crash.stack.len != 0;
	logdir_error_file(f->logdir, w->local_rank, path);
	(void)error_file_read(path, &f->error, &e); /* e says so */
	if (f->gpus)
		gpu_monitor_poll(f->gpus);
	failure_find_cause(f, w, &death, &e, &crash);
	failure_put_stack(f, &crash);
	crash_report_release(&crash);
	x->why = failure_text(&f->why);
	x->tail = failure_tail(f, w);
	x->error = failure_text(&f->error);
	x->last = SLICE_STR(recorder_last(&f->recorder, w->local_rank,
					  w->ended_ns, f->last));
	x->log = SLICE_STR(logdir_stream(f->logdir, w->local_rank, 1, f->log));
	x->missed = SLICE_STR(recorder_missed(&f->recorder, w->local_rank,
					      f->missed));
}

void failure_examine_exit(struct failure *f, const struct worker *w,
			  struct wire_exited *x)
{
	x->early = (uint8_t)recorder_is_in_world(&f->recorder, w->local_rank);
	if (!x->early && !recorder_has_begun(&f->recorder, w->local_rank))
		return;
	x->last = SLICE_STR(recorder_last(&f->recorder, w->local_rank,
					  w->ended_ns, f->last));
	x->log = SLICE_STR(logdir_stream(f->logdir, w->local_rank, 1, f->log));
}

/* ---- The end of a round ---- */

static int64_t failure_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void failure_record_attempt(struct failure *f, const struct wire_end *end,
			    uint32_t attempt)
{
	f->round_ran = 0;
	if (end->verdict == WIRE_RESTART) {
		failure_choose_record(f);
		attempts_add(&f->attempts, end, attempt, failure_now_ms());
	}
}

void failure_record_end(struct failure *f, const struct wire_end *end,
			uint32_t attempt, uint32_t world_size)
{
	f->has_end = wire_copy_end(&f->end, end, &f->end_bytes) == 0;
	if (!f->has_end) /* no memory for the page: log its first line */
		log_error("error: %.*s", SLICE_FMT(end->text));
	f->attempt = attempt;
	/* a spare that has seen no round derives the attempt */
	if (!world_size)
		f->attempt = f->options.max_restarts -
			     end->restarts_left;
	f->world_size = world_size;
	f->ended_ns = clock_ns();
	f->ended_ms = failure_now_ms();
	attempts_add(&f->attempts, end, f->attempt, f->ended_ms);
}

/* ---- How the workers ended ---- */

static int failure_is_first(const struct failure *f, const struct worker *w)
{
	return f->end.rank >= 0 && w->pid == f->end.pid &&
	       (uint32_t)f->end.rank == worker_rank(w);
}

static enum report_fate failure_worker_fate(const struct failure *f,
					    const struct worker *w)
{
	if (failure_is_first(f, w))
		return REPORT_FIRST;
	if (w->stopped)
		return w->killed && w->signal == SIGKILL ? REPORT_KILLED
							 : REPORT_STOPPED;
	return w->code || w->signal ? REPORT_VICTIM : REPORT_DONE;
}

/* The caller frees the text. NULL: not known, or no memory. */
static char *failure_last_call(const struct failure *f, const struct worker *w)
{
	char text[FLIGHT_TEXT_MAX];

	recorder_last(&f->recorder, w->local_rank, w->ended_ns, text);
	return text[0] ? strdup(text) : NULL;
}

/* NULL: the job has one program. */
static const char *failure_role(const struct failure *f, uint32_t rank,
				const char **program)
{
	const struct roles *roles = f->options.roles;
	const struct role *role = roles ? roles_of(roles, rank) : NULL;

	if (role && program)
		*program = role->words[0];
	return role ? role->name : NULL;
}

/* Fills list; returns the number of workers that were started and have ended.
 */
static uint32_t failure_gather_workers(const struct failure *f,
				       struct report_worker *list,
				       int *first_is_here)
{
	uint64_t since = f->ended_ns;
	uint32_t n = 0;

	*first_is_here = 0;
	for (uint32_t i = 0; i < f->group->n; i++) {
		const struct worker *w = &f->group->workers[i];

		if (w->pid > 0 && !w->running && failure_is_first(f, w)) {
			if (!report_is_hang(&f->end)) /* it ended after it */
				since = w->ended_ns;
			*first_is_here = 1;
		}
	}
	for (uint32_t i = 0; i < f->group->n; i++) {
		const struct worker *w = &f->group->workers[i];

		if (w->pid <= 0 || w->running)
			continue;
		list[n++] = (struct report_worker){
			.fate = failure_worker_fate(f, w),
			.rank = worker_rank(w), .local_rank = w->local_rank,
			.pid = w->pid, .code = w->code, .signal = w->signal,
			.after_ms = (int64_t)(w->ended_ns - since) / 1000000,
			.max_rss_kib = w->max_rss_kib,
			.last = failure_last_call(f, w),
			.role = failure_role(f, worker_rank(w), NULL),
		};
	}
	return n;
}

/* ---- Reporting ---- */

static int failure_replace(const char *path, struct slice text)
{
	struct err e = ERR_INIT;

	return error_file_replace(path, text.data, &e);
}

static void failure_write_json(const struct failure *f, const struct report *r)
{
	int kept = f->options.has_log_dir;
	const char *dir = kept ? logdir_attempt(f->logdir) : "";
	struct buf text = BUF_INIT(256 << 20);
	char path[LOGDIR_PATH_MAX + sizeof(REPORT_NAME)];
	struct err e = ERR_INIT;
	int rc = 0;

	if (!*dir)
		return;
	snprintf(path, sizeof(path), "%s/" REPORT_NAME, dir);
	if (report_put_json(&text, r, &e) == 0) {
		buf_put(&text, "", 1);
		if (!text.failed)
			rc = log_queue_do(&f->logdir->queue, failure_replace,
					  path, SLICE(text.data, text.len));
		if (rc < 0)
			err_set(&e, rc, "cannot write %s: %s", path,
				strerror(-rc));
	}
	if (e.code)
		log_warn("cannot write the report: %s", e.text);
	buf_release(&text);
}

/* If ddprun is itself a worker, its launcher reads ddprun's error file. */
static void failure_forward(struct slice json, struct slice text, int code)
{
	const char *path = getenv(ERROR_FILE);
	struct err e = ERR_INIT;

	if (!path || !*path)
		return;
	if (error_file_forward(path, json, text, code, time(NULL), &e) < 0)
		log_warn("cannot report the error to the launcher that started "
			 "ddprun: %s", e.text);
}

static void failure_forward_end(const struct wire_end *end)
{
	/* a worker that left early exited with 0, but has failed */
	int code = end->signal ? -end->signal
			       : end->code ? end->code : end->exit_code;

	if (end->verdict == WIRE_FAILURE)
		failure_forward(end->error, end->text,
				end->rank < 0 ? end->exit_code : code);
}

void failure_report_lost(const char *text, int exit_code)
{
	log_error("error: %s", text);
	termination_log_write(SLICE_STR(text));
	failure_forward(SLICE_STR(""), SLICE_STR(text), exit_code);
}

void failure_record_slow(struct failure *f, const struct wire_slow *slow)
{
	struct report_slow *s = &f->slow;

	if (slow->over && s->is_known && s->rank == slow->rank) {
		s->is_over = 1; /* the text says how slow it was */
		return;
	}
	*s = (struct report_slow){.is_known = 1, .is_over = slow->over,
				  .rank = slow->rank, .share = slow->share};
	snprintf(s->text, sizeof(s->text), "%.*s", SLICE_FMT(slow->text));
}

void failure_record_gpu(struct failure *f, const struct wire_gpu_news *news)
{
	gpu_news_add(&f->gpu_news, news);
}

struct slice failure_report(struct failure *f)
{
	struct report r = {
		.job = f->options.job, .end = &f->end,
		.world_size = f->world_size, .attempt = f->attempt,
		.max_restarts = f->options.max_restarts,
		.host = f->host, .now_ms = f->ended_ms,
		.attempts = f->attempts.list, .nattempts = f->attempts.n,
		.slow = &f->slow, .gpus = &f->gpu_news,
	};
	struct report_worker *workers = NULL;
	struct error_file error = {NULL, NULL, 0};

	if (!f->has_end)
		return failure_text(&f->page);
	if (f->end.error.len &&
	    error_file_parse(&error, f->end.error, NULL) == 0)
		r.error = &error;
	if (f->end.rank >= 0)
		r.role = failure_role(f, (uint32_t)f->end.rank, &r.program);
	if (f->round_ran)
		workers = calloc(f->group->n, sizeof(*workers));
	if (workers)
		r.nworkers =
			failure_gather_workers(f, workers, &r.first_is_here);
	r.workers = workers;
	report_put(&f->page, &r);
	if (f->page.failed)
		log_error("error: %.*s", SLICE_FMT(f->end.text));
	termination_log_write(f->page.failed ? f->end.text
					     : failure_text(&f->page));
	failure_write_json(f, &r);
	if (f->round_ran)
		failure_choose_record(f);
	failure_save_record(f);
	failure_forward_end(&f->end);
	error_file_release(&error);
	for (uint32_t i = 0; i < r.nworkers; i++)
		free(workers[i].last);
	free(workers);
	f->has_end = 0;
	/* over ssh the head shows the page of one host */
	if (launch_env_send_page(f->options.env, failure_text(&f->page),
				 r.first_is_here))
		buf_reset(&f->page);
	return failure_text(&f->page);
}

const char *failure_error_file(void *f, uint32_t local_rank, char *out)
{
	const struct failure *self = f;

	return logdir_error_file(self->logdir, local_rank, out);
}

/* ---- the termination log: that file, and never another ---- */

enum { LINE_MAX_BYTES = 4000 }; /* Kubernetes reads 4096 */

static int termination_log_put(const char *path, struct slice line)
{
	int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
				    O_CLOEXEC);
	struct stat st;
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode))
		rc = -EINVAL;
	else if (ftruncate(fd, 0) < 0)
		rc = -errno;
	if (rc == 0)
		rc = file_write_all(fd, line.data, line.len);
	if (rc == 0)
		rc = file_write_all(fd, "\n", 1);
	close(fd);
	return rc;
}

void termination_log_write(struct slice text)
{
	const char *chosen = getenv("DDP_TERMINATION_LOG");
	const char *path = chosen && *chosen ? chosen : "/dev/termination-log";
	struct slice line = slice_next_line(&text);
	int rc;

	if (!line.len || getenv("DDP_AGENT_ID"))
		return;
	if (line.len > LINE_MAX_BYTES)
		line.len = LINE_MAX_BYTES;
	rc = termination_log_put(path, line);
	if (rc < 0 && path == chosen)
		log_warn("cannot write the failure to DDP_TERMINATION_LOG, "
			 "'%s': %s", path,
			 rc == -EINVAL ? "it is not a regular file"
				       : strerror(-rc));
}
