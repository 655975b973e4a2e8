/* fuzz_python: whatever the memory of a Python process contains, its frames,
 * symbols and line tables are read without harm and in bounded time. The input
 * is memory of this process, and nothing is mapped behind it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launcher/python/process_memory.h"
#include "launcher/python/python.h"
#include "tests/fuzz/python_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned char *image(void)
{
	static unsigned char *memory;

	if (memory)
		return memory;
	memory = mmap((void *)(uintptr_t)PYTHON_IMAGE_AT, PYTHON_IMAGE_MAX,
		      PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		      0);
	if (memory == MAP_FAILED)
		abort();
	return memory;
}

static void check_frame(const struct python_frame *x)
{
	char text[PYTHON_WHERE_MAX];

	if (!memchr(x->file, '\0', sizeof(x->file)) ||
	    !memchr(x->function, '\0', sizeof(x->function)) || x->line < 0)
		abort();
	for (const char *p = x->file; *p; p++) {
		if ((unsigned char)*p < ' ')
			abort();
	}
	if (!memchr(python_frame_text(x, text), '\0', sizeof(text)))
		abort();
}

static void check_thread(void *arg, const struct python_thread *t)
{
	int *n = arg;
	const struct python_frame *user = python_thread_users(t);

	if (++*n > PYTHON_THREADS_MAX || t->n < 0 ||
	    t->n > PYTHON_FRAMES_MAX || (t->n > 0) != (user != NULL))
		abort();
	for (int i = 0; i < t->n; i++)
		check_frame(&t->frames[i]);
}

static void check_process(unsigned version)
{
	struct python_process p = {.pid = getpid(),
				   .runtime = PYTHON_IMAGE_AT};
	char where[PYTHON_WHERE_MAX];
	int n = 0;

	if (version == PYTHON_IMAGE_STATES) {
		uint64_t words[PYTHON_DEBUG_OFFSETS];

		memcpy(words, image(), sizeof(words));
		if (python_layout_read(&p.layout, words) < 0)
			return;
	} else if (python_layout_of(&p.layout, version) < 0) {
		return;
	}
	python_process_each_thread(&p, check_thread, &n, NULL);
	if (!memchr(python_process_where(&p, where), '\0', sizeof(where)))
		abort();
	/* with the check of types that a real process has */
	n = 0;
	p.code_type = p.frame_type = PYTHON_IMAGE_AT;
	python_process_each_thread(&p, check_thread, &n, NULL);
}

static void check_lines(const uint8_t *data, size_t size)
{
	for (int kind = 0; kind < 3; kind++) {
		for (uint64_t at = 0; at < 4096; at = at * 2 + 1) {
			if (line_table_find((enum line_table_kind)kind, data,
					    size, (int)size, at) < 0)
				abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || size - 1 > PYTHON_IMAGE_MAX)
		return 0;
	memset(image(), 0, PYTHON_IMAGE_MAX);
	memcpy(image(), data + 1, size - 1);
	check_process(data[0]);
	process_memory_symbol(getpid(), PYTHON_IMAGE_AT, "_PyRuntime");
	check_lines(data + 1, size - 1);
	return 0;
}
