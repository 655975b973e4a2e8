/* mpi_ranks.c: ranks that wait in MPI poll, and so compute. Their agents look
 * at their stacks, and report the call in which they have been at several looks
 * (launcher/watch/mpi_wait.h). */
#include <stdio.h>
#include <string.h>

#include "rendezvous/stall/stall_internal.h"

enum { LOOKS = 6 }; /* in the patience: a wait begins before it is seen */

/* launcher/watch writes it. */
static const char *const stall_mpi_same[] = {"stays in MPI_", NULL};

int stall_is_in_mpi(const struct stall *s, uint32_t rank)
{
	static const char *const words[] = {" in MPI_", NULL};

	return stall_has_words(s->ranks[rank].at.words, words);
}

struct mpi_ranks {
	uint32_t waiting;	/* in a call */
	uint32_t same;		/* surely in the same one since then */
	uint32_t others;	/* are in no call */
	uint32_t busy;		/* and compute or read */
	int64_t waiter;		/* the first that waits */
	int64_t other;		/* that most likely keeps them waiting */
	int64_t ended;
	int64_t odd; /* is in another call than the first */
	uint32_t odds;
	uint64_t least, most; /* how long the ranks have waited */
};

static int mpi_ranks_is_still(enum wire_doing doing)
{
	return doing == RANK_IDLE || doing == RANK_STOPPED ||
	       doing == RANK_BLOCKED;
}

static void mpi_ranks_add_waiter(struct mpi_ranks *m, const struct stall *s,
				 uint32_t i)
{
	const struct wire_rank *r = &s->ranks[i].at;

	m->waiting++;
	m->same += stall_has_words(r->words, stall_mpi_same) != 0;
	if (r->does_ms < m->least)
		m->least = r->does_ms;
	if (r->does_ms > m->most)
		m->most = r->does_ms;
	if (m->waiter == NOBODY)
		m->waiter = i;
	if (slice_is_equal(r->call, s->ranks[m->waiter].at.call))
		return;
	m->odd = i;
	m->odds++;
}

static void mpi_ranks_add_other(struct mpi_ranks *m, const struct stall *s,
				uint32_t i)
{
	enum wire_doing doing = (enum wire_doing)s->ranks[i].at.doing;

	m->others++;
	m->busy += !mpi_ranks_is_still(doing);
	if (m->other == NOBODY ||
	    (mpi_ranks_is_still(doing) &&
	     !mpi_ranks_is_still(
		     (enum wire_doing)s->ranks[m->other].at.doing)))
		m->other = i;
}

/* 0: a rank is not known. */
static int mpi_ranks_read(struct mpi_ranks *m, const struct stall *s)
{
	*m = (struct mpi_ranks){.waiter = NOBODY,
				.other = NOBODY,
				.ended = NOBODY,
				.odd = NOBODY,
				.least = UINT64_MAX};
	for (uint32_t i = 0; i < s->world; i++) {
		if (!s->ranks[i].known && !s->ranks[i].ended)
			return 0;
		if (s->ranks[i].ended)
			m->ended = m->ended == NOBODY ? (int64_t)i : m->ended;
		else if (stall_is_in_mpi(s, i))
			mpi_ranks_add_waiter(m, s, i);
		else
			mpi_ranks_add_other(m, s, i);
	}
	/* the rarer call; the first rank made it if all others agree */
	if (m->odds > 1 && m->odds + 1 == m->waiting)
		m->odd = m->waiter;
	return m->waiting > 0;
}

static void mpi_ranks_name(const struct mpi_ranks *m, const struct stall *s,
			   uint32_t rank, uint64_t ms, struct stall_news *out)
{
	stall_name(s, out, rank, ms);
	out->doing = (enum wire_doing)s->ranks[rank].at.doing;
	if (out->doing == RANK_STARTS)
		out->doing = RANK_IDLE;
	stall_describe_mpi(s, m->waiting, NOBODY, out);
}

/* Whether it is certain that no rank goes on: that the ranks that wait are
 * still in the same call, or that the others sleep without a break. */
static int mpi_ranks_are_still(const struct mpi_ranks *m,
			       const struct stall *s)
{
	static const char *const asleep[] = {" without being woken", NULL};

	if (m->same == m->waiting)
		return 1;
	for (uint32_t i = 0; i < s->world; i++) {
		const struct wire_rank *r = &s->ranks[i].at;

		if (!s->ranks[i].ended && !stall_is_in_mpi(s, i) &&
		    r->doing == RANK_IDLE && !stall_has_words(r->words, asleep))
			return 0;
	}
	return 1;
}

/* A rank that does nothing, or that alone computes. */
static int mpi_ranks_judge_other(const struct mpi_ranks *m,
				 const struct stall *s, struct stall_news *out)
{
	uint32_t rank = (uint32_t)m->other;
	uint64_t ms = m->most + s->patience_ms / LOOKS;

	if (!mpi_ranks_are_still(m, s))
		return 0;
	if (m->busy) {
		if (m->others > 1 || m->same < m->waiting)
			return 0;
		ms = m->least + s->patience_ms / LOOKS;
	} else if (stall_still_ms(&s->ranks[rank].at) < ms) {
		ms = stall_still_ms(&s->ranks[rank].at);
	}
	mpi_ranks_name(m, s, rank, ms, out);
	return 1;
}

/* A rank has exited, and the others wait; or all wait: in different calls, or
 * in the same, as if each received and none sent. The rank that is named lives,
 * so that --hang-timeout can end it. */
static int mpi_ranks_judge_waiters(const struct mpi_ranks *m,
				   const struct stall *s,
				   struct stall_news *out)
{
	if (m->same < m->waiting)
		return 0;
	if (m->ended != NOBODY) {
		stall_name(s, out, (uint32_t)m->waiter, m->least);
		out->doing = RANK_IDLE;
		stall_describe_mpi(s, m->waiting, m->ended, out);
		return 1;
	}
	stall_name(s, out, (uint32_t)(m->odd == NOBODY ? m->waiter : m->odd),
		   m->least);
	out->doing = RANK_IDLE;
	if (m->odd == NOBODY)
		stall_describe_mpi_all(s, out);
	else
		stall_describe_mpi(s, m->waiting - 1, NOBODY, out);
	return 1;
}

int stall_judge_mpi(const struct stall *s, struct stall_news *out)
{
	struct mpi_ranks m;

	if (!mpi_ranks_read(&m, s))
		return 0;
	return m.others ? mpi_ranks_judge_other(&m, s, out)
			: mpi_ranks_judge_waiters(&m, s, out);
}
