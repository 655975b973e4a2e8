/* parent_pipe.c: reading the pipe, and what is not for us to hear. */
#include "rendezvous/server/parent_pipe.h"

#include <signal.h>

#include "rendezvous/server/hosted_job.h"

static void parent_pipe_on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct server *s = h->data;

	*b = uv_buf_init(s->pool.scratch, sizeof(s->pool.scratch));
}

/* With the key of the job that its agent was given this server lets its workers
 * in as the one does that gave it. A way of no kind: that its node has gone. */
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
