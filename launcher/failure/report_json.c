/* report_json.c: the failure page as JSON. docs/report-json.md describes the
 * keys; they are torchrun's where it has the same. */
#include <stdio.h>
#include <time.h>

#include "base/utf8.h"
#include "base/json.h"
#include "launcher/failure/report.h"

enum { VERSION = 1, TEXT_MAX = 1 << 20, EARLIER_MAX = 5 };

/* text may be NULL. */
static void report_add_text(const struct json *j, cJSON *to, const char *name,
			    const char *text)
{
	json_add_text_or_null(j, to, name, SLICE_STR(text ? text : ""));
}

static void report_add_lines(const struct json *j, cJSON *to, const char *name,
			     struct slice text)
{
	cJSON *lines = j->add_array(to, name);

	while (text.len) {
		struct buf clean = BUF_INIT(TEXT_MAX);

		utf8_put(&clean, slice_next_line(&text));
		buf_put(&clean, "", 1);
		if (!clean.failed)
			j->append(lines, j->string(clean.data));
		buf_release(&clean);
	}
}

/* The stack's lines begin with '#', Python's with "#py". */
enum report_part { REPORT_FACTS, REPORT_NATIVE, REPORT_PYTHON };

static enum report_part report_part_of(struct slice line)
{
	if (!line.len || line.data[0] != '#')
		return REPORT_FACTS;
	return line.len > 2 && line.data[1] == 'p' ? REPORT_PYTHON
						   : REPORT_NATIVE;
}

/* The lines of why that belong to that part. */
static void report_put_part(struct buf *out, struct slice why,
			    enum report_part part)
{
	while (why.len) {
		struct slice line = slice_next_line(&why);

		if (report_part_of(line) == part) {
			if (out->len)
				buf_put(out, "\n", 1);
			buf_put(out, line.data, line.len);
		}
	}
}

static void report_add_why(const struct json *j, cJSON *to, struct slice why)
{
	static const char *const stacks[] = {
		[REPORT_NATIVE] = "stack", [REPORT_PYTHON] = "python_stack",
	};

	for (enum report_part i = REPORT_FACTS; i <= REPORT_PYTHON; i++) {
		struct buf part = BUF_INIT(TEXT_MAX);

		report_put_part(&part, why, i);
		if (i == REPORT_FACTS)
			json_add_text_or_null(j, to, "why",
					      SLICE(part.data, part.len));
		else
			report_add_lines(j, to, stacks[i],
					 SLICE(part.data, part.len));
		buf_release(&part);
	}
}

/* "time" in ISO 8601, and "timestamp" in whole unix seconds as torchrun's. */
static void report_add_time(const struct json *j, cJSON *to, int64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	char text[64];
	struct tm tm;
	size_t n;

	gmtime_r(&seconds, &tm);
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%03dZ", (int)(ms % 1000));
	j->add_string(to, "time", text);
	j->add_number(to, "timestamp", (double)(ms / 1000));
}

/* torchrun's exitcode is negative for a signal. */
static void report_add_exit(const struct json *j, cJSON *to, int code,
			    int signal)
{
	char name[SIGNAL_NAME_MAX];

	j->add_number(to, "exitcode", signal ? -signal : code);
	if (signal)
		j->add_string(to, "signal", signal_name(signal, name));
	else
		j->add_null(to, "signal");
}

/* A rank that hangs has no exit code. */
static void report_add_death(const struct json *j, cJSON *to, int hangs,
			     int code, int signal)
{
	if (!hangs) {
		report_add_exit(j, to, code, signal);
		return;
	}
	j->add_null(to, "exitcode");
	j->add_null(to, "signal");
}

static void report_add_error(const struct json *j, cJSON *to,
			     const struct report *r)
{
	const struct error_file *f = r->error;
	const struct wire_end *end = r->end;
	cJSON *raw = end->error.len ? j->parse(end->error.data, end->error.len)
				    : NULL;

	if (f && f->message)
		json_add_text(j, to, "message", SLICE_STR(f->message));
	else
		j->add_null(to, "message");
	if (f && f->callstack)
		report_add_lines(j, to, "py_callstack",
				 SLICE_STR(f->callstack));
	else
		j->add_null(to, "py_callstack");
	if (f && f->timestamp)
		j->add_number(to, "timestamp", (double)f->timestamp);
	else
		j->add_number(to, "timestamp", (double)(r->now_ms / 1000));
	if (raw)
		j->add_item(to, "error_file_data", raw);
	else
		j->add_null(to, "error_file_data");
}

static void report_add_first(const struct json *j, cJSON *all,
			     const struct report *r)
{
	const struct wire_end *end = r->end;
	cJSON *to;

	if (end->rank < 0) {
		j->add_null(all, "first_failure");
		return;
	}
	to = j->add_object(all, "first_failure");
	j->add_number(to, "rank", end->rank);
	j->add_number(to, "local_rank", end->local_rank);
	report_add_text(j, to, "role", r->role);
	report_add_text(j, to, "program", r->program);
	j->add_number(to, "node_rank", end->node_rank);
	json_add_text(j, to, "host", end->host);
	j->add_number(to, "pid", (double)end->pid);
	report_add_death(j, to, report_is_hang(end), end->code, end->signal);
	j->add_bool(to, "hangs", report_is_hang(end));
	j->add_bool(to, "core_dumped", end->core);
	report_add_why(j, to, end->why);
	json_add_text_or_null(j, to, "last_call", end->last);
	j->add_number(to, "max_rss_kib", (double)end->max_rss_kib);
	j->add_number(to, "ran_seconds", (double)end->ran_ms / 1000);
	report_add_error(j, to, r);
	report_add_lines(j, to, "last_lines", end->tail);
	json_add_text_or_null(j, to, "stderr_file", end->log);
}

static void report_add_workers(const struct json *j, cJSON *all,
			       const struct report *r)
{
	cJSON *list = j->add_array(all, "workers");

	for (uint32_t i = 0; i < r->nworkers; i++) {
		const struct report_worker *w = &r->workers[i];
		cJSON *to = j->object();

		j->add_number(to, "rank", w->rank);
		j->add_number(to, "local_rank", w->local_rank);
		report_add_text(j, to, "role", w->role);
		j->add_number(to, "pid", (double)w->pid);
		j->add_string(to, "fate", report_fate_name(w->fate));
		if (w->fate == REPORT_VICTIM && r->end->rank >= 0)
			j->add_number(to, "victim_of", r->end->rank);
		else
			j->add_null(to, "victim_of");
		report_add_exit(j, to, w->code, w->signal);
		j->add_number(to, "after_ms", (double)w->after_ms);
		j->add_number(to, "max_rss_kib", (double)w->max_rss_kib);
		report_add_text(j, to, "last_call", w->last);
		j->append(list, to);
	}
}

/* Its worker, or nulls if none failed. */
static void report_add_attempt_worker(const struct json *j, cJSON *to,
				      const struct attempt *a)
{
	static const char *const names[] = {"rank", "local_rank", "pid",
					    "exitcode", "signal",
					    "ran_seconds"};

	report_add_text(j, to, "host", a->host);
	if (a->rank < 0) {
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
			j->add_null(to, names[i]);
	} else {
		j->add_number(to, "rank", a->rank);
		j->add_number(to, "local_rank", a->local_rank);
		j->add_number(to, "pid", (double)a->pid);
		report_add_death(j, to, a->hangs, a->code, a->signal);
		j->add_number(to, "ran_seconds", (double)a->ran_ms / 1000);
	}
	j->add_bool(to, "hangs", a->hangs);
}

static void report_add_attempts(const struct json *j, cJSON *all,
				const struct report *r)
{
	cJSON *list = j->add_array(all, "attempts");

	for (uint32_t i = 0; i < r->nattempts; i++) {
		const struct attempt *a = &r->attempts[i];
		cJSON *to = j->object();

		j->add_number(to, "attempt", a->attempt);
		report_add_time(j, to, a->ended_ms);
		json_add_text(j, to, "text", SLICE_STR(a->text ? a->text : ""));
		report_add_text(j, to, "swap", a->swap);
		report_add_attempt_worker(j, to, a);
		j->append(list, to);
	}
}

/* The former name of "attempts". */
static void report_add_earlier(const struct json *j, cJSON *all,
			       const struct report *r)
{
	cJSON *list = j->add_array(all, "earlier_attempts");
	uint32_t n = r->nattempts ? r->nattempts - 1 : 0;

	for (uint32_t i = n > EARLIER_MAX ? n - EARLIER_MAX : 0; i < n; i++) {
		const struct attempt *a = &r->attempts[i];
		cJSON *to = j->object();

		j->add_number(to, "attempt", a->attempt);
		j->add_number(to, "timestamp", (double)(a->ended_ms / 1000));
		json_add_text(j, to, "text", SLICE_STR(a->text ? a->text : ""));
		j->append(list, to);
	}
}

static void report_add_slow(const struct json *j, cJSON *all,
			    const struct report_slow *slow)
{
	cJSON *to;

	if (!slow || !slow->is_known) {
		j->add_null(all, "slow");
		return;
	}
	to = j->add_object(all, "slow");
	j->add_number(to, "rank", slow->rank);
	j->add_number(to, "waited_percent", (double)slow->share / 10);
	j->add_bool(to, "is_over", slow->is_over);
	json_add_text(j, to, "text", SLICE_STR(slow->text));
}

static const char *report_verdict_name(int verdict)
{
	return verdict == WIRE_ENDED ? "ended" : "failure";
}

int report_put_json(struct buf *out, const struct report *r, struct err *e)
{
	const struct json *j = json_load(e);
	const struct wire_end *end = r->end;
	cJSON *all;

	if (!j)
		return ERR_SYSTEM;
	all = j->object();
	j->add_number(all, "version", VERSION);
	json_add_text(j, all, "job", SLICE_STR(r->job));
	j->add_string(all, "verdict", report_verdict_name(end->verdict));
	json_add_text(j, all, "text", end->text);
	j->add_number(all, "exit_code", end->exit_code);
	report_add_time(j, all, r->now_ms);
	json_add_text(j, all, "host", SLICE_STR(r->host ? r->host : ""));
	j->add_number(all, "world_size", r->world_size);
	j->add_number(all, "attempt", r->attempt);
	j->add_number(all, "max_restarts", r->max_restarts);
	report_add_first(j, all, r);
	j->add_bool(all, "first_failure_is_on_this_node", r->first_is_here);
	report_add_workers(j, all, r);
	report_add_slow(j, all, r->slow);
	gpu_news_put_json(j, all, r->gpus);
	report_add_attempts(j, all, r);
	report_add_earlier(j, all, r);
	return json_put(out, j, all, e);
}
