/* attempts.c: the list of a job's attempts. */
#include "launcher/failure/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void attempt_release(struct attempt *a)
{
	free(a->host);
	free(a->text);
	free(a->swap);
}

void attempts_release(struct attempts *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		attempt_release(&a->list[i]);
	free(a->list);
	*a = (struct attempts){NULL, 0, 0};
}

/* A free entry at the end, or NULL. */
static struct attempt *attempts_grow(struct attempts *a)
{
	uint32_t capacity = a->capacity ? a->capacity * 2 : 8;
	struct attempt *list;

	if (a->list && a->n == ATTEMPTS_MAX) {
		attempt_release(&a->list[0]);
		memmove(a->list, a->list + 1, --a->n * sizeof(*a->list));
	}
	if (a->n < a->capacity)
		return &a->list[a->n++];
	list = realloc(a->list, capacity * sizeof(*list));
	if (!list)
		return NULL;
	a->list = list;
	a->capacity = capacity;
	return &a->list[a->n++];
}

void attempts_add(struct attempts *a, const struct wire_end *end,
		  uint32_t attempt, int64_t ended_ms)
{
	struct attempt *to = a->n ? &a->list[a->n - 1] : NULL;

	if (to && to->attempt == attempt && to->rank >= 0 &&
	    to->rank == end->rank && to->pid == end->pid)
		attempt_release(&a->list[--a->n]);
	to = attempts_grow(a);
	if (!to)
		return;
	*to = (struct attempt){
		.attempt = attempt, .ended_ms = ended_ms, .rank = end->rank,
		.local_rank = end->local_rank, .pid = end->pid,
		.code = end->code, .signal = end->signal,
		.hangs = report_is_hang(end), .ran_ms = end->ran_ms,
		.host = strndup(end->host.len ? end->host.data : "",
				end->host.len),
		.text = strndup(end->text.len ? end->text.data : "",
				end->text.len),
		.swap = strndup(end->swap.len ? end->swap.data : "",
				end->swap.len),
	};
}

/* Skips the worker's name, with which the text of its failure begins. */
static const char *attempt_how(const struct attempt *a)
{
	char pid[40];
	const char *how;

	if (a->rank < 0 || !a->text)
		return NULL;
	snprintf(pid, sizeof(pid), ", pid %lld, ", (long long)a->pid);
	how = strstr(a->text, pid);
	return how ? how + strlen(pid) : NULL;
}

/* Cuts text after max bytes, but not within a UTF-8 character. */
static void attempt_put_cut(struct buf *out, const char *text, size_t max)
{
	size_t n = strlen(text), cut;

	if (n <= max) {
		buf_put(out, text, n);
		return;
	}
	cut = max - 3;
	while (cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80)
		cut--;
	buf_put(out, text, cut);
	buf_printf(out, "...");
}

void attempt_put_cause(struct buf *out, const struct attempt *a, size_t max)
{
	const char *how = attempt_how(a);
	char text[ERR_TEXT_MAX + 300];

	if (how)
		snprintf(text, sizeof(text), "rank %d on %.255s %s", a->rank,
			 a->host ? a->host : "", how);
	else
		snprintf(text, sizeof(text), "%s", a->text ? a->text : "");
	attempt_put_cut(out, text, max);
}
