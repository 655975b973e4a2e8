/* rounds.h: for tests of rounds: a job, nodes that join it, events, and counts
 * of the actions that the job wants. */
#ifndef TESTS_UNIT_ROUNDS_H
#define TESTS_UNIT_ROUNDS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/round/job.h"
#include "rendezvous/round/job_internal.h"

enum { NODES = 8 };

static struct job *j;
static struct err e;
static struct job_node *node[NODES];
/* actions since the last event */
static int states, starts, ends, calls_off;
static uint32_t call_ms; /* the last call's; 0: none */
static char left_text[512];
static int fates;
static struct { void *who; char text[512]; } fate[8];

static inline void begin(void)
{
	j = job_new(SLICE_STR("none"), 0);
	memset(node, 0, sizeof(node));
	e = (struct err)ERR_INIT;
}

static inline void end(void)
{
	job_free(j);
}

/* As after a server's death: the job is loaded from its bytes, and each node
 * has come back. Not while a request waits for a fate: its client would repeat
 * it. */
static inline void reload(void)
{
	struct buf bytes = BUF_INIT(1 << 26), again = BUF_INIT(1 << 26);
	struct job_node *n;
	struct job *copy;

	for (uint32_t i = 0; j->ranks && i < j->world_size; i++)
		if (j->ranks[i].fates)
			return;
	job_save(j, &bytes);
	ck_assert_int_eq(bytes.failed, 0);
	copy = job_load(SLICE(bytes.data, bytes.len));
	ck_assert_ptr_nonnull(copy);
	job_save(copy, &again);
	ck_assert_uint_eq(bytes.len, again.len);
	ck_assert_mem_eq(bytes.data, again.data, bytes.len);
	for (n = j->nodes; n; n = n->next) {
		struct job_node *to = job_find_node(copy, job_node_id(n));

		ck_assert_ptr_nonnull(to);
		job_node_own(to, job_node_owner(n));
		for (int i = 0; i < NODES; i++)
			if (node[i] == n)
				node[i] = to;
	}
	job_free(j);
	j = copy;
	buf_release(&bytes);
	buf_release(&again);
}

static inline void drain(void)
{
	const struct job_action *a;

	states = starts = ends = fates = calls_off = 0;
	call_ms = 0;
	left_text[0] = '\0';
	while ((a = job_next_action(j))) {
		states += a->kind == JOB_TELL_STATE;
		starts += a->kind == JOB_TELL_START;
		ends += a->kind == JOB_TELL_END;
		calls_off += a->kind == JOB_LAST_CALL_OFF;
		if (a->kind == JOB_LAST_CALL)
			call_ms = a->rank;
		if (a->kind == JOB_RANK_LEFT)
			snprintf(left_text, sizeof(left_text), "%s", a->text);
		if (a->kind == JOB_FATE_KNOWN) {
			fate[fates].who = a->fate->owner;
			snprintf(fate[fates++].text, sizeof(fate[0].text), "%s",
				 a->text);
		}
	}
#ifdef THROUGH_BYTES
	reload();
#endif
}

/* How node i, "hI", joins a job of nnodes. */
struct how {
	int rank;     /* --node-rank plus 1, so that 0 is "any" */
	uint32_t nproc;
	uint32_t restarts;
	int hosts_server;
	const char *addr, *id, *host, *role;
	uint32_t min; /* 0: nnodes */
	uint32_t last_call, lease;
	uint32_t no_progress, swap_after, backoff;
	uint64_t steps;
	struct slice alike;
};

static inline int join(int i, uint32_t nnodes, struct how h)
{
	char name[16], addr[24];
	struct wire_join m;
	int rc;

	snprintf(name, sizeof(name), "h%d", i);
	snprintf(addr, sizeof(addr), "10.0.0.%d", i);
	m = (struct wire_join){
		.node_id = SLICE_STR(h.id ? h.id : name),
		.host = SLICE_STR(h.host ? h.host : name),
		.addr = SLICE_STR(h.addr ? h.addr : addr),
		.master_port = (uint16_t)(40000 + i),
		.hosts_server = (uint8_t)h.hosts_server,
		.node_rank = h.rank - 1,
		.min_nodes = h.min ? h.min : nnodes, .max_nodes = nnodes,
		.role = SLICE_STR(h.role ? h.role : "default"),
		.last_call_ms = h.last_call, .lease_ms = h.lease,
		.nproc = h.nproc ? h.nproc : 1,
		.max_restarts = h.restarts,
		.max_no_progress = h.no_progress,
		.swap_after = h.swap_after,
		.backoff_ms = h.backoff, .steps = h.steps, .alike = h.alike,
	};
	rc = job_join(j, &m, &node[i], "h0:29400", &node[i], &e);
	drain();
	return rc;
}

static inline int join_plain(int i, uint32_t nnodes)
{
	return join(i, nnodes, (struct how){0});
}

static inline int exited(int i, uint32_t rank, int code, int signal)
{
	struct wire_exited m = {.round = job_round(j), .rank = rank,
				.local_rank = rank % 2, .pid = 4711,
				.code = code, .signal = signal, .ran_ms = 5,
				.tail = SLICE_STR("last words")};
	int rc = job_exited(j, node[i], &m, &e);

	drain();
	return rc;
}

static inline void lost(int i, const char *why)
{
	job_lost(j, node[i], why);
	node[i] = NULL;
	drain();
}

static inline void leave(int i, int signal)
{
	struct wire_leave m = {signal, SLICE_STR("bye")};

	job_leave(j, node[i], &m);
	drain();
}

static inline void last_call(void)
{
	job_last_call(j);
	drain();
}

static inline int is_spare(int i)
{
	return job_node_is_spare(node[i]);
}

static inline struct wire_start start_of(int i)
{
	struct wire_start m;

	job_start_for(j, node[i], &m);
	return m;
}

static inline void has_rank(int i, uint32_t node_rank, uint32_t base)
{
	struct wire_start m = start_of(i);

	ck_assert_uint_eq(m.node_rank, node_rank);
	ck_assert_uint_eq(m.base_rank, base);
}

static inline void ended(enum wire_verdict verdict, int exit_code,
			 const char *text)
{
	const struct wire_end *m = job_end(j);
	char got[1024];

	ck_assert_int_eq(ends, 1);
	snprintf(got, sizeof(got), "%.*s", SLICE_FMT(m->text));
	ck_assert_str_eq(got, text);
	ck_assert_int_eq(m->verdict, verdict);
	ck_assert_int_eq(m->exit_code, exit_code);
}

static inline const char *state_text(void)
{
	static char text[256];
	struct wire_state m;

	job_state_for(j, &m);
	snprintf(text, sizeof(text), "%u of %u: %.*s", m.joined, m.max_nodes,
		 SLICE_FMT(m.missing));
	return text;
}

#endif
