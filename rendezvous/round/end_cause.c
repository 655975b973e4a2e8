/* end_cause.c: how a worker or a round ended: one line with the cause first,
 * and the exit code that every launcher returns for it. Also stop requests, the
 * cause of an end that somebody asked for. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/round/job_internal.h"
#include "rendezvous/stall/stall.h"

enum {
	CODE_MAX = 255,
	WHY_MAX = 300, /* with the rest of the line within ERR_TEXT_MAX */
	LEFT_MS = 30000, /* a peer that lost its connection knows by then */
	CLOSED_MS = 3000, /* from closing a connection to the end */
};

const char *node_name(const struct job_node *n, char *out)
{
	if (n->rank >= 0)
		snprintf(out, 300, "node %d (%.255s)", n->rank, n->host);
	else
		snprintf(out, 300, "%.255s", n->host);
	return out;
}

static size_t end_cause_line_len(struct slice why)
{
	size_t n = 0;

	while (n < why.len && (unsigned char)why.data[n] >= 0x20 &&
	       why.data[n] != 0x7f)
		n++;
	return n;
}

/* The part of `why` that fits the line: its first line, which ends before a
 * word that would go beyond WHY_MAX bytes. */
static struct slice end_cause_short_why(struct slice why)
{
	size_t n = end_cause_line_len(why), word;

	if (n <= WHY_MAX)
		return SLICE(why.data, n);
	n = WHY_MAX;
	for (word = n; word > 0 && why.data[word] != ' '; word--)
		;
	if (word)
		return SLICE(why.data, word);
	/* do not cut a UTF-8 character in half */
	while (n > 0 && (why.data[n] & 0xc0) == 0x80)
		n--;
	return SLICE(why.data, n);
}

/* What follows the short form of `why`. */
static const char *end_cause_ellipsis(struct slice why)
{
	return end_cause_line_len(why) > WHY_MAX ? " ..." : "";
}

int end_cause_is_failure(const struct wire_exited *m)
{
	return m->early != WIRE_LEFT_OUT &&
	       (m->code || m->signal || m->early == WIRE_HANGS);
}

char *end_cause_of_exit(const struct job_node *n, const struct wire_exited *m)
{
	char name[SIGNAL_NAME_MAX], how[64], *text;
	/* without a cause, name the call that it was in */
	struct slice whole = end_cause_line_len(m->why) ? m->why : m->last;
	struct slice why = end_cause_short_why(whole);

	if (m->signal)
		snprintf(how, sizeof(how), "was killed by signal %d (%s)",
			 m->signal, signal_name(m->signal, name));
	else if (m->early == WIRE_HANGS)
		snprintf(how, sizeof(how), "hangs");
	else if (m->early == WIRE_DIFFERS)
		snprintf(how, sizeof(how), "made another call than the others");
	else if (m->early == WIRE_WRONG_DATA)
		snprintf(how, sizeof(how), "has wrong numbers");
	else
		snprintf(how, sizeof(how), "exited with code %d", m->code);
	if (asprintf(&text, "rank %u (local rank %u) on %.255s, pid %lld, "
		     "%s%s%s%.*s%s",
		     m->rank, m->local_rank, n->host, (long long)m->pid,
		     how, m->early == WIRE_LEFT_OUT ? ", and is left out" : "",
		     why.len ? ": " : "", SLICE_FMT(why),
		     end_cause_ellipsis(whole)) < 0)
		return NULL;
	return text;
}

static int end_cause_exit_code(const struct wire_exited *m)
{
	if (m->signal > 0 && m->signal < 128)
		return 128 + m->signal;
	if (m->early == WIRE_HANGS)
		return EXIT_RANK_HANGS;
	return m->code > 0 && m->code <= CODE_MAX ? m->code : 1;
}

void end_cause_set(struct job *j, const struct wire_end *m)
{
	struct wire_end end = *m;

	snprintf(j->end_text, sizeof(j->end_text), "%.*s", SLICE_FMT(m->text));
	end.text = SLICE("", 0);
	if (wire_copy_end(&j->end, &end, &j->end_bytes) < 0)
		buf_reset(&j->end_bytes);
	j->end.text = SLICE_STR(j->end_text);
}

static struct wire_end end_cause_make(const struct job *j,
				      const struct job_node *n,
				      enum wire_verdict verdict, int exit_code)
{
	return (struct wire_end){
		.round = j->round,
		.verdict = (uint8_t)verdict,
		.exit_code = exit_code,
		.restarts_left = j->max_restarts - j->attempt,
		.rank = -1,
		.node_rank = n && n->rank >= 0 ? (uint32_t)n->rank : 0,
		.host = SLICE_STR(n ? n->host : ""),
	};
}

/* Fills in the EXITED of the worker that left. Returns its node, or
 * NULL. */
static const struct job_node *end_cause_find_early(const struct job *j,
						   struct wire_exited *x)
{
	struct wire_frame f;

	if (wire_cut(SLICE(j->early.data, j->early.len), WIRE_BODY_MAX, &f,
		     NULL) <= 0 ||
	    wire_get_exited(&f, x, NULL) < 0 || x->rank >= j->world_size)
		return NULL;
	return j->ranks[x->rank].node;
}

void end_cause_note_early(struct job *j, const struct wire_exited *m)
{
	struct wire_exited first;
	int is_known = j->early.len && end_cause_find_early(j, &first);

	if (m->stopped || m->code || m->signal || m->early == WIRE_HANGS ||
	    (is_known && first.early >= m->early))
		return;
	buf_reset(&j->early);
	wire_put_exited(&j->early, WIRE_EXITED, WIRE_NOTICE, 0, m);
	if (j->early.failed) /* out of memory: the worker that fails is
			      * blamed */
		buf_reset(&j->early);
}

static void end_cause_set_worker(struct job *j, const struct job_node *n,
				 const struct wire_exited *m, const char *text)
{
	int again = j->attempt < j->max_restarts && !j->stop_order.level;
	struct wire_end end =
		end_cause_make(j, n, again ? WIRE_RESTART : WIRE_FAILURE,
			       end_cause_exit_code(m));

	if (again)
		end.restarts_left--;
	end.text = SLICE_STR(text);
	end.rank = (int32_t)m->rank;
	end.local_rank = m->local_rank;
	end.pid = m->pid;
	end.code = m->code;
	end.signal = m->signal;
	end.ran_ms = m->ran_ms;
	end.core = m->core;
	end.max_rss_kib = m->max_rss_kib;
	end.tail = m->tail;
	end.why = m->why;
	end.error = m->error;
	end.log = m->log;
	end.last = m->last;
	end_cause_set(j, &end);
}

/* m failed in a call that `early`, which had called ddp_finalize or not, did
 * not join. `early` is blamed, but it exited with code 0, so the exit code is
 * m's. */
static void end_cause_set_early(struct job *j, const struct job_node *n,
				const struct wire_exited *early,
				const struct wire_exited *m)
{
	struct wire_exited explained = *early;
	struct slice missed = end_cause_short_why(m->missed);
	char text[ERR_TEXT_MAX], why[WHY_MAX + 64];

	snprintf(text, sizeof(text),
		 "rank %u (local rank %u) on %.255s, pid "
		 "%lld, left early with code 0 while others were in %.*s",
		 early->rank, early->local_rank, n->host, (long long)early->pid,
		 SLICE_FMT(missed));
	snprintf(why, sizeof(why),
		 "it %s ddp_finalize while others were in %.*s",
		 early->early ? "exited without" : "left with",
		 SLICE_FMT(missed));
	explained.why = SLICE_STR(why);
	end_cause_set_worker(j, n, &explained, text);
	j->end.exit_code = end_cause_exit_code(m);
}

/* As end_cause_set_early, but `absent` never called ddp_init. */
static void end_cause_set_absent(struct job *j, const struct job_node *n,
				 const struct wire_exited *absent,
				 const struct wire_exited *m)
{
	struct wire_exited explained = *absent;
	char text[ERR_TEXT_MAX];

	snprintf(text, sizeof(text),
		 "rank %u (local rank %u) on %.255s, pid %lld, exited with "
		 "code 0 while others were in ddp_init",
		 absent->rank, absent->local_rank, n->host,
		 (long long)absent->pid);
	explained.why = SLICE_STR("it exited without ddp_init, which returns "
				  "once all ranks have called it");
	end_cause_set_worker(j, n, &explained, text);
	j->end.exit_code = end_cause_exit_code(m);
}

/* m lost its connection to a peer soon after `left` had exited with 0. */
static void end_cause_set_left(struct job *j, const struct job_node *n,
			       const struct wire_exited *left,
			       const struct wire_exited *m)
{
	struct wire_exited explained = *left;
	struct slice lost = end_cause_short_why(m->why);
	double s = ((double)m->ran_ms - (double)left->ran_ms) / 1000;
	const char *when = s < 0 ? "after" : "before";
	char text[ERR_TEXT_MAX], why[WHY_MAX + 96];

	s = s < 0 ? -s : s;
	snprintf(text, sizeof(text),
		 "rank %u (local rank %u) on %.255s, pid %lld, exited with "
		 "code 0 %.1f s %s rank %u failed: %.*s", left->rank,
		 left->local_rank, n->host, (long long)left->pid, s, when,
		 m->rank, SLICE_FMT(lost));
	snprintf(why, sizeof(why), "it exited %.1f s %s rank %u failed: %.*s",
		 s, when, m->rank, SLICE_FMT(lost));
	explained.why = SLICE_STR(why);
	end_cause_set_worker(j, n, &explained, text);
	j->end.exit_code = end_cause_exit_code(m);
}

/* ---- a rank that exited with 0 as the cause ---- */

/* m failed in a call that lacks `left`, which exited without ddp_finalize. */
static int end_cause_is_unfinished(const struct job *j,
				   const struct wire_exited *left,
				   const struct wire_exited *m)
{
	(void)j;
	return m->missed.len && left->early;
}

/* ddp_init needs all ranks. A rank that exited with 0 meanwhile did not call
 * it. */
static int end_cause_is_absent(const struct job *j,
			       const struct wire_exited *left,
			       const struct wire_exited *m)
{
	(void)j;
	(void)left;
	return slice_begins(m->missed, "ddp_init");
}

/* m failed in a call of all ranks, after `left` had left the world with
 * ddp_finalize. If most ranks have, m made a call too many. */
static int end_cause_is_finalized(const struct job *j,
				  const struct wire_exited *left,
				  const struct wire_exited *m)
{
	struct slice call = m->missed;

	if (!left->last.len || !call.len || slice_has(call, " of group ") ||
	    slice_begins(call, "send") || slice_begins(call, "recv"))
		return 0;
	return 2 * (j->exited - 1) <= j->world_size; /* m is counted */
}

/* m lost a connection when `left` exited: just before that, or after it, as a
 * process may take a second from closing its connections to its end. */
static int end_cause_is_left(const struct job *j,
			     const struct wire_exited *left,
			     const struct wire_exited *m)
{
	(void)j;
	return !left->early &&
	       stall_is_disconnect(end_cause_short_why(m->why)) &&
	       left->ran_ms < m->ran_ms + CLOSED_MS &&
	       m->ran_ms < left->ran_ms + LEFT_MS;
}

/* From the surest sign to the weakest; the first that applies is the cause. */
static const struct {
	int (*holds)(const struct job *j, const struct wire_exited *left,
		     const struct wire_exited *m);
	void (*set)(struct job *j, const struct job_node *n,
		    const struct wire_exited *left,
		    const struct wire_exited *m);
} left_causes[] = {
	{end_cause_is_unfinished, end_cause_set_early},
	{end_cause_is_absent, end_cause_set_absent},
	{end_cause_is_finalized, end_cause_set_early},
	{end_cause_is_left, end_cause_set_left},
};

void end_cause_worker(struct job *j, const struct job_node *n,
		      const struct wire_exited *m, const char *text)
{
	struct wire_exited left;
	const struct job_node *at =
		j->early.len ? end_cause_find_early(j, &left) : NULL;

	for (size_t i = 0;
	     at && i < sizeof(left_causes) / sizeof(*left_causes); i++)
		if (left_causes[i].holds(j, &left, m)) {
			left_causes[i].set(j, at, &left, m);
			return;
		}
	end_cause_set_worker(j, n, m, text);
}

void end_cause_give_up(struct job *j, const char *text)
{
	char cause[801];

	snprintf(cause, sizeof(cause), "%.800s", j->end_text);
	snprintf(j->end_text, sizeof(j->end_text), "%s: %s", text, cause);
	j->end.text = SLICE_STR(j->end_text);
	j->end.verdict = WIRE_FAILURE;
	j->end.round = j->round;
	j->end.restarts_left++; /* it is not used */
	j->end.swap = SLICE_STR("");
}

void end_cause_other(struct job *j, const struct job_node *n,
		 enum wire_verdict verdict, int exit_code, const char *fmt, ...)
{
	struct wire_end end = end_cause_make(j, n, verdict, exit_code);
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	end.text = SLICE_STR(text);
	end_cause_set(j, &end);
}

void end_cause_success(struct job *j)
{
	uint32_t left_out = 0;

	for (uint32_t i = 0; i < j->world_size; i++)
		left_out += j->ranks[i].left_out != 0;
	if (left_out)
		end_cause_other(j, NULL, WIRE_SUCCESS, 0,
				"%u workers exited with code 0, and %u of "
				"optional roles failed",
				j->world_size - left_out, left_out);
	else
		end_cause_other(j, NULL, WIRE_SUCCESS, 0,
				"all %u workers exited with code 0",
				j->world_size);
}

/* ---- a stop ----
 *
 * What a request to stop the job adds to earlier ones, and what the workers'
 * exits mean afterwards. Several agents may report the same stop; the job is
 * asked once. */

static void job_stop_set_text(const struct job_node *n,
			      const struct wire_stop *m, char *out, size_t size)
{
	char name[300], sig[SIGNAL_NAME_MAX];

	if (m->cause == WIRE_BY_LIMIT)
		snprintf(out, size, "%.*s", SLICE_FMT(m->text));
	else if (m->cause == WIRE_BY_SSH)
		snprintf(out, size, "%s left: %.*s", node_name(n, name),
			 SLICE_FMT(m->text));
	else if (m->signal > 0)
		snprintf(out, size, "%s received %s", node_name(n, name),
			 signal_name(m->signal, sig));
	else
		snprintf(out, size, "%s was asked to stop: %.*s",
			 node_name(n, name), SLICE_FMT(m->text));
}

void job_stop_handle(struct job *j, const struct job_node *n,
		     const struct wire_stop *m)
{
	struct job_stop_order *t = &j->stop_order;
	int number = m->signal > 0 ? m->signal & 127 : SIGTERM;

	if (m->level <= t->level || m->level > WIRE_CUT)
		return;
	job_stop_set_text(n, m, t->text, sizeof(t->text));
	if (!t->level) {
		snprintf(t->first, sizeof(t->first), "%s", t->text);
		t->exit_code = 128 + number;
	}
	t->level = m->level;
	t->cause = m->cause;
	t->signal = m->signal;
	t->grace_ms = m->grace_ms;
	transition_act(j, (struct job_action){.kind = JOB_TELL_STOP});
}

int job_stop_for(const struct job *j, const struct job_node *n,
		 struct wire_stop *m)
{
	const struct job_stop_order *t = &j->stop_order;

	*m = (struct wire_stop){
		.level = t->level, .cause = t->cause, .whole = 1,
		.signal = t->signal, .grace_ms = t->grace_ms,
		.text = SLICE_STR(t->text),
	};
	return n->place != NODE_GONE;
}

/* Once the stop has killed a rank, its peers may fail in any way. A rank that
 * ended cleanly explains no failure. */
int job_stop_explains(struct job *j, const struct wire_exited *m)
{
	if (!j->stop_order.level)
		return 0;
	j->stop_order.stopped += m->stopped != 0;
	j->stop_order.killed += m->stopped && m->signal;
	return j->stop_order.killed > 0;
}

int job_stop_ends(struct job *j)
{
	if (!j->stop_order.level || !j->stop_order.stopped)
		return 0;
	end_cause_other(j, NULL, WIRE_ENDED, j->stop_order.exit_code, "%s",
		    j->stop_order.first);
	return 1;
}
