/* agent_watch.c: the workers' progress and the health of GPUs: passes what this
 * node sees to the server, logs what the server concludes, and ends a rank of
 * this node that hangs, if the user wants that. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/agent/agent_internal.h"
#include "launcher/failure/last_words.h"
#include "launcher/failure/report.h"
#include "launcher/traces/dumped_stack.h"
#include "launcher/watch/loop_watchdog.h"
#include "launcher/worker/spawn.h"

enum {
	DUMP_MS = 30000,   /* then the rank is ended without it */
	LOOK_MS = 3000,	   /* the same; the server waits for the stack */
	WORKS_FACTOR = 10, /* the time of a rank that shows work */
	MPI_LOOKS_TEXT_MAX = 1 << 20,
	DUMP_PATH_MAX = 64, DUMP_TEXT_MAX = 64 << 20,
};

static void agent_watch_on_report(void *owner, const struct wire_progress *m)
{
	struct agent *a = owner;

	if (a->state == RUNNING || a->state == NOTIFIED)
		member_progress(&a->member, m);
}

const char *agent_step_file(void *owner, uint32_t local_rank, char *out)
{
	struct agent *a = owner;

	return logdir_step_file(&a->logdir, local_rank, out);
}

static void agent_put_said(void *owner, uint32_t local_rank, struct buf *out)
{
	struct agent *a = owner;

	last_words_put_error(out,
			     tail_text(&a->group.workers[local_rank].tail));
}

static int agent_put_stderr(void *owner, uint32_t local_rank, time_t since,
			    struct buf *out)
{
	struct agent *a = owner;

	return watch_put_stderr(&a->watch, local_rank, since, out);
}

static void agent_put_dead_child(void *owner, uint32_t local_rank,
				 struct buf *out)
{
	struct agent *a = owner;

	watch_put_dead_child(&a->watch, local_rank, out);
}

/* Without stacks MPI's calls are not known. */
static void agent_look_mpi(void *owner, const pid_t *pids, uint32_t n)
{
	struct agent *a = owner;
	struct err e = ERR_INIT;

	if (mpi_looks_start(&a->mpi_looks, pids, n, &e) < 0)
		log_debug("no look at calls of MPI: %s", e.text);
}

int agent_look_reaped(struct agent *a, pid_t pid, const struct rusage *usage)
{
	struct buf text = BUF_INIT(MPI_LOOKS_TEXT_MAX);
	uint64_t ms = (uint64_t)(usage->ru_utime.tv_sec +
				 usage->ru_stime.tv_sec) *
			      1000 +
		      (uint64_t)(usage->ru_utime.tv_usec +
				 usage->ru_stime.tv_usec) /
			      1000;
	int rc = mpi_looks_reaped(&a->mpi_looks, pid, &text);

	if (rc && !text.failed)
		watch_take_mpi(&a->watch, SLICE(text.data, text.len), ms);
	buf_release(&text);
	return rc;
}

void agent_init_watch(struct agent *a)
{
	a->failure.put_dead_child = agent_put_dead_child;
	a->failure.put_stderr = agent_put_stderr;
	a->failure.owner = a;
	a->watch.owner = a;
	a->watch.on_report = agent_watch_on_report;
	a->watch.step_file = agent_step_file;
	a->watch.put_said = agent_put_said;
	a->watch.look_mpi = agent_look_mpi;
	a->watch.group = &a->group;
	a->watch.recorder = &a->failure.recorder;
	a->watch.catcher = &a->failure.catcher;
	watch_init(&a->watch, &a->loop);
	uv_timer_init(&a->loop, &a->hang.timer);
	a->hang.timer.data = a;
	a->hang.fd = -1;
}

void agent_begin_watch(struct agent *a)
{
	a->hang.is_decided = 0;
	a->hang.is_asked = 0;
	watch_begin(&a->watch, a->round);
	gpu_monitor_begin(&a->gpus);
}

void agent_end_watch(struct agent *a)
{
	watch_end(&a->watch);
	mpi_looks_stop(&a->mpi_looks);
	uv_timer_stop(&a->hang.timer);
	if (a->hang.dump)
		kill(a->hang.dump, SIGKILL);
}

void agent_close_watch(struct agent *a)
{
	watch_close(&a->watch);
	loop_watchdog_close();
	uv_close((uv_handle_t *)&a->hang.timer, NULL);
}

/* ---- ending a rank that hangs ---- */

static struct worker *agent_find_rank(struct agent *a, uint32_t rank)
{
	uint32_t i = rank - a->group.base_rank;

	return rank >= a->group.base_rank && i < a->group.n &&
			       a->group.workers[i].running
		       ? &a->group.workers[i]
		       : NULL;
}

/* Where the dump can be read. */
static const char *agent_dump_path(const struct agent *a,
				   char out[DUMP_PATH_MAX])
{
	if (a->hang.fd < 0)
		return a->hang.path;
	snprintf(out, DUMP_PATH_MAX, "/proc/self/fd/%d", a->hang.fd);
	return out;
}

static void agent_close_dump(struct agent *a)
{
	if (a->hang.fd >= 0)
		close(a->hang.fd);
	a->hang.fd = -1;
}

/* The dump is in memory, since the log folder is on a server: hands it to the
 * queue. */
static void agent_queue_dump(struct agent *a)
{
	struct log_writer f = LOG_WRITER_NONE;
	struct buf text = BUF_INIT(DUMP_TEXT_MAX);
	off_t size = lseek(a->hang.fd, 0, SEEK_END);
	int rc = size < 0 ? -errno : 0;

	if (size > DUMP_TEXT_MAX)
		size = DUMP_TEXT_MAX;
	if (rc == 0 && !buf_reserve(&text, (size_t)size))
		rc = -ENOMEM;
	if (rc == 0 && pread(a->hang.fd, text.data, (size_t)size, 0) != size)
		rc = -EIO;
	if (rc == 0)
		rc = log_writer_open(&f, &a->logdir.queue, a->hang.path);
	if (rc == 0)
		rc = log_writer_write(&f, SLICE(text.data, (size_t)size));
	log_writer_close(&f);
	if (rc < 0)
		log_warn("cannot write %s: %s", a->hang.path, strerror(-rc));
	buf_release(&text);
}

/* Reports that the rank hangs, as if it had exited: the server ends the round,
 * and with it the rank. */
static void agent_report_hang(struct agent *a)
{
	struct buf why = BUF_INIT(FAILURE_WHY_MAX);
	struct worker *w = agent_find_rank(a, a->hang.rank);
	struct wire_exited x = {
		.round = a->round,
		.rank = a->hang.rank,
		.early = WIRE_HANGS,
	};
	char last[FLIGHT_TEXT_MAX], log[LOGDIR_PATH_MAX];
	char path[DUMP_PATH_MAX];
	uint64_t now = clock_ns();

	if (!w || a->state != RUNNING)
		return;
	buf_printf(&why, "%s\n", a->hang.why);
	if (a->hang.path[0])
		dumped_stack_read(agent_dump_path(a, path), a->hang.rank,
				  &why);
	x.why = why.failed ? SLICE_STR(a->hang.why)
			   : SLICE(why.data, why.len - 1);
	x.local_rank = w->local_rank;
	x.pid = w->pid;
	x.ran_ms = (now - w->started_ns) / 1000000;
	x.steps = watch_steps(&a->watch);
	x.tail = tail_last(tail_text(&w->tail), TAIL_SHOWN);
	x.last = SLICE_STR(
		recorder_last(&a->failure.recorder, w->local_rank, now, last));
	x.log = SLICE_STR(logdir_stream(&a->logdir, w->local_rank, 1, log));
	member_exited(&a->member, &x);
	member_flush(&a->member);
	buf_release(&why);
}

static void agent_watch_on_dump_late(uv_timer_t *t)
{
	struct agent *a = t->data;

	log_warn("the dump is not complete: it took more than %d s",
		 (a->hang.is_asked ? LOOK_MS : DUMP_MS) / 1000);
	if (a->hang.dump) /* its end is awaited */
		kill(a->hang.dump, SIGKILL);
}

/* stack: without lines if it could not be read. */
static void agent_send_stack(struct agent *a, uint32_t round, uint32_t rank,
			     const struct buf *stack)
{
	const struct wire_stack m = {
		.round = round, .rank = rank,
		.text = stack->failed || !stack->len
				? SLICE_STR("")
				: SLICE(stack->data, stack->len - 1),
	};

	member_stack(&a->member, &m);
}

static void agent_end_look(struct agent *a)
{
	struct buf stack = BUF_INIT(WIRE_STACK_MAX);
	char path[DUMP_PATH_MAX];

	dumped_stack_read(agent_dump_path(a, path), a->hang.rank, &stack);
	agent_send_stack(a, a->round, a->hang.rank, &stack);
	buf_release(&stack);
	a->hang.is_asked = 0;
}

int agent_dump_reaped(struct agent *a, pid_t pid, int status)
{
	size_t n = strlen(a->hang.why);

	if (!a->hang.dump || pid != a->hang.dump)
		return 0;
	a->hang.dump = 0;
	uv_timer_stop(&a->hang.timer);
	if (a->hang.fd >= 0 && a->hang.path[0])
		agent_queue_dump(a);
	if (a->hang.is_asked) {
		agent_end_look(a);
		agent_close_dump(a);
		return 1;
	}
	if (a->hang.path[0])
		snprintf(a->hang.why + n, sizeof(a->hang.why) - n,
			 "\nthe stacks of all ranks: %s", a->hang.path);
	agent_report_hang(a);
	agent_close_dump(a);
	return 1;
}

static int agent_open_dump_in_memory(struct agent *a)
{
	agent_close_dump(a);
	a->hang.fd = memfd_create("ddprun-dump", MFD_CLOEXEC);
	return a->hang.fd < 0 ? -errno : fcntl(a->hang.fd, F_DUPFD_CLOEXEC, 3);
}

/* The dump goes to a file in the log folder, by way of memory if that is on a
 * server; else to our stderr, or, for the server, to a memory file. */
static int agent_open_dump(struct agent *a)
{
	const char *dir = a->failure.options.has_log_dir
				  ? logdir_attempt(&a->logdir)
				  : "";
	int fd = -1;

	a->hang.path[0] = '\0';
	if (*dir) {
		snprintf(a->hang.path, sizeof(a->hang.path), "%s/dump.txt",
			 dir);
		if (a->logdir.queue.files)
			return agent_open_dump_in_memory(a);
		fd = open(a->hang.path,
			  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	}
	if (fd < 0)
		a->hang.path[0] = '\0';
	if (fd < 0 && a->hang.is_asked)
		return agent_open_dump_in_memory(a);
	return fd < 0 ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3) : fd;
}

static pid_t agent_spawn_dump(struct agent *a, struct err *e)
{
	extern char **environ;
	static char name[] = "ddprun", dump[] = "dump", all[] = "--all-nodes";
	char agent[32];
	int is_all = a->nnodes > 1 && !a->hang.is_asked;
	char *argv[] = {name, dump, agent, is_all ? all : NULL, NULL};
	struct spawn order = {
		.path = "/proc/self/exe",
		.argv = argv,
		.envp = environ,
		.keep = {-1, -1},
	};
	pid_t pid;

	snprintf(agent, sizeof(agent), "--agent=%d", (int)getpid());
	order.in = spawn_no_input(e);
	if (order.in < 0)
		return order.in;
	order.out = order.err = agent_open_dump(a);
	pid = order.out < 0 ? order.out : spawn_process(&order, e);
	if (order.out >= 0)
		close(order.out);
	close(order.in);
	return pid;
}

static void agent_end_hang(struct agent *a, const struct wire_stalled *stall)
{
	struct err e = ERR_INIT;
	pid_t pid;

	a->hang.is_decided = 1;
	a->hang.rank = stall->rank;
	a->hang.path[0] = '\0';
	snprintf(a->hang.why, sizeof(a->hang.why), "%.*s",
		 SLICE_FMT(stall->why));
	log_info("rank %u hangs (--hang-timeout %g): taking the stacks of all "
		 "ranks",
		 stall->rank, a->options->hang_s);
	pid = agent_spawn_dump(a, &e);
	if (pid < 0) {
		log_warn("there is no dump: %s", e.text);
		agent_report_hang(a);
		return;
	}
	a->hang.dump = pid;
	uv_timer_start(&a->hang.timer, agent_watch_on_dump_late, DUMP_MS, 0);
}

/* Others wait for that rank, but it may load data or compile. */
static int agent_watch_is_work(const struct wire_stalled *stall)
{
	return stall->doing == RANK_WORKS || stall->doing == RANK_LOADS ||
	       stall->doing == RANK_STARTS;
}

static int agent_has_hung(const struct agent *a,
			  const struct wire_stalled *stall)
{
	double limit = a->options->hang_s * 1000;

	if (agent_watch_is_work(stall))
		limit *= WORKS_FACTOR;
	return limit > 0 && (double)stall->stalled_ms >= limit;
}

static void agent_run_stalled(struct agent *a, const struct wire_stalled *stall)
{
	char text[ERR_TEXT_MAX];

	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(stall->text));
	agent_run_event(a, "hung", stall->rank, text);
}

void agent_on_stalled(struct member *m, const struct wire_stalled *stall)
{
	struct agent *a = m->owner;
	const struct launch_env *env = a->rdzv->env;

	if (stall->round != a->round || a->state != RUNNING)
		return;
	/* in a Slurm step only one ddprun logs what all would */
	if (stall->text.len && (!env->shares_console || env->node_rank == 0))
		log_info("%.*s", SLICE_FMT(stall->text));
	/* 0: it goes on */
	if (stall->text.len && stall->stalled_ms &&
	    (!agent_watch_is_work(stall) ||
	     stall->stalled_ms >=
		     (uint64_t)WORKS_FACTOR * a->watch.patience_ms))
		agent_run_stalled(a, stall);
	if (!a->hang.is_decided && agent_find_rank(a, stall->rank) &&
	    agent_has_hung(a, stall))
		agent_end_hang(a, stall);
}

/* ---- a rank that another rank waited for ---- */

static pid_t agent_begin_look(struct agent *a, uint32_t rank)
{
	struct err e = ERR_INIT;
	pid_t pid;

	a->hang.is_asked = a->hang.is_decided = 1;
	a->hang.rank = rank;
	pid = agent_spawn_dump(a, &e);
	if (pid < 0) {
		a->hang.is_asked = 0;
		log_debug("there is no stack of rank %u: %s", rank, e.text);
		return pid;
	}
	a->hang.dump = pid;
	uv_timer_start(&a->hang.timer, agent_watch_on_dump_late, LOOK_MS, 0);
	return pid;
}

void agent_on_look(struct member *m, const struct wire_look *look)
{
	struct agent *a = m->owner;
	struct buf none = BUF_INIT(1);

	if (look->rank == WIRE_ALL_RANKS && look->round == a->round &&
	    (a->state == RUNNING || a->state == NOTIFIED))
		watch_report_now(&a->watch);
	if (look->round != a->round || a->hang.dump ||
	    !agent_find_rank(a, look->rank) ||
	    agent_begin_look(a, look->rank) < 0)
		agent_send_stack(a, look->round, look->rank, &none);
}

/* ---- a rank that is slow ---- */

void agent_on_slow(struct member *m, const struct wire_slow *slow)
{
	struct agent *a = m->owner;
	const struct launch_env *env = a->rdzv->env;
	char text[ERR_TEXT_MAX];

	if (slow->round != a->round || a->state != RUNNING)
		return;
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(slow->text));
	if (!env->shares_console || env->node_rank == 0)
		log_info("%s", text);
	failure_record_slow(&a->failure, slow);
	if (!slow->over)
		agent_run_event(a, "slow", slow->rank, text);
}

/* ---- the health of GPUs ----
 *
 * What goes wrong on this node is logged, and passed on to the server with the
 * state of all; what goes wrong on any node is an event, and is on the failure
 * page. */

enum { GPUS_BYTES_MAX = 64 << 10 };

static void agent_gpu_on_finding(void *owner, const struct gpu_finding *f)
{
	struct agent *a = owner;
	const struct wire_gpu_news news = {
		.round = a->round, .index = f->index, .xid = f->xid,
		.severity = (uint8_t)f->severity, .uuid = SLICE_STR(f->uuid),
		.text = SLICE_STR(f->text), .action = SLICE_STR(f->action),
	};

	if (f->severity >= GPU_SLOW)
		log_warn("%s: %s", f->text, f->action);
	else
		log_info("%s: %s", f->text, f->action);
	member_gpu_news(&a->member, &news);
}

static void agent_gpu_on_read(void *owner)
{
	struct agent *a = owner;
	struct buf items = BUF_INIT(GPUS_BYTES_MAX);
	struct wire_gpus m = {.round = a->round, .node_rank = -1};
	const struct gpu_record *r = NULL;

	while ((r = gpu_monitor_next(&a->gpus, r))) {
		const struct wire_gpu item = {
			.index = r->index, .uuid = SLICE_STR(r->uuid),
			.name = SLICE_STR(r->name),
#define F(field) .field = r->field,
			GPU_NUMBERS(F)
#undef F
		};

		wire_put_gpu_item(&items, &item);
		m.gpus.count++;
	}
	m.gpus.bytes = SLICE(items.data, items.len);
	if (!items.failed && m.gpus.count)
		member_gpus(&a->member, &m);
	buf_release(&items);
}

/* From the server: of any node, this one included. */
void agent_on_gpu_news(struct member *m, const struct wire_gpu_news *news)
{
	struct agent *a = m->owner;
	const struct launch_env *env = a->rdzv->env;
	char text[ERR_TEXT_MAX];

	if (news->round != a->round)
		return;
	snprintf(text, sizeof(text), "node %u (%.*s): %.*s", news->node_rank,
		 SLICE_FMT(news->host), SLICE_FMT(news->text));
	/* its own agent has logged it */
	if (news->node_rank != a->node_rank && !env->shares_console)
		log_info("%s: %.*s", text, SLICE_FMT(news->action));
	failure_record_gpu(&a->failure, news);
	agent_run_event(a, "gpu", -1, text);
}

void agent_init_gpus(struct agent *a)
{
	a->gpus.owner = a;
	a->gpus.on_finding = agent_gpu_on_finding;
	a->gpus.on_read = agent_gpu_on_read;
	gpu_monitor_init(&a->gpus, &a->loop);
	a->failure.gpus = &a->gpus;
}
