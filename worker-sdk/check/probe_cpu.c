/* probe_cpu.c: the CPUs that this process may use, its share of their time, and
 * their speed. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "worker-sdk/check/probe.h"

enum {
	TEXT_MAX = 16 << 10,
	CPUS_MAX = 16384,
	LOOPS = 400000,
	TRIES_QUICK = 10,
	TRIES_FULL = 100,
};

static int cpu_count_allowed(void)
{
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	int n = 0;

	if (set && sched_getaffinity(0, size, set) == 0)
		n = CPU_COUNT_S(size, set);
	CPU_FREE(set);
	return n;
}

int probe_cgroup(char *out, size_t size)
{
	char text[TEXT_MAX], *at = NULL;

	if (file_read_text("/proc/self/cgroup", text, sizeof(text)) > 0)
		at = strstr(text, "0::/");
	if (!at)
		return 0;
	at += 3;
	at[strcspn(at, "\n")] = '\0';
	snprintf(out, size, "/sys/fs/cgroup%.4000s", at);
	return 1;
}

/* The folder of this process's cgroup, version 2 (or the cpu controller of
 * version 1); 0 if there is none. */
static int cpu_cgroup(char *out, size_t size, int *version)
{
	char text[TEXT_MAX], *at;

	if (file_read_text("/proc/self/cgroup", text, sizeof(text)) <= 0)
		return 0;
	*version = 1;
	at = strstr(text, ":cpu,cpuacct:");
	if (at) {
		at += sizeof(":cpu,cpuacct:") - 1;
		at[strcspn(at, "\n")] = '\0';
		snprintf(out, size, "/sys/fs/cgroup/cpu,cpuacct%.4000s", at);
		if (access(out, R_OK) < 0) /* a container sees only its own
					    * cgroup */
			snprintf(out, size, "/sys/fs/cgroup/cpu,cpuacct");
		return 1;
	}
	*version = 2;
	return probe_cgroup(out, size);
}

int64_t probe_read_number(const char *folder, const char *name,
			  const char *field)
{
	char path[TEXT_MAX], text[TEXT_MAX];
	const char *at = text;

	snprintf(path, sizeof(path), "%.4096s/%s", folder, name);
	if (file_read_text(path, text, sizeof(text)) <= 0)
		return -1;
	if (field)
		at = strstr(text, field);
	if (!at)
		return -1;
	at += field ? strlen(field) : 0;
	return *at == 'm' ? -1 : strtoll(at, NULL, 10); /* "max" */
}

/* The number of CPUs whose time the cgroup may use; 0: no limit. */
static double cpu_quota(const char *folder, int version)
{
	char path[TEXT_MAX], text[128], *end;
	double quota, period;

	if (version == 1) {
		quota = (double)probe_read_number(folder, "cpu.cfs_quota_us",
						NULL);
		period = (double)probe_read_number(folder, "cpu.cfs_period_us",
						 NULL);
		return quota > 0 && period > 0 ? quota / period : 0;
	}
	snprintf(path, sizeof(path), "%.4096s/cpu.max", folder);
	if (file_read_text(path, text, sizeof(text)) <= 0)
		return 0;
	quota = strtod(text, &end);
	period = strtod(end, NULL);
	return quota > 0 && period > 0 ? quota / period : 0;
}

static void cpu_add_cgroup(struct findings *out, int allowed)
{
	char folder[TEXT_MAX];
	int64_t periods, throttled;
	struct finding *f;
	int version;
	double quota;

	if (!cpu_cgroup(folder, sizeof(folder), &version))
		return;
	quota = cpu_quota(folder, version);
	if (quota <= 0) {
		finding_add(out, "CPU quota", "none");
		return;
	}
	f = finding_add(out, "CPU quota", "%.3g CPUs", quota);
	finding_set_value(f, quota);
	if (quota < allowed)
		finding_mark(f, FINDING_WARNING, "the cgroup gives %.3g CPUs' "
			     "time, but %d CPUs can be seen: start fewer "
			     "threads, or raise the quota (cpu.max)", quota,
			     allowed);
	periods = probe_read_number(folder, "cpu.stat", "nr_periods ");
	throttled = probe_read_number(folder, "cpu.stat", "nr_throttled ");
	if (periods <= 0 || throttled < 0)
		return;
	f = finding_add(out, "CPU throttling", "%.0f %% of periods",
			100.0 * (double)throttled / (double)periods);
	if (throttled > periods / 10)
		finding_mark(f, FINDING_WARNING, "the cgroup's quota has "
			     "stopped its processes in %s: raise it (cpu.max)",
			     f->text);
}

static void cpu_add_model(struct findings *out)
{
	char text[TEXT_MAX], *at;

	if (file_read_text("/proc/cpuinfo", text, sizeof(text)) <= 0)
		return;
	at = strstr(text, "model name");
	at = at ? strchr(at, ':') : NULL;
	if (!at)
		return;
	at += 1 + strspn(at + 1, " ");
	at[strcspn(at, "\n")] = '\0';
	finding_add(out, "CPU model", "%.90s", at)->compare = FINDING_SAME;
}

/* The clock that the kernel allows, of the first CPU. */
static void cpu_add_frequency(struct findings *out)
{
	static const char folder[] = "/sys/devices/system/cpu/cpu0/cpufreq";
	int64_t max = probe_read_number(folder, "cpuinfo_max_freq", NULL);
	int64_t allowed = probe_read_number(folder, "scaling_max_freq", NULL);
	struct finding *f;

	if (max <= 0 || allowed <= 0)
		return;
	f = finding_add(out, "CPU frequency", "up to %.2f GHz",
			(double)allowed / 1e6);
	finding_set_value(f, (double)allowed);
	if (allowed < max * 9 / 10)
		finding_mark(f, FINDING_WARNING, "the kernel limits the CPUs "
			     "to %.2f of %.2f GHz (scaling_max_freq)",
			     (double)allowed / 1e6, (double)max / 1e6);
}

static void cpu_add_load(struct findings *out, int allowed)
{
	double load[1] = {0};
	struct finding *f;

	if (getloadavg(load, 1) != 1)
		return;
	f = finding_add(out, "load", "%.1f", load[0]);
	if (allowed && load[0] > 2.0 * allowed)
		finding_mark(f, FINDING_WARNING, "a load of %.1f on %d CPUs: "
			     "does another job run here?", load[0], allowed);
}

void probe_cpu(struct findings *out, const struct probe_call *c)
{
	int allowed = cpu_count_allowed();

	finding_add(out, "CPUs", "%d of %ld", allowed,
		    sysconf(_SC_NPROCESSORS_ONLN))->compare = FINDING_SAME;
	cpu_add_model(out);
	cpu_add_cgroup(out, allowed);
	cpu_add_frequency(out);
	cpu_add_load(out, allowed);
}

/* A chain of multiplications, which neither a compiler nor vectors can
 * shorten. */
static uint64_t cpu_loop(uint64_t x)
{
	for (int i = 0; i < LOOPS; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

/* The best of several short runs. */
void probe_cpu_speed(struct findings *out, const struct probe_call *c)
{
	int tries = c->o->full ? TRIES_FULL : TRIES_QUICK;
	uint64_t best = UINT64_MAX;
	volatile uint64_t x = 1;

	for (int i = 0; i < tries; i++) {
		uint64_t start = probe_cpu_ns(), took;

		x = cpu_loop(x);
		took = probe_cpu_ns() - start;
		best = took < best ? took : best;
	}
	finding_set_value(finding_add(out, "CPU speed", "%.0f M operations/s",
				      LOOPS * 1e3 / (double)best),
			  LOOPS * 1e3 / (double)best);
}
