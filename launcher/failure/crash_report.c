/* crash_report.c: describes a crash record. */
#include "launcher/failure/failure_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "launcher/failure/last_words.h"
#include "launcher/worker/spawn.h"

enum {
	MIB = 1 << 20,
	LINE_MAX_BYTES = 400,
	STACK_BYTES = 16 << 10,
	STACK_NEAR = 64 << 10, /* bytes around the stack pointer */
	NULL_NEAR = 64 << 10,  /* fields of a struct at address 0 */
};

void crash_report_init(struct crash_report *r)
{
	*r = (struct crash_report){.signal = 0};
	buf_init(&r->meaning, LINE_MAX_BYTES);
	buf_init(&r->place, LINE_MAX_BYTES);
	buf_init(&r->python_place, LINE_MAX_BYTES);
	buf_init(&r->note, LINE_MAX_BYTES);
	buf_init(&r->sender, LINE_MAX_BYTES);
	buf_init(&r->stack, STACK_BYTES);
}

void crash_report_release(struct crash_report *r)
{
	buf_release(&r->meaning);
	buf_release(&r->place);
	buf_release(&r->python_place);
	buf_release(&r->note);
	buf_release(&r->sender);
	buf_release(&r->stack);
}

/* ---- What the signal means ---- */

/* 1 if the file system of that file has no room. */
static int crash_report_put_full(struct buf *out, const struct crash_file *f)
{
	if (f->fs_blocks == 0 || f->fs_available > f->fs_blocks / 100)
		return 0;
	buf_printf(out, "%s is full (%llu of %llu MiB): %s", f->mount,
		   (unsigned long long)((f->fs_blocks - f->fs_free) *
					f->fs_block / MIB),
		   (unsigned long long)(f->fs_blocks * f->fs_block / MIB),
		   f->path);
	return 1;
}

static void crash_report_put_bus(struct buf *out, const struct crash_record *r)
{
	const struct crash_file *f = &r->file;

	if (r->code == BUS_ADRALN)
		buf_printf(out, "misaligned address 0x%llx",
			   (unsigned long long)r->address);
	else if (r->code == BUS_MCEERR_AR || r->code == BUS_MCEERR_AO)
		buf_printf(out, "a memory error of the hardware at 0x%llx (see "
			   "dmesg)", (unsigned long long)r->address);
	else if (!f->path[0] || crash_report_put_full(out, f))
		return;
	else if (f->size <= f->at)
		buf_printf(out, "%s was truncated to %llu bytes while it was "
			   "mapped", f->path, (unsigned long long)f->size);
	else
		buf_printf(out, "a page of %s cannot be read or written",
			   f->path);
}

/* Whether the stack pointer is in writable memory, by /proc/PID/maps. */
static int crash_report_has_stack(const char *maps, uint64_t sp)
{
	unsigned long long from, to;
	char may[8];

	for (; *maps; maps += strcspn(maps, "\n"), maps += *maps == '\n')
		if (sscanf(maps, "%llx-%llx %7s", &from, &to, may) == 3 &&
		    sp >= from && sp < to)
			return may[1] == 'w';
	return 0;
}

/* The fault is close to the stack pointer, or in a frame that is larger than
 * what is left of the stack. */
static int crash_report_is_overflow(const struct crash_record *r,
				    const char *maps)
{
	if (r->address < r->sp + STACK_NEAR && r->sp < r->address + STACK_NEAR)
		return 1;
	return r->address > r->sp && maps && *maps &&
	       !crash_report_has_stack(maps, r->sp);
}

static void crash_report_put_fault(struct buf *out,
				   const struct crash_record *r,
				   const char *maps)
{
	unsigned long long address = r->address;

	if (r->code == SI_KERNEL) {
		buf_printf(out, "a damaged pointer (no valid address)");
	} else if (crash_report_is_overflow(r, maps)) {
		buf_printf(out, r->pid == r->tid
					? "stack overflow: the stack size "
					  "limit (ulimit -s)"
					: "stack overflow: the thread's stack "
					  "size (pthread_attr_setstacksize, "
					  "or ulimit -s)");
		if (r->pid == r->tid && r->limit != CRASH_UNLIMITED)
			buf_printf(out, " of %llu KiB",
				   (unsigned long long)r->limit >> 10);
	} else if (address < NULL_NEAR) {
		buf_printf(out, "null pointer (address 0x%llx)", address);
	} else {
		buf_printf(out, "%s 0x%llx", r->code == SEGV_ACCERR
			   ? "forbidden access to address"
			   : "invalid address", address);
	}
}

static const char *crash_report_arithmetic(int code)
{
	switch (code) {
	case FPE_INTDIV:
		return "integer division by zero";
	case FPE_INTOVF:
		return "integer overflow";
	case FPE_FLTDIV:
		return "floating-point division by zero";
	case FPE_FLTOVF:
		return "floating-point overflow";
	case FPE_FLTINV:
		return "invalid floating-point operation";
	default:
		return "an arithmetic error";
	}
}

static void crash_report_put_limit(struct buf *out,
				   const struct crash_record *r)
{
	unsigned long long limit = r->limit;

	buf_printf(out, r->signal == SIGXCPU ? "the CPU time limit (ulimit -t)"
		   : "the file size limit (ulimit -f)");
	if (r->limit == CRASH_UNLIMITED)
		return;
	/* the kernel raises the limit by a second when it sends the signal */
	if (r->signal == SIGXCPU)
		buf_printf(out, " of %llu s", limit - 1);
	else if (limit >= MIB)
		buf_printf(out, " of %llu MiB", limit / MIB);
	else
		buf_printf(out, " of %llu bytes", limit);
}

/* The sender may have ended. */
static void crash_report_put_sender(struct buf *out, int32_t pid)
{
	char path[64], name[32];

	buf_printf(out, "sent by process %d", (int)pid);
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (file_read_text(path, name, sizeof(name)) <= 0)
		return;
	name[strcspn(name, "\n")] = '\0';
	buf_printf(out, " (%s)", name);
}

/* The kernel reports SIGXFSZ as if the process had sent it; abort() does send
 * it, with tgkill. */
static int crash_report_is_sent(const struct crash_record *r)
{
	if (r->code > 0)
		return 0;
	return r->sender != r->pid ||
	       (r->signal == SIGABRT ? r->code != SI_TKILL
				     : r->signal != SIGXFSZ);
}

void crash_report_put_meaning(struct buf *out, const struct crash_record *r,
			      const char *maps)
{
	if (crash_report_is_sent(r)) {
		if (r->sender != r->pid && r->sender > 0)
			crash_report_put_sender(out, r->sender);
		return;
	}
	switch (r->signal) {
	case SIGSEGV:
		crash_report_put_fault(out, r, maps);
		break;
	case SIGBUS:
		crash_report_put_bus(out, r);
		break;
	case SIGFPE:
		buf_printf(out, "%s", crash_report_arithmetic(r->code));
		break;
	case SIGILL:
		buf_printf(out, "illegal instruction");
		break;
	case SIGABRT:
		buf_printf(out, "abort()");
		break;
	case SIGSYS:
		if (r->code > 0)
			buf_printf(out, "a seccomp filter forbids system call "
				   "%llu", (unsigned long long)r->limit);
		break;
	case SIGXCPU:
	case SIGXFSZ:
		crash_report_put_limit(out, r);
		break;
	default:
		break;
	}
}

/* ---- Stacks ---- */

/* The C library raises and copies for others. */
static int crash_report_is_libc(struct slice line)
{
	return slice_has(line, " (libc.so") || slice_has(line, " (libc-") ||
	       slice_has(line, " (libstdc++") ||
	       slice_has(line, " (libpthread") || slice_has(line, " (ld-linux");
}

/* "#0 step at train.c:120 (train)" without "#0 " and, if it has a source,
 * without " (train)". */
static void crash_report_put_frame(struct buf *out, struct slice line)
{
	const char *space = slice_find(line, " ");
	const char *source = slice_find(line, " at ");
	const char *module = memrchr(line.data, '(', line.len);
	size_t n = line.len;

	if (!space)
		return;
	if (source && module > source)
		n = (size_t)(module - 1 - line.data);
	buf_printf(out, " in %.*s", (int)(n - (size_t)(space + 1 - line.data)),
		   space + 1);
}

void crash_report_put_place(struct buf *out, struct slice stack)
{
	struct slice line, first = SLICE_STR(""), best = SLICE_STR("");

	while (stack.len) {
		line = slice_next_line(&stack);
		if (!first.len)
			first = line;
		if (slice_has(line, " at ")) {
			best = line;
			break;
		}
		if (!best.len && !crash_report_is_libc(line) &&
		    !slice_has(line, " ? "))
			best = line;
	}
	crash_report_put_frame(out, best.len ? best : first);
}

void crash_report_put_python(struct buf *out, struct slice frames)
{
	static const char file[] = "  File \"", line_is[] = "\", line ",
			  in[] = " in ";
	int n = 0;

	while (frames.len && n < CRASH_REPORT_FRAMES) {
		struct slice s = slice_next_line(&frames);
		const char *number = slice_find(s, line_is);
		const char *path = s.data + sizeof(file) - 1, *name, *digits;

		if (!number || number < path ||
		    memcmp(s.data, file, sizeof(file) - 1) != 0)
			continue;
		digits = number + sizeof(line_is) - 1;
		name = slice_find(
			SLICE(digits, (size_t)(s.data + s.len - digits)), in);
		if (!name)
			continue;
		buf_printf(out, "#py%d %.*s at %.*s:%.*s\n", n++,
			   (int)(s.data + s.len - name - (sizeof(in) - 1)),
			   name + sizeof(in) - 1, (int)(number - path), path,
			   (int)(name - digits), digits);
	}
}

/* ---- The child that unwinds ---- */

/* Reads until the pipe ends, or for CRASH_REPORT_WAIT_MS. 0: it has ended. */
static int crash_report_await(struct buf *out, int from)
{
	uint64_t end = clock_ms() + CRASH_REPORT_WAIT_MS;
	struct pollfd p = {.fd = from, .events = POLLIN};
	char block[4096];
	uint64_t now;
	ssize_t n;

	while ((now = clock_ms()) < end) {
		p.revents = 0;
		if (poll(&p, 1, (int)(end - now)) < 0 && errno != EINTR)
			break;
		if (!p.revents)
			continue;
		n = read(from, block, sizeof(block));
		if (n <= 0)
			return 0;
		buf_put(out, block, (size_t)n);
	}
	buf_printf(out, "it took longer than %d ms\n", CRASH_REPORT_WAIT_MS);
	return -1;
}

static void crash_report_end(struct buf *out, int from, pid_t pid)
{
	int rc = crash_report_await(out, from), status = 0;
	char name[SIGNAL_NAME_MAX];

	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc == 0 && WIFSIGNALED(status)) /* libdw may crash as well */
		buf_printf(out, "its unwinder was killed by signal %d (%s)\n",
			   WTERMSIG(status),
			   signal_name(WTERMSIG(status), name));
}

static void crash_report_run(struct buf *out, int records, uint64_t slot)
{
	extern char **environ;
	char at[24], command[] = "--crash-stack";
	char *argv[] = {"ddprun", command, at, NULL};
	struct spawn order = {
		.path = "/proc/self/exe", .argv = argv, .envp = environ,
		.in = records, .keep = {-1, -1},
	};
	struct err e = ERR_INIT;
	int ends[2], null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	pid_t pid;

	snprintf(at, sizeof(at), "%llu", (unsigned long long)slot);
	if (null < 0 || pipe2(ends, O_CLOEXEC) < 0) {
		buf_printf(out, "cannot start its unwinder: %s\n",
			   strerror(errno));
		if (null >= 0)
			close(null);
		return;
	}
	order.out = ends[1];
	order.err = null;
	pid = spawn_process(&order, &e);
	close(ends[1]);
	close(null);
	if (pid > 0)
		crash_report_end(out, ends[0], pid);
	else
		buf_printf(out, "cannot start its unwinder: %s\n", e.text);
	close(ends[0]);
}

/* main's callers belong to the C library, and are the same in all programs. */
static int crash_report_is_main(struct slice line)
{
	return slice_has(line, " main at ") || slice_has(line, " main (");
}

/* The library starts a program's threads: crash_threads.c. */
static int crash_report_is_library(struct slice line)
{
	return slice_has(line, " (memfd:ddprun-crash-library");
}

/* The first frames, and the reason if there are none. */
static void crash_report_keep(struct crash_report *r, struct slice lines)
{
	int n = 0;

	while (lines.len) {
		struct slice line = slice_next_line(&lines);

		if (!line.len)
			continue;
		if (line.data[0] != '#') {
			buf_printf(&r->note, "its stack is not %s: %.*s",
				   n ? "complete" : "shown", SLICE_FMT(line));
			return;
		}
		if (n++ == CRASH_REPORT_FRAMES || crash_report_is_library(line))
			return;
		buf_put(&r->stack, line.data, line.len);
		buf_put(&r->stack, "\n", 1);
		if (crash_report_is_main(line))
			return;
	}
}

static void crash_report_unwind(struct crash_report *r,
				const struct crash_catcher *c, uint64_t slot,
				int has_place)
{
	struct buf lines = BUF_INIT(64 << 10);

	crash_report_run(&lines, c->records, slot);
	if (!lines.failed && lines.len)
		crash_report_keep(r, SLICE(lines.data, lines.len));
	if (has_place && r->stack.len)
		crash_report_put_place(&r->place,
				       SLICE(r->stack.data, r->stack.len));
	buf_release(&lines);
}

/* ---- All of it ---- */

static void crash_report_read_python(struct crash_report *r,
				     const struct crash_catcher *c,
				     uint32_t local_rank, uint32_t slot,
				     uint32_t size)
{
	char *frames = size ? malloc(size + 1) : NULL;

	if (!frames)
		return;
	crash_catcher_read_part(c, local_rank, slot, CRASH_PYTHON_AT, frames,
				size + 1);
	crash_report_put_python(&r->stack, SLICE_STR(frames));
	last_words_put_python_place(&r->python_place, SLICE_STR(frames));
	free(frames);
}

/* NULL without memory, or if there are none. The caller frees it. */
static char *crash_report_read_maps(const struct crash_catcher *c,
				    uint32_t local_rank, uint32_t slot,
				    uint32_t size)
{
	char *maps = size && size <= CRASH_MAPS_MAX ? malloc(size + 1) : NULL;

	if (maps)
		crash_catcher_read_part(c, local_rank, slot, CRASH_MAPS_AT,
					maps, size + 1);
	return maps;
}

void crash_report_read(struct crash_report *r, const struct crash_catcher *c,
		       const struct crash_report_of *of)
{
	uint32_t local_rank = of->local_rank, slot = CRASH_OWN;
	struct crash_record record;
	struct crash_sent sent;
	const char *name;
	char *maps;

	if (crash_catcher_read_sent(c, local_rank, of->pid, of->signal, &sent))
		crash_catcher_put_sender(&sent, &r->sender);
	r->is_workers = crash_catcher_read(c, local_rank, slot, &record) &&
			record.pid == of->pid;
	if (!r->is_workers &&
	    !crash_catcher_read(c, local_rank, slot = CRASH_DESCENDANT,
				&record))
		return;
	r->signal = record.signal;
	r->code = record.code;
	r->pid = record.pid;
	name = strrchr(record.program, '/');
	snprintf(r->program, sizeof(r->program), "%.31s",
		 name ? name + 1 : record.program);
	maps = crash_report_read_maps(c, local_rank, slot, record.maps_size);
	crash_report_put_meaning(&r->meaning, &record, maps);
	free(maps);
	if (of->with_stack)
		crash_report_unwind(r, c, crash_slot_at(local_rank, slot),
				    !crash_report_is_sent(&record));
	crash_report_read_python(r, c, local_rank, slot, record.python_size);
}
