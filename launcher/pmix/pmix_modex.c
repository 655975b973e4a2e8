/* pmix_modex.c: letters about the data of one rank (direct modex). */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "launcher/pmix/pmix_service_internal.h"
#include "pmi/pmix_abi.h"

enum pmix_letter { LETTER_WANT = 1, LETTER_DATA };

/* A letter: u8 what, u32 node of the sender, u32 id, then a rank, or a code and
 * the data. */
static void pmix_modex_write(struct pmix_service *s, uint32_t node,
			       enum pmix_letter what, uint32_t id, uint32_t n,
			       struct slice data)
{
	struct buf b = BUF_INIT(WIRE_VALUE_MAX);
	struct err e = ERR_INIT;

	buf_put_u8(&b, (uint8_t)what);
	buf_put_u32(&b, s->job.node_rank);
	buf_put_u32(&b, id);
	buf_put_u32(&b, n);
	buf_put_slice(&b, data);
	if (b.failed == -ENOMEM)
		err_no_memory(&e, "the data of a rank, for PMIx");
	else if (b.failed)
		err_set(&e, b.failed, "the data of a rank is too large for "
			"PMIx");
	else
		node_mail_send(&s->mail, node, SLICE(b.data, b.len), &e);
	buf_release(&b);
	if (e.code)
		pmix_service_fail(s, &e);
}

/* Our library asks for a rank that is not on this node. */
void pmix_modex_want(struct pmix_service *s,
		     const struct pmix_frame *f)
{
	uint32_t node = pmix_job_node_of(&s->job, (uint32_t)f->code);

	if (node == s->job.nnodes || !s->has_mail)
		pmix_service_send(s, HELPER_FOUND, f->id, PMIX_ABI_ERROR,
				  SLICE("", 0));
	else
		pmix_modex_write(s, node, LETTER_WANT, f->id,
				   (uint32_t)f->code, SLICE("", 0));
}

static void pmix_modex_wanted(struct pmix_service *s, uint32_t node,
				uint32_t id, uint32_t rank)
{
	uint32_t local = rank - s->job.base_rank;
	struct pmix_want *w;

	log_debug("PMIx: node %u asks for the data of rank %u", node, rank);
	if (local >= s->job.nproc ||
	    (s->attendance.ranks[local].has_ended &&
	     s->attendance.ranks[local].state == ATTENDANCE_NEW) ||
	    !(w = malloc(sizeof(*w)))) {
		pmix_modex_write(s, node, LETTER_DATA, id,
				   (uint32_t)PMIX_ABI_ERROR, SLICE("", 0));
		return;
	}
	*w = (struct pmix_want){s->wants, ++s->last_want, node, id, rank};
	s->wants = w;
	pmix_service_send(s, HELPER_WANTED, w->id, (int32_t)rank, SLICE("", 0));
}

/* Answers and removes *at. */
static void pmix_modex_answer(struct pmix_service *s, struct pmix_want **at,
				int32_t code, struct slice data)
{
	struct pmix_want *w = *at;

	*at = w->next;
	pmix_modex_write(s, w->node, LETTER_DATA, w->their_id, (uint32_t)code,
			   data);
	free(w);
}

void pmix_modex_found(struct pmix_service *s,
		      const struct pmix_frame *f)
{
	struct pmix_want **at = &s->wants;

	while (*at && (*at)->id != f->id)
		at = &(*at)->next;
	if (*at)
		pmix_modex_answer(s, at, f->code, f->data);
}

/* It has ended without MPI_Init: its data never comes. */
void pmix_modex_give_up(struct pmix_service *s, uint32_t rank)
{
	for (struct pmix_want **at = &s->wants; *at;) {
		if ((*at)->rank == rank)
			pmix_modex_answer(s, at, PMIX_ABI_ERROR,
					    SLICE("", 0));
		else
			at = &(*at)->next;
	}
}

static void pmix_modex_on_letter(struct node_mail *m, struct slice letter)
{
	struct pmix_service *s = m->owner;
	struct err e = ERR_INIT;
	struct reader r;
	uint32_t node, id, n;
	struct slice data;
	uint8_t what;

	reader_init(&r, letter);
	what = reader_u8(&r);
	node = reader_u32(&r);
	id = reader_u32(&r);
	n = reader_u32(&r);
	data = reader_slice(&r);
	if (r.bad || node >= s->job.nnodes) {
		err_set(&e, ERR_PROTOCOL,
			"a message between the nodes' PMIx is malformed");
		pmix_service_fail(s, &e);
	} else if (what == LETTER_WANT) {
		pmix_modex_wanted(s, node, id, n);
	} else {
		pmix_service_send(s, HELPER_FOUND, id, (int32_t)n, data);
	}
}

static void pmix_modex_on_mail_failed(struct node_mail *m,
				      const struct err *why)
{
	pmix_service_fail(m->owner, why);
}

static void pmix_modex_on_mail_closed(struct node_mail *m)
{
	pmix_service_part_closed(m->owner);
}

static const struct node_mail_events mail_events = {
	.on_letter = pmix_modex_on_letter,
	.on_failed = pmix_modex_on_mail_failed,
	.on_closed = pmix_modex_on_mail_closed,
};

int pmix_modex_start(struct pmix_service *s,
		     const struct round_client_self *self, struct err *e)
{
	int rc = node_mail_start(&s->mail, s->loop, self, s->job.node_rank,
				 &mail_events, s, e);

	if (rc < 0)
		return rc;
	s->has_mail = 1;
	s->open_parts++;
	return 0;
}

void pmix_modex_close(struct pmix_service *s)
{
	if (s->has_mail)
		node_mail_close(&s->mail);
}

void pmix_modex_release(struct pmix_service *s)
{
	while (s->wants) {
		struct pmix_want *w = s->wants;

		s->wants = w->next;
		free(w);
	}
}
