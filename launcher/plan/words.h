/* words.h: command lines as a shell reads and writes them: splitting a text
 * into words, and quoting a word so that it can be pasted. Pure. */
#ifndef LAUNCHER_WORDS_H
#define LAUNCHER_WORDS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

/* All zero holds none. */
struct words {
	char **list; /* n words, then NULL; NULL where n is 0 */
	size_t n;
	char *bytes; /* of all of them */
};

/* Blanks and line ends separate; '...', "..." and backslashes quote, as POSIX
 * has it; nothing is expanded: $, `, * and ~ are themselves. A text of blanks
 * holds no word. what names the option for the error: ERR_USAGE (a quote or a
 * backslash that nothing ends), -ENOMEM; w holds none then. */
int words_split(struct words *w, const char *text, const char *what,
		struct err *e);
void words_release(struct words *w);

/* The word, quoted where a shell would read it as anything else. */
void words_quote(struct buf *b, const char *word);

#endif
