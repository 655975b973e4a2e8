/* stall_internal.h: shared by stall.c and mpi_ranks.c, which decide, and
 * stall_text.c, which writes the texts. */
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
/* waiting ranks are in calls of MPI; ended has exited, or is NOBODY. */
void stall_describe_mpi(const struct stall *s, uint32_t waiting, int64_t ended,
			struct stall_news *out);
/* All ranks are in the same call of MPI; out names one. */
void stall_describe_mpi_all(const struct stall *s, struct stall_news *out);
/* text: the pause is over. */
void stall_describe_end(const struct stall *s, struct stall_news *out);

/* Copies at most max bytes of a text, replacing what could disturb a terminal.
 * The owner frees to->data. -ENOMEM. */
int stall_copy(struct slice *to, struct slice from, size_t max);

/* ---- stall.c ---- */

/* Sets the fields about a rank that keeps others waiting. */
void stall_name(const struct stall *s, struct stall_news *out, uint32_t rank,
		uint64_t ms);
/* How long a rank has been still. A rank that computed for an hour and then
 * fell asleep counts from then on. */
uint64_t stall_still_ms(const struct wire_rank *r);

/* ---- mpi_ranks.c ---- */

/* Whether its agent has seen it in a call of MPI for some time. */
int stall_is_in_mpi(const struct stall *s, uint32_t rank);
/* If ranks wait in MPI, and nothing shows that the job goes on: returns 1 and
 * fills in out, texts included. */
int stall_judge_mpi(const struct stall *s, struct stall_news *out);

/* ---- stall_text.c ---- */

/* Whether one of the words, which end with NULL, is in it. */
int stall_has_words(struct slice why, const char *const *words);

#endif
