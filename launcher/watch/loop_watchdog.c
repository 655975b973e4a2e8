/* loop_watchdog.c: the loop's timer notes the time; the thread looks whether it
 * is recent. */
#include "launcher/watch/loop_watchdog.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/file_wait.h"
#include "base/log.h"
#include "base/thread.h"

enum { NO_PATH = -1, STUCK_MS = 10000, TICKS = 10, LATE_TICKS = 3 };

static uv_timer_t timer;
static pid_t thread_id; /* the loop's */
static unsigned limit_ms, tick_ms;
static int is_open;
static _Atomic uint64_t beat_ms;
static _Atomic int is_closed;

/* ---- what the loop's thread is stuck in ---- */

struct stuck_call {
	long number;
	const char *name;
	int path, fd; /* which argument it is; NO_PATH: none */
};

static const struct stuck_call stuck_calls[] = {
#ifdef SYS_open
	{SYS_open, "open", 0, NO_PATH},
	{SYS_mkdir, "mkdir", 0, NO_PATH},
	{SYS_rmdir, "rmdir", 0, NO_PATH},
	{SYS_unlink, "unlink", 0, NO_PATH},
	{SYS_rename, "rename", 0, NO_PATH},
	{SYS_stat, "stat", 0, NO_PATH},
	{SYS_lstat, "lstat", 0, NO_PATH},
	{SYS_access, "access", 0, NO_PATH},
	{SYS_readlink, "readlink", 0, NO_PATH},
	{SYS_chmod, "chmod", 0, NO_PATH},
	{SYS_mknod, "mknod", 0, NO_PATH},
#endif
	{SYS_openat, "open", 1, NO_PATH},
	{SYS_mkdirat, "mkdir", 1, NO_PATH},
	{SYS_unlinkat, "unlink", 1, NO_PATH},
	{SYS_newfstatat, "stat", 1, NO_PATH},
	{SYS_statx, "stat", 1, NO_PATH},
	{SYS_faccessat, "access", 1, NO_PATH},
	{SYS_readlinkat, "readlink", 1, NO_PATH},
	{SYS_mknodat, "mknod", 1, NO_PATH},
	{SYS_statfs, "statfs", 0, NO_PATH},
	{SYS_read, "read", NO_PATH, 0},
	{SYS_pread64, "read", NO_PATH, 0},
	{SYS_write, "write", NO_PATH, 0},
	{SYS_writev, "write", NO_PATH, 0},
	{SYS_pwrite64, "write", NO_PATH, 0},
	{SYS_close, "close", NO_PATH, 0},
	{SYS_fsync, "fsync", NO_PATH, 0},
	{SYS_ftruncate, "ftruncate", NO_PATH, 0},
	{SYS_getdents64, "read", NO_PATH, 0},
	{SYS_clone, "the start of a program", NO_PATH, NO_PATH},
};

/* The path may be gone by now, so the kernel copies it. */
static void loop_watchdog_copy_path(unsigned long at, char out[PATH_MAX])
{
	size_t n = 0;

	while (n < PATH_MAX - 1) {
		struct iovec to = {out + n, 1};
		struct iovec from = {(void *)(at + n), 1};

		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1 ||
		    !out[n])
			break;
		n++;
	}
	out[n] = '\0';
}

static void loop_watchdog_fd_path(unsigned long fd, char out[PATH_MAX])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%lu", fd);
	n = readlink(link, out, PATH_MAX - 1);
	out[n > 0 ? n : 0] = '\0';
}

/* "mkdir of '/data/x' (nfs4 at /data, server:/export)" */
static void loop_watchdog_put_call(char *out, size_t room)
{
	static char path[PATH_MAX];
	char file[64], text[256], server[FILE_WAIT_SERVER_MAX];
	const struct stuck_call *c = stuck_calls;
	const struct stuck_call *end =
		c + sizeof(stuck_calls) / sizeof(*stuck_calls);
	unsigned long args[2] = {0, 0};
	long number = -1;

	snprintf(file, sizeof(file), "/proc/self/task/%d/syscall",
		 (int)thread_id);
	file_read_text(file, text, sizeof(text));
	if (sscanf(text, "%ld %lx %lx", &number, &args[0], &args[1]) != 3)
		number = -1;
	while (c < end && c->number != number)
		c++;
	if (c == end) {
		snprintf(out, room, "%s", number == -1 ? "its own code"
						       : "the kernel");
		return;
	}
	path[0] = '\0';
	if (c->path != NO_PATH)
		loop_watchdog_copy_path(args[c->path], path);
	else if (c->fd != NO_PATH)
		loop_watchdog_fd_path(args[c->fd], path);
	if (*path)
		snprintf(out, room, "%s of '%.1000s' (%s)", c->name, path,
			 file_wait_server(path, server));
	else
		snprintf(out, room, "%s", c->name);
}

/* ---- the thread ---- */

static void loop_watchdog_say(uint64_t ms, int is_over)
{
	char call[1000 + FILE_WAIT_SERVER_MAX + 64];

	if (is_over) {
		dprintf(STDERR_FILENO, "ddprun: goes on; it was stuck for "
			"about %u s\n", (unsigned)(ms / 1000));
		return;
	}
	loop_watchdog_put_call(call, sizeof(call));
	dprintf(STDERR_FILENO, "ddprun: warning: ddprun itself (pid %d) has "
		"been stuck for %u s in %s; if it does not go on, kill -9 %d "
		"ends it and this node's workers\n",
		(int)getpid(), (unsigned)(ms / 1000), call, (int)getpid());
}

static void *loop_watchdog_run(void *arg)
{
	const struct timespec tick = {tick_ms / 1000,
				      (long)(tick_ms % 1000) * 1000000};
	uint64_t looked = clock_ms(), stuck_since = 0;

	for (;;) {
		uint64_t now, beat;

		nanosleep(&tick, NULL);
		if (is_closed)
			return NULL;
		now = clock_ms();
		beat = beat_ms;
		if (now - looked > LATE_TICKS * tick_ms) {
			/* we did not run either: the loop gets its full time */
			atomic_compare_exchange_strong(&beat_ms, &beat, now);
		} else if (stuck_since && stuck_since != beat) {
			loop_watchdog_say(beat - stuck_since, 1);
			stuck_since = 0;
		} else if (!stuck_since && now > beat &&
			   now - beat >= limit_ms) {
			loop_watchdog_say(now - beat, 0);
			stuck_since = beat;
		}
		looked = now;
	}
}

static void loop_watchdog_on_timer(uv_timer_t *t)
{
	beat_ms = clock_ms();
}

/* DDP_TEST_STUCK_MS is for tests, which do not wait for 10 s. */
static unsigned loop_watchdog_limit(void)
{
	const char *text = getenv("DDP_TEST_STUCK_MS");
	long ms = text ? strtol(text, NULL, 10) : STUCK_MS;

	return ms >= TICKS && ms < STUCK_MS ? (unsigned)ms : STUCK_MS;
}

void loop_watchdog_start(uv_loop_t *loop)
{
	limit_ms = loop_watchdog_limit();
	tick_ms = limit_ms / TICKS;
	thread_id = (pid_t)syscall(SYS_gettid);
	uv_timer_init(loop, &timer);
	uv_timer_start(&timer, loop_watchdog_on_timer, tick_ms, tick_ms);
	uv_unref((uv_handle_t *)&timer);
	is_open = 1;
	beat_ms = clock_ms();
	if (thread_detach(loop_watchdog_run, NULL, THREAD_STACK_SMALL) < 0)
		log_debug("no thread that watches the event loop");
}

void loop_watchdog_close(void)
{
	if (!is_open)
		return;
	is_closed = 1;
	uv_close((uv_handle_t *)&timer, NULL);
}
