/* crash_children.c: is called in place of libc's functions that wait for
 * children, and of kill: a child that its parent has killed has not failed. */
#include "launcher/crash/crash_internal.h"
#include "launcher/crash/crash_kernel.h"

#if defined(__x86_64__) || defined(__aarch64__)

#include <sys/resource.h>
#include <sys/wait.h>

enum {
	KILLS = 16, /* that are remembered */
	CLOCK_IS_MONOTONIC = 1,
};
/* separate: its bit 31 makes an enum unsigned */
enum { AS_WAITPID = __WALL | __WCLONE | __WNOTHREAD };
#define KILL_NS UINT64_C(60000000000) /* for that long */

#define KEPT __attribute__((visibility("default")))
typedef pid_t wait_fn(int *);
typedef pid_t waitpid_fn(pid_t, int *, int);
typedef pid_t wait3_fn(int *, int, struct rusage *);
typedef pid_t wait4_fn(pid_t, int *, int, struct rusage *);
typedef int waitid_fn(idtype_t, id_t, siginfo_t *, int);
typedef int kill_fn(pid_t, int);

WEAK int *__errno_location(void);

/* A signal that this process has sent. pid is kill's. */
struct crash_kill {
	int32_t pid, signal;
	uint64_t ns;
};

static struct {
	wait_fn *wait;
	waitpid_fn *waitpid;
	wait3_fn *wait3;
	wait4_fn *wait4;
	waitid_fn *waitid;
	kill_fn *kill, *killpg;
	struct crash_kill kills[KILLS]; /* a ring */
	uint32_t nkills;
} children;

/* A child that has ended, before it is waited for. pid 0: none is known. */
struct crash_dead {
	int32_t pid;
	char name[16];
};

void crash_children_begin(void)
{
	children.wait = (wait_fn *)crash_find_next("wait");
	children.waitpid = (waitpid_fn *)crash_find_next("waitpid");
	children.wait3 = (wait3_fn *)crash_find_next("wait3");
	children.wait4 = (wait4_fn *)crash_find_next("wait4");
	children.waitid = (waitid_fn *)crash_find_next("waitid");
	children.kill = (kill_fn *)crash_find_next("kill");
	children.killpg = (kill_fn *)crash_find_next("killpg");
}

/* The function of that name in *next; finds it for a program that calls it
 * before main. */
#define NEXT_OF(name)                                                      \
	(children.name ? children.name                                     \
		       : (children.name = crash_find_next(#name)))

/* What libc returns for a system call. */
static long crash_children_rc(long rc)
{
	if (rc >= 0)
		return rc;
	if (__errno_location)
		*__errno_location() = (int)-rc;
	return -1;
}

static uint64_t crash_children_ns(void)
{
	long now[2] = {0, 0};

	CALL(SYS_clock_gettime, CLOCK_IS_MONOTONIC, now);
	return (uint64_t)now[0] * 1000000000 + (uint64_t)now[1];
}

/* ---- What this process has killed itself ---- */

static void crash_children_note_kill(pid_t pid, int number)
{
	uint32_t i;

	if (!number || !crash_is_on())
		return;
	i = __atomic_fetch_add(&children.nkills, 1, __ATOMIC_RELAXED) % KILLS;
	children.kills[i] = (struct crash_kill){
		pid, number, crash_children_ns(),
	};
}

/* A signal to a group may have been to that process. */
static int crash_children_has_killed(pid_t pid, int number, uint64_t now)
{
	for (int i = 0; i < KILLS; i++) {
		const struct crash_kill *k = &children.kills[i];

		if (k->signal == number && (k->pid == pid || k->pid <= 0) &&
		    now < k->ns + KILL_NS)
			return 1;
	}
	return 0;
}

KEPT int kill(pid_t pid, int number)
{
	kill_fn *next = NEXT_OF(kill);

	crash_children_note_kill(pid, number);
	return next ? next(pid, number)
		    : (int)crash_children_rc(CALL(SYS_kill, pid, number));
}

KEPT int killpg(pid_t group, int number)
{
	kill_fn *next = NEXT_OF(killpg);

	crash_children_note_kill(-group, number);
	return next ? next(group, number)
		    : (int)crash_children_rc(CALL(SYS_kill, -group, number));
}

/* ---- Waiting ---- */

/* Looks whether one of them has ended already: once it is waited for, its name
 * is gone. A child that is waited for until it ends still has one now. */
static struct crash_dead crash_children_look(int kind, pid_t id, int options)
{
	struct crash_dead d = {.pid = 0};
	siginfo_t info = {.si_pid = 0};

	if (!crash_is_on())
		return d;
	if (CALL(SYS_waitid, kind, id, &info,
		 WEXITED | WNOHANG | WNOWAIT | (options & AS_WAITPID)) < 0)
		return d;
	if (info.si_pid && info.si_code == CLD_EXITED)
		return d;
	d.pid = info.si_pid;
	if (!d.pid && kind == P_PID && !(options & WNOHANG))
		d.pid = id;
	if (d.pid)
		crash_read_name(d.pid, d.name);
	return d;
}

static struct crash_dead crash_children_look_as_waitpid(pid_t pid, int options)
{
	int kind = pid == -1 ? P_ALL : pid > 0 ? P_PID : P_PGID;

	return crash_children_look(kind, pid < 0 ? -pid : pid, options);
}

static void crash_children_note(const struct crash_dead *d, pid_t pid,
				int number)
{
	struct crash_child child = {
		.magic = CRASH_MAGIC, .ns = crash_children_ns(), .pid = pid,
		.signal = number, .parent = (int32_t)CALL(SYS_getpid, 0),
	};

	if (crash_children_has_killed(pid, number, child.ns))
		return;
	if (d->pid == pid)
		__builtin_memcpy(child.name, d->name, sizeof(child.name));
	crash_put_part(CRASH_CHILD_AT, &child, sizeof(child));
}

static pid_t crash_children_end(const struct crash_dead *d, pid_t rc,
				int status)
{
	if (rc > 0 && WIFSIGNALED(status) && crash_is_on())
		crash_children_note(d, rc, WTERMSIG(status));
	return rc;
}

/* For a libc whose function is not found. */
static pid_t crash_children_wait(pid_t pid, int *status, int options,
				 struct rusage *usage)
{
	return (pid_t)crash_children_rc(
		CALL(SYS_wait4, pid, status, options, usage));
}

KEPT pid_t wait(int *status)
{
	wait_fn *next = NEXT_OF(wait);
	struct crash_dead d = crash_children_look(P_ALL, 0, 0);
	int own = 0, *at = status ? status : &own;
	pid_t rc = next ? next(at) : crash_children_wait(-1, at, 0, NULL);

	return crash_children_end(&d, rc, rc > 0 ? *at : 0);
}

KEPT pid_t waitpid(pid_t pid, int *status, int options)
{
	waitpid_fn *next = NEXT_OF(waitpid);
	struct crash_dead d = crash_children_look_as_waitpid(pid, options);
	int own = 0, *at = status ? status : &own;
	pid_t rc = next ? next(pid, at, options)
			: crash_children_wait(pid, at, options, NULL);

	return crash_children_end(&d, rc, rc > 0 ? *at : 0);
}

KEPT pid_t wait3(int *status, int options, struct rusage *usage)
{
	wait3_fn *next = NEXT_OF(wait3);
	struct crash_dead d = crash_children_look(P_ALL, 0, options);
	int own = 0, *at = status ? status : &own;
	pid_t rc = next ? next(at, options, usage)
			: crash_children_wait(-1, at, options, usage);

	return crash_children_end(&d, rc, rc > 0 ? *at : 0);
}

KEPT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	wait4_fn *next = NEXT_OF(wait4);
	struct crash_dead d = crash_children_look_as_waitpid(pid, options);
	int own = 0, *at = status ? status : &own;
	pid_t rc = next ? next(pid, at, options, usage)
			: crash_children_wait(pid, at, options, usage);

	return crash_children_end(&d, rc, rc > 0 ? *at : 0);
}

KEPT int waitid(idtype_t kind, id_t id, siginfo_t *info, int options)
{
	waitid_fn *next = NEXT_OF(waitid);
	struct crash_dead d = crash_children_look((int)kind, (pid_t)id,
						  options);
	siginfo_t own = {.si_pid = 0}, *at = info ? info : &own;
	int rc = next ? next(kind, id, at, options)
		      : (int)crash_children_rc(CALL(SYS_waitid, kind, id, at,
						    options, NULL));

	if (rc == 0 && !(options & WNOWAIT) && options & WEXITED &&
	    at->si_pid > 0 && crash_is_on() &&
	    (at->si_code == CLD_KILLED || at->si_code == CLD_DUMPED))
		crash_children_note(&d, at->si_pid, at->si_status);
	return rc;
}

#endif
