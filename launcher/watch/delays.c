/* delays.c: one file for each counter. */
#include "launcher/watch/wait_share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum {
	PATH_SIZE = 1024,
	TEXT_SIZE = 4096,
	PERCENT_LEAST = 5, /* a cause takes at least this share of the time */
	FAULTS_LEAST = 20, /* in a second; a disk needs 5 ms for each */
	RESENT_LEAST = 50, /* segments, in the whole time */
};

uint64_t delays_count(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (!strncmp(text, name, n) &&
		    (text[n] == ' ' || text[n] == '\t'))
			return strtoull(text + n, NULL, 10);
	}
	return 0;
}

/* ---- the cgroup ---- */

/* Whether "cpu" is in a list like "cpu,cpuacct", which ends at end. */
static int delays_has_cpu(const char *list, const char *end)
{
	while (list < end) {
		size_t n = strcspn(list, ",:");

		if (n == 3 && !memcmp(list, "cpu", 3))
			return 1;
		list += n + 1;
	}
	return 0;
}

int delays_cgroup(const char *text, char *out, size_t size)
{
	int version = 0;

	out[0] = '\0';
	for (const char *at = text; at && *at && version != 1;) {
		const char *list = strchr(at, ':');
		const char *path = list ? strchr(list + 1, ':') : NULL;
		int own = 0;

		if (!path)
			break;
		if (path == list + 1)
			own = 2;
		else if (delays_has_cpu(list + 1, path))
			own = 1;
		if (own)
			snprintf(out, size, "%.*s",
				 (int)strcspn(path + 1, "\n"), path + 1);
		version = own ? own : version;
		at = strchr(path, '\n');
		at += at != NULL;
	}
	return version;
}

/* The counters are each cgroup's own: one above it may have the limit. Without
 * a limit there are no periods. Version 1 has the CPU time in the same folder
 * only where both controllers are mounted together, which is the rule. */
static void delays_add_cgroup(const char *dir, int version, struct delays *d)
{
	char path[PATH_SIZE + 96], text[TEXT_SIZE];

	snprintf(path, sizeof(path), "%s/cpu.stat", dir);
	file_read_text(path, text, sizeof(text));
	if (!delays_count(text, "nr_periods"))
		return;
	if (version == 2) {
		d->throttled_us += delays_count(text, "throttled_usec");
		d->limited_us += delays_count(text, "usage_usec");
		return;
	}
	d->throttled_us += delays_count(text, "throttled_time") / 1000;
	snprintf(path, sizeof(path), "%s/cpuacct.usage", dir);
	if (file_read_text(path, text, sizeof(text)) > 0)
		d->limited_us += strtoull(text, NULL, 10) / 1000;
}

static void delays_read_throttled(pid_t pid, struct delays *d)
{
	char file[64], text[TEXT_SIZE], path[PATH_SIZE], *last;
	char dir[PATH_SIZE + 64];
	int version;

	snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)pid);
	file_read_text(file, text, sizeof(text));
	version = delays_cgroup(text, path, sizeof(path));
	while (version && (last = strrchr(path, '/'))) {
		snprintf(dir, sizeof(dir), "/sys/fs/cgroup%s%s",
			 version == 1 ? "/cpu" : "", last[1] ? path : "");
		delays_add_cgroup(dir, version, d);
		*last = '\0';
	}
}

/* ---- /proc ---- */

static void delays_read_queued(pid_t pid, struct delays *d)
{
	unsigned long long cpu = 0, queued = 0;
	char path[64], text[128];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	file_read_text(path, text, sizeof(text));
	if (sscanf(text, "%llu %llu", &cpu, &queued) != 2)
		return;
	d->cpu_us = cpu / 1000;
	d->queued_us = queued / 1000;
}

static void delays_read_stat(pid_t pid, struct delays *d)
{
	unsigned long major = 0;
	unsigned long long ticks = 0;
	long per_second = sysconf(_SC_CLK_TCK);
	char path[64], text[1024];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file_read_text(path, text, sizeof(text));
	at = strrchr(text, ')'); /* the end of field 2 */
	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %lu",
			  &major) != 1)
		return;
	d->major_faults = major;
	for (int field = 2; field < 42 && at; field++)
		at = strchr(at + 1, ' ');
	if (at && sscanf(at, "%llu", &ticks) == 1 && per_second > 0)
		d->disk_us = ticks * 1000000 / (unsigned long)per_second;
}

static void delays_read_switches(pid_t pid, struct delays *d)
{
	char path[64], text[TEXT_SIZE];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file_read_text(path, text, sizeof(text));
	d->switches = delays_count(text, "nonvoluntary_ctxt_switches:");
}

/* Two lines, of names and of numbers, begin with "Tcp:". */
static void delays_read_tcp(pid_t pid, struct delays *d)
{
	char path[64], text[TEXT_SIZE];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/net/snmp", (int)pid);
	file_read_text(path, text, sizeof(text));
	at = strstr(text, "\nTcp: Rto");
	at = at ? strstr(at + 1, "\nTcp: ") : NULL;
	/* OutSegs and RetransSegs are the 11th and the 12th */
	if (!at || sscanf(at,
			  " Tcp: %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			  "%lu %lu",
			  &d->segments, &d->resent) != 2)
		d->segments = d->resent = 0;
}

void delays_read(pid_t pid, struct delays *d)
{
	*d = (struct delays){0};
	delays_read_throttled(pid, d);
	delays_read_queued(pid, d);
	delays_read_stat(pid, d);
	delays_read_switches(pid, d);
	delays_read_tcp(pid, d);
}

/* ---- words ---- */

/* A cgroup that is gone, or another process, has lower counts. */
static uint64_t delays_grown(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

/* For how long, in us, a process of the cgroup stood still. Its threads are
 * throttled on all their CPUs at the same time, so that time's share of us is
 * that of the lost CPU time in what the threads would have used. */
static uint64_t delays_throttled(const struct delays *from,
				 const struct delays *to, uint64_t us)
{
	uint64_t lost = delays_grown(from->throttled_us, to->throttled_us);
	uint64_t used = delays_grown(from->limited_us, to->limited_us);
	double share = lost ? (double)lost / (double)(lost + used) : 0;
	uint64_t most = (uint64_t)(share * (double)us);

	return lost < most ? lost : most;
}

static double delays_seconds(uint64_t us)
{
	return (double)us / 1e6;
}

char *delays_words(const struct delays *from, const struct delays *to,
		   uint64_t us, char *out)
{
	const uint64_t least = us * PERCENT_LEAST / 100;
	uint64_t throttled = delays_throttled(from, to, us);
	uint64_t queued = delays_grown(from->queued_us, to->queued_us);
	uint64_t disk = delays_grown(from->disk_us, to->disk_us);
	uint64_t faults = delays_grown(from->major_faults, to->major_faults);
	uint64_t sent = delays_grown(from->segments, to->segments);
	uint64_t resent = delays_grown(from->resent, to->resent);
	double all = delays_seconds(us);

	/* a process that is throttled is queued as well */
	if (throttled > least)
		snprintf(out, DELAYS_WORDS_MAX,
			 "its cgroup was throttled for %.3g s of the last "
			 "%.3g s",
			 delays_seconds(throttled), all);
	else if (disk > least && disk >= queued)
		snprintf(out, DELAYS_WORDS_MAX,
			 "it waited for disks for %.3g s of the last %.3g s",
			 delays_seconds(disk), all);
	else if (queued > least)
		snprintf(out, DELAYS_WORDS_MAX,
			 "other processes had its CPU for %.3g s of the last "
			 "%.3g s (%llu switches)",
			 delays_seconds(queued), all,
			 (unsigned long long)delays_grown(from->switches,
							  to->switches));
	else if ((double)faults > all * FAULTS_LEAST)
		snprintf(out, DELAYS_WORDS_MAX,
			 "it read %llu pages from disks (major faults) in the "
			 "last %.3g s",
			 (unsigned long long)faults, all);
	else if (resent > RESENT_LEAST && resent > sent / 100)
		snprintf(out, DELAYS_WORDS_MAX,
			 "its host sent %.3g %% of its TCP segments again",
			 100.0 * (double)resent / (double)sent);
	else
		snprintf(out, DELAYS_WORDS_MAX,
			 "the kernel shows no cause (it had a CPU %llu %% of "
			 "the time)",
			 us ? (unsigned long long)(delays_grown(from->cpu_us,
								to->cpu_us) *
						   100 / us)
			    : 0);
	return out;
}
