/* cause.c: how a worker or a round ended, in one line that says the cause
 * first, and the exit code that every launcher gives for it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/signal_name.h"
#include "rendezvous/job.h"

enum { CODE_MAX = 255 };

const char *node_name(const struct job_node *n, char *out)
{
	if (n->rank >= 0)
		snprintf(out, 300, "node %d (%.255s)", n->rank, n->host);
	else
		snprintf(out, 300, "%.255s", n->host);
	return out;
}

char *cause_of_exit(const struct job_node *n, const struct wire_exited *m)
{
	char name[SIGNAL_NAME_MAX], how[64], *text;

	if (m->signal)
		snprintf(how, sizeof how, "was killed by signal %d (%s)",
			 m->signal, signal_name(m->signal, name));
	else
		snprintf(how, sizeof how, "exited with code %d", m->code);
	if (asprintf(&text, "rank %u (local rank %u) on %.255s, pid %lld, %s",
		     m->rank, m->local_rank, n->host, (long long)m->pid,
		     how) < 0)
		return NULL;
	return text;
}

static int code_of(const struct wire_exited *m)
{
	if (m->signal > 0 && m->signal < 128)
		return 128 + m->signal;
	return m->code > 0 && m->code <= CODE_MAX ? m->code : 1;
}

static void end_init(struct job *j, const struct job_node *n,
		     enum wire_verdict verdict, int exit_code)
{
	free(j->end_host);
	free(j->end_tail);
	j->end_host = n ? strdup(n->host) : NULL;
	j->end_tail = NULL;
	j->end = (struct wire_end){
		.round = j->round,
		.verdict = (uint8_t)verdict,
		.exit_code = exit_code,
		.restarts_left = j->max_restarts - j->attempt,
		.rank = -1,
		.node_rank = n && n->rank >= 0 ? (uint32_t)n->rank : 0,
		.host = SLICE_STR(j->end_host ? j->end_host : ""),
	};
}

void cause_worker(struct job *j, const struct job_node *n,
		  const struct wire_exited *m, const char *text)
{
	int again = j->attempt < j->max_restarts;

	end_init(j, n, again ? WIRE_RESTART : WIRE_FAILURE, code_of(m));
	if (again)
		j->end.restarts_left--;
	snprintf(j->end_text, sizeof j->end_text, "%s", text);
	j->end.text = SLICE_STR(j->end_text);
	j->end.rank = (int32_t)m->rank;
	j->end.local_rank = m->local_rank;
	j->end.pid = m->pid;
	j->end.code = m->code;
	j->end.signal = m->signal;
	j->end.ran_ms = m->ran_ms;
	j->end_tail = m->tail.len ? malloc(m->tail.len) : NULL;
	if (j->end_tail) {
		memcpy(j->end_tail, m->tail.data, m->tail.len);
		j->end.tail = SLICE(j->end_tail, m->tail.len);
	}
}

void cause_other(struct job *j, const struct job_node *n,
		 enum wire_verdict verdict, int exit_code, const char *fmt, ...)
{
	va_list ap;

	end_init(j, n, verdict, exit_code);
	va_start(ap, fmt);
	vsnprintf(j->end_text, sizeof j->end_text, fmt, ap);
	va_end(ap);
	j->end.text = SLICE_STR(j->end_text);
}
