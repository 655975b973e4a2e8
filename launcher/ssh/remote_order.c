/* remote_order.c: from our own command line to each host's. */
#include "launcher/ssh/remote_order.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "launcher/ssh/remote_env.h"

enum { TEXTS_MAX = 64 << 20, ID_BYTES = 8, SILENT_BEATS = 3 };

/* Where it was typed, with the links that it was reached by. */
static int find_folder(char *dir, size_t size, struct err *e)
{
	const char *pwd = getenv("PWD");
	char real[PATH_MAX], again[PATH_MAX];

	if (!getcwd(real, sizeof(real)))
		return err_set(e, -errno, "there is no working directory to go "
			       "to on the hosts: %s", strerror(errno));
	if (!pwd || pwd[0] != '/' || !realpath(pwd, again) ||
	    strcmp(again, real) != 0)
		pwd = real;
	snprintf(dir, size, "%s", pwd);
	return 0;
}

/* A laptop's network may be away for longer than a cluster's. */
static uint32_t silence(const struct config *c)
{
	double ms = c->heartbeat_s * 1000 * SILENT_BEATS;

	if (ms < 1000)
		return 1000;
	return ms < 1e9 ? (uint32_t)ms : 1000000000;
}

int remote_order_init(struct remote_order *o, const struct config *c,
		      char **argv, struct err *e)
{
	int rc;

	*o = (struct remote_order){.config = c, .argv = argv,
				   .silent_ms = silence(c),
				   .grace_ms = c->grace_s < 4e6
					? (uint32_t)(c->grace_s * 1000)
					: UINT32_MAX};
	memcpy(o->job, "ssh-", 4);
	rc = random_hex(o->job + 4, ID_BYTES, e);
	if (rc == 0)
		rc = find_folder(o->dir, sizeof(o->dir), e);
	if (rc == 0 && auth_is_free(c->auth_text, c->token_file))
		rc = auth_random(&o->auth, "who started it over ssh", e);
	if (rc == 0)
		rc = words_split(&o->ssh_args, c->ssh_args, "--ssh-args", e);
	return rc;
}

void remote_order_release(struct remote_order *o)
{
	words_release(&o->ssh_args);
	auth_wipe(&o->auth);
}

/* ---- the job ---- */

__attribute__((format(printf, 2, 3)))
static void add(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	char text[ERR_TEXT_MAX];

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	remote_list_add(b, text);
}

/* The user's own, of which a remote node ignores those that say the hosts; what
 * comes after them holds. */
static void put_options(struct buf *b, const struct remote_order *o, uint32_t i)
{
	const struct config *c = o->config;
	const struct host *h = &c->hosts.hosts[i];
	char **arg = o->argv + 1, **end = arg + c->noptions;

	for (; arg < end; arg++)
		remote_list_add(b, *arg);
	add(b, "--nnodes=%s", c->nnodes_text);
	if (i < c->max_nodes)
		add(b, "--node-rank=%u", i);
	if (h->slots)
		add(b, "--nproc-per-node=%u", h->slots);
	else
		add(b, "--nproc-per-node=%s", c->nproc_text);
	add(b, "--rdzv-id=%s", c->job_given ? c->job : o->job);
}

static void put_environment(struct buf *b)
{
	extern char **environ;

	for (char **v = environ; *v; v++) {
		if (remote_env_travels(*v))
			remote_list_add(b, *v);
	}
}

int remote_order_job(const struct remote_order *o, uint32_t i, struct buf *b,
		     struct err *e)
{
	struct buf options = BUF_INIT(TEXTS_MAX), words = options;
	struct buf environment = options;
	struct remote_job job = {
		.check = (uint8_t)o->config->host_check,
		.silent_ms = o->silent_ms,
		.grace_ms = o->grace_ms,
		.dir = SLICE_STR(o->dir),
	};
	int rc;

	if (o->auth.methods)
		job.secret = SLICE((const char *)o->auth.secret.bytes,
				   PROOF_SIZE);

	put_options(&options, o, i);
	for (char **w = o->config->words; *w; w++)
		remote_list_add(&words, *w);
	put_environment(&environment);
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
				host_list_name(&o->config->hosts, i),
				err_name(rc)) : 0;
}

/* ---- the hosts ---- */

int remote_order_branch(const struct remote_order *o, struct buf *texts,
			struct remote_branch *m, struct err *e)
{
	const struct config *c = o->config;
	size_t args;

	buf_init(texts, TEXTS_MAX);
	for (size_t i = 0; i < o->ssh_args.n; i++)
		remote_list_add(texts, o->ssh_args.list[i]);
	args = texts->len;
	for (uint32_t i = 0; i < c->hosts.count; i++)
		add(texts, "%u %s", i, host_list_name(&c->hosts, i));
	if (texts->failed)
		return err_set(e, texts->failed, "out of memory");
	*m = (struct remote_branch){
		.width = (uint32_t)c->ssh_width, .silent_ms = o->silent_ms,
		.timeout_ms = c->ssh_timeout_s < 1e6
			? (uint32_t)(c->ssh_timeout_s * 1000) : 1000000000,
		.ssh = SLICE_STR(c->ssh_program),
		.args.texts = SLICE(texts->data, args),
		.hosts.texts = SLICE(texts->data + args, texts->len - args),
	};
	return 0;
}

void remote_order_serve(const struct remote_order *o,
			const struct remote_host *hosts, uint32_t first,
			struct buf *b)
{
	const struct config *c = o->config;

	add(b, "%ld %s", c->master_port_given ? c->master_port : 0,
	    c->master_addr_given ? c->master_addr : "");
	for (uint32_t i = 0; i < c->hosts.count; i++) {
		if (hosts[i].state == HOST_READY && i != first)
			remote_list_add(b, hosts[i].addr);
	}
}
