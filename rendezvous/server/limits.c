/* limits.c: counting, and one timer for the job that has been idle longest. */
#include "rendezvous/server/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "rendezvous/server/hosted_job.h"

/* ---- connections and jobs ---- */

int limits_check_client(const struct hosted_job *h, struct err *e)
{
	const struct server *s = h->server;
	struct job_node *n = NULL;
	uint32_t have = h->nworkers;

	/* counting walks over all nodes, and each new client needs the count:
	 * skip it far below the limit */
	if (have + job_nodes(h->job) < s->max_connections)
		return 0;
	while (have < s->max_connections && (n = job_next_node(h->job, n)))
		have += job_node_owner(n) != NULL;
	if (have < s->max_connections)
		return 0;
	return err_set(e, ERR_REFUSED, "job '%s' at %s has %u connections, "
		       "its limit (--max-connections of that ddprdzv)",
		       job_id(h->job), s->endpoint, s->max_connections);
}

/* ---- tenants ---- */

/* NULL, and *rc 0: the job has no tenant. */
static struct account *limits_tenant(struct server *s, struct slice job,
				     int *rc)
{
	struct slice name = account_tenant_of(job);
	struct account *a = NULL;

	*rc = 0;
	if (s->token_dir && name.len) {
		a = account_of_tenant(&s->tenants, name, &s->accounts);
		*rc = a ? 0 : -ENOMEM;
	}
	return a;
}

struct account *limits_account(struct server *s, struct slice job)
{
	struct account *tenant, *a;
	int rc;

	tenant = limits_tenant(s, job, &rc);
	a = rc < 0 ? NULL : account_of_job(job, tenant, &s->accounts);
	account_unref(tenant);
	return a;
}

int limits_check_tenant(struct peer *p, struct slice job, struct err *e)
{
	struct server *s = p->server;
	uint32_t most = s->accounts.tenant_connections;
	struct account *a;
	int rc;

	a = limits_tenant(s, job, &rc);
	if (rc < 0)
		return err_set(e, rc, "the rendezvous server is out of "
			       "memory");
	if (a && most && a->connections >= most)
		rc = err_set(e, ERR_REFUSED, "%.300s has %u connections at "
			     "%s, its limit (--tenant-connections of that "
			     "ddprdzv)", a->name, a->connections,
			     s->endpoint);
	else if (a)
		conn_charge_to(&p->conn, a, sizeof(*p));
	account_unref(a);
	return rc;
}

static int limits_check_tenants_jobs(const struct server *s, const char *id,
				     struct err *e)
{
	struct slice name = account_tenant_of(SLICE_STR(id));
	uint32_t n = 0, most = s->accounts.tenant_jobs;
	struct hosted_job *h = NULL;

	if (!s->token_dir || !name.len || !most)
		return 0;
	while ((h = server_next_named_job(s, h))) {
		struct slice key = h->item.key;

		n += key.len > name.len && key.data[name.len] == '/' &&
		     memcmp(key.data, name.data, name.len) == 0;
	}
	if (n < most)
		return 0;
	return err_set(e, ERR_REFUSED,
		       "job '%s' is refused at %s: tenant '%.*s' has %u jobs "
		       "there, its limit (--tenant-jobs of that ddprdzv)",
		       id, s->endpoint, SLICE_FMT(name), n);
}

int limits_check_job(const struct server *s, const char *id, struct err *e)
{
	if (server_count_named_jobs(s) < s->max_jobs)
		return limits_check_tenants_jobs(s, id, e);
	return err_set(e, ERR_REFUSED,
		       "job '%s' is refused at %s: it has %u jobs, its limit "
		       "(--max-jobs of that ddprdzv)",
		       id, s->endpoint, s->max_jobs);
}

/* ---- descriptors ---- */

/* The current limit, which prlimit may have changed. */
static uint32_t limits_max_descriptors(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur > UINT32_MAX)
		return UINT32_MAX;
	return (uint32_t)r.rlim_cur;
}

int limits_full(const struct server *s, struct err *e)
{
	return err_set(
		e, ERR_REFUSED,
		"the rendezvous server at %s accepts no more connections: all "
		"of its %u descriptors are in use (ulimit -n of that ddprdzv)",
		s->endpoint, limits_max_descriptors());
}

/* The kernel assigns the lowest free descriptor, so its number tells how many
 * are in use. The last ones are kept for a round's own port, and for files. */
int limits_accepted(struct server *s, struct peer *p, int scarce)
{
	uv_os_fd_t fd;

	if (scarce) {
		s->counts.refused_full++;
		return 1;
	}
	if (uv_fileno((uv_handle_t *)&p->conn.tcp, &fd) < 0)
		return 0;
	if ((uint32_t)fd + LIMITS_SPARE + LIMITS_POLITE < s->fd_limit) {
		s->has_warned_full = 0;
		return 0;
	}
	s->counts.refused_full++;
	if (!s->has_warned_full)
		log_warn("no descriptors for more clients (%u, ulimit -n): "
			 "refusing new ones, serving the connected ones",
			 s->fd_limit);
	s->has_warned_full = 1;
	return (uint32_t)fd + LIMITS_SPARE < s->fd_limit ? 1 : -1;
}

/* ---- idle jobs ---- */

/* A running job is busy while any of its agents is connected. */
static int limits_is_busy(const struct hosted_job *h)
{
	struct job_node *n = NULL;

	if (h->agentless)
		return 1;
	while (job_state(h->job) == JOB_RUNNING &&
	       (n = job_next_node(h->job, n)))
		if (job_node_owner(n))
			return 1;
	return 0;
}

static void limits_expire_job(struct hosted_job *h)
{
	char why[500];

	snprintf(why, sizeof(why),
		 "it was idle for %g s (--idle-timeout of the rendezvous "
		 "server at %s)",
		 (double)h->server->idle_ms / 1e3, h->server->endpoint);
	log_info("job '%s' ends: %s", job_id(h->job), why);
	h->server->counts.expired++;
	job_event_stopped(h, why);
	hosted_job_act(h);
	hosted_job_free_if_empty(h);
}

static void limits_on_idle_timer(uv_timer_t *t)
{
	struct server *s = t->data;
	uint64_t now = uv_now(s->loop), next = UINT64_MAX;
	struct hosted_job *h, *after;

	for (h = server_next_named_job(s, NULL); h; h = after) {
		after = server_next_named_job(s, h);
		if (job_state(h->job) == JOB_OVER) /* its agents are leaving */
			continue;
		if (limits_is_busy(h))
			h->touched = now;
		if (now - h->touched >= s->idle_ms) {
			h->touched = now;
			/* this changes the table: search again from its
			 * start */
			limits_expire_job(h);
			after = server_next_named_job(s, NULL);
			continue;
		}
		if (h->touched + s->idle_ms < next)
			next = h->touched + s->idle_ms;
	}
	if (next != UINT64_MAX)
		uv_timer_start(t, limits_on_idle_timer, next - now + 1, 0);
	conn_flush_all(&s->pool);
}

void limits_touch(struct hosted_job *h)
{
	struct server *s = h->server;

	h->touched = uv_now(s->loop);
	if (!uv_is_active((uv_handle_t *)&s->idle_timer) && !s->closing)
		uv_timer_start(&s->idle_timer, limits_on_idle_timer, s->idle_ms,
			       0);
}

void limits_init(struct server *s)
{
	s->fd_limit = limits_max_descriptors();
	uv_timer_init(s->loop, &s->idle_timer);
	s->idle_timer.data = s;
}

void limits_close(struct server *s)
{
	if (!uv_is_closing((uv_handle_t *)&s->idle_timer))
		uv_close((uv_handle_t *)&s->idle_timer, NULL);
}
