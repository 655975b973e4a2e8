/* ddprun_check.c: the program ddprun-check, which ddprun starts as a worker on
 * each node: runs a check with the other nodes, and prints the results on node
 * 0. If this node is not fit, it exits; else it executes the worker's own
 * program, if there is one (--preflight). One worker of each node checks it,
 * and the others wait. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/option.h"
#include "worker-sdk/check/check.h"
#include "worker-sdk/ddp.h"

enum {
	EXIT_FAILED = 1, /* also if this node is not fit and there is no
			  * program */
	EXIT_BAD_USAGE = 2,
	EXIT_UNFIT = 78, /* the launcher then leaves the job */
	EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127,
	TEXT_MAX = 256 << 20,
};

struct check_program {
	const char *folders, *command, *json;
	int full;
	char **words; /* the program and its arguments; words[0] NULL: none */
};

#define FIELD(name) .offset = offsetof(struct check_program, name)

static const struct option_spec check_program_options[] = {
	{.name = "full", .kind = OPTION_FLAG, FIELD(full),
	 .help = "Measure more, and for longer."},
	{.name = "folders", .kind = OPTION_STRING, FIELD(folders),
	 .arg = "DIR,...", .help = "Folders in which workers write."},
	{.name = "command", .kind = OPTION_STRING, FIELD(command),
	 .arg = "COMMAND", .help = "The site's own check."},
	{.name = "json", .kind = OPTION_STRING, FIELD(json), .arg = "FILE",
	 .help = "Write the results there; -: instead of the table."},
	{.name = "help", .kind = OPTION_HELP, .help = "Show this."},
	{.name = NULL},
};

static int check_program_fail(const char *text, int code)
{
	log_error("error: %s", text);
	ddp_record_error(text);
	return code;
}

/* ---- the results, on node 0 ---- */

static int check_program_write_file(const char *path, struct slice text,
				    struct err *e)
{
	int fd = strcmp(path, "-") ? open(path, O_WRONLY | O_CREAT | O_TRUNC |
						 O_CLOEXEC, 0666)
				   : STDOUT_FILENO;
	int rc = fd < 0 ? -errno : file_write_all(fd, text.data, text.len);

	if (fd > STDERR_FILENO)
		rc = file_close(fd, rc);
	return rc < 0 ? err_set(e, rc, "cannot write the results to %s: %s",
				path, err_name(rc))
		      : 0;
}

static int check_program_write(const struct check_program *p,
			       const struct check *c, int is_json,
			       struct err *e)
{
	struct buf b = BUF_INIT(TEXT_MAX);
	struct slice text;
	int rc = 0;

	if (is_json)
		rc = report_put_json(&b, c, e);
	else
		report_put_table(&b, c);
	if (rc == 0)
		rc = buf_bytes(&b, &text) < 0
			     ? err_no_memory(e, "the results")
			     : check_program_write_file(is_json ? p->json : "-",
							text, e);
	buf_release(&b);
	return rc;
}

/* Before a program starts, only warnings and failures are worth a line. */
static int check_program_log(const struct check *c, struct err *e)
{
	struct buf b = BUF_INIT(TEXT_MAX);
	struct slice text;
	char *line, *rest;

	report_put_marks(&b, c);
	report_put_summary(&b, c);
	buf_put(&b, "", 1);
	if (buf_bytes(&b, &text) < 0) {
		buf_release(&b);
		return err_no_memory(e, "the results");
	}
	for (line = strtok_r(b.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		log_info("%s", line);
	buf_release(&b);
	return 0;
}

static int check_program_print(const struct check_program *p,
			       const struct check *c, struct err *e)
{
	int rc = 0;

	if (p->words[0])
		rc = check_program_log(c, e);
	else if (!p->json || strcmp(p->json, "-"))
		rc = check_program_write(p, c, 0, e);
	if (rc == 0 && p->json)
		rc = check_program_write(p, c, 1, e);
	return rc;
}

/* ---- from start to end ---- */

/* Replaces this process by the program. */
static int check_program_execute(const struct check_program *p)
{
	char text[ERR_TEXT_MAX];

	if (!p->words[0])
		return 0;
	execvp(p->words[0], p->words);
	snprintf(text, sizeof(text), "cannot execute %.900s: %s", p->words[0],
		 strerror(errno));
	return check_program_fail(text, errno == ENOENT ? EXIT_NOT_FOUND
							: EXIT_NOT_EXECUTABLE);
}

/* This node's own verdict, once node 0 has printed the results of all nodes. */
static int check_program_end(const struct check_program *p, struct check *c,
			     struct err *e)
{
	char text[FINDING_WRONG_MAX + SOCK_HOST_MAX + 64];
	const struct finding *first;
	int rc = 0;

	if (c->x.me == 0) {
		rc = check_program_print(p, c, e);
		if (rc == 0)
			rc = exchange_set(&c->x, "printed", e);
	} else {
		rc = exchange_wait(&c->x, "printed", 0, e);
	}
	if (rc < 0)
		return check_program_fail(e->text, EXIT_FAILED);
	if (findings_worst(&c->nodes[c->x.me].found, &first) ==
	    FINDING_FAILURE) {
		snprintf(text, sizeof(text), "this node (%.200s) is not fit: "
			 "%s", c->x.host, first->wrong);
		return check_program_fail(text, p->words[0] ? EXIT_UNFIT
							    : EXIT_FAILED);
	}
	/* the launcher ends the round as soon as the unfit node has left */
	while (p->words[0] && check_verdict(c) == FINDING_FAILURE)
		pause();
	rc = exchange_set(&c->x, "fit", e);
	return rc < 0 ? check_program_fail(e->text, EXIT_FAILED) : 0;
}

static int check_program_lead(const struct check_program *p, struct check *c,
			      struct err *e)
{
	const struct check_options o = {
		.full = p->full, .folders = p->folders, .command = p->command,
		/* ddp_init makes a world of its own, which must not meet the
		 * program's */
		.with_collective = !p->words[0],
	};
	int rc = check_run(c, &o, e);

	return rc < 0 ? check_program_fail(e->text, EXIT_FAILED)
		      : check_program_end(p, c, e);
}

static int check_program_run(const struct check_program *p)
{
	struct check c = {.nodes = NULL};
	struct err e = ERR_INIT;
	int rc = exchange_open(&c.x, &e);

	if (rc < 0)
		rc = check_program_fail(e.text, rc == ERR_USAGE
						? EXIT_BAD_USAGE
						: EXIT_FAILED);
	else if (c.x.env.local_rank == 0)
		rc = check_program_lead(p, &c, &e);
	else if (exchange_wait(&c.x, "fit", c.x.me, &e) < 0)
		rc = check_program_fail(e.text, EXIT_FAILED);
	check_release(&c);
	return rc ? rc : check_program_execute(p);
}

int main(int argc, char **argv)
{
	struct check_program p = {.full = 0};
	struct err e = ERR_INIT;
	int rc;

	log_init("ddprun-check");
	rc = option_parse(check_program_options, &p, argc, argv, 1, &e);
	if (rc == OPTION_WANT_HELP) {
		printf("usage: ddprun-check [OPTIONS] [PROGRAM [ARGUMENTS]]\n"
		       "\n"
		       "ddprun starts this program for `ddprun check` and "
		       "--preflight.\n\n");
		option_print_help(check_program_options);
		return 0;
	}
	if (rc < 0)
		return check_program_fail(e.text, EXIT_BAD_USAGE);
	p.words = argv + rc;
	return check_program_run(&p);
}
