/* nccl_watch.c: bounded waits for a GPU and for other ranks: meanwhile asks the
 * store, and names the late rank after a timeout. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "worker-sdk/nccl/nccl_backend.h"

#define MS 1000000ull
/* If all of a thousand ranks wait, the store gets a thousand questions per
 * ASK_MAX, and none about waits shorter than ASK_FIRST. */
#define ASK_FIRST (200 * MS)
#define ASK_MAX (2000 * MS)
/* An agent reports a death within milliseconds, if it is not busy. */
#define CAUSE_MAX (2000 * MS)

enum { SAY_MS = 1000, NAMED_MAX = 3, ASK_AT_ONCE = 4 };

void ddp__watch_init(struct ddp__watch *w, struct ddp_comm *c,
		     const char *what)
{
	*w = (struct ddp__watch){.c = c,
				 .what = what,
				 .begun = clock_ns(),
				 .pause = ASK_FIRST,
				 .rank = c->rank};
	w->next = w->begun + w->pause;
}

uint64_t ddp__watch_ns(const struct ddp__watch *w)
{
	return clock_ns() - w->begun;
}

static char *watch_key(const struct ddp_comm *c, const char *what, int rank,
		       char out[128])
{
	snprintf(out, 128, "ddp/%u/nccl/%s/%s/%d", c->world->joined, c->name,
		 what, rank);
	return out;
}

/* One key for the whole world, because the end of one communicator ends all of
 * them. */
static char *watch_end_key(const struct ddp_comm *c, char out[128])
{
	snprintf(out, 128, "ddp/%u/nccl/end", c->world->joined);
	return out;
}

void ddp__watch_publish(struct ddp_comm *c, const struct err *why)
{
	struct ddp__kv *kv = c->world->kv;
	struct slice now, text = SLICE_STR(why->text);
	struct err ignored = ERR_INIT;
	char key[128];

	/* the first reason stays */
	kv->ops->compare_set(kv, SLICE_STR(watch_end_key(c, key)), SLICE("", 0),
			     text, &now, &ignored);
}

static int watch_has_ended(struct ddp__watch *w, struct err *e)
{
	struct ddp__kv *kv = w->c->world->kv;
	struct err why = ERR_INIT;
	struct slice text;
	char key[128];
	int rc = kv->ops->get(kv, SLICE_STR(watch_end_key(w->c, key)), 0, &text,
			      &why);

	if (rc > 0)
		return err_set(e, ERR_ABORTED,
			       "%s: another rank ended it: %.*s", w->what,
			       (int)(text.len < 800 ? text.len : 800),
			       text.data);
	if (rc == ERR_ABORTED)
		return err_set(e, ERR_REMOTE, "%s: %.800s", w->what, why.text);
	return 0;
}

static int watch_ask_rank(struct ddp__watch *w, struct err *e)
{
	struct ddp_comm *c = w->c;
	struct err why = ERR_INIT;
	int rc;

	w->rank = (w->rank + 1) % c->size;
	if (w->rank == c->rank)
		w->rank = (w->rank + 1) % c->size;
	rc = c->peers.fate(c->peers.owner, w->rank, NULL, &why);
	return rc ? err_set(e, rc, "%s: %.900s", w->what, why.text) : 0;
}

/* One rank at a time: each answer also tells whether the round is over. */
static int watch_ask_store(struct ddp__watch *w, struct err *e)
{
	int rc = watch_has_ended(w, e);

	return rc || w->c->size < 2 ? rc : watch_ask_rank(w, e);
}

/* Appends ", rank 2 on h1 is in barrier #4", for the first NAMED_MAX ranks
 * only. */
static void watch_name_late(struct ddp_comm *c, int r, int nth, struct slice in,
			    char *out, size_t size)
{
	char name[DDP__NAME_MAX], last[FLIGHT_TEXT_MAX] = "";
	size_t at = strlen(out);

	if (nth >= NAMED_MAX)
		return;
	c->peers.name(c->peers.owner, r, name);
	if (c->peers.last)
		c->peers.last(c->peers.owner, r, last);
	if (in.len)
		snprintf(out + at, size - at, "%s%s is in %.*s",
			 at ? ", " : "", name,
			 (int)(in.len < DDP__CALL_TEXT ? in.len
						       : DDP__CALL_TEXT),
			 in.data);
	else
		snprintf(out + at, size - at, "%s%s has not arrived%s%s",
			 at ? ", " : "", name, last[0] ? "; " : "", last);
}

/* Every rank that times out writes the call it was in. Ranks that wrote another
 * call, or nothing for a while, are late. seen[size]: which ranks have
 * written. */
static int watch_check_ranks(struct ddp__watch *w, char *seen, int *late,
			     char *out, size_t size)
{
	struct ddp_comm *c = w->c;
	struct ddp__kv *kv = c->world->kv;
	struct err ignored = ERR_INIT;
	int missing = 0;

	for (int r = 0; r < c->size; r++) {
		struct slice in;
		char key[128];
		int rc;

		if (seen[r])
			continue;
		rc = kv->ops->get(kv, SLICE_STR(watch_key(c, "in", r, key)), 0,
				  &in, &ignored);
		if (rc < 0 && rc != ERR_TIMEOUT)
			return -1; /* the round is over: there is nothing more
				    * to check */
		seen[r] = rc > 0;
		missing += rc <= 0;
		if (rc > 0 && (in.len != strlen(w->what) ||
			       memcmp(in.data, w->what, in.len)))
			watch_name_late(c, r, (*late)++, in, out, size);
	}
	return missing;
}

static void watch_find_late(struct ddp__watch *w, char *out, size_t size)
{
	struct ddp_comm *c = w->c;
	struct ddp__kv *kv = c->world->kv;
	uint64_t end = clock_ns() + SAY_MS * MS;
	struct err ignored = ERR_INIT;
	char key[128], *seen = calloc((size_t)c->size, 1);
	int late = 0, missing = 0;

	out[0] = '\0';
	if (!seen)
		return;
	kv->ops->set(kv, SLICE_STR(watch_key(c, "in", c->rank, key)),
		     SLICE_STR(w->what), &ignored);
	while ((missing = watch_check_ranks(w, seen, &late, out, size)) > 0 &&
	       clock_ns() < end)
		nanosleep(&(struct timespec){0, 20 * (long)MS}, NULL);
	for (int r = 0; r < c->size && missing > 0; r++)
		if (!seen[r])
			watch_name_late(c, r, late++, SLICE("", 0), out, size);
	free(seen);
	if (late > NAMED_MAX)
		snprintf(out + strlen(out), size - strlen(out),
			 " and %d more ranks", late - NAMED_MAX);
}

static int watch_timeout_error(struct ddp__watch *w, struct err *e)
{
	double waited = (double)ddp__watch_ns(w) / 1e9;
	char who[700];

	watch_find_late(w, who, sizeof(who));
	return err_set(e, ERR_TIMEOUT, "%s: not done after %.1f s%s%s",
		       w->what, waited, who[0] ? ": " : "", who);
}

int ddp__watch_pause(struct ddp__watch *w, struct err *e)
{
	uint64_t now = clock_ns(), waited = now - w->begun;
	int limit = w->c->world->timeout_ms;
	int rc;

	if (limit >= 0 && waited / MS >= (uint64_t)limit)
		return watch_timeout_error(w, e);
	if (now >= w->next) {
		rc = watch_ask_store(w, e);
		w->pause = w->pause * 2 < ASK_MAX ? w->pause * 2 : ASK_MAX;
		w->next = clock_ns() + w->pause;
		return rc;
	}
	/* a wait for a GPU that ends soon is not worth a sleep */
	if (waited > 20 * MS)
		nanosleep(&(struct timespec){0, (long)MS}, NULL);
	else if (waited > MS)
		nanosleep(&(struct timespec){0, 20000}, NULL);
	else if (waited > MS / 20)
		sched_yield();
	return 0;
}

/* ---- NCCL's own errors */

/* Asks about a few ranks at a time: with an agent, each answer also tells
 * whether the round is over, and why. */
static int watch_find_cause(struct ddp__watch *w, struct err *e)
{
	int asks = w->c->size - 1 < ASK_AT_ONCE ? w->c->size - 1 : ASK_AT_ONCE;
	int rc = watch_has_ended(w, e);

	for (int i = 0; i < asks && !rc; i++)
		rc = watch_ask_rank(w, e);
	return rc;
}

int ddp__nccl_error(struct ddp__nccl *n, void *comm, int rc, const char *what,
		    struct err *e)
{
	uint64_t end = clock_ns() + CAUSE_MAX, pause = MS;
	struct ddp__watch w;
	struct err own = ERR_INIT;
	size_t len;
	int found = 0;

	ddp__nccl_fail(n->lib, comm, rc, what, &own);
	ddp__watch_init(&w, n->c, what);
	while (rc != DDP__NCCL_ARGUMENT && rc != DDP__NCCL_USAGE &&
	       rc != DDP__NCCL_CUDA) {
		found = watch_find_cause(&w, e);
		if (found || n->c->size < 2 || clock_ns() >= end)
			break;
		nanosleep(&(struct timespec){0, (long)pause}, NULL);
		pause = pause * 2 < ASK_FIRST ? pause * 2 : ASK_FIRST;
	}
	if (!found) {
		*e = own;
		return e->code;
	}
	len = strlen(e->text);
	snprintf(e->text + len, sizeof(e->text) - len, " (NCCL: %.100s)",
		 n->lib->error_text(rc));
	return found;
}

int ddp__nccl_event_done(struct ddp__nccl *n, void *comm, void *event,
			 const char *what, struct err *e)
{
	int state = DDP__NCCL_SUCCESS, rc = n->cuda->event_query(event);

	if (rc == 0)
		return 1;
	if (rc != DDP__CUDA_NOT_READY)
		return ddp__cuda_check(n->cuda, rc, what, e);
	ddp__cuda_forget(n->cuda, rc);
	if (!comm)
		return 0;
	rc = n->lib->async_error(comm, &state);
	if (!rc)
		rc = state;
	return rc && rc != DDP__NCCL_IN_PROGRESS
		       ? ddp__nccl_error(n, comm, rc, what, e)
		       : 0;
}

int ddp__nccl_await_event(struct ddp__nccl *n, struct ddp__watch *w,
			  void *event, struct err *e)
{
	int rc = 0;

	while (!rc) {
		rc = ddp__nccl_push(n, e);
		if (!rc)
			rc = ddp__nccl_event_done(n, n->comm, event, w->what,
						  e);
		if (!rc)
			rc = ddp__watch_pause(w, e);
	}
	return rc < 0 ? rc : 0;
}

int ddp__nccl_settle(struct ddp__nccl *n, void *comm, int rc, const char *what,
		     struct err *e)
{
	struct ddp__watch w;

	if (rc == DDP__NCCL_SUCCESS)
		return 0;
	ddp__watch_init(&w, n->c, what);
	while (rc == DDP__NCCL_IN_PROGRESS) {
		int asked, state = DDP__NCCL_SUCCESS;

		asked = n->lib->async_error(comm, &state);
		rc = asked ? asked : state;
		if (rc != DDP__NCCL_IN_PROGRESS)
			break;
		asked = ddp__watch_pause(&w, e);
		if (asked)
			return asked;
	}
	return rc ? ddp__nccl_error(n, comm, rc, what, e) : 0;
}
