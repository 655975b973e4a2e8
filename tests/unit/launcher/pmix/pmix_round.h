/* pmix_round.h: one round's PMIx of a node, for tests that are its agent, its
 * helper and the other nodes: they replace what starts and calls these, as
 * their first lines say. */
#ifndef TESTS_PMIX_ROUND_H
#define TESTS_PMIX_ROUND_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/pmix/pmix_service_internal.h"
#include "pmi/pmix_abi.h"
#include "tests/unit/run_case.h"

enum { HELPER_PID = 4711, MOST = 16 };

/* ---- the helper and the other nodes ---- */

struct sent {
	uint32_t type, id; /* a letter: 0, and its node */
	int32_t code;
	struct buf data;
};

static struct sent sent[MOST];
static int nsent, nread;
static const struct pmi_exchange_events *exchange_events;
static const struct node_mail_events *mail_events;
static int helper_fails, exchange_fails, mail_fails, sending_fails;
static int helper_status; /* it has ended; 0: it runs */
static int helper_closed, exchange_closed, mail_closed;
static struct pmix_frame at_poll; /* comes when the helper is polled */

static inline void keep(uint32_t type, uint32_t id, int32_t code,
			struct slice data)
{
	struct sent *s = &sent[nsent++];

	ck_assert_int_lt(nsent, MOST);
	*s = (struct sent){type, id, code, BUF_INIT(1 << 20)};
	buf_put(&s->data, data.data, data.len);
}

/* The next of what was sent, which is for that receiver. */
static inline const struct sent *next_sent(uint32_t type, uint32_t id)
{
	ck_assert_int_lt(nread, nsent);
	ck_assert_uint_eq(sent[nread].type, type);
	ck_assert_uint_eq(sent[nread].id, id);
	return &sent[nread++];
}

static inline void no_more_sent(void)
{
	ck_assert_int_eq(nread, nsent);
}

/* The part of an exchange. */
enum { PART = 100 };

int __wrap_helper_link_start(struct helper_link *l, uv_loop_t *loop,
			     const struct helper_link_events *events,
			     void *owner, struct err *e);
void __wrap_helper_link_send(struct helper_link *l,
			     const struct pmix_frame *f);
void __wrap_helper_link_poll(struct helper_link *l);
int __wrap_helper_link_is_dead(const struct helper_link *l, int *status);
void __wrap_helper_link_close(struct helper_link *l);
int __wrap_pmi_exchange_start(struct pmi_exchange *x, uv_loop_t *loop,
			      const struct pmi_exchange_round *round,
			      const struct pmi_exchange_events *events,
			      struct err *e);
void __wrap_pmi_exchange_begin(struct pmi_exchange *x, struct slice mine);
void __wrap_pmi_exchange_close(struct pmi_exchange *x);
int __wrap_node_mail_start(struct node_mail *m, uv_loop_t *loop,
			   const struct round_client_self *self,
			   uint32_t node_rank,
			   const struct node_mail_events *events, void *owner,
			   struct err *e);
int __wrap_node_mail_send(struct node_mail *m, uint32_t node,
			  struct slice letter, struct err *e);
void __wrap_node_mail_close(struct node_mail *m);

int __wrap_helper_link_start(struct helper_link *l, uv_loop_t *loop,
			     const struct helper_link_events *events,
			     void *owner, struct err *e)
{
	(void)loop;
	*l = (struct helper_link){
		.owner = owner, .events = events, .pid = HELPER_PID};
	return helper_fails ? err_set(e, ERR_SYSTEM, "no helper") : 0;
}

void __wrap_helper_link_send(struct helper_link *l, const struct pmix_frame *f)
{
	struct err e = ERR_INIT;

	if (sending_fails) {
		err_set(&e, ERR_SYSTEM, "no memory for a frame");
		l->events->on_failed(l, &e);
		return;
	}
	keep(f->type, f->id, f->code, f->data);
}

void __wrap_helper_link_poll(struct helper_link *l)
{
	struct pmix_frame f = at_poll;

	at_poll.type = 0;
	if (f.type)
		l->events->on_frame(l, &f);
}

int __wrap_helper_link_is_dead(const struct helper_link *l, int *status)
{
	(void)l;
	*status = helper_status;
	return helper_status != 0;
}

void __wrap_helper_link_close(struct helper_link *l)
{
	(void)l;
	helper_closed++;
}

int __wrap_pmi_exchange_start(struct pmi_exchange *x, uv_loop_t *loop,
			      const struct pmi_exchange_round *round,
			      const struct pmi_exchange_events *events,
			      struct err *e)
{
	(void)loop;
	x->round = *round;
	exchange_events = events;
	return exchange_fails ? err_set(e, ERR_SYSTEM, "no exchange") : 0;
}

void __wrap_pmi_exchange_begin(struct pmi_exchange *x, struct slice mine)
{
	(void)x;
	keep(PART, 0, 0, mine);
}

void __wrap_pmi_exchange_close(struct pmi_exchange *x)
{
	(void)x;
	exchange_closed++;
}

int __wrap_node_mail_start(struct node_mail *m, uv_loop_t *loop,
			   const struct round_client_self *self,
			   uint32_t node_rank,
			   const struct node_mail_events *events, void *owner,
			   struct err *e)
{
	(void)loop;
	*m = (struct node_mail){.owner = owner, .node_rank = node_rank};
	ck_assert_str_eq(self->host, "h0");
	mail_events = events;
	return mail_fails ? err_set(e, ERR_SYSTEM, "no mail") : 0;
}

int __wrap_node_mail_send(struct node_mail *m, uint32_t node,
			  struct slice letter, struct err *e)
{
	(void)m;
	if (sending_fails)
		return err_set(e, ERR_SYSTEM, "no memory for a letter");
	keep(0, node, 0, letter);
	return 0;
}

void __wrap_node_mail_close(struct node_mail *m)
{
	(void)m;
	mail_closed++;
}

/* ---- the agent ---- */

static uv_loop_t loop;
static struct pmix_service *s;
static int ready, failed, aborted[2];
static char why[256], folder[PMIX_JOB_FOLDER_MAX];

static inline void on_ready(void *owner)
{
	ck_assert_ptr_eq(owner, &loop);
	ready++;
}

static inline void on_failed(void *owner, const char *text)
{
	ck_assert_ptr_eq(owner, &loop);
	failed++;
	snprintf(why, sizeof(why), "%s", text);
}

static inline void on_abort_over(void *owner, uint32_t local_rank)
{
	ck_assert_ptr_eq(owner, &loop);
	aborted[local_rank]++;
}

static inline void note_folder(void *owner, const char *path)
{
	ck_assert_ptr_eq(owner, &loop);
	snprintf(folder, sizeof(folder), "%s", path);
}

static const struct pmix_service_events events = {
	.on_ready = on_ready,
	.on_failed = on_failed,
	.on_abort_over = on_abort_over,
	.note_folder = note_folder,
};

static const struct pmi_exchange_round exchange = {
	.name = "MPI", .self = {.job = "job", .host = "h0"}, .nnodes = 2};

/* Ranks 3 and 4 of a world are on this node, node 1. */
static inline struct pmix_job a_job(uint32_t nnodes)
{
	static uint64_t now;
	struct pmix_job j = {.base_rank = nnodes > 1 ? 3 : 0,
			     .nproc = 2,
			     .world_size = nnodes > 1 ? 5 : 2,
			     .node_rank = nnodes > 1,
			     .nnodes = nnodes};

	if (!now) /* a new name in each test */
		now = clock_ns();
	snprintf(j.name, sizeof(j.name), "ddprun_%llx_7",
		 (unsigned long long)now);
	return j;
}

static inline struct err begin(uint32_t nnodes)
{
	struct pmix_job j = a_job(nnodes);
	struct err e = ERR_INIT;

	s = pmix_service_new(&loop, &j, &exchange, &events, &loop, &e);
	return e;
}

static inline int folder_exists(void)
{
	return access(folder, F_OK) == 0;
}

static inline void close_exchange(void)
{
	exchange_events->on_closed(&s->exchange);
}

static inline void close_helper(void)
{
	s->helper.events->on_closed(&s->helper);
}

static inline void close_mail(void)
{
	mail_events->on_closed(&s->mail);
}

/* The round is over: nothing of it is left. */
static inline void end(void)
{
	int nnodes = (int)s->job.nnodes, had_failed = failed;

	pmix_service_close(s);
	pmix_service_close(s);
	ck_assert_int_eq(helper_closed, 1);
	ck_assert_int_eq(exchange_closed, nnodes > 1);
	ck_assert_int_eq(mail_closed, nnodes > 1);
	s->helper.events->on_failed(&s->helper, &(struct err){.text = "late"});
	ck_assert_int_eq(failed, had_failed);
	if (nnodes > 1) {
		close_exchange();
		close_mail();
	}
	close_helper();
	ck_assert(folder_exists());
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert(!folder_exists());
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	for (int i = 0; i < nsent; i++)
		buf_release(&sent[i].data);
}

/* A frame of the helper. */
static inline void say(uint8_t type, uint32_t id, int32_t code,
		       const char *data)
{
	s->helper.events->on_frame(
		&s->helper,
		&(struct pmix_frame){type, id, code, SLICE_STR(data)});
}

static inline void say_ready(void)
{
	static char var[2][16] = {"PMIX_RANK=0", "PMIX_RANK=1"};
	struct buf b = BUF_INIT(1000);

	for (int i = 0; i < 2; i++)
		pmix_vars_put(&b, (char *const[]){var[i], NULL}, NULL, 0);
	s->helper.events->on_frame(
		&s->helper, &(struct pmix_frame){HELPER_READY, 0, 0,
						 SLICE(b.data, b.len)});
	buf_release(&b);
}

static inline void expect_failure(const char *text)
{
	ck_assert_int_eq(failed, 1);
	ck_assert_str_eq(why, text);
}

static inline void expect_data(const struct sent *f, int32_t code,
			       const char *data)
{
	ck_assert_int_eq(f->code, code);
	ck_assert_uint_eq(f->data.len, strlen(data));
	ck_assert_mem_eq(f->data.data, data, strlen(data));
}

/* This node's ranks after the frame, and a helper that serves them. */
static inline void begin_ready(uint32_t nnodes)
{
	begin(nnodes);
	ck_assert_ptr_nonnull(s);
	if (nnodes > 1) {
		struct pmix_job first = a_job(2);
		struct slice parts[2];
		struct buf b = BUF_INIT(1000);

		first.base_rank = first.node_rank = 0;
		first.nproc = 3;
		pmix_job_put_node(&b, &first, "h7");
		parts[0] = SLICE(b.data, b.len);
		parts[1] = SLICE(sent[0].data.data, sent[0].data.len);
		next_sent(PART, 0);
		exchange_events->on_done(&s->exchange, parts);
		buf_release(&b);
	}
	next_sent(HELPER_BEGIN, 0);
	no_more_sent();
	say_ready();
	ck_assert_int_eq(ready, 1);
}

static inline void both_connect(void)
{
	for (uint32_t i = 0; i < s->job.nproc; i++)
		say(HELPER_CONNECTED, s->job.base_rank + i, 0, "");
}

static inline void set_up(void)
{
	ck_assert_int_eq(uv_loop_init(&loop), 0);
}

#endif
