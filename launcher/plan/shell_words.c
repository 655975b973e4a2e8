/* shell_words.c: quoting as in POSIX's Shell Command Language, section 2.2. */
#include "launcher/plan/shell_words.h"

#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\n"

/* Moves one word from *in to *out and advances both. 0, or the character that
 * began an unfinished quote. */
static char shell_words_take(const char **in, char **out)
{
	const char *p = *in;
	char *o = *out, quote = 0;

	for (; *p && (quote || !strchr(BLANKS, *p)); p++) {
		if (quote ? *p == quote : *p == '\'' || *p == '"') {
			quote = quote ? 0 : *p;
		} else if (*p != '\\' || quote == '\'') {
			*o++ = *p;
		} else if (!p[1]) {
			return '\\';
		} else if (quote && !strchr("$`\"\\\n", p[1])) {
			*o++ = *p;
		} else if (*++p != '\n') { /* \ and newline join lines */
			*o++ = *p;
		}
	}
	*o++ = '\0';
	*in = p;
	*out = o;
	return quote;
}

int shell_words_split(struct shell_words *w, const char *text, const char *what,
		      struct err *e)
{
	/* a word is no longer than its text; its NUL replaces a blank */
	size_t size = strlen(text) + 1;
	const char *p = text + strspn(text, BLANKS);
	char *out, open;

	*w = (struct shell_words){.n = 0};
	w->bytes = malloc(size);
	w->list = calloc(size / 2 + 2, sizeof(*w->list));
	if (!w->bytes || !w->list) {
		shell_words_release(w);
		return err_no_memory(e, "%s", what);
	}
	for (out = w->bytes; *p; p += strspn(p, BLANKS)) {
		w->list[w->n++] = out;
		open = shell_words_take(&p, &out);
		if (!open)
			continue;
		shell_words_release(w);
		return err_set(e, ERR_USAGE, open == '\\'
			       ? "%s '%s': nothing follows the last backslash"
			       : "%s '%s': a quote is opened and never closed",
			       what, text);
	}
	return 0;
}

void shell_words_release(struct shell_words *w)
{
	free(w->bytes);
	free(w->list);
	*w = (struct shell_words){.n = 0};
}

static int shell_words_is_plain(const char *word)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"0123456789_-+@%:,./=";

	/* as the first word NAME=x would be an assignment */
	return *word && !word[strspn(word, plain)] &&
	       (*word == '-' || !strchr(word, '='));
}

void shell_words_put_quoted(struct buf *b, const char *word)
{
	buf_put_u8(b, '\'');
	for (; *word; word++) {
		if (*word == '\'')
			buf_printf(b, "'\\''");
		else
			buf_put_u8(b, (uint8_t)*word);
	}
	buf_put_u8(b, '\'');
}

void shell_words_quote(struct buf *b, const char *word)
{
	if (shell_words_is_plain(word))
		buf_put(b, word, strlen(word));
	else
		shell_words_put_quoted(b, word);
}
