/* pmix_service.c: a round's PMIx: fences, letters, and what ends it. */
#include "launcher/pmix/pmix_service_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launcher/output/logdir.h"
#include "launcher/pmix/pmix_helper.h"
#include "pmi/pmix_abi.h"

enum {
	ABORT_MS = 200, /* for a worker to print and exit after MPI_Abort */
	FENCE_MAX = PMIX_FRAME_MAX / 2,
};

void pmix_service_fail(struct pmix_service *s, const struct err *why)
{
	if (s->has_failed || s->is_closing)
		return;
	s->has_failed = 1;
	if (s->starting) /* the owner does not have s yet */
		*s->starting = *why;
	else
		s->events->on_failed(s->owner, why->text);
}

void pmix_service_send(struct pmix_service *s, uint8_t type, uint32_t id,
		       int32_t code, struct slice data)
{
	helper_link_send(&s->helper,
			 &(struct pmix_frame){type, id, code, data});
}

/* ---- closing ---- */

static void pmix_service_drop_fence(struct pmix_service *s)
{
	struct pmix_fence *f = s->fences;

	s->fences = f->next;
	if (!s->fences)
		s->last_fence = &s->fences;
	buf_release(&f->data);
	free(f);
}

void pmix_service_part_closed(struct pmix_service *s)
{
	if (--s->open_parts)
		return;
	while (s->fences)
		pmix_service_drop_fence(s);
	pmix_modex_release(s);
	/* the helper has removed it, unless it was killed */
	logdir_remove(s->job.folder);
	pmix_vars_release(&s->vars);
	pmix_job_release(&s->job);
	attendance_release(&s->attendance);
	free(s);
}

static void pmix_service_on_abort_closed(uv_handle_t *h)
{
	pmix_service_part_closed(h->data);
}

static void pmix_service_on_helper_closed(struct helper_link *l)
{
	pmix_service_part_closed(l->owner);
}

static void pmix_service_on_exchange_closed(struct pmi_exchange *x)
{
	pmix_service_part_closed(x->owner);
}

void pmix_service_close(struct pmix_service *s)
{
	if (!s || s->is_closing)
		return;
	s->is_closing = 1;
	uv_close((uv_handle_t *)&s->abort, pmix_service_on_abort_closed);
	if (s->has_exchange)
		pmi_exchange_close(&s->exchange);
	pmix_modex_close(s);
	if (s->has_helper)
		helper_link_close(&s->helper);
}

/* ---- fences ---- */

/* The parts of all n nodes in an exchange: the ranks that ended, then the data
 * of the fence. */
static int pmix_service_read(struct pmix_service *s, const struct slice *parts,
			     uint32_t n, struct buf *data, struct err *e)
{
	struct attendance_ended ended = {0};

	for (uint32_t i = 0; i < n; i++) {
		struct reader r;

		reader_init(&r, parts[i]);
		attendance_read(&r, &ended);
		if (r.bad)
			return err_set(e, ERR_PROTOCOL, "node %u's part of an "
				       "exchange of PMIx is malformed", i);
		buf_put(data, r.p, reader_left(&r));
	}
	if (data->failed == -ENOMEM)
		return err_no_memory(e, "the data of a fence of PMIx");
	if (data->failed)
		return err_set(e, data->failed, "all ranks put more than %d "
			       "bytes before a fence of PMIx", FENCE_MAX);
	return attendance_check(&s->attendance, &ended, e);
}

static void pmix_service_finish(struct pmix_service *s,
				const struct slice *parts, uint32_t n)
{
	struct buf data = BUF_INIT(FENCE_MAX);
	struct err e = ERR_INIT;
	int rc = pmix_service_read(s, parts, n, &data, &e);

	s->is_exchanging = 0;
	s->is_over = rc == 0; /* no rank waits any more, on no node */
	if (rc < 0) {
		pmix_service_fail(s, &e);
	} else if (rc && s->fences) {
		pmix_service_send(s, HELPER_FENCED, s->fences->id,
				  PMIX_ABI_SUCCESS, SLICE(data.data, data.len));
		pmix_service_drop_fence(s);
		attendance_resume(&s->attendance);
	}
	buf_release(&data);
}

/* failed: of a buffer for what the ranks of this node put before a fence. */
static void pmix_service_fail_fence(struct pmix_service *s, int failed)
{
	struct err e = ERR_INIT;

	if (failed == -ENOMEM)
		err_no_memory(&e, "a fence of PMIx");
	else
		err_set(&e, failed,
			"the ranks of this node put more than %d bytes "
			"before a fence of PMIx", PMI_EXCHANGE_VALUE_MAX);
	pmix_service_fail(s, &e);
}

static void pmix_service_begin_exchange(struct pmix_service *s)
{
	struct buf part = BUF_INIT(PMI_EXCHANGE_VALUE_MAX);
	struct slice bytes;

	s->is_exchanging = 1;
	attendance_put(&s->attendance, &part);
	if (s->fences)
		buf_put(&part, s->fences->data.data, s->fences->data.len);
	bytes = SLICE(part.data, part.len);
	if (part.failed) {
		pmix_service_fail_fence(s, part.failed);
	} else if (s->job.nnodes > 1) {
		pmi_exchange_begin(&s->exchange, bytes);
	} else {
		pmix_service_finish(s, &bytes, 1);
	}
	buf_release(&part);
}

/* The library reports a fence when all ranks of this node have entered it. If
 * one has ended instead, it never does: the others wait as well. */
static void pmix_service_advance(struct pmix_service *s)
{
	while (s->is_ready && !s->has_failed && !s->is_closing &&
	       !s->is_exchanging && !s->is_over) {
		if (s->fences || attendance_is_broken(&s->attendance))
			attendance_all_wait(&s->attendance);
		if (!attendance_is_ready(&s->attendance))
			return;
		pmix_service_begin_exchange(s);
	}
}

static void pmix_service_add_fence(struct pmix_service *s,
				   const struct pmix_frame *frame)
{
	struct pmix_fence *f = malloc(sizeof(*f));
	struct err e = ERR_INIT;

	if (!f) {
		err_no_memory(&e, "a fence of PMIx");
		pmix_service_fail(s, &e);
		return;
	}
	*f = (struct pmix_fence){NULL, frame->id,
				 BUF_INIT(PMI_EXCHANGE_VALUE_MAX)};
	buf_put(&f->data, frame->data.data, frame->data.len);
	*s->last_fence = f;
	s->last_fence = &f->next;
	if (f->data.failed)
		pmix_service_fail_fence(s, f->data.failed);
}

/* ---- the layout, which the server needs ---- */

static void pmix_service_begin_helper(struct pmix_service *s)
{
	struct buf b = BUF_INIT(PMIX_FRAME_MAX / 2);
	struct err e = ERR_INIT;

	pmix_job_put(&b, &s->job);
	if (b.failed) {
		err_no_memory(&e, "MPI's map of %u nodes", s->job.nnodes);
		pmix_service_fail(s, &e);
	} else {
		pmix_service_send(s, HELPER_BEGIN, 0, 0, SLICE(b.data, b.len));
	}
	buf_release(&b);
}

static int pmix_service_learn(struct pmix_service *s, const struct slice *parts,
			      struct err *e)
{
	int rc = pmix_job_learn(&s->job, parts, e);

	if (rc == 0)
		pmix_service_begin_helper(s);
	return rc;
}

static void pmix_service_on_exchanged(struct pmi_exchange *x,
				      const struct slice *values)
{
	struct pmix_service *s = x->owner;
	struct err e = ERR_INIT;

	if (s->is_exchanging)
		pmix_service_finish(s, values, s->job.nnodes);
	else if (pmix_service_learn(s, values, &e) < 0)
		pmix_service_fail(s, &e);
	pmix_service_advance(s);
}

static void pmix_service_on_exchange_failed(struct pmi_exchange *x,
					    const struct err *why)
{
	pmix_service_fail(x->owner, why);
}

static const struct pmi_exchange_events exchange_events = {
	.on_done = pmix_service_on_exchanged,
	.on_failed = pmix_service_on_exchange_failed,
	.on_closed = pmix_service_on_exchange_closed,
};

/* ---- what the helper reports ---- */

static void pmix_service_on_abort_over(uv_timer_t *t)
{
	struct pmix_service *s = t->data;

	for (uint32_t i = 0; i < s->job.nproc; i++)
		if (s->attendance.ranks[i].has_aborted)
			s->events->on_abort_over(s->owner, i);
}

/* About one rank of this node. */
static void pmix_service_note(struct pmix_service *s,
			      const struct pmix_frame *f)
{
	struct attendance_rank *r;

	if (f->id - s->job.base_rank >= s->job.nproc)
		return;
	r = &s->attendance.ranks[f->id - s->job.base_rank];
	if (f->type == HELPER_CONNECTED) {
		if (r->state == ATTENDANCE_NEW)
			r->state = ATTENDANCE_IN;
	} else if (f->type == HELPER_FINALIZED) {
		r->state = ATTENDANCE_LEFT;
	} else if (f->type == HELPER_ABORT) {
		attendance_abort(r, f->code, f->data);
		if (!uv_is_active((uv_handle_t *)&s->abort))
			uv_timer_start(&s->abort, pmix_service_on_abort_over,
				       ABORT_MS, 0);
	} else if (!s->has_logged_refusal) {
		s->has_logged_refusal = 1;
		log_warn("rank %u asked PMIx for something that ddprun "
			 "refuses: %.*s",
			 f->id, SLICE_FMT(f->data));
	}
}

/* The rank waits for the answer: it exits only when its words are here. */
static void pmix_service_hear(struct pmix_service *s,
			      const struct pmix_frame *f)
{
	uint32_t local_rank = (uint32_t)f->code - s->job.base_rank;

	if (local_rank < s->job.nproc && f->data.len)
		s->events->on_said(s->owner, local_rank, f->data);
	pmix_service_send(s, HELPER_HEARD, f->id, 0, SLICE("", 0));
}

static void pmix_service_take_vars(struct pmix_service *s, struct slice data)
{
	struct err e = ERR_INIT;

	if (pmix_vars_get(&s->vars, data, s->job.nproc, &e) < 0) {
		pmix_service_fail(s, &e);
		return;
	}
	s->is_ready = 1;
	s->events->on_ready(s->owner);
}

static void pmix_service_on_frame(struct helper_link *l,
				  const struct pmix_frame *f)
{
	struct pmix_service *s = l->owner;
	struct err e = ERR_INIT;

	switch (f->type) {
	case HELPER_READY:
		pmix_service_take_vars(s, f->data);
		break;
	case HELPER_FAILED:
		err_set(&e, ERR_SYSTEM, "%.*s", SLICE_FMT(f->data));
		pmix_service_fail(s, &e);
		break;
	case HELPER_FENCE:
		pmix_service_add_fence(s, f);
		break;
	case HELPER_WANT:
		pmix_modex_want(s, f);
		break;
	case HELPER_DATA:
		pmix_modex_found(s, f);
		break;
	case HELPER_SAID:
		pmix_service_hear(s, f);
		break;
	default:
		pmix_service_note(s, f);
	}
	pmix_service_advance(s);
}

static void pmix_service_on_helper_failed(struct helper_link *l,
					  const struct err *why)
{
	pmix_service_fail(l->owner, why);
}

static const struct helper_link_events helper_events = {
	.on_frame = pmix_service_on_frame,
	.on_failed = pmix_service_on_helper_failed,
	.on_closed = pmix_service_on_helper_closed,
};

/* ---- a round ---- */

static int pmix_service_make_folder_in(struct pmix_service *s,
				       const char *place)
{
	char *path = s->job.folder;
	/* the world's name is new, and random */
	int n = snprintf(path, sizeof(s->job.folder), "%s/ddprun_pmix_%d_%s",
			 place, (int)getpid(), s->job.name);

	if (n >= (int)sizeof(s->job.folder))
		return -ENAMETOOLONG;
	s->events->note_folder(s->owner, path);
	return mkdir(path, 0700) < 0 ? -errno : 0;
}

/* In memory, because Open MPI may put its shared memory there. */
static int pmix_service_make_folder(struct pmix_service *s, struct err *e)
{
	char private[PMIX_JOB_FOLDER_MAX];
	int rc;

	memcpy(private, s->job.folder, sizeof(private));
	if (private[0] && file_is_in_memory(private))
		rc = pmix_service_make_folder_in(s, private);
	else
		rc = pmix_service_make_folder_in(s, "/dev/shm");
	if (rc < 0)
		rc = pmix_service_make_folder_in(s, logdir_temporary());
	if (rc == 0)
		return 0;
	err_set(e, rc, "cannot create the folder '%s' for PMIx: %s (set "
		"TMPDIR)", s->job.folder, strerror(-rc));
	s->job.folder[0] = '\0';
	return rc;
}

/* To the other nodes. part: what they learn about this one. */
static int pmix_service_open_links(struct pmix_service *s,
				   const struct pmi_exchange_round *round,
				   struct slice part, struct err *e)
{
	int rc;

	s->exchange.owner = s;
	rc = pmi_exchange_start(&s->exchange, s->loop, round, &exchange_events,
				e);
	if (rc < 0)
		return rc;
	s->has_exchange = 1;
	s->open_parts++;
	pmi_exchange_begin(&s->exchange, part);
	return pmix_modex_start(s, &round->self, e);
}

static int pmix_service_open(struct pmix_service *s,
			     const struct pmi_exchange_round *round,
			     struct err *e)
{
	struct buf mine = BUF_INIT(4 * PMIX_JOB_NAME_MAX);
	struct slice part;
	int rc = pmix_service_make_folder(s, e);

	if (rc == 0)
		rc = helper_link_start(&s->helper, s->loop, &helper_events, s,
				       e);
	if (rc < 0)
		return rc;
	s->has_helper = 1;
	s->open_parts++;
	pmix_job_put_node(&mine, &s->job, round->self.host);
	rc = buf_bytes(&mine, &part);
	if (rc < 0)
		err_no_memory(e, "MPI's map of nodes");
	else if (s->job.nnodes == 1)
		rc = pmix_service_learn(s, &part, e);
	else
		rc = pmix_service_open_links(s, round, part, e);
	buf_release(&mine);
	return rc;
}

struct pmix_service *pmix_service_new(uv_loop_t *loop,
				      const struct pmix_job *job,
				      const struct pmi_exchange_round *round,
				      const struct pmix_service_events *events,
				      void *owner, struct err *e)
{
	struct pmix_service *s = calloc(1, sizeof(*s));
	int rc;

	if (!s || attendance_init(&s->attendance, job->base_rank, job->nproc,
				  NULL) < 0) {
		free(s);
		err_no_memory(e, "MPI's start-up for %u workers", job->nproc);
		return NULL;
	}
	s->owner = owner;
	s->events = events;
	s->loop = loop;
	s->job = *job;
	s->last_fence = &s->fences;
	uv_timer_init(loop, &s->abort);
	s->abort.data = s;
	s->open_parts = 1;
	s->starting = e;
	rc = pmix_service_open(s, round, e);
	s->starting = NULL;
	if (rc == 0 && !s->has_failed)
		return s;
	pmix_service_close(s);
	return NULL;
}

char *const *pmix_service_vars(const struct pmix_service *s,
			       uint32_t local_rank, uint32_t *n)
{
	*n = s->vars.n;
	return s->vars.vars + (size_t)local_rank * s->vars.n;
}

void pmix_service_ended(struct pmix_service *s, uint32_t local_rank,
			int has_failed)
{
	struct attendance_rank *r = &s->attendance.ranks[local_rank];

	/* its last frames: an abort, for example */
	helper_link_poll(&s->helper);
	if (has_failed)
		return;
	r->has_ended = 1;
	if (r->state == ATTENDANCE_NEW)
		pmix_modex_give_up(s, s->job.base_rank + local_rank);
	pmix_service_advance(s);
}

int pmix_service_aborted(const struct pmix_service *s, uint32_t local_rank,
			 int *code, char *text, size_t size)
{
	return attendance_aborted(&s->attendance.ranks[local_rank], code, text,
				  size);
}

/* 1 if a rank may still need the helper. */
static int pmix_service_is_needed(const struct pmix_service *s)
{
	for (uint32_t i = 0; i < s->job.nproc; i++)
		if (!s->attendance.ranks[i].has_ended &&
		    s->attendance.ranks[i].state != ATTENDANCE_LEFT)
			return 1;
	return 0;
}

/* The helper has ended, although workers may still need it. */
static void pmix_service_note_end(struct pmix_service *s, pid_t pid, int status)
{
	char name[SIGNAL_NAME_MAX];

	if (s->is_closing || s->lost[0] || !pmix_service_is_needed(s))
		return;
	if (!s->is_ready && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		snprintf(s->lost, sizeof(s->lost), "the PMIx server of "
			 PMIX_ABI_LIBRARY " on this node did not start within "
			 "%d s (try again, or update that library; --mpi none "
			 "starts worlds of one)", PMIX_HELPER_BEGIN_S);
	else if (WIFSIGNALED(status))
		snprintf(s->lost, sizeof(s->lost), "the process that served "
			 "PMIx on this node (pid %d) was killed by %s",
			 (int)pid, signal_name(WTERMSIG(status), name));
	else
		snprintf(s->lost, sizeof(s->lost), "the process that served "
			 "PMIx on this node (pid %d) exited with code %d",
			 (int)pid, WEXITSTATUS(status));
}

const char *pmix_service_lost(struct pmix_service *s)
{
	int status;

	if (helper_link_is_dead(&s->helper, &status))
		pmix_service_note_end(s, s->helper.pid, status);
	return s->lost;
}

int pmix_service_reaped(struct pmix_service *s, pid_t pid, int status)
{
	struct err e = ERR_INIT;

	if (!s || !pid || s->helper.pid != pid)
		return 0;
	helper_link_poll(&s->helper); /* why it ended, for example */
	s->helper.pid = 0;
	pmix_service_note_end(s, pid, status);
	if (s->lost[0] && !s->is_ready) { /* no worker runs that could fail */
		err_set(&e, ERR_SYSTEM, "%s", s->lost);
		pmix_service_fail(s, &e);
	}
	return 1;
}

pid_t pmix_service_pid(const struct pmix_service *s)
{
	return s ? s->helper.pid : 0;
}
