/* local_workers.c: finds the flight recorders through /proc: each is a memfd
 * that an agent, or a worker without an agent, holds open. */
#include "launcher/inspect/local_workers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define LINK "/memfd:" FLIGHT_FILE_NAME " (deleted)"

enum { JOBS_MAX = sizeof(((struct local_workers *)0)->jobs) / sizeof(void *) };

static long local_workers_number(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	return *end || n < 0 || n > INT_MAX ? -1 : n;
}

/* Returns its state and sets its parent and CPU time; 0: it has ended. */
static char local_worker_read_stat(pid_t pid, pid_t *parent, double *cpu_s)
{
	unsigned long user = 0, kernel = 0;
	char path[64], text[1024], state = 0;
	const char *end;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file_read_text(path, text, sizeof(text));
	end = strrchr(text, ')');
	if (!end || sscanf(end + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u "
			   "%*u %lu %lu", &state, parent, &user, &kernel) != 4)
		return 0;
	*cpu_s = (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
	return state;
}

/* A wrapper or a shell may run between the agent and the program that calls
 * libddp. The pid that the program recorded may belong to another pid namespace
 * or be garbage: trust it only if it descends from the worker, and the worker
 * from its agent. */
static void local_worker_find_program(struct local_worker *w, uint32_t recorded)
{
	enum { DEPTH_MAX = 32 };
	pid_t pid = (pid_t)recorded, parent = 0;
	double cpu_s = 0;

	w->program = w->pid;
	w->state = local_worker_read_stat(w->pid, &parent, &w->cpu_s);
	/* a worker that no agent started is its own agent */
	if (w->pid != w->job->agent_pid && parent != w->job->agent_pid)
		w->state = 0; /* the pid was given to another process */
	for (int i = 0; w->state && pid > 1 && i < DEPTH_MAX; i++) {
		if (pid == w->pid) {
			w->program = (pid_t)recorded;
			w->state = local_worker_read_stat(w->program, &parent,
							  &w->cpu_s);
			return;
		}
		if (!local_worker_read_stat(pid, &parent, &cpu_s))
			return;
		pid = parent;
	}
}

static int local_workers_add(struct local_workers *l,
			     const struct flight_file *job, int fd,
			     uint32_t part)
{
	struct local_worker *more =
		realloc(l->workers, (l->n + 1) * sizeof(*more)), *w;
	struct flight_worker known;
	int rc;

	if (!more)
		return -ENOMEM;
	l->workers = more;
	if (pread(fd, &known, sizeof(known),
		  (off_t)(sizeof(*job) + part * sizeof(known))) !=
		    sizeof(known) || known.pid <= 0)
		return 0; /* it is being started */
	w = &l->workers[l->n];
	*w = (struct local_worker){
		.job = job, .rank = job->base_rank + part, .local_rank = part,
		.pid = known.pid,
	};
	w->view = malloc(sizeof(*w->view));
	if (!w->view)
		return -ENOMEM;
	l->n++;
	rc = flight_read_at(w->view, fd, flight_part_at(job, part));
	if (rc == 0 && w->view->rank != w->rank)
		rc = ERR_DATA;
	local_worker_find_program(w, rc == 0 ? w->view->pid : 0);
	if (rc == 0)
		return 0;
	w->recorder = rc > 0 ? RECORDER_SILENT : RECORDER_DAMAGED;
	free(w->view);
	w->view = NULL;
	return 0;
}

static int local_workers_add_agent(struct local_workers *l, pid_t pid,
				   const char *path, const char *job)
{
	struct flight_file *head;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return 0; /* the agent has just ended */
	head = malloc(sizeof(*head));
	if (!head) {
		close(fd);
		return -ENOMEM;
	}
	if (l->njobs < JOBS_MAX && flight_file_read(head, fd) == 0 &&
	    head->agent_pid == pid && (!job || strcmp(job, head->job) == 0)) {
		l->jobs[l->njobs++] = head;
		for (uint32_t i = 0; rc == 0 && i < head->parts; i++)
			rc = local_workers_add(l, head, fd, i);
	} else {
		free(head);
	}
	close(fd);
	return rc;
}

/* An agent has one recorder. */
static int local_workers_search(struct local_workers *l, const char *pid,
				const char *job)
{
	char path[300], link[sizeof(LINK) + 1];
	struct dirent *entry;
	int rc = 0, found = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%.20s/fd/%.20s", pid,
			 entry->d_name);
		n = readlink(path, link, sizeof(link));
		if (n != sizeof(LINK) - 1 || memcmp(link, LINK, (size_t)n))
			continue;
		found = 1;
		rc = local_workers_add_agent(
			l, (pid_t)local_workers_number(pid), path, job);
	}
	if (dir)
		closedir(dir);
	return rc;
}

static int local_workers_is_ours(const char *pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%.20s", pid);
	return stat(path, &st) == 0 && st.st_uid == geteuid();
}

static int local_worker_compare(const void *pa, const void *pb)
{
	const struct local_worker *a = pa, *b = pb;
	int jobs = strcmp(a->job->job, b->job->job);

	if (jobs)
		return jobs;
	if (a->job->round != b->job->round)
		return a->job->round < b->job->round ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Searches all processes of this user, or that agent alone. */
static int local_workers_search_all(struct local_workers *l, const char *job,
				    pid_t agent, DIR *proc)
{
	struct dirent *entry;
	int rc = 0;

	while (rc == 0 && (entry = readdir(proc))) {
		long pid = local_workers_number(entry->d_name);

		if (pid > 0 && (!agent || pid == agent) &&
		    local_workers_is_ours(entry->d_name))
			rc = local_workers_search(l, entry->d_name, job);
	}
	return rc;
}

int local_workers_init(struct local_workers *l, const char *job, pid_t agent,
		       struct err *e)
{
	DIR *proc;
	int rc;

	memset(l, 0, sizeof(*l));
	proc = opendir("/proc");
	if (!proc)
		return err_set(e, -errno, "cannot read /proc: %s",
			       strerror(errno));
	rc = local_workers_search_all(l, job, agent, proc);
	closedir(proc);
	l->now_ns = clock_ns();
	if (rc < 0) {
		local_workers_release(l);
		return err_no_memory(e, "the list of workers");
	}
	if (l->n)
		qsort(l->workers, l->n, sizeof(*l->workers),
		      local_worker_compare);
	return 0;
}

void local_workers_release(struct local_workers *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->workers[i].view);
	for (size_t i = 0; i < l->njobs; i++)
		free(l->jobs[i]);
	free(l->workers);
	memset(l, 0, sizeof(*l));
}

void local_workers_remove(struct local_workers *l, size_t i, size_t n)
{
	struct local_worker *from = l->workers + i;

	for (size_t k = 0; k < n; k++)
		free(from[k].view);
	l->n -= n;
	memmove(from, from + n, (l->n - i) * sizeof(*from));
}

int local_worker_same_job(const struct local_worker *a,
			  const struct local_worker *b)
{
	return strcmp(a->job->job, b->job->job) == 0 &&
	       a->job->round == b->job->round;
}

/* ---- Missing ranks ---- */

static uint32_t local_worker_comm_size(const struct flight_view *v,
				       uint32_t comm)
{
	for (int i = 0; v && i < v->ncomms; i++) {
		if (v->comms[i].id == comm)
			return v->comms[i].size;
	}
	return 0;
}

enum arrival { CAME, MISSING, UNKNOWN };

/* Whether w has reached call `to`: its calls in a communicator are numbered. */
static enum arrival local_worker_arrival(const struct local_worker *w,
					 const struct flight_op *to)
{
	enum arrival a = MISSING;

	if (!w->view) /* a recorder is silent until ddp_init */
		return w->recorder == RECORDER_SILENT &&
				       to->call.kind == FLIGHT_INIT
			       ? MISSING
			       : UNKNOWN;
	if (to->call.kind == FLIGHT_INIT)
		return CAME;
	if (!local_worker_comm_size(w->view, to->comm))
		return UNKNOWN;
	for (int i = 0; i < w->view->n; i++) {
		const struct flight_op *op = &w->view->ops[i];

		if (op->comm == to->comm &&
		    flight_is_collective(op->call.kind) &&
		    op->call.number >= to->call.number)
			a = CAME;
	}
	return a;
}

size_t local_workers_missing(const struct local_workers *l, size_t i,
			     uint32_t *ranks, size_t max, uint32_t *elsewhere)
{
	const struct local_worker *me = &l->workers[i];
	const struct flight_op *to = me->view ? flight_oldest_open(me->view)
					      : NULL;
	uint32_t known = 0;
	size_t n = 0;

	*elsewhere = 0;
	if (!to || !flight_is_collective(to->call.kind))
		return 0;
	for (size_t k = 0; k < l->n; k++) {
		const struct local_worker *w = &l->workers[k];
		enum arrival a;

		if (!local_worker_same_job(me, w))
			continue;
		a = local_worker_arrival(w, to);
		known += a != UNKNOWN;
		if (a == MISSING && n++ < max)
			ranks[n - 1] = w->rank;
	}
	if (local_worker_comm_size(me->view, to->comm) > known)
		*elsewhere = local_worker_comm_size(me->view, to->comm) - known;
	return n;
}

const struct flight_op *local_worker_last_collective(
	const struct local_worker *w, uint32_t comm)
{
	const struct flight_op *last = NULL;

	for (int i = 0; w->view && i < w->view->n; i++) {
		const struct flight_op *op = &w->view->ops[i];

		if (op->comm == comm && flight_is_collective(op->call.kind) &&
		    (!last || op->call.number > last->call.number))
			last = op;
	}
	return last;
}

const char *local_worker_state(char state)
{
	static const struct {
		char letter;
		const char *name;
	} names[] = {
		{'R', "running"}, {'S', "sleeping"}, {'D', "in the kernel"},
		{'T', "stopped"}, {'t', "held by a debugger"}, {'Z', "zombie"},
		{'I', "idle"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (names[i].letter == state)
			return names[i].name;
	}
	return state ? "in an unknown state" : "ended";
}
