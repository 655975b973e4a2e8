/* probe_host.c: this host's limits, memory, name, versions, and the site's own
 * check. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "base/clock.h"
#include "base/file.h"
#include "base/sock.h"
#include "worker-sdk/check/probe.h"
#include "worker-sdk/nccl/nccl_lib.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

enum {
	FILES_MIN = 4096, /* open files: enough sockets for a job with many
			   * ranks */
	TEXT_MAX = 16 << 10,
	COPY_BYTES = 32 << 20,
	COPIES = 5,
	COPY_MS = 500, /* at most, for all copies but the first */
};

/* ---- limits ---- */

static int limits_has_rdma(void)
{
	DIR *d = opendir("/sys/class/infiniband");
	int n = 0;

	if (!d)
		return 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n > 2; /* "." and ".." */
}

static struct finding *limits_add(struct findings *out, const char *name,
				  int resource, int is_bytes)
{
	char text[PROBE_BYTES_MAX];
	struct rlimit l = {0, 0};
	struct finding *f;

	getrlimit(resource, &l);
	if (l.rlim_max == RLIM_INFINITY)
		f = finding_add(out, name, "unlimited");
	else if (is_bytes)
		f = finding_add(out, name, "%s",
				probe_bytes_text(l.rlim_max, text));
	else
		f = finding_add(out, name, "%" PRIu64, (uint64_t)l.rlim_max);
	finding_set_value(f, l.rlim_max == RLIM_INFINITY ? 1e18
							 : (double)l.rlim_max);
	return f;
}

void probe_limits(struct findings *out, const struct probe_call *c)
{
	struct finding *f = limits_add(out, "open files", RLIMIT_NOFILE, 0);

	if (f->value < FILES_MIN)
		finding_mark(f, FINDING_WARNING,
			     "at most %s open files: raise the hard limit to "
			     "%d or more (ulimit -Hn, LimitNOFILE, "
			     "limits.conf)", f->text, FILES_MIN);
	limits_add(out, "processes", RLIMIT_NPROC, 0);
	f = limits_add(out, "locked memory", RLIMIT_MEMLOCK, 1);
	if (f->value < 1e18 && limits_has_rdma())
		finding_mark(f, FINDING_WARNING,
			     "only %s of locked memory, but this host has "
			     "RDMA devices, which need it unlimited (ulimit "
			     "-l, LimitMEMLOCK)", f->text);
}

/* ---- memory ---- */

/* "MemTotal:  16336956 kB" */
static uint64_t memory_field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) << 10 : 0;
}

/* The memory that this process's cgroup still allows; UINT64_MAX: all. */
static uint64_t memory_cgroup_left(void)
{
	char folder[TEXT_MAX];
	int64_t max, used;

	if (!probe_cgroup(folder, sizeof(folder)))
		return UINT64_MAX;
	max = probe_read_number(folder, "memory.max", NULL);
	if (max < 0)
		return UINT64_MAX;
	used = probe_read_number(folder, "memory.current", NULL);
	return used < 0 ? (uint64_t)max : used < max ? (uint64_t)(max - used)
						     : 0;
}

void probe_memory(struct findings *out, const struct probe_call *c)
{
	char text[TEXT_MAX], left_text[PROBE_BYTES_MAX];
	char total_text[PROBE_BYTES_MAX];
	uint64_t total, left, allowed = memory_cgroup_left();
	struct finding *f;

	if (file_read_text("/proc/meminfo", text, sizeof(text)) <= 0)
		return;
	total = memory_field(text, "MemTotal:");
	left = memory_field(text, "MemAvailable:");
	finding_set_value(finding_add(out, "memory", "%s",
				      probe_bytes_text(total, total_text)),
			  (double)total);
	left = left < allowed ? left : allowed;
	f = finding_add(out, "free memory", "%s",
			probe_bytes_text(left, left_text));
	finding_set_value(f, (double)left);
	if (left < total / 10)
		finding_mark(f, FINDING_WARNING,
			     "only %s of %s of memory are free%s: does another "
			     "job run here?", f->text, total_text,
			     allowed <= left ? " in this cgroup" : "");
}

void probe_shared_memory(struct findings *out, const struct probe_call *c)
{
	char text[PROBE_BYTES_MAX], name[] = "/dev/shm/ddprun-check.XXXXXX";
	struct statvfs s;
	uint64_t left, total;
	struct finding *f;
	int fd;

	if (statvfs("/dev/shm", &s) < 0) {
		finding_mark(finding_add(out, "/dev/shm", "none"),
			     FINDING_FAILURE, "/dev/shm: %s: mount a tmpfs "
			     "there: ranks of one host share memory through it",
			     strerror(errno));
		return;
	}
	left = (uint64_t)s.f_bavail * s.f_frsize;
	total = (uint64_t)s.f_blocks * s.f_frsize;
	f = finding_add(out, "/dev/shm", "%s free",
			probe_bytes_text(left, text));
	finding_set_value(f, (double)left);
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0 || posix_fallocate(fd, 0, MIB))
		finding_mark(f, FINDING_FAILURE, "/dev/shm: cannot create a "
			     "file of 1 MiB there: %s: ranks of one host share "
			     "memory through it", fd < 0 ? strerror(errno)
							 : "it is full");
	if (fd >= 0) {
		unlink(name);
		close(fd);
	}
	if (left < 32 * MIB)
		finding_mark(f, FINDING_FAILURE, "/dev/shm has only %s: "
			     "enlarge it (docker --shm-size, mount -o remount,"
			     "size=), or remove what old jobs left there",
			     f->text);
	else if (total < GIB)
		finding_mark(f, FINDING_WARNING, "/dev/shm has only %s, "
			     "Docker's default is 64 MiB: give the container "
			     "more (--shm-size, --ipc=host)", f->text);
}

/* The speed of one thread that copies. */
void probe_memory_speed(struct findings *out, const struct probe_call *c)
{
	char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
	uint64_t best = UINT64_MAX, end;

	if (from && to) {
		memset(from, 1, COPY_BYTES);
		memset(to, 2, COPY_BYTES);
		end = clock_ms() + COPY_MS;
		for (int i = 0; i < COPIES && (i == 0 || clock_ms() < end);
		     i++) {
			uint64_t start = probe_cpu_ns(), took;

			memcpy(to, from, COPY_BYTES);
			from[0] = (char)(to[COPY_BYTES - 1] + i);
			took = probe_cpu_ns() - start;
			best = took < best ? took : best;
		}
		finding_set_value(finding_add(out, "memory speed", "%.1f GB/s",
					      COPY_BYTES / (double)best),
				  COPY_BYTES / (double)best);
	}
	free(from);
	free(to);
}

/* ---- names ---- */

void probe_name(struct findings *out, const struct probe_call *c)
{
	char name[SOCK_HOST_MAX], at[SOCK_TEXT_MAX];
	struct endpoint ep = {.port = 0};
	struct err e = ERR_INIT;
	struct sock_addr a;
	struct finding *f;
	int rc;

	sock_host_name(name);
	snprintf(ep.host, sizeof(ep.host), "%s", name);
	rc = sock_resolve(&ep, &a, 1, &e);
	if (rc < 1) {
		finding_mark(finding_add(out, "own name", "%.60s", name),
			     FINDING_WARNING,
			     "its own name '%.60s' has no address: add it to "
			     "DNS or /etc/hosts (%.120s)", name, e.text);
		return;
	}
	f = finding_add(out, "own name", "%.50s is %.40s", name,
			sock_addr_host(&a, at));
	if (c->o->nodes > 1 && sock_addr_is_loopback(&a))
		finding_mark(f, FINDING_WARNING,
			     "its own name '%.60s' is %.40s, a loopback "
			     "address, which a library that uses the name "
			     "would give to other nodes: correct /etc/hosts",
			     name, at);
}

/* ---- versions ---- */

static void version_add(struct findings *out, const char *name,
			const char *text)
{
	finding_add(out, name, "%s", text)->compare = FINDING_SAME;
}

/* The library that a worker linked with libddp.so would load. */
static void version_add_libddp(struct findings *out)
{
	void *library = dlopen("libddp.so.0", RTLD_NOW | RTLD_LOCAL);
	const char *(*version)(void) = NULL;

	if (library)
		*(void **)&version = dlsym(library, "ddp_version");
	version_add(out, "libddp.so", version ? version() : "none");
}

static void version_add_nccl(struct findings *out)
{
	const struct ddp__nccl_lib *lib;
	struct err e = ERR_INIT;
	char text[32] = "none";

	if (ddp__nccl_load(&lib, &e) == 0)
		snprintf(text, sizeof(text), "%d.%d.%d", lib->version / 10000,
			 lib->version / 100 % 100, lib->version % 100);
	version_add(out, "NCCL", text);
}

void probe_versions(struct findings *out, const struct probe_call *c)
{
	struct utsname u;

	version_add(out, "ddprun", DDP_VERSION);
#ifdef __GLIBC__
	version_add(out, "libc", gnu_get_libc_version());
#endif
	if (uname(&u) == 0)
		version_add(out, "kernel", u.release);
	version_add_libddp(out);
	version_add_nccl(out);
}

/* ---- the site's own check ---- */

/* The last line; of a long line, its end. */
static void command_last_line(char *text, char *out, size_t size)
{
	size_t n = strlen(text);
	char *line;

	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		text[--n] = '\0';
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	n = strlen(line);
	snprintf(out, size, "%s", n < size ? line : line + n - size + 1);
}

void probe_command(struct findings *out, const struct probe_call *c)
{
	char text[TEXT_MAX], line[FINDING_WRONG_MAX / 2] = "";
	FILE *f = popen(c->o->command, "re");
	struct finding *at = finding_add(out, "site's check", "passed");
	size_t n = 0, got;
	int status;

	if (!f) {
		finding_mark(at, FINDING_FAILURE, "'%.100s' cannot be started: "
			     "%s", c->o->command, strerror(errno));
		return;
	}
	/* drop the start of a long output: the last line counts */
	while ((got = fread(text + n, 1, sizeof(text) - 1 - n, f)) > 0) {
		n += got;
		if (n > sizeof(text) / 2) {
			memmove(text, text + n / 2, n - n / 2);
			n -= n / 2;
		}
	}
	text[n] = '\0';
	for (size_t i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : ' ';
	status = pclose(f);
	command_last_line(text, line, sizeof(line));
	if (status == 0)
		return;
	snprintf(at->text, sizeof(at->text), "failed");
	finding_mark(at, FINDING_FAILURE, "'%.80s' %s %d%s%s", c->o->command,
		     WIFSIGNALED(status) ? "was killed by signal"
					 : "exited with code",
		     WIFSIGNALED(status) ? WTERMSIG(status)
					 : WEXITSTATUS(status),
		     line[0] ? ": " : "", line);
}
