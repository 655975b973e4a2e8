/* logs.c: the command: which lines are shown, and waiting for more. */
#include "launcher/logs/logs.h"

#include <errno.h>
#include <poll.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "launcher/failure/exit_code.h"
#include "launcher/output/lines.h"
#include "launcher/output/writer.h"

enum {
	FOLLOW_LINES = 10,  /* what --follow begins with */
	LOOK_MS = 1000,     /* for new attempts, and without inotify */
	GATHER_MS = 50,     /* lines that come together are merged by time */
	COLORS = 5,
};

struct logs_options {
	const char *ranks, *grep, *level, *stream;
	long attempt, lines;
	int follow;
	struct {
		int attempt, lines;
	} given;
};

#define FIELD(name) .offset = offsetof(struct logs_options, name)
#define GIVEN(name) .given_offset = offsetof(struct logs_options, given.name)

const struct option_spec logs_options[] = {
	{.name = "follow", .letter = 'f', .kind = OPTION_FLAG, FIELD(follow),
	 .help = "Go on with the lines that the workers write from now on, "
		 "also after a restart of the job."},
	{.name = "lines", .letter = 'n', .kind = OPTION_INT, FIELD(lines),
	 GIVEN(lines), .min = 0, .max = 1 << 30, .arg = "N",
	 .help = "Begin with the last N lines of each file (with --follow 10, "
		 "else all)."},
	{.name = "ranks", .letter = 'r', .kind = OPTION_STRING, FIELD(ranks),
	 .arg = "LIST", .help = "Only these ranks: \"0,4-7\"."},
	{.name = "level", .letter = 'l', .kind = OPTION_STRING, FIELD(level),
	 .arg = "debug|info|warning|error|fatal",
	 .help = "Only lines of this level or a more serious one. A line "
		 "without a level, as those of a traceback, has that of the "
		 "line before it."},
	{.name = "grep", .letter = 'g', .kind = OPTION_STRING, FIELD(grep),
	 .arg = "PATTERN",
	 .help = "Only lines that match this extended regular expression."},
	{.name = "stream", .kind = OPTION_STRING, FIELD(stream),
	 .arg = "stdout|stderr", .help = "Only this one (both)."},
	{.name = "attempt", .kind = OPTION_INT, FIELD(attempt), GIVEN(attempt),
	 .min = 0, .max = 1 << 30, .arg = "N",
	 .help = "The job's start (0), or its Nth restart (the last)."},
	{.name = "help", .letter = 'h', .kind = OPTION_HELP,
	 .help = "Show this help."},
	{0},
};

static const char usage[] =
	"usage: ddprun logs [OPTIONS] FOLDER\n\n"
	"Shows what the workers of a job have written to the files below"
	" --log-dir FOLDER:\nthe lines of all ranks, each with its rank, in the"
	" order of the times in them. Of\nseveral jobs in FOLDER, those of the"
	" newest.\n\n";

struct logs {
	const struct logs_options *options;
	const char *folder;
	struct rank_list ranks;
	regex_t pattern;
	int has_pattern;
	enum line_level level;
	int streams; /* 1: stdout; 2: stderr */
	int is_terminal, has_color;
	struct log_tree tree;
	struct log_merge merge;
	int watch; /* inotify; -1: none */
	uint64_t looked_ms; /* for a new attempt */
};

/* ---- a line ---- */

static int logs_matches(const struct logs *l, struct slice line)
{
#ifdef REG_STARTEND
	regmatch_t at = {0, (regoff_t)line.len};

	return regexec(&l->pattern, line.data, 1, &at, REG_STARTEND) == 0;
#else /* musl: a byte 0 ends the text */
	char *text = strndup(line.data, line.len);
	int found = text && regexec(&l->pattern, text, 0, NULL, 0) == 0;

	free(text);
	return found;
#endif
}

static int logs_wants(const struct logs *l, const struct log_reader *r)
{
	if (l->level && r->level < l->level)
		return 0;
	return !l->options->grep || logs_matches(l, r->line);
}

/* How many bytes of text, from i on, are a control character other than a tab:
 * 0, 1, or 2 for one of C1 in UTF-8. */
static size_t logs_control(struct slice text, size_t i)
{
	unsigned char c = (unsigned char)text.data[i], next;

	if ((c < 0x20 && c != '\t') || c == 0x7f)
		return 1;
	if (c != 0xc2 || i + 1 == text.len)
		return 0;
	next = (unsigned char)text.data[i + 1];
	return next >= 0x80 && next < 0xa0 ? 2 : 0;
}

/* A terminal gets no control characters: lines may be hostile. */
static void logs_put_text(const struct logs *l, struct slice text)
{
	if (!l->is_terminal) {
		fwrite(text.data, 1, text.len, stdout);
		return;
	}
	text = lines_last_segment(text);
	for (size_t i = 0; i < text.len; i++) {
		size_t control = logs_control(text, i);

		putchar(control ? '?' : text.data[i]);
		i += control == 2;
	}
}

static void logs_show(const struct logs *l, const struct log_reader *r)
{
	static const int colors[COLORS] = {36, 32, 33, 35, 34};

	if (!logs_wants(l, r))
		return;
	if (l->has_color)
		printf("\033[%dm[%u]\033[0m ",
		       colors[r->file->rank % COLORS], r->file->rank);
	else
		printf("[%u] ", r->file->rank);
	logs_put_text(l, r->line);
	putchar('\n');
}

/* Shows all lines that there are. 0, or -errno of stdout. */
static int logs_show_all(struct logs *l, int take_parts)
{
	const struct log_reader *r;

	while (!ferror(stdout) && (r = log_merge_next(&l->merge, take_parts)))
		logs_show(l, r);
	return file_flush_stdout();
}

/* ---- waiting for more ---- */

static int logs_open(struct logs *l, long attempt, long last, struct err *e)
{
	int rc = log_tree_find(&l->tree, l->folder, attempt, e);

	if (rc == 0)
		rc = log_merge_init(&l->merge, &l->tree,
				    l->options->ranks ? &l->ranks : NULL,
				    l->streams, last, e);
	if (rc < 0 || !l->options->follow)
		return rc;
	if (l->watch >= 0)
		close(l->watch);
	l->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	for (size_t i = 0; l->watch >= 0 && i < l->merge.n; i++)
		(void)inotify_add_watch(l->watch,
					l->merge.readers[i].file->path,
					IN_MODIFY); /* else LOOK_MS */
	return 0;
}

static void logs_close(struct logs *l)
{
	log_merge_release(&l->merge);
	log_tree_release(&l->tree);
}

static void logs_await(const struct logs *l)
{
	struct pollfd p = {.fd = l->watch, .events = POLLIN};
	char events[4096];

	if (poll(&p, 1, LOOK_MS) <= 0 || l->watch < 0)
		return;
	(void)poll(NULL, 0, GATHER_MS);
	while (read(l->watch, events, sizeof(events)) > 0)
		;
}

/* A restart, or a worker whose file is new: opens the files again. */
static int logs_look_again(struct logs *l, struct err *e)
{
	struct log_tree now;
	struct err ignored = ERR_INIT;
	int rc = log_tree_find(&now, l->folder, LOG_ATTEMPT_LAST, &ignored);
	int is_new = rc == 0 && now.n &&
		     (now.attempt != l->tree.attempt ||
		      strcmp(now.files[0].path, l->tree.files[0].path) != 0);
	long attempt = now.attempt;

	log_tree_release(&now);
	if (!is_new)
		return 0;
	rc = logs_show_all(l, 1);
	if (rc < 0)
		return err_set(e, rc, "cannot write the lines: %s",
			       strerror(-rc));
	log_info("attempt %ld begins", attempt);
	logs_close(l);
	return logs_open(l, LOG_ATTEMPT_LAST, -1, e);
}

static int logs_follow(struct logs *l, struct err *e)
{
	int rc = 0;

	while (rc == 0) {
		logs_await(l);
		rc = logs_show_all(l, 0);
		if (rc < 0)
			return err_set(e, rc, "cannot write the lines: %s",
				       strerror(-rc));
		if (l->options->given.attempt ||
		    clock_ms() - l->looked_ms < LOOK_MS)
			continue;
		rc = logs_look_again(l, e);
		l->looked_ms = clock_ms();
	}
	return rc;
}

/* ---- the command ---- */

static int logs_run(struct logs *l, struct err *e)
{
	const struct logs_options *o = l->options;
	long last = o->given.lines ? o->lines : o->follow ? FOLLOW_LINES : -1;
	int rc = logs_open(l, o->given.attempt ? o->attempt : LOG_ATTEMPT_LAST,
			   last, e);

	if (rc < 0)
		return rc;
	if (l->tree.are_local)
		log_info("%s is of torchrun, or of an older ddprun: the numbers"
			 " are local ranks", l->folder);
	if (*l->tree.clocks)
		log_warn("%s", l->tree.clocks);
	rc = logs_show_all(l, !o->follow);
	if (rc < 0)
		return err_set(e, rc, "cannot write the lines: %s",
			       strerror(-rc));
	return o->follow ? logs_follow(l, e) : 0;
}

static int logs_set_filters(struct logs *l, struct err *e)
{
	const struct logs_options *o = l->options;
	char why[200];
	int rc;

	l->streams = !o->stream			     ? 3
		     : !strcmp(o->stream, "stdout") ? 1
		     : !strcmp(o->stream, "stderr") ? 2
						    : 0;
	if (!l->streams)
		return err_set(e, ERR_USAGE, "--stream %s: give stdout or "
			       "stderr", o->stream);
	l->level = o->level ? line_level_named(o->level) : LINE_UNKNOWN;
	if (o->level && l->level == LINE_UNKNOWN)
		return err_set(e, ERR_USAGE, "--level %s: give debug, info, "
			       "warning, error or fatal", o->level);
	if (o->ranks) {
		rc = rank_list_parse(&l->ranks, o->ranks, "--ranks", e);
		if (rc < 0)
			return rc;
	}
	rc = o->grep ? regcomp(&l->pattern, o->grep, REG_EXTENDED) : 0;
	if (rc) {
		regerror(rc, &l->pattern, why, sizeof(why));
		return err_set(e, ERR_USAGE, "--grep '%s': %s", o->grep, why);
	}
	l->has_pattern = o->grep != NULL;
	return 0;
}

/* Options may come before and after the folder. */
static int logs_parse(struct logs *l, struct logs_options *o, int argc,
		      char **argv, struct err *e)
{
	int at = option_parse(logs_options, o, argc, argv, 1, e);

	if (at < 0)
		return at;
	if (at == argc)
		return err_set(e, ERR_USAGE, "give the folder: ddprun logs "
			       "FOLDER, where FOLDER is a job's --log-dir");
	l->folder = argv[at];
	argc -= at;
	argv += at;
	at = option_parse(logs_options, o, argc, argv, 1, e);
	if (at < 0 || at == argc)
		return at < 0 ? at : 0;
	return err_set(e, ERR_USAGE, "give one folder, not '%s' as well",
		       argv[at]);
}

int logs_main(int argc, char **argv)
{
	struct logs_options o = {0};
	struct logs l = {.options = &o, .watch = -1};
	struct err e = ERR_INIT;
	int rc = logs_parse(&l, &o, argc, argv, &e);

	if (rc == OPTION_WANT_HELP) {
		file_buffer_stdout();
		fputs(usage, stdout);
		option_print_help(logs_options);
		fputs("\nExit code: 0, or 1 if there is no output.\n", stdout);
		return file_flush_stdout() < 0;
	}
	if (rc == 0)
		rc = logs_set_filters(&l, &e);
	l.is_terminal = isatty(STDOUT_FILENO);
	l.has_color = l.is_terminal &&
		      writer_wants_color(getenv("NO_COLOR"), getenv("TERM"));
	if (rc == 0)
		rc = logs_run(&l, &e);
	logs_close(&l);
	if (l.has_pattern)
		regfree(&l.pattern);
	if (l.watch >= 0)
		close(l.watch);
	rank_list_release(&l.ranks);
	if (rc == 0)
		return 0;
	log_error("%s", e.text);
	return e.code == ERR_USAGE ? EXIT_BAD_USAGE : 1;
}
