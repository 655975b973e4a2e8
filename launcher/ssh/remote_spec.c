/* remote_spec.c: from our own command line to that of each host. */
#include "launcher/ssh/launch_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/random.h"
#include "launcher/ssh/remote_env.h"

enum { TEXTS_MAX = 64 << 20, ID_BYTES = 8, SILENT_BEATS = 3 };

/* The working directory, by the path (with links) that the user took. */
static int remote_spec_find_dir(char *dir, size_t size, struct err *e)
{
	const char *pwd = getenv("PWD");
	char real[PATH_MAX], again[PATH_MAX];

	if (!getcwd(real, sizeof(real)))
		return err_set(e, -errno, "cannot find the working directory, "
			       "which the hosts are to use as well: %s",
			       strerror(errno));
	if (!pwd || pwd[0] != '/' || !realpath(pwd, again) ||
	    strcmp(again, real) != 0)
		pwd = real;
	snprintf(dir, size, "%s", pwd);
	return 0;
}

/* Longer than a lease: a laptop's network may be away for some time. */
static uint32_t remote_spec_silent_ms(const struct remote_options *o)
{
	double ms = o->heartbeat_s * 1000 * SILENT_BEATS;

	if (ms < 1000)
		return 1000;
	return ms < 1e9 ? (uint32_t)ms : 1000000000;
}

static uint32_t remote_spec_grace_ms(const struct remote_options *o)
{
	double ms = o->shutdown_timeout_s * 1000;

	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

int remote_spec_init(struct remote_spec *s, const struct remote_options *o,
		     char **argv, struct err *e)
{
	int rc;

	*s = (struct remote_spec){.options = o, .argv = argv,
				   .silent_ms = remote_spec_silent_ms(o),
				   .grace_ms = remote_spec_grace_ms(o)};
	memcpy(s->job, "ssh-", 4);
	rc = random_hex(s->job + 4, ID_BYTES, e);
	if (rc == 0)
		rc = remote_spec_find_dir(s->dir, sizeof(s->dir), e);
	if (rc == 0 && o->draws_secret)
		rc = auth_random(&s->auth,
				 "the ddprun that started it over ssh", e);
	if (rc == 0)
		rc = shell_words_split(&s->ssh_args, o->args, "--ssh-args",
				       e);
	return rc;
}

void remote_spec_release(struct remote_spec *s)
{
	shell_words_release(&s->ssh_args);
	auth_wipe(&s->auth);
}

/* ---- the job ---- */

__attribute__((format(printf, 2, 3)))
static void remote_spec_add(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	char text[ERR_TEXT_MAX];

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	remote_list_add(b, text);
}

/* The user's own options, then ours, which take precedence. A remote node
 * ignores the options that name the hosts. */
static void remote_spec_put_options(struct buf *b, const struct remote_spec *s,
				    uint32_t i)
{
	const struct remote_options *o = s->options;
	const struct host *h = &o->hosts->hosts[i];
	char **arg = s->argv + 1, **end = arg + o->noptions;

	for (; arg < end; arg++)
		remote_list_add(b, *arg);
	remote_spec_add(b, "--nnodes=%s", o->nnodes_text);
	if (i < o->max_nodes)
		remote_spec_add(b, "--node-rank=%u", i);
	if (h->slots)
		remote_spec_add(b, "--nproc-per-node=%u", h->slots);
	else
		remote_spec_add(b, "--nproc-per-node=%s", o->nproc_text);
	remote_spec_add(b, "--rdzv-id=%s", o->job ? o->job : s->job);
	if (!o->programs)
		return;
	/* the hosts need not have the file; the list ends with a NUL */
	buf_printf(b, "--multi-prog=");
	remote_list_add(b, o->programs);
}

/* A worker with our terminal needs to know its kind. */
static int remote_spec_is_terminal(const char *variable)
{
	return strncmp(variable, "TERM=", 5) == 0 ||
	       strncmp(variable, "COLORTERM=", 10) == 0;
}

static void remote_spec_put_environment(struct buf *b, int lends_terminal)
{
	extern char **environ;

	for (char **v = environ; *v; v++) {
		if (remote_env_travels(*v) ||
		    (lends_terminal && remote_spec_is_terminal(*v)))
			remote_list_add(b, *v);
	}
}

static void remote_spec_put_window(struct remote_job *job)
{
	struct winsize size;

	job->lends_terminal = 1;
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		job->window = (struct remote_window){size.ws_row, size.ws_col};
}

int remote_spec_job(const struct remote_spec *s, uint32_t i, struct buf *b,
		    struct err *e)
{
	struct buf options = BUF_INIT(TEXTS_MAX), words = options;
	struct buf environment = options;
	struct remote_job job = {
		.check = (uint8_t)s->options->host_check,
		.silent_ms = s->silent_ms,
		.grace_ms = s->grace_ms,
		.dir = SLICE_STR(s->dir),
	};
	int rc;

	if (s->auth.methods)
		job.secret = SLICE((const char *)s->auth.secret.bytes,
				   PROOF_SIZE);

	remote_spec_put_options(&options, s, i);
	for (char **w = s->options->words; *w && !s->options->programs; w++)
		remote_list_add(&words, *w);
	remote_spec_put_environment(&environment, s->options->lends_terminal);
	if (s->options->lends_terminal)
		remote_spec_put_window(&job);
	rc = buf_bytes(&options, &job.options.texts);
	if (rc == 0)
		rc = buf_bytes(&words, &job.words.texts);
	if (rc == 0)
		rc = buf_bytes(&environment, &job.environment.texts);
	if (rc == 0)
		remote_job_put(b, &job);
	if (rc == 0)
		rc = b->len > REMOTE_BODY_MAX ? -ENOBUFS : b->failed;
	buf_release(&options);
	buf_release(&words);
	buf_release(&environment);
	if (rc == -ENOBUFS)
		return err_set(e, -E2BIG, "arguments and environment are too "
			       "large to be sent to the hosts");
	return rc < 0 ? err_set(e, rc, "cannot send the job to host %s: %s",
				host_list_name(s->options->hosts, i),
				err_name(rc)) : 0;
}

/* ---- the hosts ---- */

int remote_spec_branch(const struct remote_spec *s, struct buf *texts,
		       struct remote_branch *m, struct err *e)
{
	const struct remote_options *o = s->options;
	size_t args;

	buf_init(texts, TEXTS_MAX);
	for (size_t i = 0; i < s->ssh_args.n; i++)
		remote_list_add(texts, s->ssh_args.list[i]);
	args = texts->len;
	for (uint32_t i = 0; i < o->hosts->count; i++)
		remote_spec_add(texts, "%u %s", i,
				host_list_name(o->hosts, i));
	if (texts->failed)
		return err_set(e, texts->failed, "out of memory");
	*m = (struct remote_branch){
		.width = (uint32_t)o->width, .silent_ms = s->silent_ms,
		.timeout_ms = o->timeout_s < 1e6
			? (uint32_t)(o->timeout_s * 1000) : 1000000000,
		.ssh = SLICE_STR(o->program),
		.args.texts = SLICE(texts->data, args),
		.hosts.texts = SLICE(texts->data + args, texts->len - args),
	};
	return 0;
}

void remote_spec_serve(const struct remote_spec *s,
		       const struct remote_host *hosts, uint32_t first,
		       struct buf *b)
{
	const struct remote_options *o = s->options;

	remote_spec_add(b, "%ld %s", o->master_port,
			o->master_addr ? o->master_addr : "");
	for (uint32_t i = 0; i < o->hosts->count; i++) {
		if (hosts[i].state == HOST_READY && i != first)
			remote_list_add(b, hosts[i].addr);
	}
}
