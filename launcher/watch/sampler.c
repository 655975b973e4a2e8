/* sampler.c: one file of /proc for each fact; those that cannot be read count
 * as 0. */
#include "launcher/watch/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum { TREE_MAX = 64, STEP_TAIL = 128, HANDLER_LOOKS = 20 };

/* ---- /proc ---- */

struct sampler_process {
	pid_t pid;
	char state;
	uint64_t cpu_ms, faults, memory;
	uint64_t childrens; /* faults of children that it has reaped */
	int handles;
	int killed_by; /* a zombie's signal, if that is a failure; 0: none */
	int exit_code; /* a zombie's */
	char name[16];
};

static uint64_t sampler_ticks_ms(unsigned long ticks)
{
	static long per_second;

	if (!per_second)
		per_second = sysconf(_SC_CLK_TCK);
	return ticks * 1000 /
	       (unsigned long)(per_second > 0 ? per_second : 100);
}

/* The rest of /proc/PID/stat from a field on, which begins after field 3's
 * blank; NULL: it is too short. */
static const char *sampler_field(const char *at, int field)
{
	for (int i = 3; i < field && at; i++) {
		at = strchr(at, ' ');
		at += at != NULL;
	}
	return at;
}

/* The kernel blocks a signal while its handler runs. A program that blocks the
 * signals of faults itself blocks all of them. */
static int sampler_handled_signal(const char *state)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	unsigned long blocked = 0, caught = 0;
	const char *at = sampler_field(state, 32);
	int number = 0, n = 0;

	if (!at || sscanf(at, "%lu %*u %lu", &blocked, &caught) != 2)
		return 0;
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		if (!(blocked & 1UL << (faults[i] - 1)))
			continue;
		number = faults[i];
		n++;
	}
	return n == 1 && caught & 1UL << (number - 1) ? number : 0;
}

/* How a zombie ended; 0: it ended well, or the process is not a zombie. */
static int sampler_status(const char *state)
{
	const char *at = sampler_field(state, 52);
	int status = 0;

	return state[0] == 'Z' && at && sscanf(at, "%d", &status) == 1 ? status
								       : 0;
}

/* The signal that killed it. Programs end their own children by SIGTERM and the
 * like. */
static int sampler_fatal_signal(int status)
{
	if (!WIFSIGNALED(status))
		return 0;
	switch (WTERMSIG(status)) {
	case SIGTERM:
	case SIGINT:
	case SIGHUP:
	case SIGPIPE:
	case SIGQUIT:
		return 0;
	default:
		return WTERMSIG(status);
	}
}

static int sampler_read_stat(struct sampler_process *p)
{
	unsigned long minor = 0, major = 0, user = 0, kernel = 0, children = 0;
	long pages = 0;
	char path[64], text[1024];
	const char *end;
	int status;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)p->pid);
	file_read_text(path, text, sizeof(text));
	end = strrchr(text, ')');
	if (!end || sscanf(end + 1,
			   " %c %*d %*d %*d %*d %*d %*u %lu %lu %lu "
			   "%*u %lu %lu %*d %*d %*d %*d %*d %*d %*u %*u %ld",
			   &p->state, &minor, &children, &major, &user,
			   &kernel, &pages) != 7)
		return 0;
	p->memory = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
	p->cpu_ms = sampler_ticks_ms(user + kernel);
	p->faults = minor + major;
	p->childrens = children;
	p->handles = sampler_handled_signal(end + 2);
	status = sampler_status(end + 2);
	p->killed_by = sampler_fatal_signal(status);
	p->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	if (status && strchr(text, '('))
		snprintf(p->name, sizeof(p->name), "%.*s",
			 (int)(end - strchr(text, '(') - 1),
			 strchr(text, '(') + 1);
	return 1;
}

/* Returns the bytes that it has read and written. */
static uint64_t sampler_read_io(pid_t pid, uint64_t *written)
{
	unsigned long long in = 0, out = 0;
	char path[64], text[512];

	snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	file_read_text(path, text, sizeof(text));
	if (sscanf(text, "rchar: %llu wchar: %llu", &in, &out) != 2)
		return 0;
	*written += out;
	return in + out;
}

/* Adds the children of list[i]; returns how many are in the list then. */
static int sampler_add_children(pid_t *list, int n, int i)
{
	char path[80], text[1024], *at = text, *end;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)list[i],
		 (int)list[i]);
	if (file_read_text(path, text, sizeof(text)) <= 0)
		return n;
	while (n < TREE_MAX) {
		long pid = strtol(at, &end, 10);

		if (end == at || pid <= 0)
			break;
		list[n++] = (pid_t)pid;
		at = end;
	}
	return n;
}

/* Whether the process, which is in the kernel, flushes what it wrote to a local
 * disk: a large checkpoint may take minutes. A file server that has stopped
 * would look the same but for the function that waits for it. */
static int sampler_syncs(pid_t pid, const char *sleeps_in)
{
	static const long calls[] = {SYS_fsync, SYS_fdatasync, SYS_sync,
				     SYS_syncfs, SYS_msync,
				     SYS_sync_file_range};
	static const char *const servers[] = {"fuse", "request_wait", "rpc",
					      "nfs", "cifs", "smb", "ceph",
					      "ptlrpc", "p9_", "gpfs"};
	char path[64], text[256], *end;
	long call;

	for (size_t i = 0; i < sizeof(servers) / sizeof(*servers); i++)
		if (strstr(sleeps_in, servers[i]))
			return 0;
	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	file_read_text(path, text, sizeof(text));
	call = strtol(text, &end, 10);
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (end != text && call == calls[i])
			return 1;
	return 0;
}

/* Readers of sockets, terminals and inotify sleep in the same function of the
 * kernel. The descriptor, the call's first argument, tells them apart. */
static void sampler_read_descriptor(pid_t pid, char *sleeps_in, size_t size)
{
	static const char *const kinds[][2] = {
		{"anon_inode:inotify", "inotify_read"},
		{"anon_inode:[fanotify]", "fanotify_read"},
		{"/dev/pts/", "n_tty_read"},
		{"/dev/tty", "n_tty_read"},
		{"/dev/console", "n_tty_read"},
	};
	char path[64], text[256], link[64] = "";
	unsigned long fd;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	file_read_text(path, text, sizeof(text));
	if (sscanf(text, "%*d %lx", &fd) != 1)
		return;
	snprintf(path, sizeof(path), "/proc/%d/fd/%lu", (int)pid, fd);
	if (readlink(path, link, sizeof(link) - 1) < 0)
		return;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strncmp(link, kinds[i][0], strlen(kinds[i][0])) == 0)
			snprintf(sleeps_in, size, "%s", kinds[i][1]);
}

/* The program is the process that the recorder names, if it is one of them;
 * else the thread that has used most CPU time. */
static void sampler_read_processes(pid_t worker, pid_t recorded,
				   struct activity_sample *s)
{
	pid_t list[TREE_MAX] = {worker};
	struct sampler_process program = {.pid = 0};
	char path[64];
	int n = 1;

	for (int i = 0; i < n; i++) {
		struct sampler_process p = {.pid = list[i]};

		n = sampler_add_children(list, n, i);
		if (!sampler_read_stat(&p))
			continue;
		s->cpu_ms += p.cpu_ms;
		s->memory += p.memory;
		s->faults += p.faults;
		s->reaped += p.childrens;
		s->io_bytes += sampler_read_io(p.pid, &s->written);
		s->processes += (uint64_t)p.pid;
		if (i > 0 && p.killed_by) {
			s->dead_pid = p.pid;
			s->dead_signal = p.killed_by;
			memcpy(s->dead_name, p.name, sizeof(p.name));
		}
		if (i > 0 && p.exit_code) {
			s->failed_pid = p.pid;
			s->failed_code = p.exit_code;
			memcpy(s->failed_name, p.name, sizeof(p.name));
		}
		if (!program.pid || p.pid == recorded ||
		    (program.pid != recorded && p.cpu_ms > program.cpu_ms))
			program = p;
	}
	if (!program.pid)
		return;
	s->state = program.state;
	s->pid = program.pid;
	s->handles = program.handles;
	snprintf(path, sizeof(path), "/proc/%d/wchan", (int)program.pid);
	file_read_text(path, s->sleeps_in, sizeof(s->sleeps_in));
	if (strcmp(s->sleeps_in, "0") == 0)
		s->sleeps_in[0] = '\0';
	if (strcmp(s->sleeps_in, "wait_woken") == 0)
		sampler_read_descriptor(program.pid, s->sleeps_in,
					sizeof(s->sleeps_in));
	if (s->state == 'D')
		s->syncs = sampler_syncs(program.pid, s->sleeps_in);
}

/* ---- the flight recorder ---- */

/* waits: it has not returned. */
static void sampler_set_call(struct sampler_call *c,
			     const struct flight_view *v,
			     const struct flight_op *op, int waits)
{
	flight_op_text(v, op, c->text);
	for (int i = 0; i < v->n; i++) {
		const struct flight_op *x = &v->ops[i];

		if (x->comm == 0 && flight_is_collective(x->call.kind) &&
		    x->call.number + 1 > c->world)
			c->world = x->call.number + 1;
	}
	if (!waits)
		return;
	if (flight_is_collective(op->call.kind)) {
		c->comm = op->comm;
		c->number = op->call.number + 1;
	} else if (op->comm == 0) {
		c->peer = op->call.root;
	}
}

static int sampler_read_view(const struct recorder *r, uint32_t local_rank,
			     struct flight_view *v)
{
	return r->head && local_rank < r->head->parts &&
	       flight_read_at(v, r->fd, flight_part_at(r->head, local_rank)) ==
		       0;
}

uint64_t sampler_read_missed(const struct recorder *r, uint32_t local_rank,
			     struct flight_view *v, struct sampler_call *c)
{
	int i;

	*c = (struct sampler_call){.peer = -1};
	if (!sampler_read_view(r, local_rank, v))
		return 0;
	for (i = v->n; i > 0 && v->ops[i - 1].state == FLIGHT_FAILED; i--)
		;
	if (i == v->n)
		return 0;
	sampler_set_call(c, v, &v->ops[i], 1);
	return v->ops[i].ns;
}

/* Returns the pid that the recorder names, or 0. */
static pid_t sampler_read_recorder(const struct recorder *r,
				   uint32_t local_rank, struct flight_view *v,
				   struct activity_sample *s,
				   struct sampler_call *c)
{
	const struct flight_op *open;

	if (!sampler_read_view(r, local_rank, v))
		return 0;
	if (v->step)
		s->step = (int64_t)(v->step - 1);
	s->waited_ns = v->waited_ns;
	if (v->n == 0)
		return (pid_t)v->pid;
	open = flight_oldest_open(v);
	s->calls = v->ops[v->n - 1].ticket;
	s->call_ns = v->ops[v->n - 1].ns;
	s->in_call = open != NULL;
	s->has_left = v->ncomms == 0;
	sampler_set_call(c, v, open ? open : &v->ops[v->n - 1], s->in_call);
	return (pid_t)v->pid;
}

/* ---- the step file ---- */

/* The number that is alone in a line; -1: there is none, or it is too large. */
static int64_t sampler_line_step(const char *at, const char *end)
{
	int64_t value = -1;

	for (; at < end && *at == ' '; at++)
		;
	for (; at < end && *at >= '0' && *at <= '9'; at++) {
		if (value > INT64_MAX / 16)
			return -1;
		value = (value < 0 ? 0 : value * 10) + (*at - '0');
	}
	for (; at < end && (*at == ' ' || *at == '\r'); at++)
		;
	return at == end ? value : -1;
}

int64_t sampler_last_step(const char *text, size_t n)
{
	const char *end = text + n, *line_end;
	int64_t step = -1, value;

	while ((line_end = memchr(text, '\n', (size_t)(end - text)))) {
		value = sampler_line_step(text, line_end);
		step = value >= 0 ? value : step;
		text = line_end + 1;
	}
	return step;
}

int64_t sampler_read_step(const char *path)
{
	char text[STEP_TAIL], *line = text;
	struct stat st;
	int64_t step = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	off_t from;
	ssize_t n;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		from = st.st_size > STEP_TAIL ? st.st_size - STEP_TAIL : 0;
		n = pread(fd, text, sizeof(text), from);
		/* the tail may begin within a line */
		if (n > 0 && from > 0)
			line = memchr(text, '\n', (size_t)n);
		if (n > 0 && line)
			step = sampler_last_step(line,
						 (size_t)(text + n - line));
	}
	close(fd);
	return step;
}

int64_t sampler_read_recorded_step(const struct recorder *r,
				   uint32_t local_rank,
				   struct flight_view *view)
{
	return sampler_read_view(r, local_rank, view) && view->step
		       ? (int64_t)(view->step - 1)
		       : -1;
}

void sampler_read(const struct recorder *r, uint32_t local_rank, pid_t pid,
		  int64_t file_step, struct flight_view *view,
		  struct activity_sample *s, struct sampler_call *c)
{
	pid_t recorded;

	*s = (struct activity_sample){.ns = clock_ns(), .step = -1};
	*c = (struct sampler_call){.peer = -1};
	recorded = sampler_read_recorder(r, local_rank, view, s, c);
	if (s->step < 0)
		s->step = file_step;
	sampler_read_processes(pid, recorded, s);
}

/* The program of a process; "": not known. */
static void sampler_program(const char *process, char out[PATH_MAX])
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/exe", process);
	n = readlink(path, out, PATH_MAX - 1);
	out[n > 0 ? n : 0] = '\0';
}

int sampler_is_dumped(const struct activity_sample *s)
{
	char path[64], text[2048], tracer[32], theirs[PATH_MAX], ours[PATH_MAX];
	const char *at;
	int pid;

	if (s->state != 't')
		return 0;
	snprintf(path, sizeof(path), "/proc/%lld/status", (long long)s->pid);
	file_read_text(path, text, sizeof(text));
	at = strstr(text, "\nTracerPid:");
	if (!at || sscanf(at, "\nTracerPid: %d", &pid) != 1)
		return 0;
	if (pid == 0) /* it runs again by now */
		return 1;
	snprintf(tracer, sizeof(tracer), "%d", pid);
	sampler_program(tracer, theirs);
	sampler_program("self", ours);
	return *theirs && !strcmp(theirs, ours);
}

void sampler_read_handler(struct activity_sample *s)
{
	struct sampler_process p = {.pid = (pid_t)s->pid};

	for (int i = 0; i < HANDLER_LOOKS && p.pid && !s->handles; i++) {
		if (!sampler_read_stat(&p) || p.state != 'R')
			break;
		s->handles = p.handles;
	}
}
