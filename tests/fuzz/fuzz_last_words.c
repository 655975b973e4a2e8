/* fuzz_last_words: whatever a worker wrote, the sentence is one line. The
 * first two bytes are the worker's code and signal. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/failure/last_words.h"

enum {
	/* a sentence, what caused it, a place */
	WORDS_MAX = 3 * LAST_WORDS_MAX + 4096,
	TEXT_MAX = 16 << 10,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_check(struct buf *out)
{
	if (out->failed || (out->len && memchr(out->data, '\n', out->len)))
		abort();
	buf_reset(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf out = BUF_INIT(WORDS_MAX);
	char *copy;
	struct slice text;
	int code, signal;

	if (size < 2 || size > TEXT_MAX)
		return 0;
	copy = malloc(size - 2 ? size - 2 : 1); /* ASan guards its end */
	memcpy(copy, data + 2, size - 2);
	text = SLICE(copy, size - 2);
	code = data[0] % 4;
	signal = data[0] & 4 ? data[1] % 32 : 0;
	last_words_put_clear(&out, text, code, signal);
	fuzz_check(&out);
	last_words_put_likely(&out, text, code, signal);
	fuzz_check(&out);
	last_words_put(&out, text, code, signal);
	fuzz_check(&out);
	last_words_put_abort(&out, text);
	fuzz_check(&out);
	last_words_put_error(&out, text);
	fuzz_check(&out);
	last_words_put_python_place(&out, text);
	fuzz_check(&out);
	buf_release(&out);
	free(copy);
	return 0;
}
