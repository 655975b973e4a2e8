/* thread_snapshot.c: uses PTRACE_SEIZE, which sends no signal as PTRACE_ATTACH
 * does: if we are killed while a thread is stopped, it runs on. */
#include "launcher/inspect/thread_snapshot.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"

enum { PAGE = 4096, WAIT_MS = 500, POLL_US = 50, RED_ZONE = 128 };

#define YAMA "/proc/sys/kernel/yama/ptrace_scope"

static int thread_snapshot_error(pid_t tid, int rc, struct err *e)
{
	char scope[16];

	file_read_text(YAMA, scope, sizeof(scope));
	if (rc == -EPERM && scope[0] > '0')
		return err_set(e, rc, "no permission to trace it (" YAMA
			       " is %c): run ddprun dump as root, or set that "
			       "to 0", scope[0]);
	if (rc == -EPERM)
		return err_set(e, rc, "no permission to trace it: a debugger "
			       "has it, or a container forbids ptrace "
			       "(--cap-add SYS_PTRACE)");
	if (rc == -ETIMEDOUT)
		return err_set(e, rc, "it is inside the kernel and cannot be "
			       "stopped: /proc/%d/stack and wchan say where",
			       (int)tid);
	if (rc == -ENOSYS)
		return err_set(e, rc, "ddprun does not know this processor's "
			       "registers");
	return err_set(e, rc, "it cannot be traced: %s", strerror(-rc));
}

#if defined(__x86_64__)
static int thread_snapshot_copy_registers(struct thread_snapshot *s,
					  const elf_gregset_t set)
{
	const struct user_regs_struct *r =
		(const struct user_regs_struct *)(const void *)set;
	const uint64_t all[] = {
		r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
		r->rbp, r->rsp, r->r8,	r->r9,	r->r10, r->r11,
		r->r12, r->r13, r->r14, r->r15, r->rip,
	};

	memcpy(s->registers, all, sizeof(all));
	s->nregisters = sizeof(all) / sizeof(*all);
	s->pc = r->rip;
	s->sp = r->rsp;
	return 0;
}
#elif defined(__aarch64__)
static int thread_snapshot_copy_registers(struct thread_snapshot *s,
					  const elf_gregset_t set)
{
	const struct user_regs_struct *r =
		(const struct user_regs_struct *)(const void *)set;

	memcpy(s->registers, r->regs, 31 * sizeof(uint64_t));
	s->registers[31] = r->sp;
	s->nregisters = 32;
	s->pc = r->pc;
	s->sp = r->sp;
	return 0;
}
#else
static int thread_snapshot_copy_registers(struct thread_snapshot *s,
					  const elf_gregset_t set)
{
	return -ENOSYS;
}
#endif

/* Page by page, for the read stops at the end of the stack. */
static void thread_snapshot_copy_stack(struct thread_snapshot *s, pid_t pid)
{
	enum { PAGES = SNAPSHOT_STACK_MAX / PAGE + 1 };
	struct iovec to = {s->stack, SNAPSHOT_STACK_MAX}, from[PAGES];
	uint64_t at = s->sp - RED_ZONE, end = at + SNAPSHOT_STACK_MAX;
	ssize_t got;
	int n = 0;

	s->sp = at;
	while (at < end && n < PAGES) {
		uint64_t next = (at / PAGE + 1) * PAGE;

		next = next < end ? next : end;
		from[n++] = (struct iovec){(void *)(uintptr_t)at, next - at};
		at = next;
	}
	got = process_vm_readv(pid, &to, 1, from, (unsigned long)n, 0);
	s->size = got > 0 ? (size_t)got : 0;
}

/* waitpid also reports an exit to the tracer; the parent still gets it later.
 */
static int thread_snapshot_await_stop(pid_t tid, int *status)
{
	const struct timespec pause = {0, POLL_US * 1000};
	uint64_t deadline = clock_ms() + WAIT_MS;
	pid_t rc;

	while ((rc = waitpid(tid, status, __WALL | WNOHANG)) == 0) {
		if (clock_ms() > deadline)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	if (rc < 0)
		return -errno;
	return WIFSTOPPED(*status) ? 0 : -ESRCH;
}

int thread_snapshot_take(struct thread_snapshot *s, pid_t pid, pid_t tid,
			 struct err *e)
{
	elf_gregset_t set;
	struct iovec v = {set, sizeof(set)};
	int status = 0, signal, rc;

	*s = (struct thread_snapshot){.tid = tid};
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return thread_snapshot_error(tid, -errno, e);
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
		rc = -errno;
		goto out;
	}
	rc = thread_snapshot_await_stop(tid, &status);
	if (rc < 0)
		goto out;
	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &v) < 0)
		rc = -errno;
	else
		rc = thread_snapshot_copy_registers(s, set);
	if (rc == 0)
		thread_snapshot_copy_stack(s, pid);
	/* pass on a signal that stopped it just now */
	signal = status >> 16 ? 0 : WSTOPSIG(status);
	ptrace(PTRACE_DETACH, tid, NULL, (long)signal);
out:
	return rc < 0 ? thread_snapshot_error(tid, rc, e) : 0;
}

int thread_snapshot_read(const struct thread_snapshot *s, uint64_t at,
			 uint64_t *word)
{
	struct iovec to = {word, sizeof(*word)};
	struct iovec from = {(void *)(uintptr_t)at, sizeof(*word)};

	if (at >= s->sp && s->size >= sizeof(*word) &&
	    at - s->sp <= s->size - sizeof(*word)) {
		memcpy(word, s->stack + (at - s->sp), sizeof(*word));
		return 0;
	}
	if (s->is_dead)
		return -1;
	return process_vm_readv(s->tid, &to, 1, &from, 1, 0) ==
			       (ssize_t)sizeof(*word)
		       ? 0
		       : -1;
}

/* ---- Python's threads ---- */

static void python_threads_add(void *arg, const struct python_thread *thread)
{
	struct python_threads *t = arg;
	struct python_thread *more =
		realloc(t->list, (t->n + 1) * sizeof(*more));

	if (!more)
		return;
	t->list = more;
	t->list[t->n++] = *thread;
}

int python_threads_read(struct python_threads *t, pid_t pid, struct err *e)
{
	struct python_process p;
	int rc;

	*t = (struct python_threads){NULL, 0};
	rc = python_process_find(&p, pid, e);
	if (rc <= 0)
		return rc;
	return python_process_each_thread(&p, python_threads_add, t, e);
}

void python_threads_release(struct python_threads *t)
{
	free(t->list);
	*t = (struct python_threads){NULL, 0};
}

const struct python_thread *python_threads_of(const struct python_threads *t,
					      pid_t tid)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->list[i].tid == tid)
			return &t->list[i];
	}
	return NULL;
}

void python_threads_put(struct buf *out, const struct python_thread *t)
{
	if (t->holds_gil)
		buf_printf(out, "    holds Python's lock (GIL)\n");
	for (int i = 0; i < t->n; i++) {
		const struct python_frame *x = &t->frames[i];

		buf_printf(out, "    Python: %s at %s:%d\n", x->function,
			   x->file, x->line);
	}
	if (t->has_changed)
		buf_printf(out, "    %sframes changed while they were read\n",
			   t->n ? "inner " : "its Python ");
}
