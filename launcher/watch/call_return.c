/* call_return.c: one event of perf for each call. */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/watch/mpi_wait.h"

int call_return_open(pid_t pid, uint64_t address)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(a),
		.bp_type = HW_BREAKPOINT_X,
		.bp_addr = address,
#ifdef __aarch64__
		.bp_len = HW_BREAKPOINT_LEN_4,
#else
		.bp_len = sizeof(long),
#endif
		.sample_period = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.disabled = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &a, pid, -1, -1,
			      PERF_FLAG_FD_CLOEXEC);
	int rc;

	if (fd < 0)
		return -errno;
	/* it is off again after the first time */
	if (ioctl(fd, PERF_EVENT_IOC_REFRESH, 1) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

enum mpi_since call_return_read(int fd)
{
	uint64_t n;

	if (fd < 0 || read(fd, &n, sizeof(n)) != (ssize_t)sizeof(n))
		return MPI_UNKNOWN;
	return n ? MPI_RETURNED : MPI_SAME;
}
