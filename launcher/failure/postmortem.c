/* postmortem.c: compares the kernel's counts and reads its log. */
#include "launcher/failure/postmortem.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

enum {
	VMSTAT_MAX = 32 << 10,
	MIB = 1 << 20,
	STACK_NEAR = 64 << 10, /* bytes around the stack pointer */
	NULL_NEAR = 64 << 10,  /* fields of a struct at address 0 */
};

void postmortem_init(struct postmortem *p)
{
	p->prepared = 0;
	p->log.fd = -1;
	p->log.n = 0;
}

void postmortem_release(struct postmortem *p)
{
	kernel_log_close(&p->log);
	p->prepared = 0;
}

/* All OOM kills of the host, in any cgroup or none; -1: not known. */
static int64_t postmortem_host_kills(void)
{
	char *text = malloc(VMSTAT_MAX);
	int64_t n = -1;

	if (text && file_read_text("/proc/vmstat", text, VMSTAT_MAX) > 0)
		n = cgroup_count(text, "oom_kill");
	free(text);
	return n;
}

/* The inode number of the host's pid namespace is fixed in the kernel. */
static int postmortem_pids_are_the_hosts(void)
{
	static const char first[] = "pid:[4026531836]";
	char name[64];
	ssize_t n = readlink("/proc/self/ns/pid", name, sizeof(name));

	return n == (ssize_t)strlen(first) && memcmp(name, first, n) == 0;
}

void postmortem_prepare(struct postmortem *p)
{
	cgroup_find(&p->cgroup);
	kernel_log_open(&p->log);
	p->is_certain = p->log.fd >= 0 && postmortem_pids_are_the_hosts();
	p->prepared = 1;
}

void postmortem_begin(struct postmortem *p)
{
	if (!p->prepared)
		postmortem_prepare(p);
	kernel_log_skip(&p->log); /* lines of earlier attempts */
	p->kills = cgroup_oom_kills(&p->cgroup, &p->below);
	p->host_kills = p->is_certain ? -1 : postmortem_host_kills();
}

static void postmortem_put_limit(struct buf *why, uint64_t bytes,
				 const char *of, const char *self)
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

/* A kill that our own cgroup counted: at its limit, at the limit of a cgroup
 * above it, or because the host ran out of memory. */
static void postmortem_put_counted(const struct postmortem *p, int below,
				   struct buf *why)
{
	char path[CGROUP_PATH_MAX];
	uint64_t limit = cgroup_limit_hit(&p->cgroup, path, sizeof(path));

	if (!limit && !below) {
		buf_printf(why, "killed by the kernel: the host ran out of "
			   "memory");
		return;
	}
	buf_printf(why, "killed by the kernel: out of memory in %scgroup %s",
		   below ? "a cgroup below " : "", p->cgroup.path);
	if (limit)
		postmortem_put_limit(why, limit, path, p->cgroup.path);
}

static void postmortem_put_logged(const struct postmortem *p,
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
		   kill->path[0] ? kill->path : p->cgroup.path);
	limit = cgroup_limit_hit(&p->cgroup, path, sizeof(path));
	if (limit && (!kill->path[0] || strcmp(path, kill->path) == 0))
		postmortem_put_limit(why, limit, path, path);
}

/* Claims one kill that is not explained yet: 1 if there was one. */
static int postmortem_claim_kill(struct postmortem *p, int *below)
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

/* Kills of other processes, for example of the worker's data loaders. */
static void postmortem_put_others(const struct postmortem *p, int n,
				  struct buf *why)
{
	buf_printf(why,
		   "while it ran, the kernel killed %d process%s of cgroup %s: "
		   "out of memory",
		   n, n == 1 ? "" : "es", p->cgroup.path);
}

/* The sender of a SIGKILL cannot be seen. The log is certain if is_certain; a
 * count that has risen since the workers were started is not. */
static void postmortem_examine_killed(struct postmortem *p, pid_t pid,
				      struct buf *why)
{
	struct kernel_kill kill;
	int64_t host = p->is_certain ? -1 : postmortem_host_kills();
	int below, logged = kernel_log_killed(&p->log, pid, &kill);
	int counted = postmortem_claim_kill(p, &below);
	int on_host = p->host_kills >= 0 && host > p->host_kills;

	if (p->host_kills >= 0 && (counted || on_host))
		p->host_kills++;
	if (logged && p->is_certain)
		postmortem_put_logged(p, &kill, why);
	else if (counted && p->is_certain)
		postmortem_put_others(p, 1, why);
	else if (counted)
		postmortem_put_counted(p, below, why);
	else if (on_host)
		buf_printf(why,
			   "perhaps out of memory: since the worker started, "
			   "the kernel has killed %lld process%s of this host "
			   "for lack of memory (see dmesg)",
			   (long long)(host - p->host_kills + 1),
			   host == p->host_kills ? "" : "es");
}

static void postmortem_examine_others(struct postmortem *p, struct buf *why)
{
	int below, n = 0;

	while (postmortem_claim_kill(p, &below))
		n++;
	if (n)
		postmortem_put_others(p, n, why);
	p->host_kills += p->host_kills >= 0 ? n : 0;
}

void postmortem_examine(struct postmortem *p, const struct postmortem_death *d,
			struct buf *why)
{
	const char *xid;

	if (!p->prepared)
		return;
	kernel_log_read(&p->log);
	if (WIFSIGNALED(d->status) && WTERMSIG(d->status) == SIGKILL)
		postmortem_examine_killed(p, d->pid, why);
	else
		postmortem_examine_others(p, why);
	xid = kernel_log_xid(&p->log);
	if (xid)
		buf_printf(why, "%sthe NVIDIA driver logged: %s",
			   why->len ? "; " : "", xid);
}

/* ---- What a signal means ---- */

/* 1 if dir's file system has no room, which is a SIGBUS for a process that
 * writes to a mapped file there. */
static int postmortem_put_full(struct buf *why, const char *dir)
{
	struct statvfs fs;
	unsigned long long used, all;

	if (statvfs(dir, &fs) < 0 || fs.f_blocks == 0 ||
	    fs.f_bavail > fs.f_blocks / 100)
		return 0;
	all = (unsigned long long)fs.f_blocks * fs.f_frsize / MIB;
	used = (unsigned long long)(fs.f_blocks - fs.f_bfree) * fs.f_frsize /
	       MIB;
	buf_printf(why, "%s is full (%llu of %llu MiB)", dir, used, all);
	return 1;
}

static void postmortem_put_bus_error(struct buf *why)
{
	const char *tmp = getenv("TMPDIR");

	/* shared memory first: what libddp, NCCL and data loaders map */
	if (postmortem_put_full(why, "/dev/shm") ||
	    postmortem_put_full(why, tmp && *tmp ? tmp : "/tmp") ||
	    postmortem_put_full(why, "."))
		return;
	buf_printf(why, "a mapped file has shrunk, or its file system is full");
}

/* Workers inherit the limit, unless they set one of their own. */
static void postmortem_put_rlimit(struct buf *why, int which, const char *what,
				  const char *option, uint64_t unit,
				  const char *unit_name)
{
	struct rlimit limit;

	buf_printf(why, "the %s limit (%s)", what, option);
	if (getrlimit(which, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		buf_printf(why, " of %llu %s",
			   (unsigned long long)(limit.rlim_cur / unit),
			   unit_name);
}

static void postmortem_put_fault(const struct postmortem *p, pid_t pid,
				 struct buf *why)
{
	struct kernel_fault fault;

	if (!p->is_certain || !kernel_log_fault(&p->log, pid, &fault))
		return;
	/* a function's frame, and what it calls, begin below the stack */
	if (fault.address < fault.stack + STACK_NEAR &&
	    fault.stack < fault.address + STACK_NEAR) {
		buf_printf(why, "stack overflow: ");
		postmortem_put_rlimit(why, RLIMIT_STACK, "stack size",
				      "ulimit -s", 1 << 10, "KiB");
	} else if (fault.address < NULL_NEAR) {
		buf_printf(why, "null pointer (address 0x%llx)",
			   (unsigned long long)fault.address);
	} else {
		buf_printf(why, "invalid address 0x%llx",
			   (unsigned long long)fault.address);
	}
}

void postmortem_examine_signal(const struct postmortem *p,
			       const struct postmortem_death *d,
			       struct buf *why)
{
	if (!p->prepared || !WIFSIGNALED(d->status))
		return;
	switch (WTERMSIG(d->status)) {
	case SIGBUS:
		postmortem_put_bus_error(why);
		break;
	case SIGSEGV:
		postmortem_put_fault(p, d->pid, why);
		break;
	case SIGSYS:
		buf_printf(why, "a seccomp filter (the container's, or the "
			   "program's own) forbids a system call");
		break;
	case SIGXCPU:
		postmortem_put_rlimit(why, RLIMIT_CPU, "CPU time", "ulimit -t",
				      1, "s");
		break;
	case SIGXFSZ:
		postmortem_put_rlimit(why, RLIMIT_FSIZE, "file size",
				      "ulimit -f", MIB, "MiB");
		break;
	default:
		break;
	}
}

void postmortem_examine_core(const struct postmortem *p,
			     const struct postmortem_death *d, struct buf *why)
{
	char cwd[4096];
	struct core_process of = {
		.pid = d->pid,
		/* the file system's clock may be a little behind ours */
		.since = d->started - 2, .host = d->host,
	};

	if (!p->prepared || !WIFSIGNALED(d->status))
		return;
	of.signal = WTERMSIG(d->status);
	if (!WCOREDUMP(d->status) && !core_file_is_expected(of.signal))
		return;
	of.cwd = getcwd(cwd, sizeof(cwd));
	if (!of.cwd)
		of.cwd = ".";
	core_file_describe(why, WCOREDUMP(d->status), &of);
}
