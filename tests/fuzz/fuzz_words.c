/* fuzz_words: any text is a list of words or a clean error, and quoted words
 * are split into the same words again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/plan/shell_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct shell_words *w)
{
	struct buf b = BUF_INIT(16 << 20);
	struct shell_words again;

	for (size_t i = 0; i < w->n; i++) {
		shell_words_quote(&b, w->list[i]);
		buf_put_u8(&b, ' ');
	}
	buf_put_u8(&b, 0);
	if (b.failed || shell_words_split(&again, b.data, "x", NULL) ||
	    again.n != w->n)
		abort();
	for (size_t i = 0; i < w->n; i++) {
		if (strcmp(w->list[i], again.list[i]) != 0)
			abort();
	}
	shell_words_release(&again);
	buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct err e = ERR_INIT;
	struct shell_words w;
	int rc;

	memcpy(text, data, size);
	text[size] = '\0';
	rc = shell_words_split(&w, text, "x", &e);
	if (rc && (e.code != rc || !e.text[0] || w.list))
		abort();
	free(text);
	if (rc == 0)
		check_again(&w);
	shell_words_release(&w);
	return 0;
}
