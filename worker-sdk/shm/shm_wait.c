/* shm_wait.c: waits for the other ranks of a host: spins, then sleeps, and
 * finds out why a rank does not arrive. */
#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "worker-sdk/shm/shm.h"

enum {
	/* asleep: how often to check that peers are alive, first and later */
	LOOK_FIRST_MS = 4,
	LOOK_MS = 100,
	WHY_MS = 2000, /* time in which a rank copies a text of a kilobyte */
	LOOKS_MAX = 32 /* peers checked each time */
};

/* A waiter spins first: waking a sleeper costs 2 us on the same CPU and 60 to
 * 80 us on an idle one (measured on the test machine). With a CPU for each rank
 * it pauses for PAUSE_NS, then also yields, in case another process wants the
 * CPU, until SPIN_NS. With fewer CPUs the awaited rank may need this one: the
 * waiter yields almost at once, and immediately if that rank last ran here. */
#define PAUSE_NS 50000u
#define SPIN_NS 1000000u
#define CROWD_PAUSE_NS 500u
#define CROWD_SPIN_NS 100000u
#define MOVE_NS 5000000u
#define MOVE_MOST_NS 2000000000u

static long futex(_Atomic uint32_t *word, int op, uint32_t value,
		  const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

void ddp__shm_wake(_Atomic uint32_t *word)
{
	futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

void ddp__shm_sleep(_Atomic uint32_t *word, uint32_t value, int ms)
{
	struct timespec timeout = {ms / 1000, ms % 1000 * 1000000};

	futex(word, FUTEX_WAIT, value, &timeout);
}

/* Field 3 (state) and 22 (start time) of the first thread's stat; 0 if there is
 * no such process or it is a zombie. Not of /proc/PID/stat, which qemu-user
 * replaces with numbers of its own if PID is the reader: a rank and its peers
 * would read different start times. */
uint64_t ddp__process_start(int64_t pid)
{
	char path[64], text[1024], *p, state = 'Z';
	unsigned long long start_time = 0;
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%lld/task/%lld/stat",
		 (long long)pid, (long long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	/* the name, field 2, may contain any character: start at the last
	 * bracket */
	p = strrchr(text, ')');
	if (!p ||
	    sscanf(p + 1,
		   " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		   "%*s %*s %*s %*s %*s %llu",
		   &state, &start_time) != 2 ||
	    state == 'Z' || state == 'X')
		return 0;
	return start_time;
}

static inline int wait_has_posted(struct ddp__shm *s, int i)
{
	uint32_t step = atomic_load_explicit(&ddp__shm_control(s, i)->step,
					     memory_order_acquire);

	return (int32_t)(step - s->step) >= 0;
}

/* 1 if the awaited step or cell of rank i is there. */
static int wait_is_over(struct ddp__shm *s, int i)
{
	if (s->cell)
		return i != s->cell_from || ddp__shm_cell_there(s);
	return wait_has_posted(s, i);
}

static const struct ddp__call *wait_call(const struct ddp__shm *s)
{
	return s->cell ? s->cell_call : &s->call;
}

/* There is a CPU for each rank, but another rank is on this one. The scheduler
 * leaves two ranks that yield or wake each other there for seconds (measured:
 * 2.7 us a step instead of 0.1, half the speed from 1 MiB on). So this rank
 * moves to a CPU where no rank was, and at once allows all CPUs again. If other
 * programs use the CPUs, this does not last and only costs time (a trainer's
 * epoch: 0.20 s instead of 0.15): so the interval doubles each time that the
 * rank soon has to move again. */
static void wait_move_cpu(struct ddp__shm *s)
{
	uint64_t now = clock_ns();
	cpu_set_t all, some;

	if (now - s->moved < s->move_ns ||
	    sched_getaffinity(0, sizeof(all), &all))
		return;
	if (!s->move_ns || now - s->moved > 16 * s->move_ns)
		s->move_ns = MOVE_NS;
	else if (s->move_ns < MOVE_MOST_NS)
		s->move_ns *= 2;
	s->moved = now;
	some = all;
	for (int i = 0; i < s->n; i++) {
		uint32_t cpu = atomic_load_explicit(
			&ddp__shm_control(s, i)->cpu, memory_order_relaxed);

		if (cpu < CPU_SETSIZE)
			CPU_CLR(cpu, &some);
	}
	CPU_CLR(sched_getcpu(), &some);
	if (CPU_COUNT(&some) && !sched_setaffinity(0, sizeof(some), &some))
		sched_setaffinity(0, sizeof(all), &all);
}

int ddp__shm_patience(struct ddp__shm *s, int i, uint64_t start)
{
	uint64_t pause = s->spins ? PAUSE_NS : CROWD_PAUSE_NS;
	uint64_t limit = s->spins ? SPIN_NS : CROWD_SPIN_NS;
	uint64_t waited = clock_ns() - start;
	int same;

	if (waited > limit)
		return 0;
	same = atomic_load_explicit(&ddp__shm_control(s, i)->cpu,
				    memory_order_relaxed) ==
	       (uint32_t)sched_getcpu();
	if (same && s->spins && s->me > i)
		wait_move_cpu(s);
	if (same || waited > pause)
		sched_yield();
	return 1;
}

static int wait_spin(struct ddp__shm *s, int i, uint64_t start)
{
	do {
		for (int k = 0; k < 32; k++) {
			if (wait_is_over(s, i))
				return 1;
			ddp__shm_relax();
		}
		s->has_waited = 1;
	} while (ddp__shm_patience(s, i, start));
	return 0;
}

static void wait_sleep(struct ddp__shm *s, int i, int ms)
{
	struct ddp__shm_control *peer = ddp__shm_control(s, i);
	_Atomic uint32_t *word = s->cell ? &peer->given : &peer->step;
	uint32_t seen;

	atomic_fetch_add(&peer->sleepers, 1);
	seen = atomic_load(word);
	if (!wait_is_over(s, i) && !atomic_load(&peer->left) &&
	    atomic_load(&s->header->aborted) != DDP__SHM_ABORTED)
		ddp__shm_sleep(word, seen, ms);
	atomic_fetch_sub(&peer->sleepers, 1);
}

/* 1 if that rank's process has ended. */
static int wait_is_gone(const struct ddp__shm_control *peer)
{
	return peer->start_time &&
	       ddp__process_start(peer->pid) != peer->start_time;
}

/* 1 if the rank that aborted first has written the reason. That takes no time,
 * unless the rank, *first, was killed or stopped meanwhile: then this rank does
 * not wait for it. */
static int wait_has_reason(struct ddp__shm *s, int *first)
{
	uint64_t start = clock_ns(), looked = start, now;
	uint32_t word;

	while ((word = atomic_load(&s->header->aborted)) != DDP__SHM_ABORTED) {
		ddp__shm_relax();
		now = clock_ns();
		if (now - looked < LOOK_FIRST_MS * UINT64_C(1000000))
			continue;
		looked = now;
		*first = (int)(word - DDP__SHM_ABORTING);
		/* it may have written the reason and ended since */
		if (now - start > WHY_MS * UINT64_C(1000000) ||
		    wait_is_gone(ddp__shm_control(s, *first)))
			return atomic_load(&s->header->aborted) ==
			       DDP__SHM_ABORTED;
		sched_yield();
	}
	return 1;
}

/* The error if rank i did not write its reason. */
static int wait_fail_unsaid(struct ddp__shm *s, int i, struct err *e)
{
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX], seen[256];

	s->peers->name(s->peers->owner, s->ranks[i], name);
	snprintf(seen, sizeof(seen), "%s: %s stopped before it gave a reason",
		 ddp__call_text(wait_call(s), call), name);
	return s->peers->fate(s->peers->owner, s->ranks[i], seen, e);
}

/* Sets *e and makes it every rank's error, unless another rank was first: then
 * *e becomes that rank's error. */
int ddp__shm_fail(struct ddp__shm *s, struct err *e)
{
	struct ddp__shm_header *h = s->header;
	int first;

	ddp__shm_abort(s, e);
	if (!wait_has_reason(s, &first))
		return wait_fail_unsaid(s, first, e);
	return err_set(e, h->abort_code, "%.*s", ERR_TEXT_MAX - 1,
		       h->abort_text);
}

char *ddp__shm_last(const struct ddp__shm *s, int i, char *out)
{
	struct ddp__call call;
	uint64_t word, number = ddp__shm_seen(s, i, &word);

	ddp__call_unpack(&call, word, number);
	return ddp__call_text(&call, out);
}

/* The flight recorder knows all calls of a rank; the segment knows only those
 * of this group. */
static void wait_name_last(const struct ddp__shm *s, int i, char *out)
{
	char call[DDP__CALL_TEXT];

	out[0] = '\0';
	if (s->peers->last)
		s->peers->last(s->peers->owner, s->ranks[i], out);
	if (!out[0])
		snprintf(out, FLIGHT_TEXT_MAX, "last seen entering %s",
			 ddp__shm_last(s, i, call));
}

static int wait_fail_timeout(struct ddp__shm *s, uint64_t waited, struct err *e)
{
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX], last[FLIGHT_TEXT_MAX];
	char list[512];
	size_t len = 0;
	int missing = 0;

	for (int i = 0; i < s->n; i++) {
		if (wait_is_over(s, i))
			continue;
		if (missing++ == 0)
			wait_name_last(s, i, last);
		if (missing <= 4)
			len += (size_t)snprintf(
				list + len, sizeof(list) - len, "%s%s",
				missing > 1 ? ", " : "",
				s->peers->name(s->peers->owner, s->ranks[i],
					       name));
	}
	if (missing > 4)
		snprintf(list + len, sizeof(list) - len, " and %d more",
			 missing - 4);
	err_set(e, ERR_TIMEOUT, "%s: %s %s not arrived for %.1f s; %s%s",
		ddp__call_text(wait_call(s), call), list,
		missing > 1 ? "have" : "has", (double)waited / 1e9,
		missing > 1 ? "the first of them " : "", last);
	return ddp__shm_fail(s, e);
}

/* 1 if the missing ranks have had their time. They get more if one of them is
 * away, or was, and is about to post. */
static int wait_is_late(struct ddp__shm *s, uint64_t waited)
{
	uint64_t limit = (uint64_t)s->timeout_ms * 1000000u;

	for (int i = 0; i < s->n && !s->was_away; i++)
		s->was_away = !wait_is_over(s, i) &&
			     atomic_load(&ddp__shm_control(s, i)->away);
	if (s->timeout_ms < 0 || waited <= limit)
		return 0;
	return !s->was_away ||
	       waited > limit + DDP__SHM_GRACE_MS * UINT64_C(1000000);
}

int ddp__shm_check_rank(struct ddp__shm *s, int i, const struct ddp__call *call,
			struct err *e)
{
	struct ddp__shm_control *peer = ddp__shm_control(s, i);
	char text[DDP__CALL_TEXT], name[DDP__NAME_MAX], seen[256];
	const char *how;

	if (atomic_load(&peer->left))
		how = call->kind == DDP__INIT || call->kind == DDP__SPLIT ?
			      "gave up" : "left with ddp_finalize";
	else if (wait_is_gone(peer))
		how = "is gone";
	else
		return 0;
	s->peers->name(s->peers->owner, s->ranks[i], name);
	snprintf(seen, sizeof(seen), "%s: %s %s", ddp__call_text(call, text),
		 name, how);
	return s->peers->fate(s->peers->owner, s->ranks[i], seen, e);
}

/* 1 if rank i, for which this rank waits, is in another call of the same
 * number, or in a later call: it gave a cell, or waits for one, while others
 * wait for a step. Making a world or a group takes several calls with one
 * number. */
static int wait_is_astray(struct ddp__shm *s, int i, struct ddp__call *other)
{
	const struct ddp__call *call = wait_call(s);
	uint64_t word, number = ddp__shm_seen(s, i, &word);

	ddp__call_unpack(other, word, number);
	/* the order matters: a call that rank i entered after it arrived does
	 * not count */
	if (!word || wait_is_over(s, i) || ddp__is_message(other) ||
	    number < call->number)
		return 0;
	return number > call->number || other->kind != call->kind ||
	       (!ddp__is_meeting(call) && word != ddp__call_pack(call));
}

/* Checks the ranks that have not arrived: 0 if all of them may still come. */
static int wait_check(struct ddp__shm *s, int first, struct err *e)
{
	struct ddp__call other;
	int looks = 0;

	for (int k = 0; k < s->n && looks < LOOKS_MAX; k++) {
		int i = (first + k) % s->n;

		if (wait_is_over(s, i))
			continue;
		looks++;
		if (wait_is_astray(s, i, &other))
			return ddp__shm_differ(s, wait_call(s), i, &other, e);
		/* It may have arrived and left since. */
		if (ddp__shm_check_rank(s, i, wait_call(s), e) &&
		    !wait_is_over(s, i))
			return ddp__shm_fail(s, e);
	}
	return 0;
}

const struct ddp__call *ddp__shm_awaited(const void *shm, int *from)
{
	const struct ddp__shm *s = shm;

	*from = s->cell ? s->ranks[s->cell_from] : DDP__FROM_HOST;
	return wait_call(s);
}

/* Checks whether the missing ranks are blocked and wait for this one. */
static int wait_check_cycle(struct ddp__shm *s, struct ddp__standstill *w,
			    uint64_t waited, struct err *e)
{
	int from;
	const struct ddp__call *call = ddp__shm_awaited(s, &from);

	return ddp__stands_still(w, call, from, waited, e)
		       ? ddp__shm_fail(s, e)
		       : 0;
}

static int wait_asleep(struct ddp__shm *s, int i, uint64_t start,
		       struct ddp__standstill *w, struct err *e)
{
	int ms = LOOK_FIRST_MS;

	for (;;) {
		uint64_t waited, slept = clock_ns();
		int rc;

		wait_sleep(s, i, ms);
		if (wait_is_over(s, i))
			return 0;
		if (ddp__shm_aborted(s))
			return ddp__shm_fail(s, e);
		if (clock_was_stopped(slept, ms))
			start = clock_ns();
		waited = clock_ns() - start;
		if (wait_is_late(s, waited))
			return wait_fail_timeout(s, waited, e);
		/* first: a rank may have left because of a deadlock */
		rc = wait_check_cycle(s, w, waited, e);
		if (!rc)
			rc = wait_check(s, i, e);
		if (rc)
			return rc;
		ms = ms * 2 < LOOK_MS ? ms * 2 : LOOK_MS;
	}
}

__attribute__((noinline)) int ddp__shm_wait_for(struct ddp__shm *s, int i,
						 struct err *e)
{
	struct ddp__standstill w = {s->peers, 0};
	uint64_t start = clock_ns();
	int rc;

	if (wait_spin(s, i, start))
		return 0;
	rc = wait_asleep(s, i, start, &w, e);
	if (!rc)
		ddp__goes_on(&w);
	return rc;
}

int ddp__shm_wait(struct ddp__shm *s, struct err *e)
{
	/* each rank begins with its neighbour, so that not all read one line */
	for (int k = 1; k < s->n; k++) {
		int i = s->me + k < s->n ? s->me + k : s->me + k - s->n;
		int rc = wait_has_posted(s, i) ? 0 : ddp__shm_wait_for(s, i, e);

		if (rc)
			return rc;
	}
	s->waits = 0;
	return 0;
}

int ddp__shm_wait_first(struct ddp__shm *s, struct err *e)
{
	int rc = ddp__shm_wait(s, e);

	return rc ? rc : ddp__shm_agree(s, e);
}

int ddp__shm_arrived(struct ddp__shm *s, int first, struct err *e)
{
	int rc;

	for (int k = 1; k < s->n; k++) {
		int i = s->me + k < s->n ? s->me + k : s->me + k - s->n;

		if (!wait_has_posted(s, i))
			return ddp__shm_aborted(s) ? ddp__shm_fail(s, e) : 0;
	}
	s->waits = 0;
	rc = first ? ddp__shm_agree(s, e) : 0;
	return rc ? rc : 1;
}

int ddp__shm_check(void *shm, uint64_t waited_ns, struct err *e)
{
	struct ddp__shm *s = shm;
	if (ddp__shm_aborted(s))
		return ddp__shm_fail(s, e);
	for (int i = 0; i < s->n; i++)
		if (!wait_is_over(s, i)) {
			if (wait_is_late(s, waited_ns))
				return wait_fail_timeout(s, waited_ns, e);
			return wait_check(s, i, e);
		}
	return 0;
}
