/* crash_python.c: calls the interpreter of a process that is about to die. 3.11
 * and 3.12 export what faulthandler calls in its handler. Other versions have
 * only the public functions, which allocate and need the GIL; they are called
 * only if there is a timer to end them (RLIMIT_SIGPENDING may forbid it). A
 * second fault ends both, not the process. */
#include "launcher/crash/crash_internal.h"

#include "launcher/crash/crash_kernel.h"

#if defined(__x86_64__) || defined(__aarch64__)

enum {
	TIME_LIMIT_MS = 500,
	FRAMES = 100,
	LINE_BYTES = 1024,
	THREAD_ID = 4, /* SIGEV_THREAD_ID */
	FROM_START = 0, FROM_HERE = 1, /* SEEK_SET, SEEK_CUR */
};

WEAK void *PyGILState_GetThisThreadState(void);
WEAK int PyGILState_Check(void);
WEAK void PyEval_RestoreThread(void *thread);
WEAK void _Py_DumpTraceback(int fd, void *thread);
WEAK void *PyThreadState_GetFrame(void *thread);
WEAK void *PyFrame_GetBack(void *frame);
WEAK void *PyFrame_GetCode(void *frame);
WEAK int PyFrame_GetLineNumber(void *frame);
WEAK void *PyObject_GetAttrString(void *object, const char *name);
WEAK const char *PyUnicode_AsUTF8(void *object);

static struct {
	void *before[5]; /* __builtin_setjmp's */
	int32_t tid;
} crash_python;

/* ---- Faults and the timer ---- */

static void crash_python_leave(int number)
{
	if (CALL(SYS_gettid, 0) == crash_python.tid)
		__builtin_longjmp(crash_python.before, 1);
	crash_await_the_other();
}

static void crash_python_unblock(int is_unblock)
{
	const uint64_t set = UINT64_C(1) << (SIGSEGV - 1) |
			     UINT64_C(1) << (SIGBUS - 1) |
			     UINT64_C(1) << (SIGALRM - 1);

	CALL(SYS_rt_sigprocmask, is_unblock ? SIG_UNBLOCK : SIG_BLOCK, &set,
	     NULL, sizeof(set));
}

/* 1 if the timer runs. */
static int crash_python_guard(void)
{
	/* the kernel's struct sigevent: value, signal, how, thread */
	struct {
		uint64_t value;
		int32_t number, how, tid, rest[11];
	} event = {.number = SIGALRM, .how = THREAD_ID,
		   .tid = crash_python.tid};
	const long limit[4] = {0, 0, 0, (long)TIME_LIMIT_MS * CRASH_MS_NS};
	int32_t timer = 0;

	crash_set_action(SIGSEGV, (void *)crash_python_leave, SA_NODEFER);
	crash_set_action(SIGBUS, (void *)crash_python_leave, SA_NODEFER);
	crash_set_action(SIGALRM, (void *)crash_python_leave, SA_NODEFER);
	return CALL(SYS_timer_create, 1 /* CLOCK_MONOTONIC */, &event,
		    &timer) == 0 &&
	       CALL(SYS_timer_settime, timer, 0, limit, NULL) == 0;
}

/* ---- The public functions ---- */

static size_t crash_python_add(char *line, size_t n, const char *text)
{
	for (; *text && n < LINE_BYTES - 64; text++)
		line[n++] = *text;
	return n;
}

static size_t crash_python_add_number(char *line, size_t n, int number)
{
	char digits[12];
	int left = sizeof(digits);

	digits[--left] = '\0';
	do {
		digits[--left] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0 && left > 0);
	return crash_python_add(line, n, digits + left);
}

static const char *crash_python_text(void *code, const char *name)
{
	void *object = PyObject_GetAttrString(code, name);
	const char *text = object ? PyUnicode_AsUTF8(object) : NULL;

	return text ? text : "?";
}

/* As faulthandler prints it. Keeps every reference: the process dies. */
static void crash_python_put_frame(int fd, void *frame)
{
	void *code = PyFrame_GetCode(frame);
	char line[LINE_BYTES];
	size_t n = 0;

	n = crash_python_add(line, n, "  File \"");
	n = crash_python_add(line, n, crash_python_text(code, "co_filename"));
	n = crash_python_add(line, n, "\", line ");
	n = crash_python_add_number(line, n, PyFrame_GetLineNumber(frame));
	n = crash_python_add(line, n, " in ");
	n = crash_python_add(line, n, crash_python_text(code, "co_name"));
	line[n++] = '\n';
	CALL(SYS_write, fd, line, n);
}

static void crash_python_walk(int fd, void *thread)
{
	void *frame;

	if (!PyGILState_Check || !PyEval_RestoreThread ||
	    !PyThreadState_GetFrame || !PyFrame_GetBack || !PyFrame_GetCode ||
	    !PyFrame_GetLineNumber || !PyObject_GetAttrString ||
	    !PyUnicode_AsUTF8)
		return;
	/* a library that computes has usually released the GIL */
	if (!PyGILState_Check())
		PyEval_RestoreThread(thread);
	frame = PyThreadState_GetFrame(thread);
	for (int i = 0; frame && i < FRAMES; i++) {
		crash_python_put_frame(fd, frame);
		frame = PyFrame_GetBack(frame);
	}
}

/* ---- All of it ---- */

static void crash_python_dump(int fd, int has_timer)
{
	void *thread = PyGILState_GetThisThreadState();

	if (thread && _Py_DumpTraceback)
		_Py_DumpTraceback(fd, thread);
	else if (thread && has_timer)
		crash_python_walk(fd, thread);
}

void crash_python_put(int fd, uint64_t slot, int32_t tid)
{
	const long from = (long)slot + CRASH_PYTHON_AT;
	uint32_t size;
	int has_timer;
	long end;

	if (!PyGILState_GetThisThreadState)
		return;
	crash_python.tid = tid;
	CALL(SYS_lseek, fd, from, FROM_START);
	has_timer = crash_python_guard();
	crash_python_unblock(1);
	if (__builtin_setjmp(crash_python.before) == 0)
		crash_python_dump(fd, has_timer);
	crash_python_unblock(0);
	/* the timer may have expired, or may still do so */
	crash_set_action(SIGALRM, (void *)SIG_IGN, 0);
	end = CALL(SYS_lseek, fd, 0, FROM_HERE);
	size = end - from > CRASH_PYTHON_MAX ? CRASH_PYTHON_MAX
					     : (uint32_t)(end - from);
	CALL(SYS_pwrite64, fd, &size, sizeof(size),
	     slot + offsetof(struct crash_record, python_size));
}

#endif
