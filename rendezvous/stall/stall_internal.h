/* stall_internal.h: shared by stall.c, which decides, and stall_text.c, which
 * writes the texts. */
#ifndef RENDEZVOUS_STALL_INTERNAL_H
#define RENDEZVOUS_STALL_INTERNAL_H

#include "rendezvous/stall/stall.h"

enum { NOBODY = -1 }; /* instead of a rank */

/* Fill in text and why; the other fields are set. culprit may be NOBODY;
 * behind: how many ranks have not arrived. whole is about all ranks. */
void stall_describe_wait(const struct stall *s, uint32_t waiter,
			 int64_t culprit, uint32_t behind,
			 struct stall_news *out);
void stall_describe_alone(const struct stall *s, const char *whole,
			  struct stall_news *out);
/* text: the pause is over. */
void stall_describe_end(const struct stall *s, struct stall_news *out);

/* Copies at most max bytes of a text, replacing what could disturb a terminal.
 * The owner frees to->data. -ENOMEM. */
int stall_copy(struct slice *to, struct slice from, size_t max);

/* Whether one of the words, which end with NULL, is in it. */
int stall_has_words(struct slice why, const char *const *words);

#endif
