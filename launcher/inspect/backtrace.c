/* backtrace.c: unwinds thread_snapshots with libdw, loaded when needed. */
#include "launcher/inspect/backtrace.h"

#include <dirent.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dynlib.h"
#include "base/file.h"
#include "launcher/inspect/thread_snapshot.h"

struct dw {
	__typeof__(dwfl_begin) *begin;
	__typeof__(dwfl_end) *end;
	__typeof__(dwfl_linux_proc_report) *report;
	__typeof__(dwfl_linux_proc_maps_report) *report_maps;
	__typeof__(dwfl_report_end) *report_end;
	__typeof__(dwfl_linux_proc_find_elf) *find_elf;
	__typeof__(dwfl_attach_state) *attach;
	__typeof__(dwfl_thread_state_registers) *registers;
	__typeof__(dwfl_thread_state_register_pc) *register_pc;
	__typeof__(dwfl_getthread_frames) *frames;
	__typeof__(dwfl_frame_pc) *frame_pc;
	__typeof__(dwfl_addrmodule) *module;
	__typeof__(dwfl_module_info) *module_info;
	__typeof__(dwfl_module_addrname) *function;
	__typeof__(dwfl_module_getsrc) *source;
	__typeof__(dwfl_lineinfo) *line;
};

static struct dw dw;

static const struct dynlib_symbol rows[] = {
	DYNLIB_SYMBOL(struct dw, begin, "dwfl_begin"),
	DYNLIB_SYMBOL(struct dw, end, "dwfl_end"),
	DYNLIB_SYMBOL(struct dw, report, "dwfl_linux_proc_report"),
	DYNLIB_SYMBOL(struct dw, report_maps, "dwfl_linux_proc_maps_report"),
	DYNLIB_SYMBOL(struct dw, report_end, "dwfl_report_end"),
	DYNLIB_SYMBOL(struct dw, find_elf, "dwfl_linux_proc_find_elf"),
	DYNLIB_SYMBOL(struct dw, attach, "dwfl_attach_state"),
	DYNLIB_SYMBOL(struct dw, registers, "dwfl_thread_state_registers"),
	DYNLIB_SYMBOL(struct dw, register_pc, "dwfl_thread_state_register_pc"),
	DYNLIB_SYMBOL(struct dw, frames, "dwfl_getthread_frames"),
	DYNLIB_SYMBOL(struct dw, frame_pc, "dwfl_frame_pc"),
	DYNLIB_SYMBOL(struct dw, module, "dwfl_addrmodule"),
	DYNLIB_SYMBOL(struct dw, module_info, "dwfl_module_info"),
	DYNLIB_SYMBOL(struct dw, function, "dwfl_module_addrname"),
	DYNLIB_SYMBOL(struct dw, source, "dwfl_module_getsrc"),
	DYNLIB_SYMBOL(struct dw, line, "dwfl_lineinfo"),
};

static const struct dynlib libdw = {
	.soname = "libdw.so.1",
	.without = "no native stacks",
	.remedy = "elfutils' library, 0.158 or later; package libdw1 on Debian",
	.rows = rows,
	.n = sizeof(rows) / sizeof(*rows),
};

static int backtrace_load(struct err *e)
{
	static int loaded;

	if (!loaded)
		loaded = dynlib_load(&libdw, &dw, e) != NULL;
	return loaded ? 0 : ERR_SYSTEM;
}

/* ---- Callbacks of libdw ---- */

/* libdw sees one thread at a time. */
static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	struct thread_snapshot *f = arg;

	if (*thread_arg)
		return 0;
	*thread_arg = f;
	return f->tid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	*thread_arg = arg;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *thread_arg)
{
	const struct thread_snapshot *f = thread_arg;
	Dwarf_Word words[SNAPSHOT_REGISTERS];

	for (int i = 0; i < f->nregisters; i++)
		words[i] = f->registers[i];
	dw.register_pc(thread, f->pc);
	return dw.registers(thread, 0, (unsigned)f->nregisters, words);
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr at, Dwarf_Word *word, void *arg)
{
	uint64_t value;

	if (thread_snapshot_read(arg, at, &value) < 0)
		return false;
	*word = value;
	return true;
}

static const Dwfl_Thread_Callbacks thread_calls = {
	.next_thread = next_thread, .get_thread = get_thread,
	.memory_read = read_memory, .set_initial_registers = set_registers,
};

/* Never looks for separate debug files: they may be on the network. */
static int no_debug_file(Dwfl_Module *module, void **data, const char *name,
			 Dwarf_Addr base, const char *file, const char *link,
			 GElf_Word crc, char **debug_file)
{
	return -1;
}

/* ---- Frames ---- */

static const char *backtrace_base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ? path : "";
}

static void backtrace_name_frame(Dwfl_Module *module, uint64_t at,
				 struct backtrace_frame *x)
{
	const char *name, *file;
	Dwfl_Line *line;
	Dwarf_Addr start = at;
	int number = 0;

	name = dw.module_info(module, NULL, &start, NULL, NULL, NULL, NULL,
			      NULL);
	x->offset = at - start;
	snprintf(x->module, sizeof(x->module), "%s", backtrace_base_name(name));
	name = dw.function(module, at);
	snprintf(x->function, sizeof(x->function), "%s", name ? name : "");
	line = dw.source(module, at);
	file = line ? dw.line(line, NULL, &number, NULL, NULL, NULL) : NULL;
	if (file)
		snprintf(x->source, sizeof(x->source), "%.140s:%d",
			 backtrace_base_name(file), number);
}

struct backtrace_walk {
	Dwfl *dwfl;
	struct backtrace_thread *t;
	backtrace_on_frame *on_frame; /* or NULL */
	void *arg;
};

static int backtrace_handle_frame(Dwfl_Frame *frame, void *arg)
{
	struct backtrace_walk *w = arg;
	struct backtrace_thread *t = w->t;
	struct backtrace_frame *x = &t->frames[t->n];
	Dwfl_Module *module;
	bool exact = false;
	Dwarf_Addr pc;

	if (!dw.frame_pc(frame, &pc, &exact))
		return DWARF_CB_ABORT;
	*x = (struct backtrace_frame){.pc = pc};
	/* pc is a return address; the call is before it */
	pc -= !exact;
	module = dw.module(w->dwfl, pc);
	if (module)
		backtrace_name_frame(module, pc, x);
	if (w->on_frame)
		w->on_frame(w->arg, t->n, x);
	t->n++;
	return t->n < BACKTRACE_FRAMES_MAX ? DWARF_CB_OK : DWARF_CB_ABORT;
}

static void backtrace_frames(struct backtrace_walk *w)
{
	struct backtrace_thread *t = w->t;

	dw.frames(w->dwfl, t->tid, backtrace_handle_frame, w);
	if (!t->n)
		err_set(&t->why, ERR_SYSTEM, "its stack cannot be read");
}

static void backtrace_thread_walk(Dwfl *dwfl, struct thread_snapshot *f,
				  pid_t pid, struct backtrace_thread *t)
{
	struct backtrace_walk w = {.dwfl = dwfl, .t = t};
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid,
		 (int)t->tid);
	file_read_text(path, t->name, sizeof(t->name));
	t->name[strcspn(t->name, "\n")] = '\0';
	t->n = 0;
	t->why = (struct err)ERR_INIT;
	if (thread_snapshot_take(f, pid, t->tid, &t->why) == 0)
		backtrace_frames(&w);
}

static int backtrace_list_threads(pid_t pid, pid_t *tids, int max)
{
	char path[32];
	struct dirent *entry;
	DIR *dir;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && n < max && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			tids[n++] = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	if (dir)
		closedir(dir);
	return n;
}

static int backtrace_attach(Dwfl *dwfl, pid_t pid, struct thread_snapshot *f,
			    struct err *e)
{
	if (dw.report(dwfl, pid) || dw.report_end(dwfl, NULL, NULL) ||
	    !dw.attach(dwfl, NULL, pid, &thread_calls, f))
		return err_set(e, ERR_SYSTEM, "its memory map cannot be read: "
			       "it has ended, or its files are in another "
			       "container");
	return 0;
}

static int backtrace_walk_all(Dwfl *dwfl, pid_t pid,
			      backtrace_on_thread *on_thread, void *arg,
			      struct err *e)
{
	struct backtrace_thread *t = malloc(sizeof(*t));
	struct thread_snapshot *f = malloc(sizeof(*f));
	pid_t tids[BACKTRACE_THREADS_MAX];
	int n = backtrace_list_threads(pid, tids, BACKTRACE_THREADS_MAX),
	    rc = 0;

	if (!t || !f)
		rc = err_no_memory(e, "stacks");
	else
		rc = backtrace_attach(dwfl, pid, f, e);
	for (int i = 0; rc == 0 && i < n; i++) {
		t->tid = tids[i];
		backtrace_thread_walk(dwfl, f, pid, t);
		on_thread(arg, t);
	}
	free(t);
	free(f);
	return rc;
}

static Dwfl *backtrace_begin(struct err *e)
{
	static Dwfl_Callbacks calls = {.find_debuginfo = no_debug_file};
	Dwfl *dwfl;

	if (backtrace_load(e) < 0)
		return NULL;
	calls.find_elf = dw.find_elf;
	dwfl = dw.begin(&calls);
	if (!dwfl)
		err_no_memory(e, "stacks");
	return dwfl;
}

int backtrace_process(pid_t pid, backtrace_on_thread *on_thread, void *arg,
		      struct err *e)
{
	Dwfl *dwfl = backtrace_begin(e);
	int rc;

	if (!dwfl)
		return e->code;
	rc = backtrace_walk_all(dwfl, pid, on_thread, arg, e);
	dw.end(dwfl);
	return rc;
}

int backtrace_main_thread(pid_t pid, struct thread_snapshot *s,
			  struct backtrace_thread *t, struct err *e)
{
	Dwfl *dwfl = backtrace_begin(e);
	int rc;

	if (!dwfl)
		return e->code;
	t->tid = pid;
	rc = backtrace_attach(dwfl, pid, s, e);
	if (rc == 0)
		backtrace_thread_walk(dwfl, s, pid, t);
	dw.end(dwfl);
	return rc;
}

int backtrace_dead_thread(struct thread_snapshot *s, FILE *maps,
			  backtrace_on_frame *on_each, void *arg, struct err *e)
{
	static struct backtrace_thread t;
	struct backtrace_walk w = {backtrace_begin(e), &t, on_each, arg};

	if (!w.dwfl)
		return e->code;
	t = (struct backtrace_thread){.tid = s->tid, .why = ERR_INIT};
	if (dw.report_maps(w.dwfl, maps) ||
	    dw.report_end(w.dwfl, NULL, NULL) ||
	    !dw.attach(w.dwfl, NULL, s->tid, &thread_calls, s))
		err_set(e, ERR_SYSTEM, "its memory map cannot be read");
	else
		backtrace_frames(&w);
	if (t.why.code)
		*e = t.why;
	dw.end(w.dwfl);
	return e->code;
}
