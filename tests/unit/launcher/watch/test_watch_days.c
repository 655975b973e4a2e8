/* test_watch_days.c: whole days of jobs, on a clock that the test sets: the
 * counters of four ranks on two hosts in, through the code that classifies them
 * and the code that decides about lines. Healthy jobs get no alarm; the same
 * jobs with a rank that hangs do. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/watch/activity.h"
#include "launcher/watch/mpi_wait.h"
#include "rendezvous/stall/stall.h"
#include "tests/unit/run_case.h"

enum {
	RANKS = 4,
	PATIENCE = 30000,
	TICK = 1000,	  /* ms, as in watch.c */
	REPORT_TICKS = 5, /* as in watch.c */
	HANG_LIMIT = 300000, /* --hang-timeout */
	FOUND_IN = 40000,
	PARTS = 8,
	SEEDS = 1, /* days of each kind of job */
	DAY = 86400000,
};

enum how {
	CALLS, /* in libddp */
	TORCH, /* neither calls nor steps: ranks wait for each other in poll */
	SPINS, /* the same, as NCCL: they wait at 100 % CPU */
	MPI,   /* the same, and agents look at the stacks */
	UNSURE, /* the same, but a kernel that does not tell of returns */
	STEPS, /* in a step file; they wait in poll */
	HOWS
};

/* What a rank does for a while, from one step to the next. */
enum act { COMPUTE, READ, WRITE, FLUSH, COMPILE, SLEEP, STOP, CHURN, FORK };

struct part {
	enum act act;
	uint64_t ms; /* UINT64_MAX: for ever */
};

struct rank {
	struct part parts[PARTS];
	int n;
	uint64_t arrives; /* at the next collective */
	struct activity_sample at;
	struct activity activity;
	enum wire_doing reported;
	uint64_t sampled; /* ms */
	struct mpi_wait mpi;
	uint64_t looked, wakes; /* the call at the last look of MPI */
};

static struct {
	enum how how;
	uint64_t now, random;
	uint64_t call;	  /* collectives so far */
	uint64_t released; /* when the last one ended */
	uint64_t ticks;
	int culprit; /* -1: the job is healthy */
	uint64_t failed; /* when it began to hang; 0: not yet */
	struct rank ranks[RANKS];
	struct stall stall;
	struct stall_news line; /* the first about the culprit */
	uint64_t learned[RANK_DOINGS];
	unsigned waits;		/* lines that only say who is waited for */
} sim;

static uint64_t sim_random(uint64_t n)
{
	sim.random = sim.random * UINT64_C(6364136223846793005) +
		     UINT64_C(1442695040888963407);
	return (sim.random >> 33) % n;
}

static const char *sim_host(void *arg, uint32_t rank)
{
	return rank < 2 ? "h1" : "h2";
}

/* ---- what a rank does ---- */

static void sim_add(int rank, enum act act, uint64_t ms)
{
	struct rank *r = &sim.ranks[rank];

	ck_assert_int_lt(r->n, PARTS);
	r->parts[r->n++] = (struct part){act, ms};
}

/* Counters after that time of it. */
static void sim_grow(struct activity_sample *s, enum act act, uint64_t ms)
{
	static const struct {
		char state;
		int cpu, faults; /* percent; in a second */
		int reads, writes; /* MB in a second */
		int forks;
		const char *in;
	} table[] = {
		[COMPUTE] = {'R', 99, 2, 0, 0, 0, ""},
		[READ] = {'R', 40, 10, 200, 0, 0, ""},
		[WRITE] = {'R', 30, 5, 0, 150, 0, ""},
		[FLUSH] = {'D', 0, 0, 0, 0, 0, "folio_wait_bit_common"},
		[COMPILE] = {'R', 98, 2000, 1, 0, 1, ""},
		[SLEEP] = {'S', 0, 0, 0, 0, 0, "hrtimer_nanosleep"},
		[STOP] = {'T', 0, 0, 0, 0, 0, "do_signal_stop"},
		[CHURN] = {'R', 99, 9000, 0, 0, 0, ""},
		[FORK] = {'S', 10, 500, 0, 0, 1, "do_wait"},
	};

	s->state = table[act].state;
	s->syncs = act == FLUSH;
	s->cpu_ms += ms * (uint64_t)table[act].cpu / 100;
	s->faults += ms * (uint64_t)table[act].faults / 1000;
	s->io_bytes += ms * 1000 *
		       (uint64_t)(table[act].reads + table[act].writes);
	s->written += ms * 1000 * (uint64_t)table[act].writes;
	s->processes += ms / 700 * (uint64_t)table[act].forks;
	snprintf(s->sleeps_in, sizeof(s->sleeps_in), "%s", table[act].in);
}

static int sim_spins(void)
{
	return sim.how == SPINS || sim.how == MPI || sim.how == UNSURE;
}

static void sim_wait(struct activity_sample *s, uint64_t ms)
{
	s->state = sim_spins() ? 'R' : 'S';
	s->syncs = 0;
	s->cpu_ms += sim_spins() ? ms : ms / 1000;
	snprintf(s->sleeps_in, sizeof(s->sleeps_in), "%s",
		 sim_spins() ? "" : "poll_schedule_timeout");
}

/* Brings the counters of a rank to this time, which is before the collective
 * ends. */
static void sim_advance(struct rank *r, uint64_t now)
{
	uint64_t at = sim.released;

	for (int i = 0; i < r->n; i++) {
		uint64_t ends = r->parts[i].ms == UINT64_MAX
					? UINT64_MAX
					: at + r->parts[i].ms;
		uint64_t from = at > r->sampled ? at : r->sampled;
		uint64_t to = ends < now ? ends : now;

		if (to > from)
			sim_grow(&r->at, r->parts[i].act, to - from);
		at = ends;
		if (at >= now)
			break;
	}
	if (now >= r->arrives)
		sim_wait(&r->at, now - (r->arrives > r->sampled ? r->arrives
								: r->sampled));
	r->at.in_call = sim.how == CALLS && now >= r->arrives;
	if (sim.how == CALLS) {
		r->at.calls = sim.call + (uint64_t)r->at.in_call;
		r->at.call_ns = (r->at.in_call ? r->arrives : sim.released) *
				1000000;
	} else if (sim.how == STEPS) {
		r->at.step = (int64_t)sim.call;
	}
	r->sampled = now;
}

/* ---- the agents and the server ---- */

static void sim_report(uint32_t i)
{
	struct rank *r = &sim.ranks[i];
	int waits = sim.how == TORCH && r->sampled >= r->arrives;
	char words[ACTIVITY_WORDS_MAX + 64], mpi[ACTIVITY_WORDS_MAX];
	uint64_t since_ns = r->activity.since_ns;
	int in_mpi = mpi_wait_words(&r->mpi, &r->activity, mpi, &since_ns);
	struct wire_rank w = {
		.rank = i,
		.local_rank = i % 2,
		.pid = 100 + i,
		.doing = (uint8_t)r->activity.doing,
		.quiet_ms = activity_quiet_ms(&r->activity, r->at.ns),
		.does_ms = (r->at.ns - since_ns) / 1000000,
		.world = sim.how == CALLS ? r->at.calls : 0,
		.number = r->at.in_call ? r->at.calls : 0,
		.peer = -1,
		.step = r->at.step,
		.call = SLICE_STR(sim.how == CALLS ? "all_reduce"
				  : in_mpi	   ? r->mpi.last.call
						   : ""),
	};

	snprintf(words, sizeof(words), "%s%s", mpi,
		 waits ? " in train.py:9 step() (torch.distributed: all_reduce)"
		       : "");
	w.words = SLICE_STR(words);

	r->reported = r->activity.doing;
	ck_assert_int_eq(stall_set(&sim.stall, &w), 0);
}

/* A rank that computes is woken all the time. */
static void sim_look_mpi(struct rank *r)
{
	struct mpi_look l = {.pid = (pid_t)r->at.pid, .returns = 1};
	enum mpi_since since = r->looked == sim.call ? MPI_SAME : MPI_RETURNED;

	snprintf(l.call, sizeof(l.call), "%s",
		 r->sampled >= r->arrives ? "MPI_Allreduce" : "-");
	snprintf(l.where, sizeof(l.where), "-");
	r->wakes += r->at.state == 'R' || r->looked != sim.call;
	mpi_wait_add(&r->mpi, &l, sim.how == UNSURE ? MPI_UNKNOWN : since,
		     r->wakes, r->wakes, r->at.ns);
	r->looked = sim.call;
}

/* The rank that arrives last. */
static uint32_t sim_latest(void)
{
	uint32_t found = 0;

	for (uint32_t i = 1; i < RANKS; i++)
		if (sim.ranks[i].arrives > sim.ranks[found].arrives)
			found = i;
	return found;
}

static int sim_is_work(const struct stall_news *news)
{
	return news->doing == RANK_WORKS || news->doing == RANK_LOADS ||
	       news->doing == RANK_STARTS;
}

static void sim_judge(void)
{
	struct stall_news news;

	stall_check(&sim.stall, &news);
	if (!news.is_stalled || news.is_over)
		return;
	if (sim.failed && (int)news.rank == sim.culprit) {
		if (news.show && !sim.line.show) {
			sim.line = news;
			memcpy(sim.learned, sim.stall.learned_ms,
			       sizeof(sim.learned));
		}
		return;
	}
	ck_assert_msg(sim_is_work(&news) || news.ms < HANG_LIMIT,
		      "--hang-timeout would end it: %s", news.text);
	if (!news.show)
		return;
	ck_assert_msg(!strncmp(news.text, "waiting for ", 12),
		      "false alarm after %llu s: %s",
		      (unsigned long long)sim.now / 1000, news.text);
	if (sim.how == CALLS)
		ck_assert_uint_eq(news.rank, sim_latest());
	sim.waits++;
}

static void sim_tick(void)
{
	int is_news[2] = {0, 0};

	sim.ticks++;
	for (uint32_t i = 0; i < RANKS; i++) {
		struct rank *r = &sim.ranks[i];

		sim_advance(r, sim.now);
		r->at.ns = sim.now * 1000000;
		activity_add(&r->activity, &r->at);
		if ((sim.how == MPI || sim.how == UNSURE) &&
		    sim.ticks % MPI_WAIT_TICKS == 0)
			sim_look_mpi(r);
		is_news[i / 2] |= r->activity.doing != r->reported &&
				  activity_quiet_ms(&r->activity, r->at.ns) >
					  2 * TICK;
	}
	for (uint32_t host = 0; host < 2; host++) {
		/* the hosts do not report at the same time */
		if ((sim.ticks + 2 * host) % REPORT_TICKS && !is_news[host])
			continue;
		for (uint32_t i = 2 * host; i < 2 * host + 2; i++)
			sim_report(i);
		sim_judge();
	}
}

/* ---- the job ---- */

static void sim_begin(enum how how, uint64_t seed, int culprit)
{
	memset(&sim, 0, sizeof(sim));
	sim.how = how;
	sim.random = seed;
	sim.culprit = culprit;
	sim.now = 1000000;
	sim.released = sim.now;
	ck_assert_int_eq(stall_init(&sim.stall, RANKS, PATIENCE), 0);
	sim.stall.host = sim_host;
	for (uint32_t i = 0; i < RANKS; i++) {
		struct rank *r = &sim.ranks[i];

		r->sampled = sim.now;
		r->at.step = -1;
		r->at.pid = 100 + i;
		r->at.processes = (uint64_t)r->at.pid;
		activity_init(&r->activity, (uint64_t)TICK * 1000000,
			      sim.now * 1000000);
	}
}

/* All ranks do their parts, and then meet. Returns 0 once the culprit hangs and
 * has had its time. */
static int sim_meet(void)
{
	uint64_t last = 0, end;

	for (int i = 0; i < RANKS; i++) {
		struct rank *r = &sim.ranks[i];

		r->arrives = sim.released;
		for (int k = 0; k < r->n && r->arrives != UINT64_MAX; k++)
			r->arrives = r->parts[k].ms == UINT64_MAX
					     ? UINT64_MAX
					     : r->arrives + r->parts[k].ms;
		if (r->arrives > last)
			last = r->arrives;
	}
	end = last == UINT64_MAX ? sim.failed + 5 * FOUND_IN : last + 1;
	for (; sim.now + TICK < end; sim_tick())
		sim.now += TICK;
	for (int i = 0; i < RANKS && last != UINT64_MAX; i++) {
		sim_advance(&sim.ranks[i], end);
		sim.ranks[i].n = 0;
	}
	sim.released = end;
	sim.call++;
	return last != UINT64_MAX;
}

/* Not all ranks take the same time. */
static void sim_all(enum act act, uint64_t least, uint64_t more)
{
	for (int i = 0; i < RANKS; i++)
		sim_add(i, act, least + sim_random(more + 1));
}

static void sim_step(uint64_t n)
{
	sim_all(COMPUTE, 150, 200);
	if (n % 50 == 7) /* a loader is late */
		sim_add((int)sim_random(RANKS), SLEEP, 500 + sim_random(9000));
	if (n % 9000 == 4500) { /* a checkpoint of a minute */
		sim_add(0, COMPUTE, 5000 + sim_random(5000));
		sim_add(0, WRITE, 40000 + sim_random(15000));
		sim_add(0, FLUSH, 3000);
	}
	if (n % 12000 == 11000) { /* evaluation, of different lengths */
		sim_all(COMPUTE, 40000, 20000);
		sim_add(0, READ, sim_random(4000));
	}
	if (n % 60000 == 30000) { /* new shapes: they compile */
		sim_all(COMPILE, 20000, 5000);
		sim_add((int)sim_random(RANKS), COMPILE, 45000);
	}
}

/* Imports, a data set that rank 0 prepares for minutes, compilation. */
static void sim_start(void)
{
	sim_all(READ, 5000, 15000);
	sim_all(COMPILE, 10000, 30000);
	sim_meet();
	sim_add(0, READ, 200000);
	sim_all(COMPUTE, 100, 100);
	sim_meet();
}

static void sim_run(uint64_t ms)
{
	uint64_t end = sim.now + ms;

	for (uint64_t n = 0; sim.now < end; n++) {
		sim_step(n);
		sim_meet();
	}
}

/* ---- the tests ---- */

START_TEST(days_of_healthy_jobs_give_no_alarm)
{
	enum how how = (enum how)(_i / SEEDS);

	sim_begin(how, (uint64_t)_i + 1, -1);
	sim_start();
	sim_run(DAY);
	/* a rank that loads, computes or compiles for longer than any did
	 * before is named */
	ck_assert_uint_le(sim.waits, how == SPINS || how == UNSURE ? 0 : 12);
	stall_release(&sim.stall);
}
END_TEST

static const enum act hangs[] = {SLEEP, STOP, COMPUTE, READ, CHURN, FORK};
enum { HANGS = sizeof(hangs) / sizeof(*hangs) };

/* Two hours in: there have been checkpoints, evaluations and compilations. */
static void sim_hang(enum how how, enum act act)
{
	sim_begin(how, (uint64_t)act + 1, 2);
	sim_start();
	sim_run(2 * 3600000);
	sim.failed = sim.released;
	sim_all(COMPUTE, 100, 100);
	sim_add(2, act, UINT64_MAX);
	sim_meet();
	ck_assert_msg(sim.line.show, "silent: act %d", act);
	stall_release(&sim.stall);
}

START_TEST(a_rank_that_hangs_after_hours_is_found_in_time)
{
	enum act act = hangs[_i];
	int works = act == COMPUTE || act == READ || act == CHURN ||
		    act == FORK;
	uint64_t learned;

	sim_hang(CALLS, act);
	ck_assert_uint_eq(sim.line.rank, 2);
	learned = sim.learned[sim.line.doing];
	ck_assert_uint_le(sim.line.ms, works && learned > PATIENCE
					       ? 2 * learned + 6 * TICK
					       : FOUND_IN);
	ck_assert_int_eq(!strncmp(sim.line.text, "waiting", 7), works);
}
END_TEST

/* Before anything was learnt. */
START_TEST(a_rank_that_hangs_early_is_found_in_time)
{
	sim_begin(CALLS, 9, 2);
	sim_all(COMPUTE, 3000, 1000);
	sim_meet();
	sim.failed = sim.released;
	sim_all(COMPUTE, 100, 100);
	sim_add(2, hangs[_i], UINT64_MAX);
	sim_meet();
	ck_assert(sim.line.show);
	ck_assert_uint_eq(sim.line.rank, 2);
	ck_assert_uint_le(sim.line.ms, FOUND_IN);
	stall_release(&sim.stall);
}
END_TEST

START_TEST(a_rank_of_torch_that_hangs_early_is_found_in_time)
{
	sim_begin(TORCH, 9, 2);
	sim_all(COMPUTE, 30000, 1000);
	sim_meet();
	sim.failed = sim.released;
	sim_all(COMPUTE, 100, 100);
	sim_add(2, hangs[_i], UINT64_MAX);
	sim_meet();
	ck_assert(sim.line.show);
	ck_assert_uint_le(sim.line.ms, FOUND_IN);
	stall_release(&sim.stall);
}
END_TEST

START_TEST(a_rank_that_hangs_while_others_poll_in_mpi_is_found)
{
	static const struct {
		enum how how;
		enum act act;
	} cases[] = {{MPI, SLEEP}, {MPI, STOP}, {MPI, COMPUTE},
		     {UNSURE, SLEEP}, {UNSURE, STOP}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		sim_hang(cases[i].how, cases[i].act);
		ck_assert_uint_eq(sim.line.rank, 2);
		ck_assert_int_eq(!strncmp(sim.line.text, "waiting", 7),
				 cases[i].act == COMPUTE);
		if (cases[i].act != COMPUTE)
			ck_assert_uint_le(sim.line.ms, FOUND_IN);
	}
}
END_TEST

START_TEST(a_rank_without_calls_that_sleeps_is_found_if_all_are_idle)
{
	sim_hang(TORCH, SLEEP);
	ck_assert_uint_le(sim.line.ms, FOUND_IN);
	sim_hang(STEPS, SLEEP);
	ck_assert_uint_le(sim.line.ms, FOUND_IN);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("watch_days");

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, days_of_healthy_jobs_give_no_alarm, 0,
			    HOWS * SEEDS);
	tcase_add_loop_test(c, a_rank_that_hangs_after_hours_is_found_in_time,
			    0, HANGS);
	tcase_add_loop_test(c, a_rank_that_hangs_early_is_found_in_time, 0,
			    HANGS);
	tcase_add_loop_test(
		c, a_rank_of_torch_that_hangs_early_is_found_in_time, 0, HANGS);
	tcase_add_test(c,
		       a_rank_that_hangs_while_others_poll_in_mpi_is_found);
	tcase_add_test(
		c, a_rank_without_calls_that_sleeps_is_found_if_all_are_idle);
	return run_case(c);
}
