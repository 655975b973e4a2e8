/* crash_handler.c: a library of its own, which ddprun preloads into workers.
 * Catches the signals of a crash where the program leaves their default action,
 * writes a struct crash_record and lets the process die as it would have died.
 * Needs no library, so that any libc can load it: crash_catcher.h says more. */
#include "launcher/crash/crash_internal.h"
#include "launcher/crash/crash_kernel.h"
#include "launcher/crash/crash_record.h"

#include <elf.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>

#if defined(__x86_64__) || defined(__aarch64__)

enum {
	PAGE = 4096,
	RED_ZONE = 128,
	SKIPPED = 128 << 10,
	/* fcntl.h, mman.h, resource.h and prctl.h declare functions that this
	 * library must not need */
	OPEN_READ = 0, OPEN_WRITE = 2, OPEN_CLOEXEC = 02000000, AT_CWD = -100,
	MAP_RW = 3, MAP_IS_SHARED = 1, GET_NAME = 16,
	LOAD_NOW = (int)0x80000002, /* dlfcn.h; of libc's own calls */
	LIMIT_CPU = 0, LIMIT_FSIZE = 1, LIMIT_STACK = 3,
	GET_SEALS = 1034, SEALS = 2 | 4, /* seals of the size:
					  * crash_catcher.c */
};

#define KEPT __attribute__((visibility("default")))
#define NEXT ((void *)-1L) /* RTLD_NEXT */

/* Found in the process, if it has them. */
WEAK void *dlsym(void *handle, const char *name);
WEAK void *__libc_dlopen_mode(const char *name, int mode);
WEAK void *__libc_dlsym(void *handle, const char *name);
WEAK int __sigaction(int, const struct sigaction *, struct sigaction *);
WEAK unsigned long getauxval(unsigned long);

static const int crash_signals[] = {
	SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU, SIGXFSZ, SIGSYS,
};
enum { NSIGNALS = sizeof(crash_signals) / sizeof(*crash_signals) };

/* Those by which other processes end it: only the sender is recorded. */
static const int crash_requests[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
enum { NREQUESTS = sizeof(crash_requests) / sizeof(*crash_requests) };

static struct {
	char path[64];
	int32_t agent;
	uint32_t local_rank;
	int is_on;
	uint64_t caught; /* bits */
	int32_t dying; /* the thread that writes the record */
} crash;

static char crash_stack[CRASH_ALT_STACK] __attribute__((aligned(64)));

/* Only one thread of a process writes. The program's own alternate stack may
 * have little more than the room of a signal's frame. */
static struct crash_record crash_record;
static char crash_block[PAGE];

/* The compiler calls these for large structs. */
void *memset(void *to, int byte, size_t n);
void *memset(void *to, int byte, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((char *)to)[i] = (char)byte;
	return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((char *)to)[i] = ((const char *)from)[i];
	return to;
}

/* ---- System calls ---- */

static int crash_open(const char *path, int flags)
{
	return (int)CALL(SYS_openat, AT_CWD, path, flags | OPEN_CLOEXEC, 0);
}

/* ---- The record ---- */

static uint64_t crash_limit(int number)
{
	uint64_t limit[2] = {CRASH_UNLIMITED, CRASH_UNLIMITED};
	int which = number == SIGXCPU	? LIMIT_CPU
		    : number == SIGXFSZ ? LIMIT_FSIZE
					: LIMIT_STACK;

	CALL(SYS_prlimit64, 0, which, NULL, limit);
	return limit[0];
}

/* The kernel reads the memory, so that the end of the stack causes no fault.
 * The first pages of a stack that has overflowed are not there. */
static void crash_put_stack(struct crash_record *r, int fd, uint64_t slot)
{
	uint64_t at = r->stack_from = r->sp - RED_ZONE;
	uint64_t end = at + CRASH_STACK_MAX;

	while (at < end) {
		uint64_t next = (at / PAGE + 1) * PAGE;
		long n;

		next = next < end ? next : end;
		n = CALL(SYS_pwrite64, fd, at, next - at,
			 slot + CRASH_STACK_AT + r->stack_size);
		if (n <= 0 && r->stack_size == 0 && next <= r->sp + SKIPPED) {
			r->stack_from = at = next;
			continue;
		}
		if (n <= 0)
			break;
		r->stack_size += (uint32_t)n;
		at += (uint64_t)n;
	}
}

static void crash_put_maps(struct crash_record *r, int fd, uint64_t slot)
{
	int maps = crash_open("/proc/self/maps", OPEN_READ);

	while (maps >= 0 && r->maps_size < CRASH_MAPS_MAX) {
		long n = CALL(SYS_read, maps, crash_block,
			      sizeof(crash_block));

		if (n > 0)
			n = CALL(SYS_pwrite64, fd, crash_block, n,
				 slot + CRASH_MAPS_AT + r->maps_size);
		if (n <= 0)
			break;
		r->maps_size += (uint32_t)n;
	}
	if (maps >= 0)
		CALL(SYS_close, maps);
}

static void crash_fill(struct crash_record *r, int number,
		       const siginfo_t *info, const ucontext_t *u)
{
	struct stat root = {.st_dev = 0};
	long n;

	r->pid = (int32_t)CALL(SYS_getpid, 0);
	r->tid = (int32_t)CALL(SYS_gettid, 0);
	r->signal = number;
	r->code = info->si_code;
	if (info->si_code <= 0)
		r->sender = info->si_pid;
	else
		r->address = (uint64_t)info->si_addr;
	r->limit = number == SIGSYS ? (uint64_t)info->si_syscall
				    : crash_limit(number);
	if (CALL(SYS_newfstatat, AT_CWD, "/", &root, 0) == 0) {
		r->root_device = root.st_dev;
		r->root_inode = root.st_ino;
	}
	if (number == SIGBUS && info->si_code == BUS_ADRERR)
		crash_bus_put(&r->file, r->address);
	CALL(SYS_prctl, GET_NAME, r->thread);
	n = CALL(SYS_readlinkat, AT_CWD, "/proc/self/exe", r->program,
		 sizeof(r->program) - 1);
	r->program[n > 0 ? n : 0] = '\0';
	crash_put_registers(r, u);
}

/* ---- The handler ---- */

/* Whether fd is the agent's file of records and has that slot: the number may
 * be another file's by now, and memory past a file's end cannot be touched. */
static int crash_is_slot(int fd, uint64_t slot)
{
	struct stat st = {.st_size = 0};
	long seals = CALL(SYS_fcntl, fd, GET_SEALS, 0);

	return seals >= 0 && (seals & SEALS) == SEALS &&
	       CALL(SYS_fstat, fd, &st) == 0 &&
	       (uint64_t)st.st_size >= CRASH_SLOT_BYTES &&
	       slot <= (uint64_t)st.st_size - CRASH_SLOT_BYTES;
}

/* 1 if the slot was free. */
static int crash_claim(int fd, uint64_t slot)
{
	long at = CALL(SYS_mmap, NULL, PAGE, MAP_RW, MAP_IS_SHARED, fd, slot);
	uint32_t none = 0;
	int rc;

	if (at < 0 && at > -PAGE)
		return 0;
	rc = __atomic_compare_exchange_n(
		&((struct crash_record *)at)->claimed, &none, 1, 0,
		__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	CALL(SYS_munmap, at, PAGE);
	return rc;
}

static void crash_write(int number, const siginfo_t *info, const ucontext_t *u)
{
	struct crash_record *r = &crash_record;
	const struct kernel_frame *outer = crash_outer_find(u);
	siginfo_t first = outer ? crash_outer_info(outer, number) : *info;
	int fd = crash_open(crash.path, OPEN_WRITE);
	int is_own = CALL(SYS_getppid, 0) == crash.agent;
	uint64_t slot = crash_slot_at(crash.local_rank,
				      is_own ? CRASH_OWN : CRASH_DESCENDANT);

	if (fd < 0)
		return;
	if (!outer)
		crash_outer_repeats(number, info, u, &first);
	if (crash_is_slot(fd, slot) && crash_claim(fd, slot)) {
		r->magic = CRASH_MAGIC;
		r->claimed = 1;
		crash_fill(r, number, &first,
			   outer ? (const void *)&outer->context : u);
		crash_put_stack(r, fd, slot);
		crash_put_maps(r, fd, slot);
		CALL(SYS_pwrite64, fd, r, sizeof(*r), slot);
		crash_python_put(fd, slot, r->tid);
	}
	CALL(SYS_close, fd);
}

void crash_put_part(uint32_t at, const void *bytes, uint64_t n)
{
	uint64_t slot = crash_slot_at(crash.local_rank, CRASH_OWN);
	int fd = crash_open(crash.path, OPEN_WRITE);

	if (fd < 0)
		return;
	if (crash_is_slot(fd, slot))
		CALL(SYS_pwrite64, fd, bytes, n, slot + at);
	CALL(SYS_close, fd);
}

void crash_read_name(int32_t pid, char name[16])
{
	static const char before[] = "/proc/", after[] = "/comm";
	char path[sizeof(before) + 12 + sizeof(after)];
	size_t n = sizeof(path) - sizeof(after);
	long size = 0;
	int fd;

	memcpy(path + n, after, sizeof(after));
	do {
		path[--n] = (char)('0' + pid % 10);
		pid /= 10;
	} while (pid > 0);
	n -= sizeof(before) - 1;
	memcpy(path + n, before, sizeof(before) - 1);
	fd = crash_open(path + n, OPEN_READ);
	if (fd >= 0) {
		size = CALL(SYS_read, fd, name, 16);
		CALL(SYS_close, fd);
	}
	/* it ends with a newline */
	name[size > 0 ? size - 1 : 0] = '\0';
}

int crash_is_on(void)
{
	return crash.is_on;
}

/* As below; the agent knows of its own signals. */
static void crash_on_request(int number, siginfo_t *info, void *context)
{
	long pid = CALL(SYS_getpid, 0), tid = CALL(SYS_gettid, 0);
	struct crash_sent sent = {
		.magic = CRASH_MAGIC, .pid = (int32_t)pid, .signal = number,
	};

	if (info->si_code <= 0 && info->si_pid != crash.agent) {
		sent.sender = info->si_pid;
		sent.uid = info->si_uid;
		if (sent.sender > 0)
			crash_read_name(sent.sender, sent.name);
		crash_put_part(crash_sent_at(sent.pid), &sent, sizeof(sent));
	}
	crash_set_action(number, SIG_DFL, 0);
	if (CALL(SYS_rt_tgsigqueueinfo, pid, tid, number, info) < 0)
		CALL(SYS_tgkill, pid, tid, number);
}

/* The signal is blocked here, and delivered with its default action, and to the
 * same place of the program, when this returns. */
static void crash_on_signal(int number, siginfo_t *info, void *context)
{
	long pid = CALL(SYS_getpid, 0), tid = CALL(SYS_gettid, 0);
	int32_t none = 0;

	if (__atomic_compare_exchange_n(&crash.dying, &none, (int32_t)tid, 0,
					__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		crash_write(number, info, context);
	else if (none != (int32_t)tid)
		crash_await_the_other();
	for (int i = 0; i < NSIGNALS; i++)
		if (crash_signals[i] == number || crash_signals[i] == SIGSEGV ||
		    crash_signals[i] == SIGBUS)
			crash_set_action(crash_signals[i], SIG_DFL, 0);
	if (CALL(SYS_rt_tgsigqueueinfo, pid, tid, number, info) < 0)
		CALL(SYS_tgkill, pid, tid, number);
}

static int crash_is_request(int number)
{
	for (int i = 0; i < NREQUESTS; i++)
		if (crash_requests[i] == number)
			return 1;
	return 0;
}

uint64_t crash_caught(void)
{
	return __atomic_load_n(&crash.caught, __ATOMIC_RELAXED);
}

/* The program has set an action of its own. */
static void crash_let_go(int number)
{
	__atomic_fetch_and(&crash.caught, ~(UINT64_C(1) << (number - 1)),
			   __ATOMIC_RELAXED);
}

static void crash_catch(int number)
{
	__atomic_fetch_or(&crash.caught, UINT64_C(1) << (number - 1),
			  __ATOMIC_RELAXED);
	crash_set_action(number,
			 crash_is_request(number) ? (void *)crash_on_request
						  : (void *)crash_on_signal,
			 SA_SIGINFO | SA_ONSTACK);
}

static int crash_is_ours(void *handler)
{
	return handler == (void *)crash_on_signal ||
	       handler == (void *)crash_on_request;
}

/* ---- The program sees the default where the handler is ---- */

static int crash_is_caught(int number)
{
	for (int i = 0; i < NSIGNALS; i++)
		if (crash_signals[i] == number)
			return crash.is_on;
	return crash.is_on && crash_is_request(number);
}

void *crash_find_next(const char *name)
{
	/* no tail call: dlsym looks at who called it */
	void *volatile found = dlsym ? dlsym(NEXT, name) : NULL;

	return found;
}

/* Until version 2.33 of glibc, dlsym is in libdl, which a program need not
 * have, and libpthread may be a plugin's. */
void *crash_find_in_pthread(const char *name)
{
	void *library = NULL;

	if (__libc_dlopen_mode && __libc_dlsym)
		library = __libc_dlopen_mode("libpthread.so.0", LOAD_NOW);
	return library ? __libc_dlsym(library, name) : NULL;
}

typedef int sigaction_fn(int, const struct sigaction *, struct sigaction *);
typedef void (*handler_fn)(int);
typedef handler_fn signal_fn(int, handler_fn);

KEPT int sigaction(int number, const struct sigaction *new_action,
		   struct sigaction *old)
{
	static sigaction_fn *next;
	/* before old is written: it may be the same struct */
	int is_new = new_action != NULL;
	int is_default = is_new && new_action->sa_handler == SIG_DFL;
	int rc;

	if (!next)
		next = (sigaction_fn *)crash_find_next("sigaction");
	if (!next)
		next = __sigaction;
	if (!next)
		return -1;
	rc = next(number, new_action, old);
	if (rc < 0 || !crash_is_caught(number))
		return rc;
	if (old && crash_is_ours((void *)old->sa_sigaction))
		*old = (struct sigaction){.sa_handler = SIG_DFL};
	if (is_default)
		crash_catch(number);
	else if (is_new)
		crash_let_go(number);
	return rc;
}

static handler_fn crash_signal(const char *name, signal_fn **next, int number,
			       handler_fn handler)
{
	handler_fn old;

	if (!*next)
		*next = (signal_fn *)crash_find_next(name);
	if (!*next)
		return SIG_ERR;
	old = (*next)(number, handler);
	if (old == SIG_ERR || !crash_is_caught(number))
		return old;
	if (handler == SIG_DFL)
		crash_catch(number);
	else
		crash_let_go(number);
	return crash_is_ours((void *)old) ? SIG_DFL : old;
}

KEPT handler_fn signal(int number, handler_fn handler)
{
	static signal_fn *next;

	return crash_signal("signal", &next, number, handler);
}

KEPT handler_fn bsd_signal(int number, handler_fn handler);
KEPT handler_fn bsd_signal(int number, handler_fn handler)
{
	static signal_fn *next;

	return crash_signal("bsd_signal", &next, number, handler);
}

KEPT handler_fn __sysv_signal(int number, handler_fn handler);
KEPT handler_fn __sysv_signal(int number, handler_fn handler)
{
	static signal_fn *next;

	return crash_signal("__sysv_signal", &next, number, handler);
}

/* ---- The start ---- */

/* Go's runtime passes a crash in C code on to the handler that it found, and
 * would no longer print its own trace: its programs have a note. */
static int crash_is_go_note(const char *at, size_t size)
{
	while (size >= sizeof(Elf64_Nhdr) + 4) {
		const Elf64_Nhdr *n = (const Elf64_Nhdr *)at;
		size_t bytes = sizeof(*n) + ((n->n_namesz + 3u) & ~3u) +
			       ((n->n_descsz + 3u) & ~3u);
		const char *name = at + sizeof(*n);

		if (n->n_namesz == 4 && name[0] == 'G' && name[1] == 'o' &&
		    name[2] == '\0')
			return 1;
		if (bytes > size)
			return 0;
		at += bytes;
		size -= bytes;
	}
	return 0;
}

static int crash_is_go(void)
{
	const Elf64_Phdr *p = getauxval ? (void *)getauxval(AT_PHDR) : NULL;
	size_t n = p ? getauxval(AT_PHNUM) : 0;
	uint64_t bias = 0;

	for (size_t i = 0; i < n; i++)
		if (p[i].p_type == PT_PHDR)
			bias = (uint64_t)p - p[i].p_vaddr;
	for (size_t i = 0; i < n; i++)
		if (p[i].p_type == PT_NOTE &&
		    crash_is_go_note((const char *)(bias + p[i].p_vaddr),
				     p[i].p_memsz))
			return 1;
	return 0;
}

static uint32_t crash_number(const char **text)
{
	uint32_t n = 0;

	for (; **text >= '0' && **text <= '9'; ++*text)
		n = n * 10 + (uint32_t)(**text - '0');
	return n;
}

/* /proc/PID/fd/N:LOCAL_RANK */
static int crash_read(const char *text)
{
	static const char folder[] = "/proc/";
	const char *at;
	size_t n = 0;

	while (text && text[n] && text[n] != ':' &&
	       n < sizeof(crash.path) - 1) {
		crash.path[n] = text[n];
		n++;
	}
	if (!text || text[n] != ':' || n <= sizeof(folder))
		return -1;
	crash.path[n] = '\0';
	at = text + sizeof(folder) - 1;
	crash.agent = (int32_t)crash_number(&at);
	at = text + n + 1;
	crash.local_rank = crash_number(&at);
	return 0;
}

/* A worker that was forked (--preload) has another variable than the process in
 * which the library was loaded. */
KEPT void ddprun_crash_move(const char *variable);
KEPT void ddprun_crash_move(const char *variable)
{
	if (crash_read(variable) < 0)
		crash.path[0] = '\0';
}

static void crash_catch_default(int number)
{
	struct kernel_action now = {.handler = SIG_IGN};

	CALL(SYS_rt_sigaction, number, NULL, &now, sizeof(now.mask));
	if (now.handler == SIG_DFL)
		crash_catch(number);
}

__attribute__((constructor)) static void crash_start(void)
{
	stack_t own = {.ss_sp = crash_stack, .ss_size = CRASH_ALT_STACK};
	stack_t was = {.ss_flags = 0};

	crash_children_begin();
	crash_masks_begin();
	if (crash_read(crash_environment_find()) < 0 || crash_is_go())
		return;
	crash_environment_leave(crash.agent);
	crash.is_on = 1;
	for (int i = 0; i < NSIGNALS; i++)
		crash_catch_default(crash_signals[i]);
	for (int i = 0; i < NREQUESTS; i++)
		crash_catch_default(crash_requests[i]);
	crash_masks_unblock();
	/* for a stack overflow of the main thread */
	if (CALL(SYS_sigaltstack, NULL, &was) == 0 && was.ss_flags & SS_DISABLE)
		CALL(SYS_sigaltstack, &own, NULL);
	crash_threads_begin();
}

#endif
