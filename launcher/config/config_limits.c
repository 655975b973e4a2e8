/* config_limits.c: compares the kernel's limits with the workers' needs. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/config/config.h"

/* Counts our open files, inherited ones included. If /proc cannot be read
 * because no descriptor is free, all are in use. */
static rlim_t config_count_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	rlim_t n = 0;

	if (!dir)
		return errno == EMFILE ? (rlim_t)sysconf(_SC_OPEN_MAX) : 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n > 3 ? n - 3 : 0; /* ".", ".." and dir's own */
}

/* Each worker needs two pipes here, two files with --tee, two sockets while
 * MPI's workers are started, and a port, or two while the next attempt reserves
 * its own (worker_group.h); the rest is for the loop and the server, and to
 * spare. */
static int config_check_files(uint32_t nproc, uint64_t *soft, struct err *e)
{
	enum { SPARE_FILES = 64 };
	struct rlimit limit;
	rlim_t open = config_count_open();
	rlim_t need = open + (rlim_t)nproc * 2 + SPARE_FILES;
	rlim_t best = open + (rlim_t)nproc * 8 + SPARE_FILES;

	*soft = 0;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= best)
		return 0;
	if (limit.rlim_max < need)
		return err_set(e, -EMFILE,
			       "--nproc-per-node %u: these workers need %llu "
			       "open files, including the %llu that ddprun was "
			       "started with, but the hard limit is %llu; "
			       "raise it (ulimit -Hn) or start fewer workers",
			       nproc, (unsigned long long)need,
			       (unsigned long long)open,
			       (unsigned long long)limit.rlim_max);
	*soft = limit.rlim_cur;
	limit.rlim_cur = best < limit.rlim_max ? best : limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return err_set(e, -errno, "cannot raise the limit of open "
			       "files to %llu: %s",
			       (unsigned long long)limit.rlim_cur,
			       strerror(errno));
	return 0;
}

static long config_pid_max(void)
{
	char text[32];

	file_read_text("/proc/sys/kernel/pid_max", text, sizeof(text));
	return strtol(text, NULL, 10);
}

int config_check_limits(uint32_t nproc, uint64_t *soft, struct err *e)
{
	enum { FEW = 1024, SPARE_PIDS = 300 }; /* the kernel reserves 300 */
	struct rlimit limit;
	long pids;

	/* the limit does not bind root */
	if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &limit) == 0 &&
	    limit.rlim_cur < nproc)
		return err_set(e, -EAGAIN,
			       "--nproc-per-node %u: this user is limited to "
			       "%llu processes; raise the limit (ulimit -u) or "
			       "start fewer workers",
			       nproc, (unsigned long long)limit.rlim_cur);
	pids = nproc > FEW ? config_pid_max() : 0;
	if (pids && nproc + SPARE_PIDS >= (uint64_t)pids)
		return err_set(
			e, -EAGAIN,
			"--nproc-per-node %u: this host is limited to %ld "
			"processes (kernel.pid_max); start fewer workers",
			nproc, pids);
	return config_check_files(nproc, soft, e);
}
