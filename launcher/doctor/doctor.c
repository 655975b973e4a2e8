/* doctor.c: the sections, their order, and the report on one host or many. */
#include "launcher/doctor/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launcher/doctor/doctor_internal.h"
#include "launcher/failure/exit_code.h"
#include "launcher/plan/shell_words.h"
#include "launcher/ssh/ssh_command.h"

enum {
	PROBE_MS = 15000,
	HOST_MS = 3 * PROBE_MS, /* besides the time for the connection */
	HOSTS_AT_ONCE = 32,
	REPORT_MAX = 8 << 20,
};

static const struct doctor_section {
	const char *title;
	void (*put)(struct buf *b, const struct doctor_options *o);
	int is_job; /* does not belong to the host */
} sections[] = {
	{"machine", doctor_probe_machine, 0},
	{"network", doctor_probe_network, 0},
	{"GPUs", doctor_probe_gpus, 0},
	{"programs and libraries", doctor_probe_programs, 0},
	{"Python", doctor_probe_python, 0},
	{"a job with these options", doctor_probe_job, 1},
	{"variables", doctor_probe_variables, 0},
};

enum { SECTIONS = sizeof(sections) / sizeof(*sections) };

/* ---- one host ---- */

struct doctor_probe {
	const struct doctor_section *section;
	const struct doctor_options *options;
};

/* In a child. */
static void doctor_run_probe(void *arg)
{
	const struct doctor_probe *p = arg;
	struct buf b;

	buf_init(&b, REPORT_MAX);
	/* libraries may also write there */
	if (!freopen("/dev/null", "w", stderr))
		_exit(EXIT_FAILURE);
	p->section->put(&b, p->options);
	if (b.failed || file_write_all(STDOUT_FILENO, b.data, b.len) < 0)
		_exit(EXIT_FAILURE);
	buf_release(&b);
}

static void doctor_put_section(struct buf *b, const struct doctor_section *s,
			       const struct doctor_task *t)
{
	buf_printf(b, "%s\n", s->title);
	buf_put(b, t->out.data, t->out.len);
	if (t->is_late)
		doctor_put(b, DOCTOR_ERROR, "no answer",
			   "a driver, a file system or DNS hangs: see dmesg, "
			   "and try the programs that this section names",
			   "after %d s", PROBE_MS / 1000);
	else if (t->status < 0)
		doctor_put(b, DOCTOR_ERROR, "not probed",
			   "raise the limits of processes and memory",
			   "%s", strerror(-t->status));
	else if (WIFSIGNALED(t->status))
		doctor_put(b, DOCTOR_ERROR, "the probe crashed",
			   "a library that it loaded is broken: install it "
			   "again", "signal %d", WTERMSIG(t->status));
	else if (t->status)
		doctor_put(b, DOCTOR_ERROR, "the probe failed",
			   "please report this", "exit code %d",
			   WEXITSTATUS(t->status));
}

/* Appends the sections for which is_job is as given, unless it is -1. */
static void doctor_put_host(struct buf *b, const struct doctor_options *o,
			    int is_job)
{
	struct doctor_probe probes[SECTIONS];
	struct doctor_task tasks[SECTIONS];
	const struct doctor_section *shown[SECTIONS];
	int n = 0;

	for (int i = 0; i < SECTIONS; i++) {
		if (is_job >= 0 && sections[i].is_job != is_job)
			continue;
		probes[n] = (struct doctor_probe){&sections[i], o};
		tasks[n] = (struct doctor_task){.run = doctor_run_probe,
						.arg = &probes[n]};
		shown[n++] = &sections[i];
	}
	doctor_task_run(tasks, n, n, PROBE_MS);
	for (int i = 0; i < n; i++)
		doctor_put_section(b, shown[i], &tasks[i]);
	doctor_task_release(tasks, n);
}

/* ---- the whole report ---- */

static void doctor_print_head(const char *what)
{
	char when[32];
	time_t now = time(NULL);

	strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", gmtime(&now));
	printf("ddprun doctor %s: %s, %s\n", DDP_VERSION, what, when);
}

/* Prints the lines, each after the prefix. */
static void doctor_print(const char *prefix, struct slice text)
{
	while (text.len) {
		struct slice line = slice_next_line(&text);

		printf("%s%.*s\n", prefix, SLICE_FMT(line));
	}
}

static int doctor_print_end(const char *prefix, int errors, int warnings)
{
	if (!errors && !warnings)
		printf("%sno problem found\n", prefix);
	else
		printf("%s%d error%s (X), %d warning%s (!)\n", prefix, errors,
		       errors == 1 ? "" : "s", warnings,
		       warnings == 1 ? "" : "s");
	return errors ? EXIT_UNFIT : 0;
}

int doctor_run(const struct doctor_options *o)
{
	char name[256] = "", prefix[260] = "";
	struct slice text;
	struct buf b;
	int rc;

	gethostname(name, sizeof(name) - 1);
	if (o->nodes > 1 && o->started && o->started[0])
		snprintf(prefix, sizeof(prefix), "%s: ", name);
	buf_init(&b, REPORT_MAX);
	doctor_put_host(&b, o, o->is_host_only ? 0 : -1);
	rc = buf_bytes(&b, &text);
	if (rc < 0) {
		log_error("error: no memory for the report: %s", err_name(rc));
		buf_release(&b);
		return EXIT_OS;
	}
	if (!o->is_host_only && !prefix[0])
		doctor_print_head(name);
	doctor_print(prefix, text);
	rc = o->is_host_only
		     ? 0
		     : doctor_print_end(prefix,
					doctor_count(text, DOCTOR_ERROR),
					doctor_count(text, DOCTOR_WARNING));
	buf_release(&b);
	return rc;
}

/* ---- several hosts ---- */

struct doctor_host {
	const struct remote_options *remote;
	const struct shell_words *args;
	const char *host, *script;
};

/* In a child: becomes ssh. */
static void doctor_run_ssh(void *arg)
{
	const struct doctor_host *h = arg;
	const struct remote_options *r = h->remote;
	char **argv = calloc(h->args->n + 8, sizeof(*argv)), timeout[48];
	size_t n = 0;

	if (!argv)
		_exit(EXIT_FAILURE);
	argv[n++] = (char *)r->program;
	for (size_t i = 0; i < h->args->n; i++)
		argv[n++] = h->args->list[i];
	if (ssh_command_is_openssh(r->program)) {
		snprintf(timeout, sizeof(timeout), "-oConnectTimeout=%d",
			 (int)r->timeout_s + 1);
		argv[n++] = "-T";
		argv[n++] = "-oBatchMode=yes";
		argv[n++] = timeout;
		argv[n++] = "--";
	}
	argv[n++] = (char *)h->host;
	argv[n++] = (char *)h->script;
	execvp(argv[0], argv);
	printf("cannot run %s: %s\n", argv[0], strerror(errno));
	fflush(stdout);
	_exit(EXIT_NOT_FOUND);
}

/* The command for a host: this ddprun, where it is here, else any. */
static int doctor_put_script(struct buf *b)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	struct slice bytes;
	struct buf word;

	self[n > 0 ? n : 0] = '\0';
	buf_init(&word, 2 * PATH_MAX);
	shell_words_quote(&word, self);
	buf_put_u8(&word, 0);
	if (buf_bytes(&word, &bytes) == 0)
		buf_printf(b, "exec sh -c 'test -x \"$0\" || exec ddprun "
			   "doctor host; exec \"$0\" doctor host' %s",
			   bytes.data);
	buf_put_u8(b, 0);
	buf_release(&word);
	return buf_bytes(b, &bytes);
}

/* The report on a host, or why there is none; into b. */
static void doctor_put_answer(struct buf *b, const struct doctor_task *t,
			      const char *program)
{
	struct slice text = SLICE(t->out.data, t->out.len), line;
	const char *at = slice_find(text, "machine\n");

	/* a login script may have printed something before it */
	if (at && t->status == 0 && !t->is_late) {
		buf_put(b, at, text.len - (size_t)(at - text.data));
		return;
	}
	line = slice_next_line(&text);
	if (t->is_late)
		doctor_put(b, DOCTOR_ERROR, "no report",
			   "try the same by hand: it asks for something, or "
			   "the host hangs", "%s HOST does not end", program);
	else if (t->status >= 0 && WIFEXITED(t->status) &&
		 WEXITSTATUS(t->status) == EXIT_NOT_FOUND)
		doctor_put(b, DOCTOR_ERROR, "no report",
			   "install ddprun there, at the same path or in $PATH",
			   "%.*s", SLICE_FMT(line));
	else
		doctor_put(b, DOCTOR_ERROR, "no report",
			   "ssh HOST true must work without a question: see "
			   "docs/ssh.md", "%.*s",
			   line.len ? (int)line.len : 18,
			   line.len ? line.data : "ssh printed nothing");
}

/* Prints the report on each host; returns the exit code. */
static int doctor_print_hosts(const struct doctor_options *o,
			      const struct remote_options *r,
			      const struct doctor_task *tasks)
{
	int errors = 0, warnings = 0, rc;
	struct buf job, first, own, differs;
	struct slice text;

	buf_init(&job, REPORT_MAX);
	buf_init(&first, REPORT_MAX);
	buf_init(&own, REPORT_MAX);
	buf_init(&differs, REPORT_MAX);
	doctor_put_host(&job, o, 1);
	text = SLICE(job.data, job.len);
	errors += doctor_count(text, DOCTOR_ERROR);
	doctor_print("", text);
	for (uint32_t i = 0; i < r->hosts->count; i++) {
		struct buf *b = i ? &own : &first;
		const char *name = host_list_name(r->hosts, i);

		buf_reset(&own);
		buf_reset(&differs);
		doctor_put_answer(b, &tasks[i], r->program);
		text = SLICE(b->data, b->len);
		errors += doctor_count(text, DOCTOR_ERROR);
		warnings += doctor_count(text, DOCTOR_WARNING);
		if (i)
			doctor_put_difference(&differs, text,
					      SLICE(first.data, first.len));
		printf("\n%s%s\n", name, !i ? ""
		       : differs.len ? ": as the first host, but"
				     : ": as the first host");
		doctor_print("", i ? SLICE(differs.data, differs.len) : text);
	}
	putchar('\n');
	rc = doctor_print_end("", errors, warnings);
	buf_release(&job);
	buf_release(&first);
	buf_release(&own);
	buf_release(&differs);
	return rc;
}

int doctor_run_hosts(const struct doctor_options *o,
		     const struct remote_options *r)
{
	uint32_t n = r->hosts->count;
	struct doctor_task *tasks = calloc(n, sizeof(*tasks));
	struct doctor_host *hosts = calloc(n, sizeof(*hosts));
	struct shell_words args = {.n = 0};
	struct err e = ERR_INIT;
	char title[64];
	struct buf script;
	int rc;

	buf_init(&script, 4 * PATH_MAX);
	rc = tasks && hosts ? doctor_put_script(&script) : -ENOMEM;
	if (rc < 0)
		err_no_memory(&e, "the hosts");
	else
		rc = shell_words_split(&args, r->args, "--ssh-args", &e);
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		hosts[i] = (struct doctor_host){
			.remote = r, .args = &args, .script = script.data,
			.host = host_list_name(r->hosts, i)};
		tasks[i] = (struct doctor_task){.run = doctor_run_ssh,
						.arg = &hosts[i]};
	}
	if (rc == 0) {
		doctor_task_run(tasks, (int)n, HOSTS_AT_ONCE,
				(int)(r->timeout_s > 3600 ? 3600
							  : r->timeout_s) *
						1000 + HOST_MS);
		snprintf(title, sizeof(title), "%u host%s over %.32s", n,
			 n == 1 ? "" : "s", r->program);
		doctor_print_head(title);
		rc = doctor_print_hosts(o, r, tasks);
		doctor_task_release(tasks, (int)n);
	} else {
		log_error("error: %s", e.text);
		rc = exit_code_of(&e);
	}
	shell_words_release(&args);
	buf_release(&script);
	free(tasks);
	free(hosts);
	return rc;
}

void doctor_print_help(void)
{
	printf("usage: ddprun doctor [OPTIONS]\n"
	       "\n"
	       "Prints what ddprun finds on this host, or on the hosts of -H, "
	       "of a hostfile or of\n"
	       "an allocation: CPUs, memory, limits, network, GPUs, CUDA, "
	       "NCCL, ssh, munge, Slurm,\n"
	       "Kubernetes, Python and its packages; what a job with these "
	       "options would be; and\n"
	       "what is wrong (X), or may be (!), with a way to mend it. "
	       "Starts no job.\n"
	       "\n"
	       "The report is for bug reports: it has names and addresses of "
	       "hosts, but no values of\n"
	       "secrets. Exits with 0 if nothing is wrong, else with 78. The "
	       "options are those of\n"
	       "ddprun (ddprun --help).\n"
	       "\n"
	       "ddprun-doctor(1) has more; ddprun check measures nodes and "
	       "the network between them.\n"
	       "\n"
	       "examples:\n"
	       "  ddprun doctor\n"
	       "  ddprun doctor -H h1,h2\n"
	       "  srun --ntasks-per-node=1 ddprun doctor\n");
}
