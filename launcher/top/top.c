/* top.c: the subcommand: asks, draws, waits for a key or the interval. */
#include "launcher/top/top.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sock.h"
#include "launcher/failure/exit_code.h"
#include "launcher/inspect/control_client.h"
#include "launcher/inspect/output_query.h"
#include "launcher/output/lines.h"
#include "launcher/output/writer.h"
#include "launcher/top/top_internal.h"

enum { TEXT_MAX = 1 << 28, FILTER_MAX = 64, MESSAGE_MAX = 1600, ID_MAX = 1024 };

/* What the keys type. */
enum top_input { NO_INPUT, FILTER_INPUT, RANK_INPUT };

struct top_options {
	const char *job;    /* NULL: all */
	const char *server; /* --rdzv-endpoint, or NULL */
	const char *auth, *token_file; /* or NULL */
	double timeout_s, interval_s;
	long rank, lines; /* whose output is shown, or -1; of each stream */
	int once, json;
};

struct top {
	struct top_options o;
	struct top_terminal terminal;
	struct top_screen screen;
	char host[SOCK_HOST_MAX];
	struct job_status_list list;
	char job[ID_MAX];     /* the shown job and its server, see top_job_id */
	struct top_rows rows; /* from the last query, for CPU rates */
	char filter[FILTER_MAX];
	char message[MESSAGE_MAX]; /* what the last reply lacked; "": nothing */
	char prompt[FILTER_MAX + 64];
	enum top_input input;
	char typed[16]; /* a rank */
	uint32_t first_rank; /* in the first row that is shown */
	int is_over;
};

#define FIELD(name) .offset = offsetof(struct top_options, name)

const struct option_spec top_options[] = {
	CONTROL_CLIENT_OPTIONS(struct top_options,
			       "Show the jobs of this rendezvous server: use "
			       "it on a host that runs no ddprun."),
	{.name = "timeout", .kind = OPTION_DOUBLE, FIELD(timeout_s),
	 .min = 0.1, .max = 600, .arg = "SECONDS",
	 .help = "How long to wait for a server's answer (2)."},
	{.name = "interval", .kind = OPTION_DOUBLE, FIELD(interval_s),
	 .min = 0.1, .max = 3600, .arg = "SECONDS",
	 .help = "Time between two looks (1)."},
	{.name = "rank", .kind = OPTION_INT, FIELD(rank), .min = 0,
	 .max = WIRE_WORLD_MAX - 1, .arg = "RANK",
	 .help = "Also show the last lines of this rank's output."},
	{.name = "lines", .kind = OPTION_INT, FIELD(lines), .min = 1,
	 .max = TAIL_SHOWN, .arg = "N",
	 .help = "At most N lines of its stdout, and of its stderr (10)."},
	{.name = "once", .kind = OPTION_FLAG, FIELD(once),
	 .help = "Print all jobs once, as plain text; the default where stdout "
		 "is not a terminal."},
	CONTROL_CLIENT_LAST_OPTIONS(struct top_options),
};

static const char usage[] =
	"usage: ddprun top [OPTIONS]\n\n"
	"Shows the jobs that your ddprun processes on this host belong to,"
	" while they\nrun: nodes and ranks, what each rank does, its steps,"
	" and which rank the\nothers wait for. Keys: q quits, s sorts,"
	" / filters, o shows the last\nlines of a rank's output, d a dump of"
	" the job, n the next job, arrows and pages\nscroll.\n\n";

/* ---- looking ---- */

static void top_on_unreachable(void *arg, const char *job, const struct err *e)
{
	struct top *t = arg;

	snprintf(t->message, sizeof(t->message),
		 "cannot query the server of job '%s': %s", job, e->text);
}

static struct job_query top_make_query(struct top *t)
{
	return (struct job_query){
		.job = t->o.job, .server = t->o.server, .auth = t->o.auth,
		.token_file = t->o.token_file, .timeout_s = t->o.timeout_s,
		.on_unreachable = top_on_unreachable, .arg = t,
	};
}

static int top_query(struct top *t, struct err *e)
{
	const struct job_query q = top_make_query(t);

	t->message[0] = '\0';
	job_status_list_release(&t->list);
	return job_query_run(&t->list, &q, e);
}

/* Asks for the last lines of the chosen rank, if there is one. An error takes
 * the place of the lines. */
static void top_query_output(struct top *t, struct job_status *job)
{
	const struct job_query q = top_make_query(t);
	const uint32_t rank = (uint32_t)t->o.rank;
	struct job_output *o;
	struct err e = ERR_INIT;

	if (t->o.rank < 0 || !(o = calloc(1, sizeof(*o))))
		return;
	job->output = o;
	if (output_query_run(o, &q, job, rank, (uint32_t)t->o.lines, &e) < 0)
		job_output_set_error(o, rank, e.text);
}

static void top_job_id(const struct job_status *job, char *out, size_t room)
{
	snprintf(out, room, "%s %.*s", job->server, SLICE_FMT(job->as.job));
}

/* The job that is shown: the same as before, if it is still there. */
static size_t top_find_job(const struct top *t)
{
	char id[sizeof(t->job)];

	for (size_t i = 0; i < t->list.n; i++) {
		top_job_id(&t->list.jobs[i], id, sizeof(id));
		if (strcmp(id, t->job) == 0)
			return i;
	}
	return 0;
}

/* Rows of a job; they replace those of the last reply, whose text is gone. */
static int top_make_rows(struct top *t, const struct job_status *job)
{
	top_rows_release(&t->rows);
	return top_rows_init(&t->rows, job);
}

static void top_choose_job(struct top *t)
{
	const struct job_status *job;

	t->screen.jobs = t->list.n;
	if (!t->list.n)
		return;
	t->screen.job = top_find_job(t);
	job = &t->list.jobs[t->screen.job];
	top_job_id(job, t->job, sizeof(t->job));
	if (top_make_rows(t, job) < 0)
		snprintf(t->message, sizeof(t->message), "out of memory");
}

/* ---- on a terminal ---- */

/* The rows that the filter keeps, sorted: a copy, because the next reply needs
 * all of them. */
static void top_put_job(struct top *t, struct buf *out)
{
	const struct job_status *job = &t->list.jobs[t->screen.job];
	struct top_rows shown = t->rows;

	shown.rows = malloc((shown.n + 1) * sizeof(*shown.rows));
	if (!shown.rows) {
		top_screen_put_nothing(out, &t->screen, "out of memory");
		return;
	}
	if (shown.n)
		memcpy(shown.rows, t->rows.rows, shown.n * sizeof(*shown.rows));
	top_rows_filter(&shown, t->filter);
	top_rows_sort(&shown, t->screen.order);
	if (t->screen.first >= shown.n)
		t->screen.first = shown.n ? shown.n - 1 : 0;
	if (shown.n)
		t->first_rank = shown.rows[t->screen.first].as.rank;
	t->screen.output = t->o.rank < 0 ? NULL : job->output;
	top_screen_put(out, &t->screen, job, &shown);
	free(shown.rows);
}

static void top_draw(struct top *t)
{
	struct buf out = BUF_INIT(TEXT_MAX);
	char nothing[SOCK_HOST_MAX + 80];

	t->screen.columns = t->terminal.columns;
	t->screen.lines = t->terminal.lines;
	t->screen.filter = t->filter;
	t->screen.message = t->input	    ? t->prompt
			    : t->message[0] ? t->message
					    : NULL;
	if (t->input == RANK_INPUT)
		snprintf(t->prompt, sizeof(t->prompt),
			 "output of rank (Enter: %u): %s", t->first_rank,
			 t->typed);
	else
		snprintf(t->prompt, sizeof(t->prompt), "filter: %s", t->filter);
	snprintf(nothing, sizeof(nothing), "no job of yours runs on %s",
		 t->host);
	if (t->list.n)
		top_put_job(t, &out);
	else
		top_screen_put_nothing(&out, &t->screen,
				       t->message[0]  ? t->message
				       : t->o.server ? "no job runs there"
						     : nothing);
	if (out.failed || file_write_all(STDOUT_FILENO, out.data, out.len) < 0)
		t->is_over = 1;
	buf_release(&out);
}

/* Runs `ddprun dump` for the shown job, through a pager if there is one. */
static void top_run_dump(struct top *t)
{
	static char script[] =
		"if [ -n \"$PAGER\" ] || command -v less >/dev/null; then\n"
		"\"$@\" 2>&1 | ${PAGER:-less -R}\n"
		"else \"$@\"; printf 'press Enter '; read -r _; fi";
	char *argv[16] = {"sh", "-c", script, "sh"};
	const struct job_status *job = &t->list.jobs[t->screen.job];
	char self[4096], name[ID_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	posix_spawnattr_t attr;
	pid_t pid;
	int n = 4;

	if (len <= 0 || posix_spawnattr_init(&attr) != 0)
		return;
	self[len] = '\0';
	snprintf(name, sizeof(name), "%.*s", SLICE_FMT(job->as.job));
	argv[n++] = self;
	argv[n++] = "dump";
	argv[n++] = "--job";
	argv[n++] = name;
	if (t->o.server) {
		argv[n++] = "--rdzv-endpoint";
		argv[n++] = (char *)t->o.server;
	}
	if (t->o.auth) {
		argv[n++] = "--auth";
		argv[n++] = (char *)t->o.auth;
	}
	if (t->o.token_file) {
		argv[n++] = "--token-file";
		argv[n++] = (char *)t->o.token_file;
	}
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attr, &t->terminal.mask_before);
	top_terminal_leave(&t->terminal);
	if (posix_spawnp(&pid, "sh", NULL, &attr, argv, environ) == 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	top_terminal_enter(&t->terminal);
	posix_spawnattr_destroy(&attr);
}

static void top_next_job(struct top *t)
{
	if (t->list.n)
		top_job_id(&t->list.jobs[(t->screen.job + 1) % t->list.n],
			   t->job, sizeof(t->job));
	t->screen.first = 0;
	top_rows_release(&t->rows);
	top_choose_job(t);
}

/* Edits what the keys type. Returns whether it is complete. */
static int top_type(struct top *t, int key)
{
	int is_rank = t->input == RANK_INPUT;
	char *text = is_rank ? t->typed : t->filter;
	size_t len = strlen(text), room = is_rank ? 8 : sizeof(t->filter);
	int low = is_rank ? '0' : ' ', high = is_rank ? '9' : '~';

	if (key == KEY_ESCAPE)
		text[0] = '\0';
	if (key == KEY_ESCAPE || key == '\r' || key == '\n') {
		t->input = NO_INPUT;
		return key != KEY_ESCAPE;
	}
	if ((key == 127 || key == '\b') && len)
		text[len - 1] = '\0';
	else if (key >= low && key <= high && len + 1 < room)
		memcpy(text + len, (char[]){(char)key, '\0'}, 2);
	return 0;
}

/* Returns whether another rank's output is to be asked for. */
static int top_type_rank(struct top *t, int key)
{
	if (!top_type(t, key))
		return 0;
	t->o.rank = t->typed[0] ? strtol(t->typed, NULL, 10)
				: (long)t->first_rank;
	return 1;
}

/* Asks for a rank, or hides the output that is shown. */
static void top_toggle_output(struct top *t)
{
	if (t->o.rank < 0) {
		t->input = RANK_INPUT;
		t->typed[0] = '\0';
	}
	t->o.rank = -1;
}

static void top_scroll(struct top *t, long by)
{
	long first = (long)t->screen.first + by;

	t->screen.first = first > 0 ? (size_t)first : 0;
}

/* Returns whether the jobs are to be looked at again. */
static int top_handle_key(struct top *t, int key)
{
	long page = t->terminal.lines > 6 ? t->terminal.lines - 5 : 1;

	if (key == KEY_QUIT) {
		t->is_over = 1;
		return 0;
	}
	if (t->input == RANK_INPUT)
		return top_type_rank(t, key);
	if (t->input == FILTER_INPUT) {
		top_type(t, key);
		return 0;
	}
	switch (key) {
	case 'q':
		t->is_over = 1;
		return 0;
	case 's':
		t->screen.order = (t->screen.order + 1) % TOP_ORDERS;
		return 0;
	case '/':
		t->input = FILTER_INPUT;
		return 0;
	case 'o':
		top_toggle_output(t);
		return 0;
	case 'n':
		top_next_job(t);
		return 0;
	case 'd':
		if (t->list.n)
			top_run_dump(t);
		return 1;
	case 'j':
	case KEY_DOWN:
		top_scroll(t, 1);
		return 0;
	case 'k':
	case KEY_UP:
		top_scroll(t, -1);
		return 0;
	case KEY_PAGE_DOWN:
		top_scroll(t, page);
		return 0;
	case KEY_PAGE_UP:
		top_scroll(t, -page);
		return 0;
	case KEY_HOME:
		t->screen.first = 0;
		return 0;
	case KEY_END:
		top_scroll(t, 1 << 30);
		return 0;
	default:
		return 0;
	}
}

/* Handles keys until the interval is over. */
static void top_wait(struct top *t)
{
	uint64_t due = clock_ms() + (uint64_t)(t->o.interval_s * 1000);

	while (!t->is_over) {
		uint64_t now = clock_ms();
		int key;

		if (now >= due)
			return;
		key = top_terminal_key(&t->terminal, (int)(due - now));
		if (key == KEY_NOTHING)
			continue;
		if (top_handle_key(t, key))
			return;
		top_draw(t);
	}
}

static int top_watch(struct top *t)
{
	struct err e = ERR_INIT;
	int rc = top_terminal_init(&t->terminal, &e);

	if (rc < 0)
		return control_client_fail(&e, EXIT_OS);
	while (!t->is_over) {
		if (top_query(t, &e) < 0)
			snprintf(t->message, sizeof(t->message), "%s", e.text);
		top_choose_job(t);
		if (t->list.n)
			top_query_output(t, &t->list.jobs[t->screen.job]);
		top_draw(t);
		top_wait(t);
	}
	top_terminal_release(&t->terminal);
	/* Ctrl-C ends a shell's loop around this program as well */
	if (t->terminal.signal)
		raise(t->terminal.signal);
	return 0;
}

/* ---- as plain text ---- */

static int top_put_all(struct top *t, struct buf *out, struct err *e)
{
	struct top_screen plain = {.jobs = 1};
	int rc = 0;

	for (size_t i = 0; i < t->list.n; i++)
		top_query_output(t, &t->list.jobs[i]);
	if (t->o.json)
		return job_status_put_json(out, &t->list, e);
	for (size_t i = 0; rc == 0 && i < t->list.n; i++) {
		if (i)
			buf_put(out, "\n", 1);
		rc = top_make_rows(t, &t->list.jobs[i]);
		plain.output = t->list.jobs[i].output;
		if (rc == 0)
			top_screen_put(out, &plain, &t->list.jobs[i], &t->rows);
	}
	return rc < 0 ? err_no_memory(e, "the rows") : rc;
}

static int top_print(struct top *t)
{
	struct buf out = BUF_INIT(TEXT_MAX);
	struct err e = ERR_INIT;
	int rc = 0;

	if (top_query(t, &e) < 0)
		return control_client_fail(
			&e, t->o.server ? exit_code_of(&e) : EXIT_OS);
	if (t->message[0])
		log_warn("%s", t->message);
	if (!t->list.n) {
		rc = CONTROL_CLIENT_NOTHING;
		if (t->o.server)
			log_error("error: no job runs at %s", t->o.server);
		else if (!t->message[0])
			log_error("error: no job of yours%s%s runs on %s",
				  t->o.job ? " with the --rdzv-id " : "",
				  t->o.job ? t->o.job : "", t->host);
	}
	if ((t->list.n || t->o.json) && top_put_all(t, &out, &e) < 0)
		rc = control_client_fail(&e, EXIT_OS);
	else if (out.len && file_write_all(STDOUT_FILENO, out.data, out.len))
		rc = EXIT_OS;
	buf_release(&out);
	return rc;
}

int top_main(int argc, char **argv)
{
	static struct top t = {.o = {.timeout_s = 2, .interval_s = 1,
				     .rank = -1, .lines = 10}};
	struct err e = ERR_INIT;
	int rc = option_parse(top_options, &t.o, argc, argv, 0, &e);

	if (rc == OPTION_WANT_HELP) {
		control_client_print_help(usage, top_options, "job");
		return 0;
	}
	if (rc >= 0 && rc < argc)
		rc = err_set(&e, ERR_USAGE, "'%s' is not an option; to run a "
			     "program named top, type ddprun ./top", argv[rc]);
	if (rc < 0)
		return control_client_fail(&e, EXIT_BAD_USAGE);
	sock_host_name(t.host);
	t.screen.color = writer_wants_color(getenv("NO_COLOR"),
					    getenv("TERM"));
	rc = t.o.once || t.o.json || !isatty(STDOUT_FILENO) ? top_print(&t)
							    : top_watch(&t);
	top_rows_release(&t.rows);
	job_status_list_release(&t.list);
	return rc;
}
