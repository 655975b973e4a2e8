/* test_storm.c: thousands of jobs whose nodes come, go, fail and leave in
 * random order. Each is checked against what its agents see, which is only the
 * messages. The order is the same in each run; a failure names the job and the
 * step. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/round/job.h"
#include "tests/unit/run_case.h"

enum { JOBS = 6000, STEPS = 120, AGENTS = 9, HOSTS = 5, RANKS = 64 };

/* An agent's state, as it knows it. */
enum life { ABSENT, WAITS, RUNS, STOPS, LEFT, DONE };

struct agent {
	enum life life;
	struct job_node *node;
	char id[16], host[8], role[8];
	uint32_t nproc;
	int32_t wanted;
	struct wire_start start;
	int exited; /* how many of its first workers exited, with code 0 */
};

struct storm {
	struct job *job;
	uint32_t min, max, max_restarts, restarts, regroups, first_round;
	uint32_t next_id;
	int calling, over, finished; /* the round's finished workers */
	struct agent agents[AGENTS];
};

static struct storm s;
static uint64_t dice;
static int nth_job, nth_step;
static const char *doing;
/* how often each thing happened, to prove that the storm covers it */
static long starts, restarts, regroups, promoted, successes, ends, calls,
	calls_off, refusals, displaced;

#define require(what)                                                         \
	do {                                                                  \
		if (!(what))                                                  \
			ck_abort_msg("job %d, step %d, %s: not %s", nth_job,  \
				     nth_step, doing, #what);                 \
	} while (0)

static uint32_t roll(uint32_t sides)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (uint32_t)(dice >> 32) % sides;
}

static struct agent *any(enum life life)
{
	uint32_t i, at = roll(AGENTS);

	for (i = 0; i < AGENTS; i++)
		if (s.agents[(at + i) % AGENTS].life == life)
			return &s.agents[(at + i) % AGENTS];
	return NULL;
}

static uint32_t count(enum life life, int spare)
{
	uint32_t n = 0;

	for (struct agent *a = s.agents; a < s.agents + AGENTS; a++)
		n += a->life == life && (spare < 0 || spare ==
					 job_node_is_spare(a->node));
	return n;
}

/* ---- checks of START ---- */

static void check_sums(struct agent **by_rank, uint32_t n)
{
	uint32_t i, k, base = 0, role_base, role_world;

	for (i = 0; i < n; base += by_rank[i++]->nproc) {
		require(by_rank[i]->start.base_rank == base);
		role_base = role_world = 0;
		for (k = 0; k < n; k++) {
			if (strcmp(by_rank[k]->role, by_rank[i]->role))
				continue;
			role_base += k < i ? by_rank[k]->nproc : 0;
			role_world += by_rank[k]->nproc;
		}
		require(by_rank[i]->start.role_base_rank == role_base);
		require(by_rank[i]->start.role_world_size == role_world);
	}
	for (i = 0; i < n; i++)
		require(by_rank[i]->start.world_size == base);
	require(job_world_size(s.job) == base);
}

static void take_start(struct agent *a, struct agent **by_rank)
{
	int32_t before = a->exited < 0 ? -1 : (int32_t)a->start.node_rank;

	require(a->life == WAITS);
	a->life = RUNS;
	job_start_for(s.job, a->node, &a->start);
	require(a->start.nnodes <= s.max && a->start.nnodes >= s.min);
	require(a->start.node_rank < a->start.nnodes);
	require(!by_rank[a->start.node_rank]);
	by_rank[a->start.node_rank] = a;
	require(a->start.attempt == s.restarts);
	require(a->start.changes == s.regroups);
	require(a->start.round == s.first_round + s.restarts + s.regroups);
	if (a->wanted >= 0 && (uint32_t)a->wanted < a->start.nnodes)
		require(a->start.node_rank == (uint32_t)a->wanted);
	displaced += before >= 0 && before != (int32_t)a->start.node_rank;
	a->exited = 0;
}

static void told_start(void)
{
	struct agent *by_rank[AGENTS] = {NULL};
	uint32_t n = 0;

	for (struct agent *a = s.agents; a < s.agents + AGENTS; a++) {
		if (a->life == ABSENT || !job_node_runs(a->node))
			continue;
		take_start(a, by_rank);
		n++;
	}
	require(n > 0 && by_rank[0]->start.nnodes == n);
	check_sums(by_rank, n);
	s.calling = s.finished = 0;
	starts++;
}

/* ---- checks of END ---- */

static void told_end(void)
{
	enum wire_verdict v = job_end(s.job)->verdict;
	int again = v == WIRE_RESTART || v == WIRE_REGROUP;
	struct wire_end m;

	require(!s.over);
	require(job_end(s.job)->text.len > 0);
	for (struct agent *a = s.agents; a < s.agents + AGENTS; a++) {
		if (a->life == ABSENT)
			continue;
		if (!job_end_for(s.job, a->node, &m)) {
			require(again && a->life != RUNS);
			continue;
		}
		if (again)
			require(a->life == RUNS || m.verdict == WIRE_ENDED);
		a->life = !again ? DONE :
			  m.verdict == WIRE_ENDED ? LEFT : STOPS;
	}
	s.restarts += v == WIRE_RESTART;
	s.regroups += v == WIRE_REGROUP;
	s.over = !again;
	require(s.restarts <= s.max_restarts);
	require(v != WIRE_RESTART ||
		job_end(s.job)->restarts_left == s.max_restarts - s.restarts);
	restarts += v == WIRE_RESTART;
	regroups += v == WIRE_REGROUP;
	successes += v == WIRE_SUCCESS;
	ends += !again;
}

static void told_call(uint32_t ms)
{
	require(!s.calling && ms == 77 && s.min < s.max);
	s.calling = 1;
	calls++;
}

/* Carries out the job's actions, as the server would. */
static void drain(void)
{
	const struct job_action *a;

	while ((a = job_next_action(s.job))) {
		switch (a->kind) {
		case JOB_TELL_START:
			told_start();
			break;
		case JOB_TELL_END:
			told_end();
			break;
		case JOB_LAST_CALL:
			told_call(a->rank);
			break;
		case JOB_LAST_CALL_OFF:
			require(s.calling);
			s.calling = 0;
			calls_off++;
			break;
		case JOB_RANK_LEFT:
			require(strlen(a->text) > 0);
			break;
		case JOB_CANNOT_START:
			require(0);
			break;
		case JOB_TELL_STATE:
		case JOB_FATE_KNOWN:
		case JOB_TELL_STOP:
			break;
		}
	}
	require(!job_lost_action(s.job));
}

/* ---- invariants after each step ---- */

static void check_nodes(void)
{
	struct job_node *n = NULL;
	uint32_t nodes = 0;

	while ((n = job_next_node(s.job, n))) {
		struct agent *a = job_node_owner(n);

		require(a->node == n && a->life != ABSENT);
		require(job_node_waits(s.job, n) == (a->life == WAITS));
		require(job_node_runs(n) == (a->life == RUNS));
		nodes++;
	}
	require(nodes == AGENTS - count(ABSENT, -1));
}

static void check_state(void)
{
	uint32_t here = count(WAITS, 0), coming = count(STOPS, 0);
	uint32_t spares = count(WAITS, 1), running = count(RUNS, -1);
	struct wire_state m;

	check_nodes();
	if (s.over) {
		require(job_state(s.job) == JOB_OVER);
		return;
	}
	job_state_for(s.job, &m);
	require(m.spares == spares);
	require(m.joined == here + running);
	require((m.last_call_ms == 77) == s.calling);
	require(here + coming + running <= s.max);
	require(!spares || here + coming + running == s.max || s.finished);
	switch (job_state(s.job)) {
	case JOB_GATHERING:
		require(!running && !coming && !spares && here < s.max);
		require(s.calling == (here && here >= s.min));
		break;
	case JOB_RUNNING:
		require(running && !here && !coming);
		break;
	default:
		require(!running && !s.calling);
		require(coming || here < s.min);
		break;
	}
}

/* ---- events ---- */

static int join(struct agent *a)
{
	struct wire_join m = {
		.node_id = SLICE_STR(a->id), .host = SLICE_STR(a->host),
		.addr = SLICE_STR(a->host), .role = SLICE_STR(a->role),
		.node_rank = a->wanted, .min_nodes = s.min,
		.max_nodes = s.max, .nproc = a->nproc,
		.max_restarts = s.max_restarts, .last_call_ms = 77};
	struct err e = ERR_INIT;
	enum life before = a->life;
	int rc;

	/* set before the actions, which concern it as well */
	a->life = WAITS;
	rc = job_join(s.job, &m, a, "h:1", &a->node, &e);
	if (rc < 0) {
		require(e.text[0]);
		a->life = before;
		refusals++;
	}
	return rc;
}

static void come(void)
{
	struct agent *a = any(ABSENT);

	doing = "join";
	if (!a)
		return;
	*a = (struct agent){.nproc = 1 + roll(3), .wanted = -1, .exited = -1};
	snprintf(a->id, sizeof(a->id), "id%u", s.next_id++);
	snprintf(a->host, sizeof(a->host), "h%u", roll(HOSTS));
	snprintf(a->role, sizeof(a->role), "r%u", roll(3));
	if (roll(4) == 0)
		a->wanted = (int32_t)roll(s.max);
	if (join(a) == 0)
		require(!s.over);
	else
		require(s.over || a->wanted >= 0);
}

static void come_back(void)
{
	struct agent *a = any(STOPS);

	doing = "join again";
	if (!a)
		return;
	a->nproc = 1 + roll(3);
	require(join(a) == 0);
}

/* An agent that has joined already joins again. */
static void join_twice(void)
{
	struct agent *a = any(roll(2) ? WAITS : RUNS);

	doing = "join twice";
	if (a)
		require(join(a) < 0);
}

static struct agent *anybody(void)
{
	struct agent *a = &s.agents[roll(AGENTS)];

	return a->life == ABSENT ? NULL : a;
}

static void lose(void)
{
	struct agent *a = anybody();
	uint32_t spares = count(WAITS, 1);

	doing = "lost";
	if (!a)
		return;
	a->life = ABSENT;
	job_lost(s.job, a->node, "gone");
	drain();
	promoted += count(WAITS, 1) < spares;
}

static void leave(void)
{
	struct wire_leave m = {15, SLICE_STR("")};
	struct agent *a = anybody();

	doing = "leave";
	if (!a)
		return;
	/* if it runs, it is notified only when the round ends */
	if (a->life == WAITS || a->life == STOPS)
		a->life = LEFT;
	job_leave(s.job, a->node, &m);
}

/* An agent's workers exit in order: the next one, or one again. */
static void exit_worker(int code)
{
	struct agent *a = any(RUNS);
	struct wire_exited m = {.code = code, .pid = 1};
	struct err e = ERR_INIT;

	doing = code ? "exit 1" : "exit 0";
	if (!a || (uint32_t)a->exited == a->nproc)
		return;
	m.round = a->start.round;
	m.rank = a->start.base_rank + (uint32_t)a->exited++;
	s.finished = 1;
	require(job_exited(s.job, a->node, &m, &e) == 0);
	drain();
	require(!code || a->life != RUNS);
}

/* An exit of the last round, or of a much older one. */
static void exit_late(void)
{
	struct agent *a = any(roll(2) ? STOPS : RUNS);
	struct wire_exited m = {.code = 1, .pid = 1};

	doing = "late exit";
	if (!a)
		return;
	m.round = a->start.round - (a->life == RUNS);
	m.rank = a->start.base_rank;
	require(job_exited(s.job, a->node, &m, NULL) == 0);
	require(!job_next_action(s.job));
}

static void fail_to_start(void)
{
	struct wire_failed m = {0, 9, SLICE_STR("no")};
	struct agent *a = any(RUNS);

	doing = "failed";
	if (!a || roll(12))
		return;
	m.round = a->start.round;
	job_failed(s.job, a->node, &m);
	drain();
	require(s.over && job_end(s.job)->exit_code == 9);
}

static void last_call(void)
{
	int called = s.calling;

	doing = "last call";
	job_last_call(s.job);
	drain();
	require(!called || job_state(s.job) == JOB_RUNNING);
}

static void step(void)
{
	uint32_t what = roll(100);

	if (what < 28)
		come();
	else if (what < 60)
		come_back();
	else if (what < 66)
		lose();
	else if (what < 69)
		leave();
	else if (what < 86)
		exit_worker(0);
	else if (what < 90)
		exit_worker(1);
	else if (what < 93)
		exit_late();
	else if (what < 95)
		fail_to_start();
	else if (what < 97)
		join_twice();
	else
		last_call();
	drain();
	check_state();
}

static void run_job(int i)
{
	nth_job = i;
	memset(&s, 0, sizeof(s));
	s.max = 1 + roll(5);
	s.min = 1 + roll(s.max);
	s.max_restarts = roll(4);
	s.first_round = roll(3);
	s.job = job_new(SLICE_STR("storm"), s.first_round);
	for (nth_step = 0; nth_step < STEPS && !s.over; nth_step++)
		step();
	for (; roll(8) && nth_step < 2 * STEPS; nth_step++)
		step();
	for (struct agent *a = s.agents; a < s.agents + AGENTS; a++) {
		if (a->life == ABSENT)
			continue;
		a->life = ABSENT;
		job_lost(s.job, a->node, "the end");
		drain();
		check_state();
	}
	require(job_is_empty(s.job));
	job_free(s.job);
}

START_TEST(any_order_of_events_leaves_a_job_whole)
{
	dice = 88172645463325252u;
	for (int i = 0; i < JOBS; i++)
		run_job(i);
	doing = "all";
	require(starts > JOBS && ends > JOBS / 2 && successes > JOBS / 50);
	require(restarts > JOBS / 10 && regroups > JOBS / 4);
	require(promoted > JOBS / 20 && refusals > JOBS / 2);
	require(calls > JOBS / 4 && calls_off > JOBS / 50);
	require(displaced > JOBS / 50);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("storm");

	tcase_set_timeout(c, 120);
	tcase_add_test(c, any_order_of_events_leaves_a_job_whole);
	return run_case(c);
}
