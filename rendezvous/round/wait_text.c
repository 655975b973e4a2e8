/* wait_text.c: writes the nodes, ranks and keys that a peer waits for in one
 * line. */
#include "rendezvous/round/wait_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/round/job_internal.h"

enum { TEXT_MAX = 4096 };

void wait_text_init(struct wait_text *a)
{
	buf_release(&a->text);
	*a = (struct wait_text){.text = BUF_INIT(TEXT_MAX),
			      .hash = 14695981039346656037u}; /* FNV-1a */
}

void wait_text_release(struct wait_text *a)
{
	buf_release(&a->text);
}

/* ---- words ---- */

static void wait_text_put_time(struct wait_text *a, const char *before,
			       uint64_t ms)
{
	buf_printf(&a->text, "%s%llu s", before,
		   (unsigned long long)(ms + 500) / 1000);
}

static void wait_text_hash(struct wait_text *a, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		a->hash = (a->hash ^ (unsigned char)text[i]) * 1099511628211u;
}

static void wait_text_put_text(struct wait_text *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void wait_text_put_text(struct wait_text *a, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_put(&a->text, text, strlen(text));
	wait_text_hash(a, text, strlen(text));
}

/* What a rank does changes with each report, so it makes no text a new one; the
 * error on its stderr does. */
static void wait_text_put_does(struct wait_text *a, struct slice does)
{
	static const char said[] = " (its stderr ends with: ";
	const char *at = slice_find(does, said);

	buf_put(&a->text, does.data, does.len);
	if (at)
		wait_text_hash(a, at, does.len - (size_t)(at - does.data));
}

/* Call before each name. */
static void wait_text_put_comma(struct wait_text *a)
{
	wait_text_put_text(a, "%s", a->said++ ? ", " : ": ");
}

int wait_text_has_room(const struct wait_text *a)
{
	return a->said < WAIT_TEXT_NAMED && a->said < a->missing;
}

void wait_text_end(struct wait_text *a)
{
	if (a->said && a->missing > a->said)
		wait_text_put_text(a, " and %u more", a->missing - a->said);
}

void wait_text_put_note(struct wait_text *a, const char *note)
{
	wait_text_put_text(a, "%s", note);
}

int wait_text_timed_out(const struct wait_text *a, uint64_t waited_ms,
		      struct err *e)
{
	return err_set(e, ERR_TIMEOUT, "waited %.1f s for %.*s",
		       (double)waited_ms / 1e3, (int)a->text.len,
		       a->text.data ? a->text.data : "");
}

/* ---- nodes ---- */

static void wait_text_put_silent(struct wait_text *a,
				 const struct wait_text_nodes *known,
				 const struct job_node *n)
{
	uint64_t ms = known->silent_ms && n->owner ?
		      known->silent_ms(n->owner) : 0;

	if (ms >= WAIT_TEXT_SILENT_MS)
		wait_text_put_time(a, ", agent silent for ", ms);
}

/* A node whose round has ended joins again once its workers have stopped and
 * its backoff is over. Only its agent knows which of the two it waits for. */
static void wait_text_put_stopping(struct wait_text *a, const struct job *j,
				   const struct wait_text_nodes *known)
{
	const struct job_node *n;

	for (n = j->nodes; n && wait_text_has_room(a); n = n->next) {
		if (n->place != NODE_MEMBER || n->joined)
			continue;
		wait_text_put_comma(a);
		wait_text_put_text(
			a,
			"node %d (%.64s, stopping its workers, or in its "
			"--restart-backoff, for ",
			n->rank, n->host);
		wait_text_put_time(a, "", known->ending_ms);
		wait_text_put_silent(a, known, n);
		wait_text_put_text(a, ")");
	}
}

static void wait_text_put_unjoined(struct wait_text *a,
				   const struct wait_text_nodes *known)
{
	for (uint32_t i = 0; i < known->nunjoined && wait_text_has_room(a);
	     i++) {
		wait_text_put_comma(a);
		wait_text_put_text(a, "%.64s (agent connected, has not joined)",
				   known->unjoined[i]);
	}
}

/* Ranks that nodes left behind and no node has taken. */
static void wait_text_put_gone(struct wait_text *a, const struct job *j)
{
	for (uint32_t i = 0; i < MEMORIES && wait_text_has_room(a); i++) {
		const struct job_memory *m = &j->memory[i];

		if (!m->host || !j->homes || j->homes[m->rank])
			continue;
		wait_text_put_comma(a);
		wait_text_put_text(a,
				   "node %d (%.64s, gone, has not come back)",
				   m->rank, m->host);
	}
}

static void wait_text_put_unclaimed(struct wait_text *a, const struct job *j)
{
	if (!job_names_unclaimed(j))
		return;
	for (uint32_t i = 0; i < j->max_nodes && wait_text_has_room(a); i++) {
		if (j->homes[i])
			continue;
		wait_text_put_comma(a);
		wait_text_put_text(a, "node %u (not connected)", i);
	}
}

void wait_text_put_nodes(struct wait_text *a, const struct job *j,
		       const struct wait_text_nodes *known)
{
	int first = j->state == JOB_GATHERING;
	uint32_t wanted = first || j->members < j->min_nodes ? j->min_nodes :
			  j->members;

	if ((!first && j->state != JOB_RESTARTING) || j->joined >= wanted)
		return;
	a->missing = wanted - j->joined;
	if (j->min_nodes < j->max_nodes && wanted == j->min_nodes)
		wait_text_put_text(a, "%u more of %u to %u nodes", a->missing,
				   wanted, j->max_nodes);
	else
		wait_text_put_text(a, "%u of %u nodes", a->missing, wanted);
	if (!first)
		wait_text_put_stopping(a, j, known);
	wait_text_put_unjoined(a, known);
	if (first)
		wait_text_put_unclaimed(a, j);
	else
		wait_text_put_gone(a, j);
	wait_text_end(a);
}

static int wait_text_gathers(const struct job *j)
{
	return j->state == JOB_GATHERING && j->joined &&
	       j->joined < j->min_nodes;
}

int wait_text_is_twin(const struct job *j, const struct job *other)
{
	return j != other && wait_text_gathers(j) && wait_text_gathers(other) &&
	       j->min_nodes == other->min_nodes &&
	       j->max_nodes == other->max_nodes &&
	       j->joined + other->joined <= j->max_nodes;
}

void wait_text_put_twin(struct wait_text *a, const struct job *other)
{
	const struct job_node *n = other->nodes;

	while (n && !n->joined)
		n = n->next;
	if (!n || !a->text.len)
		return;
	/* what follows the number of nodes begins with a colon */
	wait_text_put_text(a, "%s job '%.64s' waits at this server as well, "
			   "with %u of %u nodes (%.64s): does one --rdzv-id "
			   "have a typo?", a->said ? ";" : ":", other->id,
			   other->joined, other->min_nodes, n->host);
}

/* ---- keys and ranks ---- */

static void wait_text_put_key(struct wait_text *a, struct slice key)
{
	struct buf name = BUF_INIT(256);

	store_put_quoted(&name, key);
	wait_text_put_text(a, "%.*s", (int)name.len,
			   name.data ? name.data : "");
	buf_release(&name);
}

void wait_text_begin(struct wait_text *a, const struct store_waiter *w)
{
	struct store_awaited what;
	struct slice key;
	uint32_t at = 0;

	store_awaited(w, &what);
	a->missing = what.missing;
	if (what.kind != STORE_AWAITS_KEYS) {
		wait_text_put_text(
			a, "%u of %u ranks at %s ", what.missing, what.of,
			what.kind == STORE_AWAITS_GATHER ? "gather"
							 : "barrier");
		wait_text_put_key(a, what.key);
		return;
	}
	wait_text_put_text(a, "%u of %u key%s that nobody has set",
			   what.missing, what.of, what.of == 1 ? "" : "s");
	while (wait_text_has_room(a) && store_next_missing(w, &at, &key)) {
		wait_text_put_comma(a);
		wait_text_put_key(a, key);
	}
}

void wait_text_begin_ends(struct wait_text *a, uint32_t missing, uint32_t of)
{
	a->missing = missing;
	wait_text_put_text(a, "%u of %u ranks to end", missing, of);
}

static void wait_text_put_life(struct wait_text *a,
			       const struct wait_text_rank *r)
{
	wait_text_put_text(a, r->connected ? "connected" : "not connected");
	if (r->itself)
		wait_text_put_text(a, ", is itself waiting %.200s", r->itself);
	else if (r->silent_ms >= WAIT_TEXT_SILENT_MS)
		wait_text_put_time(a,
				   r->connected ? ", silent for "
						: ", its agent silent for ",
				   r->silent_ms);
}

void wait_text_put_rank(struct wait_text *a, const struct wait_text_rank *r)
{
	wait_text_put_comma(a);
	wait_text_put_text(a, "rank %u (%.64s%s", r->rank,
			   r->host ? r->host : "", r->host ? ", " : "");
	if (r->ended)
		wait_text_put_text(a, "%.200s", r->ended);
	else if (r->does.len && !r->itself &&
		 r->silent_ms < WAIT_TEXT_SILENT_MS)
		wait_text_put_does(a, r->does);
	else
		wait_text_put_life(a, r);
	wait_text_put_text(a, ")");
}

void wait_text_put_itself(struct buf *out, const struct store_waiter *w)
{
	struct store_awaited what;
	struct slice key;
	uint32_t at = 0;

	store_awaited(w, &what);
	if (what.kind != STORE_AWAITS_KEYS) {
		buf_printf(out, "at %s ", what.kind == STORE_AWAITS_GATHER ?
			   "gather" : "barrier");
		store_put_quoted(out, what.key);
	} else if (store_next_missing(w, &at, &key)) {
		buf_printf(out, "for key ");
		store_put_quoted(out, key);
		if (what.missing > 1)
			buf_printf(out, " and %u more", what.missing - 1);
	}
}
