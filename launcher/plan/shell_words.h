/* shell_words.h: splits a command line into words as a shell does, and quotes a
 * word so that it can be pasted into a shell. Pure. */
#ifndef LAUNCHER_SHELL_WORDS_H
#define LAUNCHER_SHELL_WORDS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

/* All zero: no words. */
struct shell_words {
	char **list; /* n words, then NULL; NULL if n is 0 */
	size_t n;
	char *bytes; /* the words' storage */
};

/* Blanks and newlines separate words; '...', "..." and backslashes quote as in
 * POSIX. Nothing is expanded: $, `, * and ~ stand for themselves. A text of
 * blanks has no words. what names the option in the error. ERR_USAGE for an
 * unfinished quote or a backslash at the end, or -ENOMEM; w is then empty. */
int shell_words_split(struct shell_words *w, const char *text, const char *what,
		      struct err *e);
void shell_words_release(struct shell_words *w);

/* Appends the word, quoted if a shell would read it as anything else. */
void shell_words_quote(struct buf *b, const char *word);
/* Appends the word in quotes, in which each byte stands for itself. */
void shell_words_put_quoted(struct buf *b, const char *word);

#endif
