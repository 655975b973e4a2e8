/* python.h: the Python frames of another process, CPython 3.9 to 3.14. Reads
 * its memory while it runs: stops nothing, needs nothing from it, and trusts
 * nothing that it finds there. */
#ifndef LAUNCHER_PYTHON_H
#define LAUNCHER_PYTHON_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "launcher/python/layout.h"

enum {
	PYTHON_FRAMES_MAX = 64,
	PYTHON_THREADS_MAX = 256,
	PYTHON_NAME_MAX = 192,
	PYTHON_WHERE_MAX = 2 * PYTHON_NAME_MAX + 24,
};

/* A process with a Python interpreter: valid as long as pid is. */
struct python_process {
	pid_t pid;
	uint64_t runtime;    /* the address of _PyRuntime */
	uint64_t code_type;  /* of PyCode_Type; 0: unknown */
	uint64_t frame_type; /* of PyFrame_Type; 0: unknown */
	struct python_layout layout;
};

struct python_frame {
	char file[PYTHON_NAME_MAX];	/* the end of its path */
	char function[PYTHON_NAME_MAX]; /* "Trainer.step" from 3.11 on */
	int line;			/* 0: unknown */
	int is_library; /* in the standard library, or an installed package */
};

struct python_thread {
	pid_t tid; /* 0: unknown */
	int holds_gil;
	/* It ran meanwhile: frames that began or ended are left out. */
	int has_changed;
	int n;
	struct python_frame frames[PYTHON_FRAMES_MAX]; /* innermost first */
};

/* Looks for an interpreter. 1; 0: the process has none. -EPERM, -ESRCH: its
 * memory cannot be read; ERR_DATA: "Python 3.15: unknown layout". */
int python_process_find(struct python_process *p, pid_t pid, struct err *e);

typedef void python_on_thread(void *arg, const struct python_thread *t);

/* Calls on_thread for each thread that is known to the interpreter. 0, or an
 * error, possibly after some calls. */
int python_process_each_thread(const struct python_process *p,
			       python_on_thread *on_thread, void *arg,
			       struct err *e);

/* Pure: whether it is of the standard library, or an installed package. */
int python_is_library(const char *file);

/* Pure: the frame that a user looks for first: the innermost outside of
 * libraries, else the innermost. NULL: there is none. */
const struct python_frame *python_thread_users(const struct python_thread *t);
/* Pure: "train.py:88 step()", into out[PYTHON_WHERE_MAX]; returns out. */
char *python_frame_text(const struct python_frame *x, char *out);

/* The user's frame of the main thread as python_frame_text, or "" if it cannot
 * be read. If it called PyTorch's collectives, PYTHON_IN_TORCH, the function
 * and ')' follow. Returns out. */
#define PYTHON_IN_TORCH " (torch.distributed: "
char *python_process_where(const struct python_process *p, char *out);

#endif
