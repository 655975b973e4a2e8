/* doctor_machine.c: reads /proc, /sys and the limits. */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/doctor/doctor_internal.h"
#include "launcher/plan/cpus.h"

enum {
	TEXT_MAX = 8192,
	SHM_MIN_MIB = 256, /* containers have 64 MiB unless told otherwise */
	FILES_MIN = 4096,
};

const char *doctor_read_line(const char *path, char line[DOCTOR_LINE_MAX])
{
	if (file_read_text(path, line, DOCTOR_LINE_MAX) < 0)
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return line;
}

/* The value of KEY=value or KEY: value in a file, without quotes. */
static const char *doctor_machine_value(const char *path, const char *key,
					char out[DOCTOR_LINE_MAX])
{
	static char text[TEXT_MAX];
	long len = file_read_text(path, text, sizeof(text));
	struct slice rest = SLICE(text, len < 0 ? 0 : (size_t)len);
	size_t n = strlen(key);

	out[0] = '\0';
	while (rest.len) {
		struct slice line = slice_next_line(&rest);

		if (line.len <= n || memcmp(line.data, key, n) != 0)
			continue;
		line.data += n;
		line.len -= n;
		while (line.len && strchr("=: \t\"", line.data[0])) {
			line.data++;
			line.len--;
		}
		while (line.len && line.data[line.len - 1] == '"')
			line.len--;
		snprintf(out, DOCTOR_LINE_MAX, "%.*s", SLICE_FMT(line));
		break;
	}
	return out;
}

static void doctor_machine_system(struct buf *b)
{
	char name[DOCTOR_LINE_MAX], libc[64] = "another libc";
	struct utsname u;

	doctor_machine_value("/etc/os-release", "PRETTY_NAME", name);
#ifdef _CS_GNU_LIBC_VERSION
	confstr(_CS_GNU_LIBC_VERSION, libc, sizeof(libc));
#endif
	uname(&u);
	doctor_put(b, DOCTOR_FINE, "system", NULL, "%s, Linux %s, %s, %s",
		   name[0] ? name : "unknown distribution", u.release,
		   u.machine, libc);
}

static void doctor_machine_container(struct buf *b)
{
	const char *kind = NULL;

	if (getenv("KUBERNETES_SERVICE_HOST"))
		kind = "a pod of Kubernetes";
	else if (getenv("APPTAINER_CONTAINER") ||
		 getenv("SINGULARITY_CONTAINER"))
		kind = "Apptainer";
	else if (access("/.dockerenv", F_OK) == 0)
		kind = "Docker";
	else if (access("/run/.containerenv", F_OK) == 0)
		kind = "Podman";
	if (kind)
		doctor_put(b, DOCTOR_FINE, "container", NULL, "%s", kind);
}

/* The CPUs that the cgroup's time suffices for; 0: it has no limit. */
static double doctor_machine_quota(void)
{
	char own[DOCTOR_LINE_MAX], path[DOCTOR_LINE_MAX + 32], *end;
	char line[DOCTOR_LINE_MAX];
	double quota, period;

	doctor_machine_value("/proc/self/cgroup", "0::", own);
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", own);
	if (!*doctor_read_line(path, line))
		doctor_read_line("/sys/fs/cgroup/cpu.max", line);
	quota = strtod(line, &end);
	if (end == line)
		return 0;
	period = strtod(end, NULL);
	return period > 0 ? quota / period : 0;
}

static void doctor_machine_cpus(struct buf *b)
{
	double quota = doctor_machine_quota();
	char model[DOCTOR_LINE_MAX];
	struct cpus allowed;
	unsigned n = cpus_allowed(&allowed, NULL) == 0 ? cpus_count(&allowed)
						       : 1;
	glob_t nodes;
	size_t numa = 1;

	if (glob("/sys/devices/system/node/node[0-9]*", 0, NULL, &nodes) == 0) {
		numa = nodes.gl_pathc;
		globfree(&nodes);
	}
	doctor_machine_value("/proc/cpuinfo", "model name", model);
	doctor_put(b, DOCTOR_FINE, "CPUs", NULL,
		   "%u of %ld, %zu NUMA node%s%s%s", n,
		   sysconf(_SC_NPROCESSORS_ONLN), numa, numa == 1 ? "" : "s",
		   model[0] ? ", " : "", model);
	if (quota > 0 && quota + 0.5 < n)
		doctor_put(b, DOCTOR_WARNING, "CPU time",
			   "--nproc-per-node cpu would start more workers than "
			   "that: raise the limit, or give a number",
			   "the cgroup allows the time of %.1f CPUs", quota);
}

static void doctor_machine_memory(struct buf *b)
{
	char line[DOCTOR_LINE_MAX];
	double gib = strtod(doctor_machine_value("/proc/meminfo", "MemTotal",
						 line), NULL) / (1 << 20);
	struct statvfs fs;
	double shm;

	if (gib > 0)
		doctor_put(b, DOCTOR_FINE, "memory", NULL, "%.1f GiB", gib);
	if (statvfs("/dev/shm", &fs) < 0) {
		doctor_put(b, DOCTOR_ERROR, "/dev/shm",
			   "mount a tmpfs there: ranks of one host exchange "
			   "data in it", "missing");
		return;
	}
	shm = (double)fs.f_blocks * (double)fs.f_frsize / (1 << 20);
	if (access("/dev/shm", W_OK) < 0)
		doctor_put(b, DOCTOR_ERROR, "/dev/shm",
			   "let this user write there: ranks of one host "
			   "exchange data in it", "cannot be written: %s",
			   strerror(errno));
	else if (shm < SHM_MIN_MIB)
		doctor_put(b, DOCTOR_WARNING, "/dev/shm",
			   "NCCL, PyTorch's DataLoader and libddp need more: "
			   "docker run --shm-size=8g or --ipc=host; in a pod, "
			   "an emptyDir with medium: Memory at /dev/shm",
			   "%.0f MiB", shm);
	else
		doctor_put(b, DOCTOR_FINE, "/dev/shm", NULL, "%.1f GiB",
			   shm / 1024);
}

static const char *doctor_machine_number(rlim_t n, char out[24])
{
	if (n == RLIM_INFINITY)
		return "unlimited";
	snprintf(out, 24, "%llu", (unsigned long long)n);
	return out;
}

static void doctor_machine_limits(struct buf *b)
{
	struct rlimit files, processes, core;
	char soft[24], hard[24];

	getrlimit(RLIMIT_NOFILE, &files);
	getrlimit(RLIMIT_NPROC, &processes);
	getrlimit(RLIMIT_CORE, &core);
	doctor_put(b, files.rlim_max < FILES_MIN ? DOCTOR_WARNING : DOCTOR_FINE,
		   "open files",
		   files.rlim_max < FILES_MIN
			   ? "many workers or nodes need more: raise the hard "
			     "limit (ulimit -n, LimitNOFILE=, docker run "
			     "--ulimit nofile=1048576)"
			   : NULL,
		   "%s, at most %s",
		   doctor_machine_number(files.rlim_cur, soft),
		   doctor_machine_number(files.rlim_max, hard));
	doctor_put(b, DOCTOR_FINE, "processes", NULL, "%s",
		   doctor_machine_number(processes.rlim_cur, soft));
	doctor_put(b, DOCTOR_FINE, "core files", NULL, "%s",
		   core.rlim_cur ? "written" : "none (ulimit -c is 0)");
}

/* What ddprun itself needs of the file system. */
static void doctor_machine_files(struct buf *b)
{
	const char *dir = getenv("TMPDIR");

	dir = dir && *dir ? dir : "/tmp";
	if (access("/proc/self/stat", R_OK) < 0)
		doctor_put(b, DOCTOR_ERROR, "/proc",
			   "mount it: ddprun finds its programs and watches "
			   "its workers there (mount -t proc proc /proc)",
			   "not mounted");
	if (access(dir, W_OK | X_OK) < 0)
		doctor_put(b, DOCTOR_WARNING, "temporary files",
			   "set TMPDIR to a folder that can be written, or the "
			   "workers' error files are lost", "%s: %s", dir,
			   strerror(errno));
}

void doctor_probe_machine(struct buf *b, const struct doctor_options *o)
{
	doctor_machine_system(b);
	doctor_machine_container(b);
	doctor_machine_cpus(b);
	doctor_machine_memory(b);
	doctor_machine_files(b);
	doctor_machine_limits(b);
}
