/* postmortem.c: the kernel's counts before and after, and what it logged. */
#include "launcher/postmortem.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/core_file.h"

enum { VMSTAT_MAX = 32 << 10, MIB = 1 << 20 };

void postmortem_init(struct postmortem *p)
{
	p->began = 0;
	p->log.fd = -1;
	p->log.n = 0;
}

void postmortem_release(struct postmortem *p)
{
	kernel_log_close(&p->log);
	p->began = 0;
}

/* All kills of the host, in cgroups and out of them; -1: not known. */
static int64_t host_kills(void)
{
	char *text = malloc(VMSTAT_MAX);
	int64_t n = -1;

	if (text && cgroup_read("/proc/vmstat", text, VMSTAT_MAX) > 0)
		n = cgroup_count(text, "oom_kill");
	free(text);
	return n;
}

void postmortem_begin(struct postmortem *p)
{
	if (!p->began) {
		cgroup_find(&p->cgroup);
		kernel_log_open(&p->log);
	} else {
		kernel_log_read(&p->log);
		p->log.n = 0; /* of an earlier attempt */
	}
	p->began = 1;
	p->kills = cgroup_oom_kills(&p->cgroup, &p->below);
	p->host_kills = host_kills();
}

static void put_limit(struct buf *why, uint64_t bytes, const char *of,
		      const char *self)
{
	if (bytes >= MIB)
		buf_printf(why, " (limit %llu MiB",
			   (unsigned long long)(bytes / MIB));
	else
		buf_printf(why, " (limit %llu KiB",
			   (unsigned long long)(bytes >> 10));
	if (strcmp(of, self) != 0)
		buf_printf(why, " of %s", of);
	buf_printf(why, ")");
}

/* A kill that our own cgroup counted: by its limit, one above it, or the host's
 * end of memory, which it counts as well. */
static void put_counted(const struct postmortem *p, int below, struct buf *why)
{
	char path[CGROUP_PATH_MAX];
	uint64_t limit = cgroup_limit_hit(&p->cgroup, path, sizeof path);

	if (!limit && !below) {
		buf_printf(why, "killed by the kernel: the host ran out of "
			   "memory");
		return;
	}
	buf_printf(why, "killed by the kernel: out of memory in %scgroup %s",
		   below ? "a cgroup below " : "", p->cgroup.path);
	if (limit)
		put_limit(why, limit, path, p->cgroup.path);
}

static void put_logged(const struct postmortem *p,
		       const struct kernel_kill *kill, struct buf *why)
{
	char path[CGROUP_PATH_MAX];
	uint64_t limit;

	if (!kill->cgroup) {
		buf_printf(why, "killed by the kernel: the host ran out of "
			   "memory");
		return;
	}
	buf_printf(why, "killed by the kernel: out of memory in cgroup %s",
		   kill->path);
	limit = cgroup_limit_hit(&p->cgroup, path, sizeof path);
	if (limit && strcmp(path, kill->path) == 0)
		put_limit(why, limit, path, path);
}

/* Takes one kill off those that are not accounted for: 1 if there was one. */
static int take_kill(struct postmortem *p, int *below)
{
	int64_t of_below, n = cgroup_oom_kills(&p->cgroup, &of_below);

	*below = 0;
	if (n <= p->kills || p->kills < 0)
		return 0;
	p->kills++;
	if (of_below > p->below) {
		p->below++;
		*below = 1;
	}
	return 1;
}

static void examine_killed(struct postmortem *p, pid_t pid, struct buf *why)
{
	struct kernel_kill kill;
	int64_t host = host_kills();
	int below, logged = kernel_log_killed(&p->log, pid, &kill);
	int counted = take_kill(p, &below);
	int on_host = p->host_kills >= 0 && host > p->host_kills;

	if (counted || on_host)
		p->host_kills++;
	/* the log has the host's process numbers, which may be others */
	if (logged && (counted || on_host))
		put_logged(p, &kill, why);
	else if (counted)
		put_counted(p, below, why);
	else if (on_host)
		buf_printf(why, "most likely killed by the kernel: the host "
			   "has just killed a process for lack of memory, in "
			   "no cgroup that is seen from here");
}

/* A child of the worker: a data loader, for instance. */
static void examine_others(struct postmortem *p, struct buf *why)
{
	int below, n = 0;

	while (take_kill(p, &below))
		n++;
	if (n)
		buf_printf(why, "while it ran the kernel killed %d process%s "
			   "of cgroup %s: out of memory", n,
			   n == 1 ? "" : "es", p->cgroup.path);
	p->host_kills += p->host_kills >= 0 ? n : 0;
}

static void examine_core(const struct postmortem_death *d, struct buf *why)
{
	char cwd[4096];
	struct core_of of = {
		.pid = d->pid, .signal = WTERMSIG(d->status),
		/* the file's system may be a little behind our clock */
		.since = d->started - 2, .cwd = getcwd(cwd, sizeof cwd),
		.host = d->host,
	};

	if (!of.cwd)
		of.cwd = ".";
	if (!WCOREDUMP(d->status) && !core_file_signal(of.signal))
		return;
	if (why->len)
		buf_printf(why, "; ");
	core_file_describe(why, WCOREDUMP(d->status), &of);
}

/* Shared memory that has no room gives SIGBUS where it is written to. */
static void examine_shm(struct buf *why)
{
	struct statvfs fs;

	if (statvfs("/dev/shm", &fs) < 0 || fs.f_blocks == 0 ||
	    fs.f_bavail > fs.f_blocks / 100)
		return;
	buf_printf(why, "%s/dev/shm is full (%llu MiB)", why->len ? "; " : "",
		   (unsigned long long)fs.f_blocks * fs.f_frsize / MIB);
}

void postmortem_examine(struct postmortem *p, const struct postmortem_death *d,
			struct buf *why)
{
	const char *xid;

	if (!p->began)
		return;
	kernel_log_read(&p->log);
	if (WIFSIGNALED(d->status) && WTERMSIG(d->status) == SIGKILL)
		examine_killed(p, d->pid, why);
	else
		examine_others(p, why);
	if (WIFSIGNALED(d->status) && WTERMSIG(d->status) == SIGBUS)
		examine_shm(why);
	if (WIFSIGNALED(d->status))
		examine_core(d, why);
	xid = kernel_log_xid(&p->log);
	if (xid)
		buf_printf(why, "%sthe NVIDIA driver says: %s",
			   why->len ? "; " : "", xid);
}
