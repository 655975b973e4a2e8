/* proxy_job.c: everything between a job's arrival and its start. */
#include "launcher/ssh/proxy_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launcher/env/launch_env.h"
#include "launcher/failure/exit_code.h"
#include "launcher/plan/cpus.h"
#include "launcher/plan/gpu.h"
#include "launcher/ssh/remote_env.h"

enum { ARGS_MAX = 16 << 20, EXTRA = 4 };

static int proxy_job_set_variable(const char *text)
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

/* All or nothing: a rank must not start in an environment that differs from the
 * others'. */
static int proxy_job_set_environment(const struct remote_job *job,
				     struct err *e)
{
	const char *text;
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && (text = remote_list_next(&job->environment, &at)))
		rc = proxy_job_set_variable(text);
	if (rc == 0 && setenv(SSH_ENV_NODE, "0 -1", 1) < 0)
		rc = -errno;
	if (rc < 0)
		return err_set(e, rc, "cannot set the environment that the job "
			       "was given: %s", err_name(rc));
	ssh_env_init();
	return 0;
}

static int proxy_job_enter_dir(const struct remote_job *job, struct err *e)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%.*s", SLICE_FMT(job->dir));
	if (chdir(dir) < 0)
		return err_set(e, -errno, "cannot enter the working directory "
			       "'%s': %s; create it there, or start ddprun in "
			       "a folder that all hosts have", dir,
			       strerror(errno));
	if (setenv("PWD", dir, 1) < 0)
		return err_set(e, -errno, "cannot set PWD: %s",
			       strerror(errno));
	return 0;
}

/* ---- the agent's arguments ---- */

static size_t proxy_job_count(const struct remote_list *l)
{
	size_t at = 0, n = 0;

	while (remote_list_next(l, &at))
		n++;
	return n;
}

static int proxy_job_add_args(struct proxy_job *h, int n, struct slice texts)
{
	struct remote_list l = {texts};
	const char *text;
	size_t at = 0;

	while ((text = remote_list_next(&l, &at)))
		h->argv[n++] = (char *)text;
	return n;
}

static int proxy_job_make_argv(struct proxy_job *h,
			       const struct remote_job *job)
{
	struct slice options = job->options.texts, words = job->words.texts;
	int n;

	buf_init(&h->texts, ARGS_MAX);
	buf_put(&h->texts, options.data, options.len);
	buf_put(&h->texts, words.data, words.len);
	h->nargs = (int)proxy_job_count(&job->options);
	h->nwords = (int)proxy_job_count(&job->words);
	h->argv = calloc((size_t)h->nargs + (size_t)h->nwords + EXTRA + 2,
			 sizeof(*h->argv));
	if (h->texts.failed || !h->argv)
		return -ENOMEM;
	h->argv[0] = (char *)"ddprun";
	n = proxy_job_add_args(h, 1, SLICE(h->texts.data, options.len));
	h->argv[n++] = (char *)"--";
	proxy_job_add_args(h, n, SLICE(h->texts.data + options.len, words.len));
	return 0;
}

char **proxy_job_argv(struct proxy_job *h, const char *endpoint)
{
	int n = 1 + h->nargs, extra = *endpoint ? 2 : 1;

	memmove(h->argv + n + extra, h->argv + n,
		(size_t)(h->nwords + 2) * sizeof(*h->argv));
	snprintf(h->nproc, sizeof(h->nproc), "--nproc-per-node=%u",
		 h->trial.nproc);
	h->argv[n++] = h->nproc;
	snprintf(h->endpoint, sizeof(h->endpoint), "--rdzv-endpoint=%s",
		 endpoint);
	if (*endpoint)
		h->argv[n] = h->endpoint;
	return h->argv;
}

void proxy_job_release(struct proxy_job *h)
{
	preflight_end_trial(&h->trial);
	free(h->argv);
	buf_release(&h->texts);
}

/* ---- whether it could run ---- */

static void proxy_job_count_resources(struct remote_ready *answer)
{
	struct cpus allowed;
	const char *why;

	answer->gpus = (uint32_t)gpu_count(&why);
	answer->cpus = cpus_allowed(&allowed, NULL) == 0
			       ? (uint32_t)cpus_count(&allowed)
			       : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
}

static int proxy_job_check(struct proxy_job *h, const struct remote_job *job,
			   struct err *e)
{
	if (proxy_job_set_environment(job, e) < 0 ||
	    proxy_job_enter_dir(job, e) < 0)
		return EXIT_OS;
	if (proxy_job_make_argv(h, job) < 0) {
		err_no_memory(e, "the job's arguments");
		return EXIT_OS;
	}
	return preflight_try(&h->trial, h->nargs + h->nwords + 2, h->argv, e);
}

/* "CLIENT PORT SERVER PORT"; srun has only the node's name. */
static struct slice proxy_job_ssh_address(void)
{
	const char *text = getenv("SSH_CONNECTION");
	const char *node = getenv("SLURMD_NODENAME");

	if (!text && node)
		return SLICE_STR(node);
	for (int i = 0; text && i < 2; i++) {
		text = strchr(text, ' ');
		text = text ? text + 1 : NULL;
	}
	return text ? SLICE(text, strcspn(text, " ")) : SLICE("", 0);
}

static void proxy_job_set_secret(struct proxy_job *h, struct slice secret)
{
	struct proof p;

	if (secret.len != sizeof(p.bytes))
		return;
	memcpy(p.bytes, secret.data, sizeof(p.bytes));
	auth_of_secret(&h->auth, &p, "the ddprun that started it over ssh");
	proof_wipe(&p, sizeof(p));
}

void proxy_job_prepare(struct proxy_job *h,
		       const struct remote_job *job,
		       struct remote_ready *answer, struct err *e)
{
	struct timespec now;

	*h = (struct proxy_job){.nwords = 0};
	proxy_job_set_secret(h, job->secret);
	*answer = (struct remote_ready){.code = 0};
	sock_host_name(h->host);
	answer->code = (uint32_t)proxy_job_check(h, job, e);
	if (job->check)
		proxy_job_count_resources(answer);
	clock_gettime(CLOCK_REALTIME, &now);
	answer->unix_ms = (uint64_t)now.tv_sec * 1000 +
			  (uint64_t)now.tv_nsec / 1000000;
	answer->nproc = h->trial.nproc;
	answer->text = SLICE_STR(e->text);
	answer->host = SLICE_STR(h->host);
	answer->addr = proxy_job_ssh_address();
}

/* ---- where others reach it ---- */

static int proxy_job_resolve(struct slice host, struct sock_addr *a)
{
	struct endpoint ep = {.port = 0};
	struct err e;

	snprintf(ep.host, sizeof(ep.host), "%.*s", SLICE_FMT(host));
	return ep.host[0] && sock_resolve(&ep, a, 1, &e) == 1 ? 0 : -1;
}

void proxy_job_address(const struct remote_list *others,
		       struct sock_addr *own)
{
	struct sock_addr a, ssh;
	int reached = proxy_job_resolve(proxy_job_ssh_address(), &ssh) == 0 &&
		      sock_addr_is_local(&ssh);
	const char *text;
	size_t at = 0;

	while ((text = remote_list_next(others, &at))) {
		if (proxy_job_resolve(SLICE_STR(text), &a) == 0 &&
		    !sock_addr_is_loopback(&a) &&
		    sock_addr_towards(&a, own) == 0 &&
		    !sock_addr_is_loopback(own))
			return;
	}
	if (reached)
		*own = ssh;
	else
		proxy_job_resolve(SLICE_STR("127.0.0.1"), own);
	sock_addr_set_port(own, 0);
}
