/* shim.c: LD_PRELOADed by `make faults`. In the process that FAULT_PROGRAM,
 * FAULT_ROLE and FAULT_IF choose, it makes the Nth call of one kind fail, or
 * all from the Nth on, and writes down where. libuv and libsodium are linked
 * statically, but they call libc, where this intercepts them.
 *
 * FAULT_CALL   a row of the table of calls below: malloc, open, epoll_ctl, ...;
 *              none: all are counted, and none fails
 * FAULT_ERROR  what the call fails with, a number
 * FAULT_AT     which one, from 1. FAULT_ALL=1: and all after it
 * FAULT_KILL=1 it succeeds, and then SIGKILL ends the process
 * FAULT_ABORT=1 the process's own handlers see its crash, and not ours
 * FAULT_FREE   instead of a call: how many descriptors are free
 * FAULT_SKIP   calls from these places in the program are left out
 * FAULT_OWN    " KIND ... ": so are calls of these kinds by libraries
 * FAULT_STATE  a file of struct state; once it has a fault, none follows */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAMES = 24, TEXT = 3072, LIMIT = 128, KINDS = 80, NAME = 24 };

/* tests/faults/run reads it. */
struct state {
	uint64_t count;  /* calls of that kind so far */
	uint64_t fired;  /* how many of them were made to fail */
	uint64_t signal; /* the signal that killed the process */
	char fault[TEXT]; /* MODULE+OFFSET, one per line, the innermost first */
	char crash[TEXT];
	/* without FAULT_CALL: how often each kind was called */
	struct {
		char name[NAME];
		uint64_t n;
	} kinds[KINDS];
};

static struct state *state;
static const char *kind;
static uint64_t at;
static int error, all, kills;
static volatile pid_t target; /* 0: not this process */
static volatile int spawning; /* a child of vfork shares our memory */
static int guard_wanted, guard_next;
static __thread int busy;

/* ---- where ---- */

static void put_frames(char *text, void *const *frames, int n)
{
	size_t len = 0;

	for (int i = 0; i < n && len + 256 < TEXT; i++) {
		const char *name;
		Dl_info info;

		if (!dladdr(frames[i], &info) || !info.dli_fname)
			continue;
		name = strrchr(info.dli_fname, '/');
		len += (size_t)snprintf(text + len, TEXT - len, "%.200s+%zx\n",
					name ? name + 1 : info.dli_fname,
					(size_t)((char *)frames[i] -
						 (char *)info.dli_fbase));
	}
}

static void note(char *text)
{
	void *frames[FRAMES];

	if (!*text)
		put_frames(text, frames, backtrace(frames, FRAMES));
}

static void on_crash(int number)
{
	busy = 1;
	if (target == getpid()) {
		state->signal = (uint64_t)number;
		note(state->crash);
	}
	signal(number, SIG_DFL);
	raise(number);
}

/* ---- whether ---- */

static int is_target(void)
{
	return target && (getpid() == target ||
			  (spawning && getppid() == target));
}

/* From FAULT_SKIP, "BEGIN-END ..." in hex from the program's base on: parts of
 * libuv that read and write its own pipes, which cannot fail. */
static int is_skipped(const char *name, const void *caller)
{
	const char *text = getenv("FAULT_SKIP"), *own = getenv("FAULT_OWN");
	unsigned long from, to;
	char *end, word[NAME + 2];
	size_t place;
	Dl_info info;

	if (!text || !dladdr(caller, &info) || !info.dli_fbase)
		return 0;
	snprintf(word, sizeof(word), " %s ", name);
	if (own && strstr(own, word) && strstr(info.dli_fname, ".so"))
		return 1;
	place = (size_t)((const char *)caller - (const char *)info.dli_fbase);
	for (; *text; text = end) {
		from = strtoul(text, &end, 16);
		to = *end == '-' ? strtoul(end + 1, &end, 16) : 0;
		if (place >= from && place < to)
			return 1;
		end += *end == ' ';
	}
	return 0;
}

static void count(const char *name)
{
	int i = 0;

	while (i < KINDS - 1 && state->kinds[i].name[0] &&
	       strcmp(state->kinds[i].name, name) != 0)
		i++;
	strcpy(state->kinds[i].name, name);
	__atomic_add_fetch(&state->kinds[i].n, 1, __ATOMIC_SEQ_CST);
}

#define due(name) is_due(name, __builtin_return_address(0))

static int is_due(const char *name, const void *caller)
{
	uint64_t n;

	if (!target || busy || (kind && strcmp(name, kind) != 0) ||
	    !is_target() || is_skipped(name, caller))
		return 0;
	if (!kind) {
		count(name);
		return 0;
	}
	n = __atomic_add_fetch(&state->count, 1, __ATOMIC_SEQ_CST);
	if (!at || !(all ? n >= at : n == at && !state->fired))
		return 0;
	busy = 1;
	state->fired++;
	note(state->fault);
	busy = 0;
	errno = error;
	return 1;
}

/* ---- who ---- */

static long number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtol(text, NULL, 10) : 0;
}

/* The role of this ddprun, from its command line and environment. */
static const char *role(void)
{
	char line[4096] = "";
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);
	const char *word = line;

	if (fd >= 0)
		close(fd);
	for (int i = 0; word < line + n; i++, word += strlen(word) + 1) {
		if (i == 1 && strcmp(word, "--remote-end") == 0)
			return "far";
		if (i == 1 && strcmp(word, "--crash-stack") == 0)
			return "unwinder";
		if (i == 1 && strcmp(word, "--pmix-helper") == 0)
			return "pmix-helper";
		if (strcmp(word, "check") == 0)
			return "check";
		if (strcmp(word, "-H") == 0 && !getenv("DDP_REMOTE_NODE"))
			return "head";
	}
	return "agent";
}

static int is_chosen(void)
{
	const char *program = getenv("FAULT_PROGRAM"), *condition, *value;
	const char *wanted = getenv("FAULT_ROLE"), *slash;
	char self[4096], name[64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (!program || n <= 0)
		return 0;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (strcmp(slash ? slash + 1 : self, program) != 0)
		return 0;
	condition = getenv("FAULT_IF");
	value = condition ? strchr(condition, '=') : NULL;
	if (value) {
		snprintf(name, sizeof(name), "%.*s", (int)(value - condition),
			 condition);
		if (!getenv(name) || strcmp(getenv(name), value + 1) != 0)
			return 0;
	}
	if (wanted && strcmp(wanted, "guard") == 0) {
		guard_wanted = strcmp(role(), "agent") == 0;
		return guard_wanted;
	}
	return !wanted || strcmp(role(), wanted) == 0;
}

/* Takes all descriptors but n. */
static void take_descriptors(long n)
{
	struct rlimit limit = {LIMIT, LIMIT};
	int fd, last = -1;

	setrlimit(RLIMIT_NOFILE, &limit);
	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		last = fd;
	for (; n > 0 && last > STDERR_FILENO; n--, last--)
		close(last);
}

__attribute__((constructor))
static void begin(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT,
				      0};
	const char *path = getenv("FAULT_STATE");
	struct sigaction sa = {.sa_handler = on_crash,
			       .sa_flags = SA_ONSTACK | SA_NODEFER};
	static char stack[64 << 10];
	int fd;

	fd = path && is_chosen() ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED,
		     fd, 0);
	close(fd);
	if (state == MAP_FAILED)
		return;
	backtrace((void *[4]){NULL}, 4); /* loads what it needs */
	sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL);
	for (int i = 0; signals[i] && !number("FAULT_ABORT"); i++)
		sigaction(signals[i], &sa, NULL);
	at = (uint64_t)number("FAULT_AT");
	error = (int)number("FAULT_ERROR");
	all = (int)number("FAULT_ALL");
	kills = (int)number("FAULT_KILL");
	if (getenv("FAULT_FREE")) {
		if (__atomic_exchange_n(&state->fired, 1, __ATOMIC_SEQ_CST))
			return;
		take_descriptors(number("FAULT_FREE"));
		target = getpid(); /* for its crash */
		return;
	}
	kind = getenv("FAULT_CALL");
	if (!guard_wanted)
		target = getpid();
}

/* ---- the calls ---- */

static void *next(const char *name)
{
	void *real;

	busy++;
	real = dlsym(RTLD_NEXT, name);
	busy--;
	if (!real)
		_exit(126);
	return real;
}

/* Defines a wrapper: type NAME PARAMS, counted as KIND; when it is to fail it
 * returns FAILED. */
#define CALL(KIND, TYPE, NAME, PARAMS, ARGS, FAILED)                          \
	TYPE NAME PARAMS;                                                      \
	TYPE NAME PARAMS                                                       \
	{                                                                     \
		static TYPE(*real) PARAMS;                                    \
		if (!real)                                                    \
			real = (TYPE(*) PARAMS)next(#NAME);                   \
		if (due(KIND)) {                                              \
			if (kills && ((void)real ARGS, 1))                    \
				kill(getpid(), SIGKILL);                      \
			return FAILED;                                        \
		}                                                             \
		return real ARGS;                                             \
	}

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
	return due("malloc") ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return due("malloc") ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return due("malloc") ? NULL : __libc_realloc(p, n);
}

/* Only a call that creates a file has a mode; passing one on does no harm. */
#define OPEN(NAME)                                                            \
	int NAME(const char *path, int flags, ...)                             \
	{                                                                     \
		static int (*real)(const char *, int, ...);                   \
		unsigned mode;                                                \
		va_list ap;                                                   \
		va_start(ap, flags);                                          \
		mode = va_arg(ap, unsigned);                                  \
		va_end(ap);                                                   \
		if (!real)                                                    \
			real = (int (*)(const char *, int, ...))next(#NAME);  \
		return due("open") ? -1 : real(path, flags, mode);            \
	}
OPEN(open)
OPEN(open64)

int openat(int dir, const char *path, int flags, ...)
{
	static int (*real)(int, const char *, int, ...);
	unsigned mode;
	va_list ap;

	va_start(ap, flags);
	mode = va_arg(ap, unsigned);
	va_end(ap);
	if (!real)
		real = (int (*)(int, const char *, int, ...))next("openat");
	return due("open") ? -1 : real(dir, path, flags, mode);
}

CALL("open", int, __open64_2, (const char *p, int f), (p, f), -1)
CALL("open", int, __open_2, (const char *p, int f), (p, f), -1)
CALL("open", FILE *, fopen, (const char *p, const char *m), (p, m), NULL)
CALL("open", DIR *, opendir, (const char *p), (p), NULL)
CALL("getdents", struct dirent *, readdir, (DIR *d), (d), NULL)
CALL("getdents", struct dirent64 *, readdir64, (DIR *d), (d), NULL)
CALL("read", ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), -1)
CALL("read", ssize_t, readv, (int fd, const struct iovec *v, int n),
     (fd, v, n), -1)
CALL("read", ssize_t, recv, (int fd, void *p, size_t n, int f), (fd, p, n, f),
     -1)
CALL("read", ssize_t, recvmsg, (int fd, struct msghdr *m, int f), (fd, m, f),
     -1)
CALL("read", ssize_t, pread, (int fd, void *p, size_t n, off_t o),
     (fd, p, n, o), -1)
CALL("read", ssize_t, pread64, (int fd, void *p, size_t n, off64_t o),
     (fd, p, n, o), -1)
CALL("write", ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n),
     -1)
CALL("write", ssize_t, writev, (int fd, const struct iovec *v, int n),
     (fd, v, n), -1)
CALL("write", ssize_t, send, (int fd, const void *p, size_t n, int f),
     (fd, p, n, f), -1)
CALL("write", ssize_t, sendto, (int fd, const void *p, size_t n, int f,
     const struct sockaddr *a, socklen_t l), (fd, p, n, f, a, l), -1)
CALL("write", ssize_t, sendmsg, (int fd, const struct msghdr *m, int f),
     (fd, m, f), -1)
CALL("write", ssize_t, pwrite, (int fd, const void *p, size_t n, off_t o),
     (fd, p, n, o), -1)
CALL("write", ssize_t, pwrite64, (int fd, const void *p, size_t n, off64_t o),
     (fd, p, n, o), -1)
CALL("pipe2", int, pipe2, (int fds[2], int f), (fds, f), -1)
CALL("dup2", int, dup2, (int a, int b), (a, b), -1)
CALL("dup2", int, dup3, (int a, int b, int f), (a, b, f), -1)
CALL("eventfd2", int, eventfd, (unsigned n, int f), (n, f), -1)
CALL("memfd_create", int, memfd_create, (const char *n, unsigned f), (n, f),
     -1)
CALL("epoll_create1", int, epoll_create1, (int f), (f), -1)
CALL("epoll_ctl", int, epoll_ctl, (int e, int op, int fd,
     struct epoll_event *v), (e, op, fd, v), -1)
CALL("epoll_wait", int, epoll_wait, (int e, struct epoll_event *v, int n,
     int t), (e, v, n, t), -1)
CALL("epoll_wait", int, epoll_pwait, (int e, struct epoll_event *v, int n,
     int t, const sigset_t *s), (e, v, n, t, s), -1)
CALL("poll", int, poll, (struct pollfd *p, nfds_t n, int t), (p, n, t), -1)
CALL("poll", int, __poll_chk, (struct pollfd *p, nfds_t n, int t, size_t size),
     (p, n, t, size), -1)
CALL("socket", int, socket, (int d, int t, int p), (d, t, p), -1)
CALL("socket", int, socketpair, (int d, int t, int p, int v[2]), (d, t, p, v),
     -1)
CALL("bind", int, bind, (int fd, const struct sockaddr *a, socklen_t l),
     (fd, a, l), -1)
CALL("listen", int, listen, (int fd, int n), (fd, n), -1)
CALL("connect", int, connect, (int fd, const struct sockaddr *a, socklen_t l),
     (fd, a, l), -1)
CALL("accept4", int, accept4, (int fd, struct sockaddr *a, socklen_t *l,
     int f), (fd, a, l, f), -1)
CALL("setsockopt", int, setsockopt, (int fd, int l, int o, const void *v,
     socklen_t n), (fd, l, o, v, n), -1)
CALL("getsockopt", int, getsockopt, (int fd, int l, int o, void *v,
     socklen_t *n), (fd, l, o, v, n), -1)
CALL("getsockname", int, getsockname, (int fd, struct sockaddr *a,
     socklen_t *l), (fd, a, l), -1)
CALL("getpeername", int, getpeername, (int fd, struct sockaddr *a,
     socklen_t *l), (fd, a, l), -1)
CALL("shutdown", int, shutdown, (int fd, int h), (fd, h), -1)
CALL("getaddrinfo", int, getaddrinfo, (const char *n, const char *s,
     const struct addrinfo *h, struct addrinfo **r), (n, s, h, r), EAI_SYSTEM)
CALL("getifaddrs", int, getifaddrs, (struct ifaddrs **a), (a), -1)
CALL("mmap", void *, mmap, (void *p, size_t n, int r, int f, int fd, off_t o),
     (p, n, r, f, fd, o), MAP_FAILED)
CALL("munmap", int, munmap, (void *p, size_t n), (p, n), -1)
CALL("msync", int, msync, (void *p, size_t n, int f), (p, n, f), -1)
CALL("flock", int, flock, (int fd, int op), (fd, op), -1)
CALL("ftruncate", int, ftruncate, (int fd, off_t n), (fd, n), -1)
CALL("ftruncate", int, ftruncate64, (int fd, off64_t n), (fd, n), -1)
CALL("fallocate", int, fallocate, (int fd, int m, off_t o, off_t n),
     (fd, m, o, n), -1)
CALL("fallocate", int, posix_fallocate, (int fd, off_t o, off_t n),
     (fd, o, n), error)
CALL("lseek", off_t, lseek, (int fd, off_t o, int w), (fd, o, w), -1)
CALL("mkdir", int, mkdir, (const char *p, mode_t m), (p, m), -1)
CALL("mkdir", char *, mkdtemp, (char *p), (p), NULL)
CALL("rmdir", int, rmdir, (const char *p), (p), -1)
CALL("unlink", int, unlink, (const char *p), (p), -1)
CALL("rename", int, rename, (const char *a, const char *b), (a, b), -1)
CALL("stat", int, stat, (const char *p, struct stat *s), (p, s), -1)
CALL("stat", int, lstat, (const char *p, struct stat *s), (p, s), -1)
CALL("stat", int, fstat, (int fd, struct stat *s), (fd, s), -1)
CALL("stat", int, stat64, (const char *p, struct stat64 *s), (p, s), -1)
CALL("stat", int, lstat64, (const char *p, struct stat64 *s), (p, s), -1)
CALL("stat", int, fstat64, (int fd, struct stat64 *s), (fd, s), -1)
CALL("access", int, access, (const char *p, int m), (p, m), -1)
CALL("readlink", ssize_t, readlink, (const char *p, char *b, size_t n),
     (p, b, n), -1)
CALL("readlink", char *, realpath, (const char *p, char *b), (p, b), NULL)
CALL("readlink", char *, __realpath_chk, (const char *p, char *b, size_t n),
     (p, b, n), NULL)
CALL("getcwd", char *, getcwd, (char *b, size_t n), (b, n), NULL)
CALL("chdir", int, chdir, (const char *p), (p), -1)
CALL("uname", int, uname, (struct utsname *u), (u), -1)
CALL("gethostname", int, gethostname, (char *b, size_t n), (b, n), -1)
CALL("prlimit", int, getrlimit, (__rlimit_resource_t r, struct rlimit *l),
     (r, l), -1)
CALL("prlimit", int, setrlimit, (__rlimit_resource_t r,
     const struct rlimit *l), (r, l), -1)
CALL("getrandom", ssize_t, getrandom, (void *p, size_t n, unsigned f),
     (p, n, f), -1)
CALL("wait4", pid_t, waitpid, (pid_t p, int *s, int f), (p, s, f), -1)
CALL("wait4", pid_t, wait4, (pid_t p, int *s, int f, struct rusage *r),
     (p, s, f, r), -1)
CALL("wait4", int, waitid, (idtype_t t, id_t p, siginfo_t *s, int f),
     (t, p, s, f), -1)
CALL("kill", int, kill, (pid_t p, int s), (p, s), -1)
CALL("setpgid", int, setpgid, (pid_t p, pid_t g), (p, g), -1)
CALL("sched_getaffinity", int, sched_getaffinity, (pid_t p, size_t n,
     cpu_set_t *s), (p, n, s), -1)
CALL("close_range", int, close_range, (unsigned a, unsigned b, int f),
     (a, b, f), -1)
CALL("execve", int, execve, (const char *p, char *const a[], char *const e[]),
     (p, a, e), -1)
CALL("dlopen", void *, dlopen, (const char *p, int f), (p, f), NULL)
CALL("pthread_create", int, pthread_create, (pthread_t *t,
     const pthread_attr_t *a, void *(*f)(void *), void *x), (t, a, f, x),
     error)

#define LAST(NAME, KIND, TYPE)                                                \
	int NAME(int fd, TYPE op, ...)                                         \
	{                                                                     \
		static int (*real)(int, TYPE, ...);                           \
		void *arg;                                                    \
		va_list ap;                                                   \
		va_start(ap, op);                                             \
		arg = va_arg(ap, void *);                                     \
		va_end(ap);                                                   \
		if (!real)                                                    \
			real = (int (*)(int, TYPE, ...))next(#NAME);          \
		return due(KIND) ? -1 : real(fd, op, arg);                    \
	}
LAST(fcntl, "fcntl", int)
LAST(fcntl64, "fcntl", int)
LAST(ioctl, "ioctl", unsigned long)

void *mremap(void *p, size_t old, size_t size, int flags, ...)
{
	static void *(*real)(void *, size_t, size_t, int, ...);
	void *to;
	va_list ap;

	va_start(ap, flags);
	to = va_arg(ap, void *);
	va_end(ap);
	if (!real)
		real = (void *(*)(void *, size_t, size_t, int, ...))
			next("mremap");
	return due("mremap") ? MAP_FAILED : real(p, old, size, flags, to);
}

/* libc has no name for this call. */
long syscall(long n, ...)
{
	static long (*real)(long, ...);
	long a[6];
	va_list ap;

	va_start(ap, n);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (!real)
		real = (long (*)(long, ...))next("syscall");
	if (n == SYS_getdents64 && due("getdents"))
		return -1;
	return real(n, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- processes ---- */

int prctl(int option, ...)
{
	static int (*real)(int, ...);
	unsigned long a[4];
	va_list ap;

	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (!real)
		real = (int (*)(int, ...))next("prctl");
	if (option == PR_SET_NAME)
		guard_next = strcmp((const char *)a[0], "ddp-guard") == 0;
	return due("prctl") ? -1 : real(option, a[0], a[1], a[2], a[3]);
}

pid_t fork(void)
{
	static pid_t (*real)(void);
	pid_t pid;

	if (!real)
		real = (pid_t (*)(void))next("fork");
	if (due("clone"))
		return -1;
	pid = real();
	if (pid == 0 && guard_wanted && guard_next)
		target = getpid();
	return pid;
}

int clone(int (*f)(void *), void *stack, int flags, void *arg, ...)
{
	static int (*real)(int (*)(void *), void *, int, void *, ...);
	int rc;

	if (!real)
		real = (int (*)(int (*)(void *), void *, int, void *, ...))
			next("clone");
	if (due("clone"))
		return -1;
	spawning = 1; /* its calls up to execve count as ours */
	rc = real(f, stack, flags, arg);
	spawning = 0;
	return rc;
}
