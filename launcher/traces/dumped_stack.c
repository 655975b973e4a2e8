/* dumped_stack.c: finds lines by what launcher/inspect/dump.c puts before
 * them. */
#include "launcher/traces/dumped_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { DUMP_MAX = 4 << 20 };

/* The lines of the rank's first thread. */
static struct slice dumped_stack_thread(struct slice dump, uint32_t rank)
{
	char head[32];
	int is_rank = 0, is_thread = 0;
	struct slice out = {NULL, 0};

	snprintf(head, sizeof(head), "rank %u (", rank);
	while (dump.len) {
		struct slice line = slice_next_line(&dump);

		if (slice_begins(line, "rank ")) {
			is_thread = 0;
			is_rank = slice_begins(line, head);
		} else if (is_rank && slice_begins(line, "  thread ")) {
			is_rank = 0;
			is_thread = 1;
			out = (struct slice){dump.data, 0};
		} else if (is_thread && slice_begins(line, "    ")) {
			out.len = (size_t)(line.data + line.len - out.data);
		} else {
			is_thread = 0;
		}
	}
	return out;
}

/* "    #3  step at w.c:8 (prog 0x55d0)" as "#3 step at w.c:8 (prog)". */
static void dumped_stack_put_native(struct buf *out, struct slice line)
{
	const char *at = slice_find(line, " 0x");
	char *end;
	unsigned long n = strtoul(line.data + 5, &end, 10);

	while (*end == ' ')
		end++;
	if (at && at > end)
		buf_printf(out, "#%lu %.*s)\n", n, (int)(at - end), end);
	else if (end < line.data + line.len)
		buf_printf(out, "#%lu %.*s\n", n,
			   (int)(line.data + line.len - end), end);
}

void dumped_stack_put(struct buf *out, struct slice dump, uint32_t rank)
{
	static const char python[] = "    Python: ";
	const size_t skip = sizeof(python) - 1;
	struct slice thread = dumped_stack_thread(dump, rank), rest = thread;
	int n = 0;

	while (rest.len && n < DUMPED_STACK_FRAMES) {
		struct slice line = slice_next_line(&rest);

		if (!slice_begins(line, "    #"))
			continue;
		dumped_stack_put_native(out, line);
		n++;
	}
	n = 0;
	while (thread.len && n < DUMPED_STACK_FRAMES) {
		struct slice line = slice_next_line(&thread);

		/* "(runs ...)" instead of frames has no place */
		if (slice_begins(line, python) && slice_has(line, " at "))
			buf_printf(out, "#py%d %.*s\n", n++,
				   (int)(line.len - skip), line.data + skip);
	}
}

void dumped_stack_read(const char *path, uint32_t rank, struct buf *out)
{
	char *text = malloc(DUMP_MAX);
	long n = text ? file_read_text(path, text, DUMP_MAX) : -1;

	if (n > 0)
		dumped_stack_put(out, SLICE(text, (size_t)n), rank);
	free(text);
}
