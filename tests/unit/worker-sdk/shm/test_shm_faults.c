/* test_shm_faults.c: a rank of a host is killed or stopped in each phase of
 * each collective: before it called, before its first post, between any two
 * posts, and after its last. The others do all that can be done without it,
 * then fail with the same text. If the victim continues later, it gets the data
 * that was there for it, then the same error, and writes to no other rank. */
#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_faults.h"
#include "tests/unit/worker-sdk/shm/shm_kinds.h"

enum { ROUNDS = 3, NOT_CALLED = -1 };

/* The ranks that end a collective with their last post: they give, and take
 * nothing. CELL: no rank posts, and the root gives by writing a cell. */
enum { NOBODY, ROOT, OTHERS, CELL };

struct row {
	const char *name;
	enum kind kind;
	size_t count, chunk; /* elements of i32; bytes */
	int posts[2];	     /* posts of each rank, with 2 and with 3 ranks */
	int gives;
};

static const struct row rows[] = {
	{"all_reduce in the step's line", ALL_REDUCE, 3, 1 << 20, {1, 1}, 0},
	{"all_reduce, flat", ALL_REDUCE, 3000, 4096, {3, 3}, NOBODY},
	{"all_reduce, in slices", ALL_REDUCE, 9000, 16384, {3, 4}, NOBODY},
	{"reduce, flat", REDUCE, 3000, 4096, {3, 3}, OTHERS},
	{"reduce, in slices", REDUCE, 9000, 16384, {3, 4}, OTHERS},
	{"reduce_scatter", REDUCE_SCATTER, 3000, 4096, {3, 3}, NOBODY},
	{"broadcast, in a cell", BROADCAST, 3, 1 << 20, {0, 0}, CELL},
	{"broadcast, small", BROADCAST, 30, 1 << 20, {1, 1}, ROOT},
	{"broadcast", BROADCAST, 3000, 4096, {3, 3}, ROOT},
	{"all_gather", ALL_GATHER, 3000, 4096, {3, 3}, NOBODY},
	{"gather", GATHER, 3000, 4096, {3, 3}, OTHERS},
	{"scatter", SCATTER, 3000, 4096, {3, 3}, ROOT},
	{"all_to_all", ALL_TO_ALL, 3000, 4096, {3, 3}, NOBODY},
	{"barrier", BARRIER, 0, 1 << 20, {1, 1}, NOBODY},
};

struct fault {
	const struct row *row;
	int root, posts;
	int after; /* number of posts, or NOT_CALLED */
};

/* This rank's actions: the collective, then barriers. */
struct part {
	struct ddp__shm s;
	struct kind_case t;
	struct ddp__call barrier[ROUNDS];
	struct ddp__shm_op op[ROUNDS];
	int at; /* index of the current one */
	uint32_t before; /* step */
};

static int begin(struct part *p, const struct stage *st, const struct fault *f,
		 int me)
{
	if (join(&p->s, &st->g, me))
		return 0;
	p->s.chunk = f->row->chunk;
	p->before = p->s.step;
	p->at = 0;
	kind_init(&p->t, &p->s, f->row->count);
	p->t.kind = f->row->kind;
	p->t.count = f->row->count;
	p->t.to = f->root;
	kind_start(&p->t, &p->op[0], 1);
	for (int i = 1; i < ROUNDS; i++) {
		p->barrier[i] = (struct ddp__call){.kind = DDP__BARRIER,
						   .number = 1u + (unsigned)i};
		ddp__shm_barrier(&p->op[i], &p->s, &p->barrier[i]);
	}
	return 1;
}

/* Whether the victim has not given the cell that the others wait for. */
static int owes_cell(const struct fault *f)
{
	return f->row->gives == CELL && f->root == VICTIM &&
	       f->after == NOT_CALLED;
}

/* Number of posts by the others that rank `me` needs to end the collective. */
static int needs(const struct fault *f, int me)
{
	int gives = f->row->gives == ROOT     ? me == f->root
		    : f->row->gives == OTHERS ? me != f->root
					      : 0;

	return f->row->gives == CELL ? owes_cell(f) : f->posts - gives;
}

static int posted(const struct fault *f)
{
	return f->after == NOT_CALLED ? 0 : f->after;
}

static const struct ddp__call *stuck_in(const struct part *p,
					const struct fault *f)
{
	int first = f->row->gives == CELL ? owes_cell(f)
					  : f->after < f->posts;

	return first ? p->op[0].call : &p->barrier[1];
}

/* Advances as far as possible without waiting: one post more than the
 * victim. */
static int go_as_far(struct part *p, const struct fault *f)
{
	uint32_t last = p->before + (uint32_t)posted(f) + !owes_cell(f);
	struct err e = ERR_INIT;

	while (p->s.step != last) {
		int rc = ddp__shm_advance(&p->op[p->at], &e);

		if (rc < 0)
			return 0;
		p->at += rc;
		if (!rc)
			sched_yield();
	}
	return 1;
}

/* Waits like a rank that also waits for sockets. */
static int run_by_hand(struct ddp__shm_op *op, struct err *e)
{
	uint64_t start = clock_ns();
	int rc = 0;

	while (!rc) {
		rc = ddp__shm_advance(op, e);
		if (!rc)
			rc = ddp__shm_check(op->s, clock_ns() - start, e);
		if (!rc)
			sched_yield();
	}
	return rc < 0 ? rc : 0;
}

static void run_all(struct part *p, struct err *e)
{
	int by_hand = p->s.me > VICTIM;

	while (p->at < ROUNDS && !(by_hand ? run_by_hand(&p->op[p->at], e)
					   : ddp__shm_run(&p->op[p->at], e)))
		p->at++;
}

static int hears(const struct part *p, const struct stage *st,
		 const struct fault *f, const struct err *e)
{
	static const struct ddp__call init = {.kind = DDP__INIT};

	return names_victim(st, e, stuck_in(p, f), "arrived for ",
			    f->after == NOT_CALLED ? &init : p->op[0].call);
}

static int survive(struct stage *st, int me, void *arg)
{
	const struct fault *f = arg;
	struct err e = ERR_INIT;
	struct part p;
	char *was;
	size_t size;

	if (!begin(&p, st, f, me))
		return 1;
	if (st->sig == SIGSTOP) {
		if (!go_as_far(&p, f))
			return 2;
		/* the error names the call that the victim entered last */
		await_fall(st);
		meet_survivors(st);
		p.s.timeout_ms = 1;
	}
	run_all(&p, &e);
	if (p.at != (posted(f) >= needs(f, me)))
		return 3;
	if (!hears(&p, st, f, &e))
		return 4;
	if (p.at && !kind_right(&p.t))
		return 5;
	size = recv_count(&p.t) * 4 + 2 * AROUND;
	was = malloc(size);
	memcpy(was, p.t.raw_b, size);
	outlive_victim(st);
	return memcmp(was, p.t.raw_b, size) ? 6 : 0;
}

/* The victim's stage, and its operation's own work function. */
static const struct stage *falls_on;
static int (*real_work)(struct ddp__shm_op *op);
static int fall_after, fell;

static int fall_at_work(struct ddp__shm_op *op)
{
	if ((int)op->k == fall_after && !fell++)
		fall_here(falls_on);
	return real_work(op);
}

static int fall(struct stage *st, void *arg)
{
	const struct fault *f = arg;
	struct err e = ERR_INIT;
	struct part p;
	int rc;

	if (!begin(&p, st, f, VICTIM))
		return 1;
	falls_on = st;
	fall_after = f->after;
	real_work = p.op[0].work;
	p.op[0].work = fall_at_work;
	if (f->after == NOT_CALLED)
		fall_here(st);
	rc = ddp__shm_run(&p.op[0], &e);
	/* a rank that ends with its last post */
	if (!rc && f->after == f->posts && !fell++)
		fall_here(st);
	/* the victim was stopped, and all others have failed one post later */
	if (posted(f) + 1 >= needs(f, VICTIM)) {
		if (rc || !kind_right(&p.t) || (int)p.op[0].k != f->posts)
			return 2;
		p.at = 1;
		run_all(&p, &e);
	}
	return hears(&p, st, f, &e) ? 0 : 3;
}

enum { ROWS = sizeof(rows) / sizeof(*rows) };

static void each_phase(int row, int n, int root, int sig)
{
	struct fault f = {.row = &rows[row],
			  .root = root,
			  .posts = rows[row].posts[n - 2]};
	struct stage st = {.sig = sig, .survive = survive, .fall = fall};
	char what[128];

	for (f.after = NOT_CALLED; f.after <= f.posts; f.after++) {
		snprintf(what, sizeof(what), "%s, %d ranks, root %d, %s after "
			 "%d posts", f.row->name, n, root,
			 sig == SIGKILL ? "killed" : "stopped", f.after);
		play(&st, n, &f, what);
	}
}

START_TEST(names_a_killed_rank)
{
	each_phase(_i / 4, 2 + _i % 2, _i / 2 % 2, SIGKILL);
}
END_TEST

START_TEST(names_a_stopped_rank_which_then_continues)
{
	each_phase(_i / 4, 2 + _i % 2, _i / 2 % 2, SIGSTOP);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm_faults");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, names_a_killed_rank, 0, 4 * ROWS);
	tcase_add_loop_test(
		tc, names_a_stopped_rank_which_then_continues, 0,
		4 * ROWS);
	return run_case(tc);
}
