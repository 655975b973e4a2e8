/* python.c: finds the interpreter, and walks its threads and frames. A walk
 * counts only as far as a second one finds the same frames. */
#include "launcher/python/python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/python/process_memory.h"

enum {
	TRIES = 8,
	INTERPRETERS_MAX = 16,
	WALK_MAX = 256, /* frames, with those of C that are left out */
	TABLE_MAX = 64 << 10,
	TEXT_MAX = 1024, /* bytes of a name that are read */
	OWNER_ENTRY = 3, /* and above */
};

static int python_read(const struct python_process *p, uint64_t at, void *to,
		       size_t size)
{
	return process_memory_read(p->pid, at, to, size);
}

/* 0 if it cannot be read. */
static uint64_t python_pointer(const struct python_process *p, uint64_t at)
{
	uint64_t word = 0;

	return python_read(p, at, &word, sizeof(word)) == 0 ? word : 0;
}

static uint64_t python_word(const unsigned char *bytes, uint64_t offset)
{
	uint64_t word;

	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

/* ---- the interpreter ---- */

struct python_search {
	struct python_process *p;
	char path[PYTHON_NAME_MAX]; /* the module's; its end */
	char program[PYTHON_NAME_MAX];
	uint64_t module;
};

static const char *python_path_end(const char *path)
{
	size_t n = strlen(path);

	return n < PYTHON_NAME_MAX ? path : path + n - PYTHON_NAME_MAX + 1;
}

/* A program that is Python, or contains it; or its library. */
static int python_search_module(void *arg, uint64_t at, const char *path)
{
	struct python_search *s = arg;
	const char *slash = strrchr(path, '/'), *end = python_path_end(path);
	uint64_t runtime;

	if (!strstr(slash, "python") && strcmp(end, s->program) != 0)
		return 1;
	runtime = process_memory_symbol(s->p->pid, at, "_PyRuntime");
	if (!runtime)
		return 1;
	s->p->runtime = runtime;
	s->module = at;
	snprintf(s->path, sizeof(s->path), "%s", end);
	return 0;
}

/* "libpython3.9.so.1.0" or "python3.9": 9; 0: it does not say. */
static unsigned python_minor_of_path(const char *path)
{
	const char *at = strstr(strrchr(path, '/') ? strrchr(path, '/') : path,
				"python3.");

	return at ? (unsigned)strtoul(at + strlen("python3."), NULL, 10) : 0;
}

static unsigned python_minor(const struct python_search *s)
{
	uint64_t at = process_memory_symbol(s->p->pid, s->module, "Py_Version");
	uint32_t version = 0;

	if (at && python_read(s->p, at, &version, sizeof(version)) == 0 &&
	    version >> 24 == 3)
		return version >> 16 & 0xff;
	return python_minor_of_path(s->path);
}

static int python_find_layout(struct python_process *p,
			      const struct python_search *s, struct err *e)
{
	uint64_t words[PYTHON_DEBUG_OFFSETS];
	unsigned minor = python_minor(s);

	if (python_layout_of(&p->layout, minor) == 0)
		return 1;
	if (python_read(p, p->runtime, words, sizeof(words)) == 0 &&
	    python_layout_read(&p->layout, words) == 0)
		return 1;
	p->runtime = 0;
	minor = p->layout.minor ? p->layout.minor : minor;
	if (!minor)
		return err_set(e, ERR_DATA, "Python of an unknown version");
	return err_set(e, ERR_DATA,
		       "Python 3.%u: unknown layout; ddprun knows "
		       "3.%d to 3.%d",
		       minor, PYTHON_OLDEST, PYTHON_NEWEST);
}

int python_process_find(struct python_process *p, pid_t pid, struct err *e)
{
	struct python_search s = {.p = p};
	char link[64], program[4096];
	ssize_t n;
	int rc;

	*p = (struct python_process){.pid = pid};
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = readlink(link, program, sizeof(program) - 1);
	program[n > 0 ? n : 0] = '\0';
	snprintf(s.program, sizeof(s.program), "%.*s", PYTHON_NAME_MAX - 1,
		 python_path_end(program));
	rc = process_memory_each_module(pid, python_search_module, &s);
	if (rc < 0)
		return err_set(e, rc, "its memory map cannot be read: %s",
			       strerror(-rc));
	if (!p->runtime)
		return 0;
	p->code_type = process_memory_symbol(pid, s.module, "PyCode_Type");
	p->frame_type = process_memory_symbol(pid, s.module, "PyFrame_Type");
	return python_find_layout(p, &s, e);
}

/* ---- names ---- */

static char *python_put_utf8(char *out, uint32_t c)
{
	if (c < 32 || c == 127)
		*out++ = '?';
	else if (c < 0x80)
		*out++ = (char)c;
	else if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
		*out++ = (char)(0x80 | (c & 63));
	} else if (c < 0x10000) {
		*out++ = (char)(0xe0 | c >> 12);
		*out++ = (char)(0x80 | (c >> 6 & 63));
		*out++ = (char)(0x80 | (c & 63));
	} else {
		*out++ = (char)(0xf0 | (c >> 18 & 7));
		*out++ = (char)(0x80 | (c >> 12 & 63));
		*out++ = (char)(0x80 | (c >> 6 & 63));
		*out++ = (char)(0x80 | (c & 63));
	}
	return out;
}

/* The size of a character, from the bits of a str's state: two for "interned",
 * or 8 or 16 from 3.14 on, then three for the size, then "compact", "ascii". 0:
 * it is not compact. */
static unsigned python_text_kind(uint32_t state, int *is_ascii)
{
	static const unsigned shifts[] = {2, 8, 16};

	for (size_t i = 0; i < sizeof(shifts) / sizeof(*shifts); i++) {
		uint32_t bits = state >> shifts[i];
		unsigned kind = bits & 7;

		if (!(bits & 8) || (kind != 1 && kind != 2 && kind != 4))
			continue;
		*is_ascii = (bits & 16) != 0;
		return kind;
	}
	return 0;
}

/* Reads the end of a str, because the end of a path says most. 0 or -1. */
static int python_read_text(const struct python_process *p, uint64_t at,
			    char out[PYTHON_NAME_MAX])
{
	const struct python_layout *l = &p->layout;
	unsigned char raw[TEXT_MAX];
	uint64_t length = python_pointer(p, at + l->text_length), n;
	uint32_t state = 0, c;
	int is_ascii = 0;
	char *to = out;
	unsigned kind;

	*out = '\0';
	if (!at || python_read(p, at + l->text_state, &state, sizeof(state)))
		return -1;
	kind = python_text_kind(state, &is_ascii);
	n = length < PYTHON_NAME_MAX / 4 * (is_ascii ? 4 : 1) - 1
		    ? length
		    : PYTHON_NAME_MAX / 4 * (is_ascii ? 4 : 1) - 1;
	if (!kind || length > INT32_MAX ||
	    python_read(p,
			at + (is_ascii ? l->text_ascii : l->text_other) +
				(length - n) * kind,
			raw, n * kind) < 0)
		return -1;
	/* garbage that claims to be ASCII may grow in UTF-8 */
	for (uint64_t i = 0; i < n && to < out + PYTHON_NAME_MAX - 4; i++) {
		c = 0; /* little-endian */
		memcpy(&c, raw + i * kind, kind);
		to = python_put_utf8(to, c);
	}
	*to = '\0';
	return 0;
}

/* ---- a frame ---- */

struct python_walked {
	uint64_t at, code, instruction;
	int is_entry; /* of C into Python: it has no code of its own */
};

static int python_read_line(const struct python_process *p,
			    const struct python_walked *w,
			    const unsigned char *code)
{
	const struct python_layout *l = &p->layout;
	uint64_t table = python_word(code, l->code_lines), at;
	uint64_t size = python_pointer(p, table + l->bytes_size);
	unsigned char *bytes;
	int32_t first;
	int line = 0;

	memcpy(&first, code + l->code_first_line, sizeof(first));
	if (l->code_bytes) /* a pointer to the instruction */
		at = w->instruction - (w->code + l->code_bytes);
	else /* its number, in code units since 3.10 */
		at = (uint64_t)(int32_t)w->instruction *
		     (l->lines == LINE_TABLE_LNOTAB ? 1 : 2);
	if (at > INT32_MAX) /* it has not begun */
		return first > 0 ? first : 0;
	if (!table || !size || size > TABLE_MAX)
		return 0;
	bytes = malloc(size);
	if (bytes && python_read(p, table + l->bytes_data, bytes, size) == 0)
		line = line_table_find(l->lines, bytes, size, first, at);
	free(bytes);
	return line;
}

int python_is_library(const char *file)
{
	static const char *const parts[] = {
		"/site-packages/",
		"/dist-packages/",
		"/lib/python3",
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		if (strstr(file, parts[i]))
			return 1;
	}
	return file[0] == '<';
}

static int python_read_frame(const struct python_process *p,
			     const struct python_walked *w,
			     struct python_frame *x)
{
	const struct python_layout *l = &p->layout;
	unsigned char code[PYTHON_STRUCT_MAX];

	if (python_read(p, w->code, code, l->code_size) < 0 ||
	    python_read_text(p, python_word(code, l->code_file), x->file) < 0 ||
	    python_read_text(p, python_word(code, l->code_name), x->function) <
		    0)
		return -1;
	x->line = python_read_line(p, w, code);
	x->is_library = python_is_library(x->file);
	return 0;
}

/* ---- the frames of a thread ---- */

/* The frames from its thread on, innermost first. Returns how many, or -1: the
 * memory makes no sense, as it has changed meanwhile. */
static int python_walk(const struct python_process *p, uint64_t at,
		       struct python_walked *out)
{
	const struct python_layout *l = &p->layout;
	unsigned char frame[PYTHON_STRUCT_MAX];
	int n = 0;

	for (; at && n < WALK_MAX; n++) {
		uint64_t type;

		if (python_read(p, at, frame, l->frame_size) < 0)
			return -1;
		type = python_word(frame, l->object_type);
		/* before 3.11 a frame is an object */
		if (!l->code_bytes && p->frame_type && type != p->frame_type)
			return -1;
		/* the lowest bits are a tag since 3.14 */
		out[n] = (struct python_walked){
			.at = at,
			.code = python_word(frame, l->frame_code) &
				~(uint64_t)7,
			.instruction = python_word(frame, l->frame_at),
			.is_entry = l->frame_owner &&
				    frame[l->frame_owner] >= OWNER_ENTRY,
		};
		at = python_word(frame, l->frame_back);
	}
	return n;
}

/* Its innermost frame, or 0. */
static uint64_t python_thread_frame(const struct python_process *p,
				    uint64_t thread)
{
	const struct python_layout *l = &p->layout;
	uint64_t at;

	if (!l->thread_cframe)
		return python_pointer(p, thread + l->thread_frame);
	at = python_pointer(p, thread + l->thread_cframe);
	return at ? python_pointer(p, at + l->cframe_frame) : 0;
}

/* How many of the outermost frames are the same in both. */
static int python_count_same(const struct python_walked *a, int na,
			     const struct python_walked *b, int nb)
{
	int n = 0;

	while (n < na && n < nb && a[na - 1 - n].at == b[nb - 1 - n].at &&
	       a[na - 1 - n].code == b[nb - 1 - n].code)
		n++;
	return n;
}

/* Walks twice, until both walks find the same frames. A running thread may
 * change each time, so of all pairs the frames that most agree count. Returns
 * how many frames, from *first on. */
static int python_walk_steady(const struct python_process *p, uint64_t thread,
			      struct python_walked *best, int *first,
			      int *has_changed)
{
	struct python_walked walks[2][WALK_MAX];
	int most = -1;

	*has_changed = 1;
	for (int i = 0; i < TRIES && *has_changed; i++) {
		int n[2], same;

		for (int k = 0; k < 2; k++)
			n[k] = python_walk(p, python_thread_frame(p, thread),
					   walks[k]);
		if (n[0] < 0 || n[1] < 0)
			continue;
		same = python_count_same(walks[0], n[0], walks[1], n[1]);
		*has_changed = same != n[0] || same != n[1];
		if (*has_changed && same <= most)
			continue;
		most = same;
		*first = n[1] - same;
		memcpy(best, walks[1], sizeof(walks[1]));
	}
	return most < 0 ? 0 : most;
}

/* Whether it is a frame of Python, not one with which C enters it. */
static int python_is_code(const struct python_process *p, uint64_t code)
{
	return code && (!p->code_type ||
			python_pointer(p, code + p->layout.object_type) ==
				p->code_type);
}

static void python_read_frames(const struct python_process *p, uint64_t thread,
			       struct python_thread *t)
{
	struct python_walked walked[WALK_MAX];
	int first = 0, n;

	n = python_walk_steady(p, thread, walked, &first, &t->has_changed);
	for (int i = first; i < first + n && t->n < PYTHON_FRAMES_MAX; i++) {
		if (walked[i].is_entry || !python_is_code(p, walked[i].code))
			continue;
		if (python_read_frame(p, &walked[i], &t->frames[t->n]) == 0)
			t->n++;
		else
			t->has_changed = 1;
	}
}

/* ---- threads ---- */

/* glibc keeps the thread's number in what pthread_self points to. */
static pid_t python_pthread_tid(const struct python_process *p, uint64_t self)
{
#if defined(__x86_64__)
	enum { TID_AT = 720 };
#else
	enum { TID_AT = 208 };
#endif
	char path[64];
	int32_t tid = 0;

	if (python_read(p, self + TID_AT, &tid, sizeof(tid)) < 0 || tid <= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)p->pid, tid);
	return access(path, F_OK) == 0 ? (pid_t)tid : 0;
}

static pid_t python_tid(const struct python_process *p, uint64_t thread)
{
	const struct python_layout *l = &p->layout;

	if (l->thread_native_id)
		return (pid_t)python_pointer(p, thread + l->thread_native_id);
	return python_pthread_tid(p, python_pointer(p, thread + l->thread_id));
}

/* The thread that holds the interpreter's lock, or 0. */
static uint64_t python_gil_holder(const struct python_process *p, uint64_t at)
{
	const struct python_layout *l = &p->layout;
	int32_t locked = 0;

	if (l->runtime_gil)
		return python_pointer(p, p->runtime + l->runtime_gil);
	if (l->interp_gil)
		at = python_pointer(p, at + l->interp_gil);
	if (!at || python_read(p, at + l->gil_locked, &locked, sizeof(locked)))
		return 0;
	return locked > 0 ? python_pointer(p, at + l->gil_holder) : 0;
}

struct python_visit {
	const struct python_process *p;
	struct python_thread *t;
	python_on_thread *on_thread;
	void *arg;
	int n;
};

static void python_visit_interpreter(struct python_visit *v, uint64_t interp)
{
	const struct python_layout *l = &v->p->layout;
	uint64_t holder = python_gil_holder(v->p, interp);
	uint64_t at = python_pointer(v->p, interp + l->interp_threads);

	for (; at && v->n < PYTHON_THREADS_MAX; v->n++) {
		v->t->n = v->t->has_changed = 0;
		v->t->tid = python_tid(v->p, at);
		v->t->holds_gil = at == holder;
		python_read_frames(v->p, at, v->t);
		v->on_thread(v->arg, v->t);
		at = python_pointer(v->p, at + l->thread_next);
	}
}

int python_process_each_thread(const struct python_process *p,
			       python_on_thread *on_thread, void *arg,
			       struct err *e)
{
	const struct python_layout *l = &p->layout;
	struct python_visit v = {p, malloc(sizeof(*v.t)), on_thread, arg, 0};
	uint64_t interp =
		python_pointer(p, p->runtime + l->runtime_interpreters);

	if (!v.t)
		return err_no_memory(e, "Python frames");
	for (int i = 0; interp && i < INTERPRETERS_MAX; i++) {
		python_visit_interpreter(&v, interp);
		interp = python_pointer(p, interp + l->interp_next);
	}
	free(v.t);
	return v.n ? 0
		   : err_set(e, ERR_DATA,
			     "Python 3.%u: it has no threads yet, "
			     "or they cannot be read",
			     l->minor);
}

/* ---- one line ---- */

const struct python_frame *python_thread_users(const struct python_thread *t)
{
	for (int i = 0; i < t->n; i++) {
		if (!t->frames[i].is_library)
			return &t->frames[i];
	}
	return t->n ? &t->frames[0] : NULL;
}

char *python_frame_text(const struct python_frame *x, char *out)
{
	const char *slash = strrchr(x->file, '/');
	const char *file = slash ? slash + 1 : x->file;
	size_t n = strlen(x->function);
	/* not after "<module>" */
	const char *paren = n && x->function[n - 1] == '>' ? "" : "()";

	if (x->line)
		snprintf(out, PYTHON_WHERE_MAX, "%s:%d %s%s", file, x->line,
			 x->function, paren);
	else
		snprintf(out, PYTHON_WHERE_MAX, "%s %s%s", file, x->function,
			 paren);
	return out;
}

struct python_where {
	pid_t main;
	char *out;
};

/* Its call of torch.distributed, or NULL. */
static const char *python_torch_call(const struct python_thread *t)
{
	for (int i = 0; i < t->n && t->frames[i].is_library; i++)
		if (strstr(t->frames[i].file, "/torch/distributed/"))
			return t->frames[i].function;
	return NULL;
}

static void python_where_thread(void *arg, const struct python_thread *t)
{
	const struct python_where *w = arg;
	const struct python_frame *x = python_thread_users(t);
	const char *call = python_torch_call(t);
	size_t n;

	if (t->tid != w->main || !x)
		return;
	python_frame_text(x, w->out);
	n = strlen(w->out);
	if (call)
		snprintf(w->out + n, PYTHON_WHERE_MAX - n, "%s%s)",
			 PYTHON_IN_TORCH, call);
}

char *python_process_where(const struct python_process *p, char *out)
{
	struct python_where w = {p->pid, out};
	struct err e = ERR_INIT;

	*out = '\0';
	python_process_each_thread(p, python_where_thread, &w, &e);
	return out;
}
