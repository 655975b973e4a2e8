/* python_threads.c: copies the interpreter's threads, because the dump shows
 * threads in the kernel's order. */
#include "launcher/inspect/python_threads.h"

#include <stdlib.h>

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
