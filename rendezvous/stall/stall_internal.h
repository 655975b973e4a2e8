/* stall_internal.h: shared by stall.c, mpi_ranks.c and culprit.c, which decide,
 * and stall_text.c, which writes the texts. */
#ifndef RENDEZVOUS_STALL_INTERNAL_H
#define RENDEZVOUS_STALL_INTERNAL_H

#include "rendezvous/stall/stall.h"

enum {
	NOBODY = -1, /* instead of a rank */
	/* shorter pauses are part of a step: a thirtieth of the patience */
	SHORT = 30,
};

/* Fill in text and why; the other fields are set. culprit may be NOBODY;
 * behind: how many ranks have not arrived. whole is about all ranks. */
void stall_describe_wait(const struct stall *s, uint32_t waiter,
			 int64_t culprit, uint32_t behind,
			 struct stall_news *out);
void stall_describe_alone(const struct stall *s, const char *whole,
			  struct stall_news *out);
/* The first live rank with a connection that nobody answers; NOBODY: none. */
int64_t stall_unanswered_rank(const struct stall *s);
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
int stall_is_live(const struct stall *s, uint32_t rank);
/* What a rank does. A rank that enters calls, or reports steps, works: it is
 * only late. */
enum wire_doing stall_doing(const struct stall *s, uint32_t rank);
/* Follows the waits from w on to a rank that waits for nobody, or whose peers
 * have all arrived. NOBODY: w is that rank, or the waits form a cycle. */
int64_t stall_follow(const struct stall *s, uint32_t w, uint32_t *behind);
int64_t stall_stopped_rank(const struct stall *s);
/* An idle rank that, by its agent's report, has lost a thread or a process;
 * NOBODY: there is none. */
int64_t stall_bereft_rank(const struct stall *s);
/* The one live rank that differs from all others, if there are at least two
 * others, and they all do the same. NOBODY: there is none. */
int64_t stall_odd_rank(const struct stall *s);

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
