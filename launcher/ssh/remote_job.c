/* remote_job.c: looking, on the far side. */
#include "launcher/ssh/remote_job.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "launcher/config/exit_code.h"
#include "launcher/config/prepare.h"
#include "launcher/config/remote_node.h"
#include "launcher/plan/cpus.h"
#include "launcher/plan/gpu.h"
#include "launcher/ssh/remote_env.h"

enum { ARGS_MAX = 16 << 20, EXTRA = 4 };

static int set_variable(const char *text)
{
	const char *value = strchr(text, '='), *own = NULL;
	char *name, *path = NULL;
	int rc = -ENOMEM;

	if (!value || value == text)
		return 0;
	name = strndup(text, (size_t)(value - text));
	if (name && strcmp(name, "PATH") == 0)
		own = getenv(name);
	if (own)
		path = remote_env_path(value + 1, own);
	if (name && (path || !own) &&
	    setenv(name, path ? path : value + 1, 1) == 0)
		rc = 0;
	free(path);
	free(name);
	return rc;
}

/* A rank with another environment than the others' must not start. */
static int set_environment(const struct remote_job *job, struct err *e)
{
	const char *text;
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && (text = remote_list_next(&job->environment, &at)))
		rc = set_variable(text);
	if (rc == 0 && setenv(REMOTE_NODE, "0 -1", 1) < 0)
		rc = -errno;
	if (rc < 0)
		return err_set(e, rc, "cannot set the environment that the job "
			       "was given: %s", err_name(rc));
	remote_node_init();
	return 0;
}

static int enter_folder(const struct remote_job *job, struct err *e)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%.*s", SLICE_FMT(job->dir));
	if (chdir(dir) < 0)
		return err_set(e, -errno, "cannot go to the working directory "
			       "'%s': %s; make it there, or start ddprun in a "
			       "folder that all hosts have", dir,
			       strerror(errno));
	if (setenv("PWD", dir, 1) < 0)
		return err_set(e, -errno, "cannot set PWD: %s",
			       strerror(errno));
	return 0;
}

/* ---- the agent's arguments ---- */

static size_t count(const struct remote_list *l)
{
	size_t at = 0, n = 0;

	while (remote_list_next(l, &at))
		n++;
	return n;
}

static int add_all(struct remote_job_here *h, int n, struct slice texts)
{
	struct remote_list l = {texts};
	const char *text;
	size_t at = 0;

	while ((text = remote_list_next(&l, &at)))
		h->argv[n++] = (char *)text;
	return n;
}

static int make_argv(struct remote_job_here *h, const struct remote_job *job)
{
	struct slice options = job->options.texts, words = job->words.texts;
	int n;

	buf_init(&h->texts, ARGS_MAX);
	buf_put(&h->texts, options.data, options.len);
	buf_put(&h->texts, words.data, words.len);
	h->nargs = (int)count(&job->options);
	h->nwords = (int)count(&job->words);
	h->argv = calloc((size_t)h->nargs + (size_t)h->nwords + EXTRA + 2,
			 sizeof(*h->argv));
	if (h->texts.failed || !h->argv)
		return -ENOMEM;
	h->argv[0] = (char *)"ddprun";
	n = add_all(h, 1, SLICE(h->texts.data, options.len));
	h->argv[n++] = (char *)"--";
	add_all(h, n, SLICE(h->texts.data + options.len, words.len));
	return 0;
}

char **remote_job_argv(struct remote_job_here *h, const char *endpoint)
{
	int n = 1 + h->nargs, extra = *endpoint ? 2 : 1;

	memmove(h->argv + n + extra, h->argv + n,
		(size_t)(h->nwords + 2) * sizeof(*h->argv));
	snprintf(h->nproc, sizeof(h->nproc), "--nproc-per-node=%u",
		 h->config.nproc);
	h->argv[n++] = h->nproc;
	snprintf(h->endpoint, sizeof(h->endpoint), "--rdzv-endpoint=%s",
		 endpoint);
	if (*endpoint)
		h->argv[n] = h->endpoint;
	return h->argv;
}

void remote_job_release(struct remote_job_here *h)
{
	free(h->argv);
	buf_release(&h->texts);
}

/* ---- whether it could run ---- */

static void count_all(struct remote_ready *answer)
{
	struct cpus allowed;
	const char *why;

	answer->gpus = (uint32_t)gpu_count(&why);
	answer->cpus = cpus_allowed(&allowed, NULL) == 0
			       ? (uint32_t)cpus_count(&allowed)
			       : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
}

/* The agent raises the limit of files itself, and gives workers the old one. */
static int try_all(struct remote_job_here *h, struct err *e)
{
	struct plan_parts parts = {.program = {NULL}};
	struct rlimit limit;
	uint64_t open_files;
	int had = getrlimit(RLIMIT_NOFILE, &limit), code;

	code = prepare(&parts, &h->config, &open_files, e);
	prepare_release(&parts);
	if (had == 0)
		setrlimit(RLIMIT_NOFILE, &limit);
	return code;
}

static int look(struct remote_job_here *h, const struct remote_job *job,
		struct err *e)
{
	int rc;

	if (set_environment(job, e) < 0 || enter_folder(job, e) < 0)
		return EXIT_OS;
	if (make_argv(h, job) < 0) {
		err_set(e, -ENOMEM, "out of memory");
		return EXIT_OS;
	}
	rc = config_parse(&h->config, h->nargs + h->nwords + 2, h->argv, e);
	if (rc < 0)
		return rc == -ENOMEM ? EXIT_OS : EXIT_BAD_USAGE;
	return try_all(h, e);
}

/* "CLIENT PORT SERVER PORT" */
static struct slice ssh_address(void)
{
	const char *text = getenv("SSH_CONNECTION");

	for (int i = 0; text && i < 2; i++) {
		text = strchr(text, ' ');
		text = text ? text + 1 : NULL;
	}
	return text ? SLICE(text, strcspn(text, " ")) : SLICE("", 0);
}

static void take_secret(struct remote_job_here *h, struct slice secret)
{
	struct proof p;

	if (secret.len != sizeof(p.bytes))
		return;
	memcpy(p.bytes, secret.data, sizeof(p.bytes));
	auth_of_secret(&h->auth, &p, "who started it over ssh");
	proof_wipe(&p, sizeof(p));
}

void remote_job_prepare(struct remote_job_here *h,
			const struct remote_job *job,
			struct remote_ready *answer, struct err *e)
{
	struct timespec now;

	*h = (struct remote_job_here){.nwords = 0};
	take_secret(h, job->secret);
	*answer = (struct remote_ready){.code = 0};
	sock_host_name(h->host);
	answer->code = (uint32_t)look(h, job, e);
	if (job->check)
		count_all(answer);
	clock_gettime(CLOCK_REALTIME, &now);
	answer->unix_ms = (uint64_t)now.tv_sec * 1000 +
			  (uint64_t)now.tv_nsec / 1000000;
	answer->nproc = h->config.nproc;
	answer->text = SLICE_STR(e->text);
	answer->host = SLICE_STR(h->host);
	answer->addr = ssh_address();
}

/* ---- where others reach it ---- */

static int resolve(struct slice host, struct sock_addr *a)
{
	struct endpoint ep = {.port = 0};
	struct err e;

	snprintf(ep.host, sizeof(ep.host), "%.*s", SLICE_FMT(host));
	return ep.host[0] && sock_resolve(&ep, a, 1, &e) == 1 ? 0 : -1;
}

void remote_job_address(const struct remote_list *others,
			struct sock_addr *own)
{
	struct sock_addr a, ssh;
	int reached = resolve(ssh_address(), &ssh) == 0 &&
		      sock_addr_is_local(&ssh);
	const char *text;
	size_t at = 0;

	while ((text = remote_list_next(others, &at))) {
		if (resolve(SLICE_STR(text), &a) == 0 &&
		    !sock_addr_is_loopback(&a) &&
		    sock_addr_towards(&a, own) == 0 &&
		    !sock_addr_is_loopback(own))
			return;
	}
	if (reached)
		*own = ssh;
	else
		resolve(SLICE_STR("127.0.0.1"), own);
	sock_addr_set_port(own, 0);
}
