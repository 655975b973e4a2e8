/* spawn.c: calls clone as posix_spawn does, and adds what posix_spawn lacks: a
 * death signal, and a pid that is recorded before the program runs. */
#include "launcher/worker/spawn.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_BYTES = 64 << 10 };

/* All signals that this program or libuv ever changes. */
static int touched[NSIG];
static int ntouched;
static struct sigaction original[NSIG];
static sigset_t original_mask;

/* The C library keeps these signals to itself and does not let sigaction see
 * them. posix_spawn, as of make, has them ignored; the library handles them
 * once this process has a second thread, and they would no longer be. */
enum { HIDDEN_FIRST = 32, HIDDEN = 3 };
static int hidden_was_ignored[HIDDEN];

/* The kernel's, on x86-64 and aarch64. */
struct kernel_sigaction {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static const char step_cpus[] = "set the CPUs of";

struct spawn_order {
	const struct spawn *s;
	sigset_t mask; /* for the child */
	pid_t parent;
	/* written by the child, which shares our memory */
	volatile int error;
	const char *volatile step;
};

void spawn_remember_signal(int number)
{
	int i = ntouched;

	for (int k = 0; k < ntouched; k++) {
		if (touched[k] == number)
			return;
	}
	touched[ntouched++] = number;
	sigaction(number, NULL, &original[i]);
	/* A shell without job control starts `ddprun &` with SIGINT ignored.
	 * An explicit SIGINT must still reach the workers. SIGHUP stays
	 * ignored: that is nohup. */
	if (number == SIGINT || number == SIGQUIT)
		original[i].sa_handler = SIG_DFL;
}

static void spawn_remember_hidden_signals(void)
{
	for (int i = 0; i < HIDDEN; i++) {
		struct kernel_sigaction now = {.handler = SIG_DFL};

		syscall(SYS_rt_sigaction, HIDDEN_FIRST + i, NULL, &now,
			sizeof(now.mask));
		hidden_was_ignored[i] = now.handler == SIG_IGN;
	}
}

__attribute__((no_sanitize("address", "undefined")))
static void spawn_ignore_hidden_signals(void)
{
	const struct kernel_sigaction ignored = {.handler = SIG_IGN};

	for (int i = 0; i < HIDDEN; i++)
		if (hidden_was_ignored[i])
			syscall(SYS_rt_sigaction, HIDDEN_FIRST + i, &ignored,
				NULL, sizeof(ignored.mask));
}

void spawn_take_over_signals(void)
{
	static const int usual[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM,
				    SIGCHLD, SIGPIPE, SIGXFSZ};
	sigset_t none;

	for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
		spawn_remember_signal(usual[i]);
	spawn_remember_hidden_signals();
	/* if it is ignored, the kernel reaps our children and waitpid cannot
	 * report how they ended */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, &original_mask);
}

void spawn_restore_mask(void)
{
	sigprocmask(SIG_SETMASK, &original_mask, NULL);
}

int spawn_was_ignored(int signal)
{
	for (int i = 0; i < ntouched; i++) {
		if (touched[i] == signal)
			return original[i].sa_handler == SIG_IGN;
	}
	return 0;
}

static int spawn_place_file(int fd, int as)
{
	/* dup2 onto itself would leave close-on-exec set */
	return fd == as ? fcntl(fd, F_SETFD, 0) : dup2(fd, as);
}

static int spawn_place_files(const struct spawn *s)
{
	if (spawn_place_file(s->in, 0) < 0 || spawn_place_file(s->out, 1) < 0 ||
	    spawn_place_file(s->err, 2) < 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		if (s->keep[i] >= 0 &&
		    spawn_place_file(s->keep[i], s->keep_as + i) < 0)
			return -1;
	}
	for (int i = 0; i < s->nmore; i++) {
		if (spawn_place_file(s->more[i], s->keep_as + 2 + i) < 0)
			return -1;
	}
	return 0;
}

static int spawn_restore_limit(const struct spawn *s)
{
	struct rlimit limit;

	if (!s->open_files || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 0;
	limit.rlim_cur = s->open_files;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

/* A failure is not an error: sweep.h then finds the child by its other
 * marks. */
static void spawn_mark_locks(const struct spawn *s)
{
	const struct rlimit limit = {.rlim_cur = s->locks,
				     .rlim_max = s->locks};

	if (s->locks)
		setrlimit(RLIMIT_LOCKS, &limit);
}

/* Runs in the child, on its own stack in our memory, while we are suspended.
 * Only system calls. The address sanitizer does not know this stack. */
__attribute__((no_sanitize("address", "undefined")))
static int spawn_child(void *arg)
{
	struct spawn_order *o = arg;
	const struct spawn *s = o->s;

	o->step = "set up";
	/* before the signals are unblocked: a handler of ours would run in
	 * memory shared with the parent */
	for (int i = 0; i < ntouched; i++)
		sigaction(touched[i], &original[i], NULL);
	spawn_ignore_hidden_signals();
	if (!s->survives) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
			goto fail;
		if (getppid() != o->parent) /* died before prctl */
			_exit(1);
	}
	if ((s->has_terminal ? setsid() : setpgid(0, 0)) < 0)
		goto fail;
	if (s->pid)
		*s->pid = getpid();
	spawn_mark_locks(s);
	if (spawn_place_files(s) < 0 || spawn_restore_limit(s) < 0)
		goto fail;
	if (s->has_terminal && ioctl(0, TIOCSCTTY, 0) < 0)
		goto fail;
	if (s->timer_slack)
		prctl(PR_SET_TIMERSLACK, s->timer_slack);
	o->step = step_cpus;
	if (s->cpus && sched_setaffinity(0, sizeof(s->cpus->sets),
					 s->cpus->sets) < 0)
		goto fail;
	sigprocmask(SIG_SETMASK, &o->mask, NULL);
	o->step = "execute";
	execve(s->path, s->argv, s->envp);
fail:
	o->error = errno ? errno : EINVAL;
	if (s->pid)
		*s->pid = 0;
	_exit(127);
}

/* The file exists, but what runs it does not. */
static const char *spawn_explain_script(const char *path, char *advice,
					size_t size)
{
	char line[256] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	size_t at;

	if (fd >= 0)
		close(fd);
	line[n > 0 ? n : 0] = '\0';
	if (line[0] != '#' || line[1] != '!') {
		snprintf(advice, size, "; its loader is missing: it was built "
			 "for another system");
		return advice;
	}
	at = 2 + strspn(line + 2, " \t");
	line[strcspn(line, "\n")] = '\0';
	if (strchr(line, '\r'))
		snprintf(advice, size, "; its first line ends with a carriage "
			 "return (Windows line ends): convert it, for example "
			 "with dos2unix");
	else
		snprintf(advice, size, "; its interpreter '%.*s' (#! line) is "
			 "missing", (int)strcspn(line + at, " \t"), line + at);
	return advice;
}

/* For which machines programs are built: e_machine of elf(5). */
static const char *spawn_machine(int e_machine)
{
	switch (e_machine) {
	case EM_386:
		return "i386";
	case EM_X86_64:
		return "x86_64";
	case EM_ARM:
		return "arm";
	case EM_AARCH64:
		return "aarch64";
	case EM_PPC64:
		return "ppc64";
	case EM_S390:
		return "s390x";
	case EM_RISCV:
		return "riscv";
	default:
		return NULL;
	}
}

/* The kernel does not know the file's format. */
static const char *spawn_explain_format(const char *path, char *advice,
					size_t size)
{
	unsigned char head[EI_NIDENT + 4];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head));
	const char *machine = NULL;
	struct utsname here;

	if (fd >= 0)
		close(fd);
	if (n == sizeof(head) && memcmp(head, ELFMAG, SELFMAG) == 0)
		machine = spawn_machine(head[EI_DATA] == ELFDATA2MSB
						? head[18] << 8 | head[19]
						: head[19] << 8 | head[18]);
	if (!machine || uname(&here) < 0 || strcmp(here.machine, machine) == 0)
		return "; it is neither a program for this machine nor a "
		       "script with a #! line";
	snprintf(advice, size, "; it was built for %s, and this host is %s",
		 machine, here.machine);
	return advice;
}

static int spawn_failed(const struct spawn_order *o, int rc, struct err *e)
{
	const char *advice = "";
	char script[sizeof("; its interpreter '' (#! line) is missing") + 256];

	if (o->step == step_cpus)
		advice = "; the CPUs that this job may use have changed since "
			 "it was started";
	else if (rc == -EAGAIN)
		advice = "; the limit of processes is reached (ulimit -u, "
			 "kernel.pid_max, pids.max): start fewer workers";
	else if (rc == -ENOEXEC)
		advice = spawn_explain_format(o->s->path, script,
					      sizeof(script));
	else if (rc == -ENOENT)
		advice = spawn_explain_script(o->s->path, script,
					      sizeof(script));
	else if (rc == -E2BIG)
		advice = "; arguments and environment are too large";
	return err_set(e, rc, "cannot %s '%s': %s%s", o->step, o->s->path,
		       strerror(-rc), advice);
}

int spawn_no_input(struct err *e)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? err_set(e, -errno, "cannot open /dev/null: %s",
				strerror(errno)) : fd;
}

pid_t spawn_process(const struct spawn *s, struct err *e)
{
	/* one stack is enough: we sleep until the child has left it */
	static char stack[STACK_BYTES] __attribute__((aligned(64)));
	struct spawn_order o = {.s = s, .parent = getpid(), .step = "start"};
	sigset_t all, ours;
	pid_t pid;

	if (s->as_started)
		o.mask = original_mask;
	else
		sigemptyset(&o.mask);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &ours);
	if (s->as_now)
		o.mask = ours;
	pid = clone(spawn_child, stack + STACK_BYTES,
		    CLONE_VM | CLONE_VFORK | SIGCHLD, &o);
	if (pid < 0)
		o.error = errno;
	else if (o.error)
		waitpid(pid, NULL, 0);
	sigprocmask(SIG_SETMASK, &ours, NULL);
	return o.error ? spawn_failed(&o, -o.error, e) : pid;
}

/* ---- reaping ---- */

enum { BATCH = 128 };

struct reap_death {
	pid_t pid;
	int status;
	struct rusage usage;
};

static int reap_collect(struct reap_death *deaths, int max)
{
	int n = 0;

	while (n < max) {
		struct reap_death *d = &deaths[n];

		d->pid = wait4(-1, &d->status, WNOHANG, &d->usage);
		if (d->pid < 0 && errno == EINTR)
			continue;
		if (d->pid <= 0)
			break;
		n++;
	}
	return n;
}

void reap_children(reap_on_death *on_death, void *arg)
{
	struct reap_death deaths[BATCH];
	int n;

	do {
		n = reap_collect(deaths, BATCH);
		for (int killed = 1; killed >= 0; killed--) {
			for (int i = 0; i < n; i++) {
				struct reap_death *d = &deaths[i];

				if ((WIFSIGNALED(d->status) != 0) == killed)
					on_death(arg, d->pid, d->status,
						 &d->usage);
			}
		}
	} while (n == BATCH);
}
