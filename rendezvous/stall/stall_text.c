/* stall_text.c: a pause in words, for a terminal and for the failure page; and
 * the words of others, by which a cause is known. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/stall/stall_internal.h"

enum { CIRCLE_SHOWN = 8 }; /* ranks of a circle of waits */

int stall_copy(struct slice *to, struct slice from, size_t max)
{
	size_t n = from.len < max ? from.len : max;
	char *p = malloc(n + 1);

	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)from.data[i] < 0x20 ||
				       from.data[i] == 0x7f
			       ? '?'
			       : from.data[i];
	*to = SLICE(p, n);
	return 0;
}

static void stall_put_seconds(struct buf *out, uint64_t ms)
{
	if (ms < 10000)
		buf_printf(out, "%.1f s", (double)ms / 1000);
	else
		buf_printf(out, "%llu s",
			   (unsigned long long)(ms + 500) / 1000);
}

static void stall_put_waiters(const struct stall *s, struct buf *out,
			      const struct wire_rank *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; w->number && i < s->world; i++)
		n += s->ranks[i].known && s->ranks[i].at.number == w->number &&
		     s->ranks[i].at.comm == w->comm;
	if (n < 2)
		buf_printf(out, "rank %u on %s waits in %.*s", w->rank,
			   s->host(s->arg, w->rank), SLICE_FMT(w->call));
	else if (w->comm)
		buf_printf(out, "%u ranks wait in %.*s", n, SLICE_FMT(w->call));
	else if (n == s->world)
		buf_printf(out, "all %u ranks wait in %.*s", n,
			   SLICE_FMT(w->call));
	else
		buf_printf(out, "%u of %u ranks wait in %.*s", n, s->world,
			   SLICE_FMT(w->call));
}

/* "it sleeps (nanosleep), last in all_reduce #22 (f32 x 3, sum)" */
static void stall_put_doing(const struct stall *s, struct buf *out,
			    uint32_t rank)
{
	const struct stall_rank *r = &s->ranks[rank];

	if (!r->known || !r->at.words.len) {
		buf_printf(out, "nothing is known about it");
		return;
	}
	if (r->at.doing == RANK_CALLS && r->at.call.len) {
		buf_printf(out, "it waits in %.*s", SLICE_FMT(r->at.call));
		return;
	}
	buf_printf(out, "it %.*s", SLICE_FMT(r->at.words));
	if (r->at.call.len && !stall_is_in_mpi(s, rank))
		buf_printf(out, ", last in %.*s", SLICE_FMT(r->at.call));
	if (r->at.step >= 0)
		buf_printf(out, ", last step %lld", (long long)r->at.step);
}

static void stall_put_rank(const struct stall *s, struct buf *out,
			   uint32_t rank)
{
	buf_printf(out, "rank %u on %s", rank, s->host(s->arg, rank));
	if (s->ranks[rank].known)
		buf_printf(out, ", pid %lld,",
			   (long long)s->ranks[rank].at.pid);
}

static void stall_copy_text(struct buf *from, char *out)
{
	snprintf(out, STALL_TEXT_MAX, "%.*s", (int)from->len,
		 from->failed || !from->data ? "" : from->data);
	buf_release(from);
}

/* "no progress" of a rank that does nothing; a rank that computes may only be
 * late, and the job waits for it. */
static int stall_is_busy(enum wire_doing doing)
{
	return doing == RANK_BUSY || doing == RANK_WORKS ||
	       doing == RANK_LOADS || doing == RANK_STARTS;
}

/* What an agent says about a connection without an answer, and what it may
 * mean. */
static const struct {
	const char *words, *meaning;
} stall_network[] = {
	{", connecting to ", "does a firewall drop it, or does the process "
			   "that listens there accept no connections?"},
	{", resending ", "does the network drop packets, or only those larger "
			 "than its MTU?"},
	{NULL, NULL},
};

/* What a rank's unanswered connection may mean, or NULL if it has none; *at:
 * the agent's words from the connection on. */
static const char *stall_meaning(const struct stall *s, uint32_t rank,
				 struct slice *at)
{
	struct slice w = s->ranks[rank].at.words;
	const char *found;

	if (!s->ranks[rank].known || !w.len)
		return NULL;
	for (size_t i = 0; stall_network[i].words; i++) {
		found = slice_find(w, stall_network[i].words);
		if (!found)
			continue;
		found += strlen(", ");
		at->data = found;
		at->len = (size_t)(w.data + w.len - found);
		return stall_network[i].meaning;
	}
	return NULL;
}

int64_t stall_unanswered_rank(const struct stall *s)
{
	struct slice at;

	for (uint32_t i = 0; i < s->world; i++) {
		if (stall_is_live(s, i) && stall_meaning(s, i, &at))
			return i;
	}
	return NOBODY;
}

/* "; rank 2 on h2 is connecting to 10.0.0.1:41291 without an answer: does
 * a firewall drop it, ...?", if there is such a rank. 0: there is none. */
static int stall_put_unanswered(const struct stall *s, struct buf *out)
{
	int64_t rank = stall_unanswered_rank(s);
	struct slice at = {NULL, 0};
	const char *meaning;

	if (rank == NOBODY)
		return 0;
	meaning = stall_meaning(s, (uint32_t)rank, &at);
	buf_printf(out, "; rank %u on %s is ", (uint32_t)rank,
		   s->host(s->arg, (uint32_t)rank));
	buf_printf(out, "%.*s: %s", SLICE_FMT(at), meaning);
	return 1;
}

/* The same at the end of a text that has a rank's words: their meaning, if the
 * connection is its own. */
static void stall_put_meaning(const struct stall *s, uint32_t rank,
			      struct buf *out)
{
	struct slice at;
	const char *meaning = stall_meaning(s, rank, &at);

	if (meaning)
		buf_printf(out, ": %s", meaning);
	else
		stall_put_unanswered(s, out);
}

/* The rank from or to which this one waits to pass a message; NOBODY: it does
 * not. */
static int64_t stall_peer(const struct stall *s, uint32_t rank)
{
	const struct wire_rank *r = &s->ranks[rank].at;

	return stall_is_live(s, rank) && stall_doing(s, rank) == RANK_CALLS &&
			       !r->number && r->peer >= 0 &&
			       (uint32_t)r->peer < s->world
		       ? r->peer
		       : NOBODY;
}

/* "; 3 ranks wait for each other: rank 0 for 2, 2 for 1, 1 for 0", if the waits
 * from rank on lead into a circle. 0: they do not. */
static int stall_put_circle(const struct stall *s, uint32_t rank,
			    struct buf *out)
{
	int64_t at = rank, first;
	uint32_t n = 1;

	/* after as many steps as there are ranks it is in the circle */
	for (uint32_t i = 0; i < s->world && at != NOBODY; i++)
		at = stall_peer(s, (uint32_t)at);
	if (at == NOBODY)
		return 0;
	for (first = at; (at = stall_peer(s, (uint32_t)at)) != first; n++)
		;
	for (uint32_t i = 0; i < n && first != rank; i++)
		first = stall_peer(s, (uint32_t)first);
	buf_printf(out, "; %u ranks wait for each other: rank", n);
	at = first;
	for (uint32_t i = 0; i < n && i < CIRCLE_SHOWN; i++) {
		int64_t next = stall_peer(s, (uint32_t)at);

		buf_printf(out, "%s %lld for %lld", i ? "," : "",
			   (long long)at, (long long)next);
		at = next;
	}
	buf_printf(out, "%s", n > CIRCLE_SHOWN ? ", ..." : "");
	return 1;
}

/* Why a wait does not end for which no rank can be blamed. */
static void stall_put_reason(const struct stall *s, uint32_t waiter,
			     struct buf *out)
{
	if (!stall_put_circle(s, waiter, out))
		buf_printf(out, ", and no rank is missing");
	stall_put_unanswered(s, out);
}

void stall_describe_wait(const struct stall *s, uint32_t waiter,
			 int64_t culprit, uint32_t behind,
			 struct stall_news *out)
{
	const struct wire_rank *w = &s->ranks[waiter].at;
	struct buf line = BUF_INIT(STALL_TEXT_MAX);
	struct buf why = BUF_INIT(STALL_TEXT_MAX);
	uint32_t rank = culprit < 0 ? waiter : (uint32_t)culprit;

	buf_printf(&line, "%s for ",
		   stall_is_busy(out->doing) ? "waiting" : "no progress");
	stall_put_seconds(&line, out->ms);
	buf_printf(&line, ": ");
	stall_put_waiters(s, &line, w);
	if (culprit < 0) {
		stall_put_reason(s, waiter, &line);
		buf_printf(&why, "no progress for ");
		stall_put_seconds(&why, out->ms);
		buf_printf(&why, ": ");
		stall_put_waiters(s, &why, w);
		stall_put_reason(s, waiter, &why);
	} else {
		buf_printf(&line, "; ");
		stall_put_rank(s, &line, rank);
		buf_printf(&line, " has not arrived");
		if (behind > 1)
			buf_printf(&line, ", nor have %u more", behind - 1);
		buf_printf(&line, ": ");
		stall_put_doing(s, &line, rank);
		stall_put_unanswered(s, &line);
		stall_put_doing(s, &why, rank);
		stall_put_unanswered(s, &why);
		buf_printf(&why, "; for ");
		stall_put_seconds(&why, out->ms);
		buf_printf(&why, " ");
		stall_put_waiters(s, &why, w);
	}
	stall_copy_text(&line, out->text);
	stall_copy_text(&why, out->why);
}

void stall_describe_alone(const struct stall *s, const char *whole,
			  struct stall_news *out)
{
	struct buf line = BUF_INIT(STALL_TEXT_MAX);
	struct buf why = BUF_INIT(STALL_TEXT_MAX);

	buf_printf(&line, "%s for ",
		   stall_is_busy(out->doing) ? "waiting" : "no progress");
	stall_put_seconds(&line, out->ms);
	buf_printf(&line, ": %s", whole);
	stall_put_rank(s, &line, out->rank);
	buf_printf(&line, " ");
	buf_printf(&line, "%.*s", SLICE_FMT(s->ranks[out->rank].at.words));
	stall_put_meaning(s, out->rank, &line);
	stall_put_doing(s, &why, out->rank);
	stall_put_meaning(s, out->rank, &why);
	if (out->ms >= s->patience_ms / SHORT) {
		buf_printf(&why, ", no progress for ");
		stall_put_seconds(&why, out->ms);
	}
	stall_copy_text(&line, out->text);
	stall_copy_text(&why, out->why);
}

/* "2 of 3 ranks wait in MPI_Barrier" */
static void stall_put_mpi(const struct stall *s, struct buf *out,
			  uint32_t waiting, int64_t but)
{
	struct slice call = {NULL, 0};
	uint32_t first = 0;
	int is_one = 1;

	for (uint32_t i = 0; i < s->world; i++) {
		if (i == but || s->ranks[i].ended || !stall_is_in_mpi(s, i))
			continue;
		if (!call.len)
			first = i;
		call = s->ranks[first].at.call;
		is_one &= slice_is_equal(call, s->ranks[i].at.call);
	}
	if (waiting == 1)
		buf_printf(out, "rank %u on %s waits in %.*s", first,
			   s->host(s->arg, first), SLICE_FMT(call));
	else
		buf_printf(out, "%u of %u ranks wait in %.*s%s", waiting,
			   s->world, SLICE_FMT(call),
			   is_one ? "" : " and other calls");
}

void stall_describe_mpi(const struct stall *s, uint32_t waiting, int64_t ended,
			struct stall_news *out)
{
	struct buf line = BUF_INIT(STALL_TEXT_MAX);
	struct buf why = BUF_INIT(STALL_TEXT_MAX);
	int64_t but = ended == NOBODY ? (int64_t)out->rank : NOBODY;

	buf_printf(&line, "%s for ",
		   stall_is_busy(out->doing) ? "waiting" : "no progress");
	stall_put_seconds(&line, out->ms);
	buf_printf(&line, ": ");
	stall_put_mpi(s, &line, waiting, but);
	buf_printf(&line, "; ");
	stall_put_doing(s, &why, out->rank);
	if (ended != NOBODY) {
		stall_put_rank(s, &line, (uint32_t)ended);
		buf_printf(&line, " has exited with code 0");
		buf_printf(&why, "; ");
		stall_put_rank(s, &why, (uint32_t)ended);
		buf_printf(&why, " has exited with code 0");
	} else {
		stall_put_rank(s, &line, out->rank);
		buf_printf(&line, " %s: ",
			   stall_is_in_mpi(s, out->rank) ? "is in another call"
							 : "has not arrived");
		stall_put_doing(s, &line, out->rank);
	}
	buf_printf(&why, "; for ");
	stall_put_seconds(&why, out->ms);
	buf_printf(&why, " ");
	stall_put_mpi(s, &why, waiting, but);
	stall_copy_text(&line, out->text);
	stall_copy_text(&why, out->why);
}

void stall_describe_mpi_all(const struct stall *s, struct stall_news *out)
{
	struct buf line = BUF_INIT(STALL_TEXT_MAX);
	struct buf why = BUF_INIT(STALL_TEXT_MAX);

	buf_printf(&line, "no progress for ");
	stall_put_seconds(&line, out->ms);
	buf_printf(&line, ": ");
	stall_put_mpi(s, &line, s->world, NOBODY);
	buf_printf(&line, ", and no rank is missing");
	if (!stall_put_unanswered(s, &line)) {
		buf_printf(&line, "; ");
		stall_put_rank(s, &line, out->rank);
		buf_printf(&line, " for example: ");
		stall_put_doing(s, &line, out->rank);
	}
	stall_put_doing(s, &why, out->rank);
	buf_printf(&why, "; for ");
	stall_put_seconds(&why, out->ms);
	buf_printf(&why, " ");
	stall_put_mpi(s, &why, s->world, NOBODY);
	buf_printf(&why, ", and no rank is missing");
	stall_copy_text(&line, out->text);
	stall_copy_text(&why, out->why);
}

void stall_describe_end(const struct stall *s, struct stall_news *out)
{
	struct buf text = BUF_INIT(STALL_TEXT_MAX);

	buf_printf(&text, "progress again, after ");
	stall_put_seconds(&text, s->pause_ms);
	stall_copy_text(&text, out->text);
}

/* ---- the words of others ---- */

int stall_has_words(struct slice why, const char *const *words)
{
	for (; why.len && *words; words++)
		if (slice_has(why, *words))
			return 1;
	return 0;
}

/* libddp's words, and those of NCCL, gloo, c10d and MPI. */
int stall_is_timeout(struct slice why)
{
	static const char *const words[] = {
		"timed out", "Timed out", "timeout", "Socket Timeout",
		"Timeout(ms)", "TIMEOUT", "TIMED_OUT", "failed to pass",
		"not arrived",
		"not done after", "no data from", "no data read by",
		"no connection with", NULL,
	};

	return stall_has_words(why, words);
}

int stall_is_loss(struct slice why)
{
	static const char *const words[] = {
		"lost its connection", "closed its connection",
		"was killed by signal", "exited with code", "cannot reach",
		NULL,
	};

	return stall_has_words(why, words);
}

int stall_is_reported(struct slice why)
{
	static const char *const words[] = {"another rank ended it", NULL};

	return stall_has_words(why, words) && !stall_is_timeout(why);
}

int stall_is_disconnect(struct slice why)
{
	static const char *const words[] = {
		"Connection reset by peer",
		"Connection closed by peer",
		"onnection was reset",
		"Broken pipe",
		"Software caused connection abort",
		"remote process exited",
		NULL,
	};

	return stall_has_words(why, words);
}
