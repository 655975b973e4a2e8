/* server.c: the lists of a server's peers and jobs. Nobody else walks them by
 * hand. */
#include "rendezvous/server/server.h"

#include <signal.h>
#include <stdio.h>

#include "rendezvous/net/systemd.h"
#include "rendezvous/server/hosted_job.h"

/* ---- peers ---- */

void server_add_peer(struct server *s, struct peer *p)
{
	p->server = s;
	p->next = s->peers;
	if (p->next)
		p->next->pprev = &p->next;
	p->pprev = &s->peers;
	s->peers = p;
}

void server_remove_peer(struct peer *p)
{
	*p->pprev = p->next;
	if (p->next)
		p->next->pprev = p->pprev;
}

struct peer *server_next_peer(const struct server *s, const struct peer *after)
{
	return after ? after->next : s->peers;
}

/* ---- jobs ---- */

/* A walk first completes a pending growth of the table, which changes none of
 * its items. */
static struct hash_item *server_next_item(const struct hash_table *t,
					  struct hash_item *after)
{
	return hash_table_next((struct hash_table *)t, after);
}

static struct hosted_job *server_numbered(struct hash_item *item)
{
	return item ? (struct hosted_job *)((char *)item -
					    offsetof(struct hosted_job,
						     numbered))
		    : NULL;
}

struct hosted_job *server_next_job(const struct server *s,
				   struct hosted_job *after)
{
	return server_numbered(server_next_item(
		&s->by_number, after ? &after->numbered : NULL));
}

struct hosted_job *server_next_named_job(const struct server *s,
					 struct hosted_job *after)
{
	return (struct hosted_job *)server_next_item(
		&s->jobs, after ? &after->item : NULL);
}

struct hosted_job *server_find_job(struct server *s, uint64_t number)
{
	struct slice key = SLICE((const char *)&number, sizeof(number));

	return server_numbered(hash_table_find(&s->by_number, key));
}

struct hosted_job *server_find_named_job(struct server *s, struct slice id)
{
	return (struct hosted_job *)hash_table_find(&s->jobs, id);
}

size_t server_count_jobs(const struct server *s)
{
	return s->by_number.items;
}

size_t server_count_named_jobs(const struct server *s)
{
	return s->jobs.items;
}

int server_add_job(struct server *s, struct hosted_job *h)
{
	if (!h->number)
		h->number = ++s->last_number;
	h->numbered.key = SLICE((const char *)&h->number, sizeof(h->number));
	return hash_table_insert(&s->by_number, &h->numbered);
}

int server_name_job(struct server *s, struct hosted_job *h)
{
	return hash_table_insert(&s->jobs, &h->item);
}

void server_unname_job(struct hosted_job *h)
{
	hash_table_remove(&h->server->jobs, &h->item);
}

void server_remove_job(struct hosted_job *h)
{
	hash_table_remove(&h->server->by_number, &h->numbered);
}

void server_drop_jobs(struct server *s)
{
	for (struct hosted_job *h; (h = server_next_job(s, NULL));)
		hosted_job_drop(h);
}

void server_release_lists(struct server *s)
{
	hash_table_release(&s->by_number);
	hash_table_release(&s->jobs);
	hash_table_release(&s->tenants);
}

/* ---- the ddprun that started us ---- */

static void parent_pipe_on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct server *s = h->data;

	*b = uv_buf_init(s->pool.scratch, sizeof(s->pool.scratch));
}

/* The parent has learned the job's key from the job's server. From now on this
 * server accepts the workers that know it, as that server does. A record
 * without a method reports that our node has left the job. */
static void parent_pipe_handle_record(struct server *s)
{
	struct auth auth;

	auth_from_bytes(&auth, s->parent.record);
	if (!auth.methods) {
		s->parent.events->on_node_gone(s);
	} else if (s->leadership && auth.is_key) {
		s->auth.secret = auth.secret;
		s->auth.is_key = 1;
	}
	auth_wipe(&auth);
	proof_wipe(s->parent.record, sizeof(s->parent.record));
	s->parent.have = 0;
}

static void parent_pipe_on_read(uv_stream_t *p, ssize_t n, const uv_buf_t *b)
{
	struct server *s = p->data;
	struct parent_pipe *from = &s->parent;

	if (n < 0) {
		uv_read_stop(p);
		from->events->on_gone(s);
		return;
	}
	for (ssize_t i = 0; i < n; i++) {
		from->record[from->have++] = (unsigned char)b->base[i];
		if (from->have == sizeof(from->record))
			parent_pipe_handle_record(s);
	}
	proof_wipe(b->base, (size_t)n);
}

int parent_pipe_watch(struct server *s, int fd,
		      const struct parent_pipe_events *events, struct err *e)
{
	uv_pipe_t *pipe = &s->parent.pipe;
	int rc;

	/* A terminal's ^C reaches this process too, and Slurm signals all of a
	 * step: our parent decides what that means, and we are needed until it
	 * has. */
	static const int ignored[] = {
		SIGINT,	   SIGQUIT, SIGHUP,  SIGTERM, SIGUSR1, SIGUSR2, SIGALRM,
		SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ, SIGIO,   SIGPWR};

	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	uv_pipe_init(s->loop, pipe, 0);
	pipe->data = s;
	s->has_parent = 1;
	s->parent.events = events;
	rc = uv_pipe_open(pipe, fd);
	if (rc == 0)
		rc = uv_read_start((uv_stream_t *)pipe, parent_pipe_on_alloc,
				   parent_pipe_on_read);
	if (rc < 0)
		return err_set(e, rc, "--parent-fd %d is not a pipe: %s", fd,
			       uv_strerror(rc));
	return 0;
}

/* ---- systemd ---- */

static void service_notify_on_watchdog(uv_timer_t *t)
{
	systemd_notify("WATCHDOG=1");
}

void service_notify_init(struct server *s)
{
	s->notifies = systemd_is_there();
	uv_timer_init(s->loop, &s->watchdog);
}

void service_notify_close(struct server *s)
{
	if (!uv_is_closing((uv_handle_t *)&s->watchdog))
		uv_close((uv_handle_t *)&s->watchdog, NULL);
}

static void service_notify_send(const struct server *s, const char *what)
{
	char text[512];
	size_t n = server_count_named_jobs(s);

	snprintf(text, sizeof(text), "%sSTATUS=%s at %s, %zu job%s", what,
		 s->draining ? "stopping" : "serving", s->endpoint, n,
		 n == 1 ? "" : "s");
	systemd_notify(text);
}

void service_notify_ready(struct server *s)
{
	uint64_t ms = s->notifies ? systemd_watchdog_ms() / 2 : 0;

	if (!s->notifies)
		return;
	service_notify_send(s, "READY=1\n");
	if (ms)
		uv_timer_start(&s->watchdog, service_notify_on_watchdog, ms,
			       ms);
}

void service_notify_stops(struct server *s)
{
	if (s->notifies)
		service_notify_send(s, "STOPPING=1\n");
}

void service_notify_jobs(struct server *s)
{
	if (s->notifies && !s->draining)
		service_notify_send(s, "");
}

/* ---- counts ---- */

enum server_round_end server_round_end_of(const struct wire_end *end)
{
	if (end->verdict == WIRE_SUCCESS)
		return SERVER_ENDED_WELL;
	if (end->verdict == WIRE_REGROUP)
		return SERVER_ENDED_BY_NODES;
	if (end->rank >= 0 && end->signal)
		return SERVER_ENDED_BY_SIGNAL;
	return end->rank >= 0 && end->code ? SERVER_ENDED_BY_EXIT
					   : SERVER_ENDED_OTHERWISE;
}

const char *server_round_end_name(enum server_round_end end)
{
	static const char *const names[SERVER_ROUND_ENDS] = {
		[SERVER_ENDED_WELL] = "success",
		[SERVER_ENDED_BY_EXIT] = "exit",
		[SERVER_ENDED_BY_SIGNAL] = "signal",
		[SERVER_ENDED_BY_NODES] = "nodes",
		[SERVER_ENDED_OTHERWISE] = "other",
	};

	return names[end];
}
