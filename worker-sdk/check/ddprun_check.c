/* ddprun_check.c: the program ddprun-check, which ddprun starts as a worker on
 * each node: runs a check with the other nodes, prints the results on node 0,
 * and exits with 1 where this node is not fit. One worker of a node checks it,
 * the others wait. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/option.h"
#include "worker-sdk/check/check.h"
#include "worker-sdk/check/report.h"
#include "worker-sdk/ddp.h"

enum { EXIT_UNFIT = 1, EXIT_BAD_USAGE = 2, TEXT_MAX = 256 << 20 };

struct check_program {
	const char *folders, *command, *json;
	int full;
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

	if (fd > STDERR_FILENO && close(fd) < 0 && rc == 0)
		rc = -errno;
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

static int check_program_print(const struct check_program *p,
			       const struct check *c, struct err *e)
{
	int rc = 0;

	if (!p->json || strcmp(p->json, "-"))
		rc = check_program_write(p, c, 0, e);
	if (rc == 0 && p->json)
		rc = check_program_write(p, c, 1, e);
	return rc;
}

/* ---- from start to end ---- */

/* This node's own verdict, when node 0 has printed that of all: the round ends
 * with the first worker that fails. */
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
		return check_program_fail(e->text, EXIT_UNFIT);
	if (findings_worst(&c->nodes[c->x.me].found, &first) <
	    FINDING_FAILURE) {
		rc = exchange_set(&c->x, "fit", e);
		return rc < 0 ? check_program_fail(e->text, EXIT_UNFIT) : 0;
	}
	snprintf(text, sizeof(text), "this node (%.200s) is not fit: %s",
		 c->x.host, first->wrong);
	return check_program_fail(text, EXIT_UNFIT);
}

static int check_program_lead(const struct check_program *p, struct check *c,
			      struct err *e)
{
	const struct check_options o = {
		.full = p->full, .folders = p->folders, .command = p->command,
		.with_collective = 1,
	};
	int rc = check_run(c, &o, e);

	return rc < 0 ? check_program_fail(e->text, EXIT_UNFIT)
		      : check_program_end(p, c, e);
}

int main(int argc, char **argv)
{
	struct check_program p = {.full = 0};
	struct check c = {.nodes = NULL};
	struct err e = ERR_INIT;
	int rc;

	log_init("ddprun-check");
	rc = option_parse(check_program_options, &p, argc, argv, 0, &e);
	if (rc == OPTION_WANT_HELP) {
		printf("usage: ddprun-check [OPTIONS]\n\n"
		       "ddprun starts this program for `ddprun check`.\n\n");
		option_print_help(check_program_options);
		return 0;
	}
	if (rc < 0)
		return check_program_fail(e.text, EXIT_BAD_USAGE);
	rc = exchange_open(&c.x, &e);
	if (rc < 0)
		rc = check_program_fail(e.text, rc == ERR_USAGE
						? EXIT_BAD_USAGE
						: EXIT_UNFIT);
	else if (c.x.env.local_rank == 0)
		rc = check_program_lead(&p, &c, &e);
	else if (exchange_wait(&c.x, "fit", c.x.me, &e) < 0)
		rc = check_program_fail(e.text, EXIT_UNFIT);
	check_release(&c);
	return rc;
}
