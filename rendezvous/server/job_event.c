/* job_event.c: parses, applies and records an event, in that order. */
#include "rendezvous/server/hosted_job.h"

static int job_event_apply_join(struct hosted_job *h, struct job_node **n,
				void *owner, const struct wire_frame *f,
				struct err *e)
{
	struct wire_join join;
	int rc = wire_get_join(f, &join, e);

	return rc < 0 ? rc
		      : job_join(h->job, &join, owner, h->server->endpoint, n,
				 e);
}

static int job_event_apply_exited(struct hosted_job *h, struct job_node *n,
				  const struct wire_frame *f, struct err *e)
{
	struct wire_exited exited;
	int rc = wire_get_exited(f, &exited, e);

	return rc < 0 ? rc : job_exited(h->job, n, &exited, e);
}

static int job_event_apply_failed(struct hosted_job *h, struct job_node *n,
				  const struct wire_frame *f, struct err *e)
{
	struct wire_failed failed;
	int rc = wire_get_failed(f, &failed, e);

	if (rc == 0)
		job_failed(h->job, n, &failed);
	return rc;
}

static int job_event_apply_leave(struct hosted_job *h, struct job_node *n,
				 const struct wire_frame *f, struct err *e)
{
	struct wire_leave leave;
	int rc = wire_get_leave(f, &leave, e);

	if (rc == 0)
		job_leave(h->job, n, &leave);
	return rc;
}

static int job_event_apply_stop(struct hosted_job *h, struct job_node *n,
				const struct wire_frame *f, struct err *e)
{
	struct wire_stop stop;
	int rc = wire_get_stop(f, &stop, e);

	if (rc == 0)
		job_request_stop(h->job, n, &stop);
	return rc;
}

static int job_event_apply(struct hosted_job *h, struct job_node **n,
			   void *owner, const struct wire_frame *f,
			   struct err *e)
{
	switch (f->type) {
	case WIRE_JOIN:
		return job_event_apply_join(h, n, owner, f, e);
	case WIRE_EXITED:
		return job_event_apply_exited(h, *n, f, e);
	case WIRE_FAILED:
		return job_event_apply_failed(h, *n, f, e);
	case WIRE_LEAVE:
		return job_event_apply_leave(h, *n, f, e);
	case WIRE_STOP:
		return job_event_apply_stop(h, *n, f, e);
	default:
		return err_set(e, ERR_PROTOCOL, "%s is not an event of a job",
			       wire_type_name(f->type));
	}
}

int job_event_take(struct hosted_job *h, struct job_node **n, void *owner,
		   const struct wire_frame *f, struct err *e)
{
	int rc = job_event_apply(h, n, owner, f, e);

	if (rc == 0)
		journal_writer_event(&h->server->writer, h->number,
				     job_node_id(*n), f);
	return rc;
}

void job_event_lost(struct hosted_job *h, struct job_node *n, const char *why)
{
	SERVER_CALL_HOOK(h->server, on_node_lost, h, n, why);
	journal_writer_lost(&h->server->writer, h->number, job_node_id(n), why);
	job_lost(h->job, n, why);
}

void job_event_called(struct hosted_job *h)
{
	journal_writer_called(&h->server->writer, h->number);
	job_last_call(h->job);
}

void job_event_stopped(struct hosted_job *h, const char *why)
{
	journal_writer_stopped(&h->server->writer, h->number, why);
	job_stop(h->job, why);
}
