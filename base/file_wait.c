/* file_wait.c: a read is owned by its thread and by its caller; the last one to
 * leave frees it. */
#include "base/file_wait.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"

enum { STACK = THREAD_STACK_SMALL, MOUNT_LINE = 8192 };

/* ---- a thread that is set apart ----
 *
 * A process ends when its last thread does, and a thread that waits for a file
 * server may not. So the work is done in another process with the same memory,
 * a child of a thread that does nothing but wait for it. The child uses that
 * thread's own variables (errno, malloc's caches), since it has no others. */

struct file_wait_apart {
	void *(*run)(void *);
	void *arg;
	char *stack;
};

static void file_wait_close_one(void *arg, int dir, const char *name)
{
	int fd = (int)strtol(name, NULL, 10);

	if (fd > STDERR_FILENO && fd != dir)
		close(fd);
}

#ifndef SYS_close_range /* of Linux 5.9; the number is the same everywhere */
#define SYS_close_range 436
#endif

static int file_wait_close_files(void)
{
	int dir, rc;

	if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) == 0)
		return 0;
	dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	rc = file_each_name(dir, file_wait_close_one, NULL);
	close(dir);
	return rc;
}

static int file_wait_run_apart(void *arg)
{
	struct file_wait_apart *a = arg;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)file_wait_close_files(); /* else they stay open */
	a->run(a->arg);
	return 0;
}

/* No exit signal: waits for children do not see the child. */
static void *file_wait_host(void *arg)
{
	struct file_wait_apart *a = arg;
	int pid = clone(file_wait_run_apart, a->stack + STACK, CLONE_VM, a);

	/* without it, the thread itself runs */
	if (pid < 0)
		a->run(a->arg);
	while (pid > 0 && syscall(SYS_wait4, pid, NULL, __WALL, NULL) < 0 &&
	       errno == EINTR)
		;
	munmap(a->stack, STACK);
	free(a);
	return NULL;
}

int file_wait_detach_apart(void *(*run)(void *), void *arg)
{
	struct file_wait_apart *a = malloc(sizeof(*a));
	int rc;

	if (!a)
		return -ENOMEM;
	*a = (struct file_wait_apart){.run = run, .arg = arg};
	a->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	rc = a->stack == MAP_FAILED ? -errno
				    : thread_detach(file_wait_host, a, STACK);
	if (rc < 0 && a->stack != MAP_FAILED)
		munmap(a->stack, STACK);
	if (rc < 0)
		free(a);
	return rc;
}

/* ---- local file systems ---- */

static const unsigned long local_types[] = {
	0x01021994, /* tmpfs */
	0x858458f6, /* ramfs */
	0xef53,	    /* ext2, ext3, ext4 */
	0x58465342, /* xfs */
	0x9123683e, /* btrfs */
	0xf2f52010, /* f2fs */
	0x2fc12fc1, /* zfs */
	0x794c7630, /* overlayfs: what is written is on its upper layer */
};

static char local_folder[PATH_MAX];
static int local_fd = -1;

void file_wait_trust(const char *folder)
{
	struct statfs st;

	if (local_fd >= 0)
		close(local_fd);
	local_fd = -1;
	if (!*folder || strlen(folder) >= sizeof(local_folder) ||
	    statfs(folder, &st) < 0)
		return;
	for (size_t i = 0; i < sizeof(local_types) / sizeof(*local_types); i++)
		if ((unsigned long)st.f_type == local_types[i])
			local_fd = open(folder, O_PATH | O_DIRECTORY |
						O_CLOEXEC);
	strcpy(local_folder, folder);
}

int file_wait_trusts(void)
{
	return local_fd >= 0;
}

/* The part of path below the trusted folder, or NULL. */
static const char *file_wait_local_part(const char *path)
{
	size_t n = strlen(local_folder);

	return local_fd >= 0 && strncmp(path, local_folder, n) == 0 &&
			       path[n] == '/'
		       ? path + n + 1
		       : NULL;
}

#ifndef SYS_openat2 /* of Linux 5.6; the number is the same everywhere */
#define SYS_openat2 437
#endif

/* As in linux/openat2.h, which old systems do not have. */
struct file_wait_how {
	uint64_t flags, mode, resolve;
};
enum { RESOLVE_ONLY_HERE = 0x01 /* NO_XDEV */ | 0x04 /* NO_SYMLINKS */ };

/* The kernel refuses (-EXDEV, -ELOOP) to leave the file system, without asking
 * the other one. Old kernels and some containers do not have the call. */
static int file_wait_open_local(const char *part, int flags)
{
	const struct file_wait_how how = {.flags = (uint64_t)flags,
					  .resolve = RESOLVE_ONLY_HERE};
	long fd = syscall(SYS_openat2, local_fd, part, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* ---- a read ---- */

struct file_wait {
	atomic_int owners;
	int done[2]; /* a pipe; the thread closes its end */
	int rc;
	struct stat st;
	size_t max, n;
	char *text; /* n bytes, or NULL */
	char path[PATH_MAX];
};

static void file_wait_leave(struct file_wait *f)
{
	if (atomic_fetch_sub(&f->owners, 1) > 1)
		return;
	if (f->done[0] >= 0)
		close(f->done[0]);
	free(f->text);
	free(f);
}

static int file_wait_read_fd(struct file_wait *f, int fd)
{
	off_t at;
	ssize_t n;

	if (fstat(fd, &f->st) < 0)
		return -errno;
	if (!S_ISREG(f->st.st_mode))
		return 0;
	if ((uint64_t)f->st.st_size < f->max)
		f->max = (size_t)f->st.st_size;
	at = f->st.st_size - (off_t)f->max;
	f->text = malloc(f->max + 1);
	if (!f->text)
		return -ENOMEM;
	while (f->n < f->max) {
		n = pread(fd, f->text + f->n, f->max - f->n,
			  at + (off_t)f->n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		f->n += (size_t)n;
	}
	return 0;
}

enum { FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

static int file_wait_read_opened(struct file_wait *f, int fd)
{
	int rc = file_wait_read_fd(f, fd);

	close(fd);
	return rc;
}

static void *file_wait_run(void *arg)
{
	struct file_wait *f = arg;
	int fd = open(f->path, FLAGS);

	f->rc = fd < 0 ? -errno : file_wait_read_opened(f, fd);
	close(f->done[1]);
	file_wait_leave(f);
	return NULL;
}

/* Reads wait briefly until then: a server that has not answered one read will
 * not answer the next, and all files of a node may be on it. */
static uint64_t hasty_until_ms;

/* Until the thread has closed its end. */
static int file_wait_await(const struct file_wait *f)
{
	uint64_t begin = clock_ms(), now;
	uint64_t end = begin + (begin < hasty_until_ms ? FILE_WAIT_HASTY_MS
						       : FILE_WAIT_MS);
	struct pollfd p = {.fd = f->done[0], .events = POLLIN};

	while ((now = clock_ms()) < end) {
		p.revents = 0;
		if (poll(&p, 1, (int)(end - now)) > 0)
			return 0;
	}
	hasty_until_ms = now + FILE_WAIT_HASTE_LASTS_MS;
	return -ETIMEDOUT;
}

/* 1: it was read, or is not there. 0: a thread must try. */
static int file_wait_try_local(struct file_wait *f)
{
	const char *part = file_wait_local_part(f->path);
	int fd = part ? file_wait_open_local(part, FLAGS) : -EXDEV;

	if (fd < 0 && fd != -ENOENT)
		return 0;
	f->rc = fd < 0 ? fd : file_wait_read_opened(f, fd);
	return 1;
}

/* Starts the thread and waits for it. 0: it has finished. */
static int file_wait_in_thread(struct file_wait *f)
{
	int rc;

	if (pipe2(f->done, O_CLOEXEC) < 0) {
		f->done[0] = -1;
		return -errno;
	}
	atomic_init(&f->owners, 2);
	rc = thread_detach(file_wait_run, f, STACK);
	if (rc < 0) {
		close(f->done[1]);
		atomic_init(&f->owners, 1);
		return rc;
	}
	return file_wait_await(f);
}

int file_wait_read(const char *path, size_t max, struct stat *st,
		   struct buf *out)
{
	struct file_wait *f;
	int rc = 0;

	if (strlen(path) >= sizeof(f->path))
		return -ENAMETOOLONG;
	f = malloc(sizeof(*f));
	if (!f)
		return -ENOMEM;
	*f = (struct file_wait){.done = {-1, -1}, .max = max};
	atomic_init(&f->owners, 1);
	memcpy(f->path, path, strlen(path) + 1);
	if (!file_wait_try_local(f))
		rc = file_wait_in_thread(f);
	if (rc == 0) {
		rc = f->rc;
		*st = f->st;
		if (rc == 0)
			buf_put(out, f->text, f->n);
	}
	file_wait_leave(f);
	return rc;
}

/* ---- the name of its server ---- */

/* The path of a mount has octal escapes. Returns how long the part of path is
 * that it covers; 0: none. */
static size_t file_wait_covers(const char *mount, const char *path)
{
	size_t n = 0;

	for (; *mount; n++) {
		char c = *mount++;

		if (c == '\\' && mount[0] && mount[1] && mount[2]) {
			c = (char)((mount[0] - '0') * 64 +
				   (mount[1] - '0') * 8 + mount[2] - '0');
			mount += 3;
		}
		if (path[n] != c)
			return 0;
	}
	return n == 1 || !path[n] || path[n] == '/' ? n : 0;
}

char *file_wait_server(const char *path, char out[FILE_WAIT_SERVER_MAX])
{
	char line[MOUNT_LINE], mount[PATH_MAX], type[64], source[128];
	char whole[PATH_MAX] = "";
	FILE *f = fopen("/proc/self/mountinfo", "re");
	size_t most = 0, n;

	snprintf(out, FILE_WAIT_SERVER_MAX, "an unknown file system");
	/* a relative path is below the working folder */
	if (*path != '/' && getcwd(whole, sizeof(whole) - 1))
		strcat(whole, "/");
	strncat(whole, path, sizeof(whole) - strlen(whole) - 1);
	while (f && fgets(line, sizeof(line), f)) {
		const char *end = strstr(line, " - ");

		if (!end ||
		    sscanf(line, "%*s %*s %*s %*s %4095s", mount) != 1 ||
		    sscanf(end, " - %63s %127s", type, source) != 2)
			continue;
		n = file_wait_covers(mount, whole);
		if (n == 0 || n < most)
			continue;
		most = n;
		snprintf(out, FILE_WAIT_SERVER_MAX, "%s at %.100s, %s", type,
			 mount, source);
	}
	if (f)
		fclose(f);
	return out;
}
