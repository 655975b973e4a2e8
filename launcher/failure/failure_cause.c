/* failure_cause.c: why a worker died, from all that is known, the most useful
 * facts first. */
#include <signal.h>
#include <string.h>

#include "launcher/failure/failure_internal.h"
#include "launcher/failure/last_words.h"

/* The worker's own message, from its error file. */
static void failure_put_message(struct failure *f, struct buf *part)
{
	struct error_file error = {NULL, NULL, 0};

	if (f->error.len &&
	    error_file_parse(&error, failure_text(&f->error), NULL) == 0 &&
	    error.message)
		buf_put(part, error.message, strcspn(error.message, "\n"));
	error_file_release(&error);
}

/* Appends part to why and empties it. The first part that is not empty is the
 * cause in the page's first line; each further part is a line of its own. */
static void failure_put_part(struct failure *f, struct buf *part)
{
	struct slice text = failure_text(part);

	if (text.len && f->why.len)
		buf_put(&f->why, "\n", 1);
	buf_put(&f->why, text.data, text.len);
	buf_reset(part);
}

/* Codes that have one meaning wherever they come from. */
static void failure_put_code(struct buf *part, const struct worker *w)
{
	if (w->code == 124)
		buf_printf(part, "the code with which timeout(1) ends a "
			   "command that takes too long");
}

/* Appends the worker's last words, unless its signal says more. What it wrote
 * to its stdout counts if it is clear, what it wrote to its stderr always. */
static void failure_put_last_words(const struct failure *f, struct buf *part,
				   const struct worker *w,
				   const struct crash_report *crash)
{
	const struct slice texts[] = {
		tail_text(&w->tail), failure_text(&f->tail),
		tail_text(&w->out_tail),
	};

	for (int i = 0; i < 3 && !part->len; i++)
		last_words_put_clear(part, texts[i], w->code, w->signal);
	if (!part->len)
		failure_put_code(part, w);
	for (int i = 0; i < 3 && !part->len; i++)
		last_words_put_likely(part, texts[i], w->code, w->signal);
	for (int i = 0; i < 2 && !part->len; i++)
		last_words_put(part, texts[i], w->code, w->signal);
	/* an assertion has no Python frames, an exception has its place */
	if (part->len && crash->is_workers && part->data[part->len - 1] != ')')
		buf_put(part, crash->python_place.data,
			crash->python_place.len);
}

static void failure_put_descendant(struct buf *part,
				   const struct crash_report *crash);

/* "its process 812 (python3) was killed by ..., then WORDS". Returns 1, or 0 if
 * there is no memory. */
static int failure_put_before(struct buf *words,
			      const struct crash_report *crash)
{
	struct buf all = BUF_INIT(POSTMORTEM_WHY_MAX);
	int is_put;

	failure_put_descendant(&all, crash);
	buf_printf(&all, ", then ");
	buf_put(&all, words->data, words->len);
	is_put = !all.failed;
	if (is_put) {
		buf_reset(words);
		buf_put(words, all.data, all.len);
	}
	buf_release(&all);
	return is_put;
}

/* Whether the words have the number in "its process 812 (python3) was ...". */
static int failure_names_child(const struct buf *words, const struct buf *dead)
{
	const char *pid = memchr(dead->data, ' ', dead->len);
	size_t n;

	pid = pid ? memchr(pid + 1, ' ', dead->len - 4) : NULL;
	for (n = 1; pid && pid[n] >= '0' && pid[n] <= '9'; n++)
		;
	return pid && memmem(words->data, words->len, pid, n);
}

/* A worker's own message often only reports that a child did not answer. The
 * words, which are in part, may name the child. */
static void failure_put_dead_child(const struct failure *f, struct buf *part,
				   const struct worker *w,
				   const struct crash_report *crash)
{
	struct buf dead = BUF_INIT(POSTMORTEM_WHY_MAX);

	if (f->put_dead_child && !w->signal && !crash->signal)
		f->put_dead_child(f->owner, w->local_rank, &dead);
	if (part->len && dead.len && !failure_names_child(part, &dead)) {
		buf_printf(&dead, ", then ");
		buf_put(&dead, part->data, part->len);
	} else if (part->len) {
		buf_reset(&dead);
	}
	if (dead.len && !dead.failed) {
		buf_reset(part);
		buf_put(part, dead.data, dead.len);
	}
	buf_release(&dead);
}

static void failure_put_meaning(struct failure *f, struct buf *part,
				const struct postmortem_death *d,
				const struct crash_report *crash)
{
	if (crash->sender.len) {
		buf_put(part, crash->sender.data, crash->sender.len);
		return;
	}
	if (!crash->is_workers || !crash->meaning.len) {
		if (!crash->is_workers || crash->code > 0)
			postmortem_examine_signal(&f->postmortem, d, part);
		return;
	}
	buf_put(part, crash->meaning.data, crash->meaning.len);
	buf_put(part, crash->place.data, crash->place.len);
	buf_put(part, crash->python_place.data, crash->python_place.len);
}

/* The crash of a process that the worker started. */
static void failure_put_descendant(struct buf *part,
				   const struct crash_report *crash)
{
	char name[SIGNAL_NAME_MAX];

	if (!crash->signal || crash->is_workers)
		return;
	buf_printf(part, "its process %d (%s) was killed by signal %d (%s)",
		   (int)crash->pid, crash->program, crash->signal,
		   signal_name(crash->signal, name));
	if (!crash->meaning.len)
		return;
	buf_printf(part, ": ");
	buf_put(part, crash->meaning.data, crash->meaning.len);
	buf_put(part, crash->place.data, crash->place.len);
	buf_put(part, crash->python_place.data, crash->python_place.len);
}

/* Whether the worker's words are about that process, which it waited for. */
static int failure_is_about_descendant(const struct buf *words,
				       const struct crash_report *crash)
{
	static const char *const signs[] = {"exited unexpectedly",
					    "terminated abruptly",
					    "is killed by signal",
					    "ConnectionResetError",
					    "BrokenPipeError", "EOFError"};
	struct slice text = SLICE(words->data, words->len);
	char pid[16];

	if (!words->len || !crash->signal || crash->is_workers)
		return 0;
	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (slice_has(text, signs[i]))
			return 1;
	snprintf(pid, sizeof(pid), " %d", (int)crash->pid);
	return slice_has(text, pid);
}

/* A GPU that broke explains any death on its node. What it reports of the
 * program's errors explains less than the program's own words. */
static void failure_put_gpu(struct failure *f, struct buf *part, int is_broken)
{
	const struct gpu_finding *g =
		f->gpus ? gpu_monitor_cause(f->gpus, GPU_NOTE) : NULL;

	if (!g || g->severity == GPU_SLOW ||
	    (g->severity == GPU_BROKEN) != is_broken)
		return;
	buf_printf(part, "%s", g->text);
	failure_put_part(f, part);
	buf_printf(part, "what to do: %s", g->action);
	failure_put_part(f, part);
}

/* "it called MPI_Abort with 7: WORDS" */
static void failure_put_abort(const struct failure *f, struct buf *part,
			      const struct worker *w)
{
	struct buf words = BUF_INIT(POSTMORTEM_WHY_MAX);

	if (!w->abort_text[0])
		return;
	buf_printf(part, "%s", w->abort_text);
	if (!strstr(w->abort_text, ": "))
		last_words_put_abort(&words, tail_text(&w->tail));
	if (!words.len && !strstr(w->abort_text, ": "))
		last_words_put_abort(&words, failure_text(&f->tail));
	if (words.len && !words.failed)
		buf_printf(part, ": %.*s", (int)words.len, words.data);
	buf_release(&words);
}

/* Collects the causes, the most useful first. */
void failure_find_cause(struct failure *f, const struct worker *w,
			const struct postmortem_death *d,
			const struct err *unreadable,
			const struct crash_report *crash)
{
	struct buf part = BUF_INIT(POSTMORTEM_WHY_MAX);
	/* a shell's exit code repeats the signal of its child */
	int is_shells = crash->signal && w->code == 128 + crash->signal;
	int is_meaning = w->signal && w->signal != SIGABRT;
	int has_message, is_first = is_shells;

	failure_put_gpu(f, &part, 1);
	failure_put_abort(f, &part, w);
	failure_put_part(f, &part);
	failure_put_message(f, &part);
	has_message = part.len != 0;
	if (has_message)
		failure_put_dead_child(f, &part, w, crash);
	failure_put_part(f, &part);
	postmortem_examine(&f->postmortem, d, &part);
	failure_put_part(f, &part);
	if (unreadable->code)
		buf_printf(&part, "its error file %s", unreadable->text);
	failure_put_part(f, &part);
	if (is_shells)
		failure_put_descendant(&part, crash);
	else if (is_meaning)
		failure_put_meaning(f, &part, d, crash);
	failure_put_part(f, &part);
	if (!f->why.len)
		failure_put_last_words(f, &part, w, crash);
	if (!is_first && !f->why.len && !w->signal &&
	    failure_is_about_descendant(&part, crash))
		is_first = failure_put_before(&part, crash);
	if (!has_message)
		failure_put_dead_child(f, &part, w, crash);
	failure_put_part(f, &part);
	if (!is_first)
		failure_put_descendant(&part, crash);
	failure_put_part(f, &part);
	if (!is_meaning && !f->why.len)
		failure_put_meaning(f, &part, d, crash);
	failure_put_part(f, &part);
	failure_put_gpu(f, &part, 0);
	/* never the cause: an empty first line keeps its place */
	if (f->is_stderr_lost)
		buf_printf(&part, "the file with its stderr cannot be read: "
			   "the file server does not answer");
	if (part.len && !f->why.len)
		buf_put(&f->why, "\n", 1);
	failure_put_part(f, &part);
	postmortem_examine_core(&f->postmortem, d, &part);
	if (part.len && !f->why.len)
		buf_put(&f->why, "\n", 1);
	failure_put_part(f, &part);
	buf_release(&part);
}

/* The lines of the stack follow the facts. */
void failure_put_stack(struct failure *f, const struct crash_report *crash)
{
	struct slice stack = failure_text(&crash->stack);

	if (crash->note.len)
		buf_printf(&f->why, "\n%.*s", (int)crash->note.len,
			   crash->note.data);
	if (stack.len)
		buf_printf(&f->why, "\n%.*s", (int)stack.len - 1, stack.data);
}
