/* probe.c: the processes of the probes, and the findings that they write into
 * their pipes. */
#include "worker-sdk/check/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum {
	PROBES_MAX = 16 + PROBE_FOLDERS_MAX,
	BYTES_MAX = 1 << 20, /* one probe's findings */
	READ_MAX = 64 << 10,
};

typedef void probe_fn(struct findings *out, const struct probe_call *c);

struct probe {
	const char *name; /* for the text about a probe that does not end */
	probe_fn *run;
	struct probe_call call;
	int measures; /* if it is late, this host is merely busy */
	int fd; /* its pipe's; -1: it has ended */
	pid_t pid;
	struct buf bytes;
};

struct probe_set {
	struct probe list[PROBES_MAX];
	int n;
};

uint64_t probe_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

char *probe_bytes_text(uint64_t bytes, char *out)
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB",
					    "TiB", "PiB"};
	double v = (double)bytes;
	size_t unit = 0;

	while (v >= 1024 && unit + 1 < sizeof(units) / sizeof(*units)) {
		v /= 1024;
		unit++;
	}
	snprintf(out, PROBE_BYTES_MAX, v < 10 && unit ? "%.1f %s" : "%.0f %s",
		 v, units[unit]);
	return out;
}

/* ---- one probe ---- */

__attribute__((noreturn))
static void probe_child(const struct probe *p, int fd)
{
	struct findings *f = calloc(1, sizeof(*f));
	struct buf b = BUF_INIT(BYTES_MAX);
	struct slice bytes;
	int rc = -ENOMEM;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	if (f) {
		p->run(f, &p->call);
		findings_put(&b, f);
		rc = buf_bytes(&b, &bytes);
	}
	if (rc == 0)
		rc = file_write_all(fd, bytes.data, bytes.len);
	_exit(rc < 0);
}

static void probe_start(struct probe *p)
{
	int ends[2];

	p->fd = -1;
	buf_init(&p->bytes, BYTES_MAX);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	p->pid = fork();
	if (p->pid == 0) {
		setpgid(0, 0);
		probe_child(p, ends[1]);
	}
	close(ends[1]);
	if (p->pid < 0) {
		close(ends[0]);
		return;
	}
	setpgid(p->pid, p->pid); /* parent or child, whichever is first */
	p->fd = ends[0];
}

/* Ends the rest of it. A process that waits in the kernel may outlive this. */
static void probe_end(struct probe *p)
{
	if (p->pid <= 0)
		return;
	kill(-p->pid, SIGKILL);
	kill(p->pid, SIGKILL);
	if (p->fd >= 0) {
		close(p->fd);
		p->fd = -1;
		waitpid(p->pid, NULL, WNOHANG);
		return;
	}
	waitpid(p->pid, NULL, 0);
}

static void probe_take(struct probe *p, struct findings *out, int time_ms)
{
	struct findings *f = calloc(1, sizeof(*f));
	int late = p->fd >= 0;
	struct reader r;

	probe_end(p);
	reader_init(&r, SLICE(p->bytes.data, p->bytes.len));
	if (f && !late && findings_read(f, &r, NULL) == 0)
		findings_append(out, f);
	else if (late && p->measures)
		finding_mark(finding_add(out, p->name, "not measured"),
			     FINDING_WARNING, "%s: not measured within %g s: "
			     "is this host overloaded?", p->name,
			     time_ms / 1000.0);
	else if (late)
		finding_mark(finding_add(out, p->name, "no answer"),
			     FINDING_FAILURE,
			     "%s: no answer for %g s: does a file system or a "
			     "driver hang?", p->name, time_ms / 1000.0);
	else
		finding_mark(finding_add(out, p->name, "not known"),
			     FINDING_FAILURE,
			     "%s: the process that examines it failed",
			     p->name);
	free(f);
	buf_release(&p->bytes);
}

static void probe_receive(struct probe *p)
{
	char *to = buf_reserve(&p->bytes, READ_MAX);
	ssize_t n = to ? read(p->fd, to, READ_MAX) : 0;

	if (n > 0) {
		p->bytes.len += (size_t)n;
		return;
	}
	if (n < 0 && errno == EINTR)
		return;
	close(p->fd);
	p->fd = -1;
}

/* ---- all of them ---- */

static void probe_set_add(struct probe_set *s, const char *name, probe_fn *run,
			  const struct probe_options *o, const char *folder)
{
	if (s->n < PROBES_MAX)
		s->list[s->n++] = (struct probe){
			.name = name, .run = run, .fd = -1,
			.call = {.o = o, .folder = folder}};
}

/* Runs the probes of the set at the same time. */
static void probe_set_run(struct probe_set *s, int time_ms,
			  struct findings *out)
{
	uint64_t end = clock_ms() + (uint64_t)time_ms;
	struct pollfd polls[PROBES_MAX];
	int open = s->n;

	for (int i = 0; i < s->n; i++)
		probe_start(&s->list[i]);
	while (open) {
		uint64_t now = clock_ms();

		open = 0;
		for (int i = 0; i < s->n; i++) {
			polls[i] = (struct pollfd){s->list[i].fd, POLLIN, 0};
			open += s->list[i].fd >= 0;
		}
		if (!open || now >= end ||
		    (poll(polls, (nfds_t)s->n, (int)(end - now)) < 0 &&
		     errno != EINTR))
			break;
		for (int i = 0; i < s->n; i++) {
			if (polls[i].fd >= 0 && polls[i].revents)
				probe_receive(&s->list[i]);
		}
	}
	for (int i = 0; i < s->n; i++)
		probe_take(&s->list[i], out, time_ms);
	s->n = 0;
}

/* Runs one probe that measures, with no other beside it. */
static void probe_set_measure(struct probe_set *s, const struct probe *p,
			      int time_ms, struct findings *out)
{
	s->list[0] = *p;
	s->list[0].measures = 1;
	s->n = 1;
	probe_set_run(s, time_ms, out);
}

/* The words of the list, in *text, which the caller frees. */
static int probe_split_folders(const char *list, char **text,
			       const char *folders[PROBE_FOLDERS_MAX])
{
	int n = 0;
	char *rest;

	*text = list ? strdup(list) : NULL;
	for (char *word = *text ? strtok_r(*text, ",", &rest) : NULL;
	     word && n < PROBE_FOLDERS_MAX; word = strtok_r(NULL, ",", &rest))
		folders[n++] = word;
	return n;
}

void probes_run(struct findings *out, const struct probe_options *o)
{
	const char *folders[PROBE_FOLDERS_MAX];
	int time_ms = o->time_ms ? o->time_ms
				 : o->full ? PROBE_FULL_MS : PROBE_QUICK_MS;
	struct probe_set s = {.n = 0};
	char *text;
	int n = probe_split_folders(o->folders, &text, folders);

	probe_set_add(&s, "limits", probe_limits, o, NULL);
	probe_set_add(&s, "memory", probe_memory, o, NULL);
	probe_set_add(&s, "shared memory", probe_shared_memory, o, NULL);
	probe_set_add(&s, "CPUs", probe_cpu, o, NULL);
	probe_set_add(&s, "own name", probe_name, o, NULL);
	probe_set_add(&s, "versions", probe_versions, o, NULL);
	probe_set_add(&s, "GPUs", probe_gpus, o, NULL);
	for (int i = 0; i < n; i++)
		probe_set_add(&s, folders[i], probe_folder, o, folders[i]);
	if (o->command)
		probe_set_add(&s, "site's check", probe_command, o, NULL);
	probe_set_run(&s, time_ms, out);
	probe_set_measure(&s, &(struct probe){.name = "CPU speed",
			  .run = probe_cpu_speed, .call = {o, NULL}}, time_ms,
			  out);
	if (o->full)
		probe_set_measure(&s, &(struct probe){.name = "memory speed",
				  .run = probe_memory_speed, .call = {o, NULL}},
				  time_ms, out);
	for (int i = 0; i < n && o->full; i++)
		probe_set_measure(&s, &(struct probe){.name = folders[i],
				  .run = probe_folder_speed,
				  .call = {o, folders[i]}}, time_ms, out);
	free(text);
}
