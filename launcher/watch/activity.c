/* activity.c: compares the last reading with the oldest that is kept. */
#include "launcher/watch/activity.h"

#include <stdio.h>
#include <string.h>

enum {
	/* less is what an idle process does: timers, heartbeats */
	IO_LEAST = 4096,
	FAULTS_LEAST = 32,
	WRITES_LEAST = 1000, /* bytes in a ms: checkpoints are faster */
	WRITES_TICKS = 10,   /* between two parts of a checkpoint */
	BUSY_PERCENT = 3,
	BUSY_LEAST_MS = 50, /* the kernel counts ticks, and a dump takes some */
	STARTED_MS = 500, /* of CPU time: before it, a process only starts */
	GAP_TICKS = 10,	  /* this host was stopped, or starved */
	MEAN_STEPS = 4,	  /* the weight of the past in a step's mean time */
	HANDLED_SEEN = 8, /* a reading in a handler counts as much as this many
			   * outside */
	HANDLED_ENOUGH = 2 * HANDLED_SEEN + 1, /* three, close together */
	HANDLED_MOST = 5 * HANDLED_SEEN,
};

void activity_init(struct activity *a, uint64_t tick_ns, uint64_t now_ns)
{
	*a = (struct activity){
		.tick_ns = tick_ns,
		.progress_ns = now_ns,
		.since_ns = now_ns,
		.doing = RANK_STARTS,
		.words = "starts",
	};
}

uint64_t activity_quiet_ms(const struct activity *a, uint64_t now_ns)
{
	return now_ns > a->progress_ns ? (now_ns - a->progress_ns) / 1000000
				       : 0;
}

/* Counters of processes that have ended are missing in the sum. */
static uint64_t activity_grown(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

/* Common places where processes sleep, in words. */
static const char *activity_sleep_words(const char *function)
{
	static const char *const names[][2] = {
		{"nanosleep", "nanosleep"},
		{"futex", "a lock or another thread (futex)"},
		{"poll", "a socket or a file (poll)"},
		{"select", "a socket or a file (select)"},
		{"pipe_read", "a pipe"},
		{"pipe_write", "the reader of a full pipe"},
		{"wait_for_partner", "the other end of a FIFO"},
		{"locks_lock", "the lock of a file (flock)"},
		{"fcntl_setlk", "the lock of a file (fcntl)"},
		{"inotify", "a change in a folder (inotify)"},
		{"fanotify", "a change in a folder (fanotify)"},
		{"tty_read", "input from a terminal"},
		{"eventfd_read", "an event (eventfd)"},
		{"timerfd_read", "a timer (timerfd)"},
		{"signalfd", "a signal"},
		{"wq_sleep", "a message queue (mq_receive)"},
		{"io_cqring", "input or output (io_uring)"},
		{"inet_stream_connect", "a connection (connect)"},
		{"inet_wait_for_connect", "a connection (connect)"},
		{"csk_accept", "a connection (accept)"},
		{"wait_woken", "a socket"},
		{"skb", "a socket"},
		{"unix_stream", "a socket"},
		{"do_wait", "a child"},
		{"kernel_clone", "a child that runs no program yet (vfork)"},
		{"semtimedop", "a semaphore (semop)"},
		{"msgrcv", "a message (msgrcv)"},
		{"request_wait_answer", "a file server (FUSE)"},
		{"rpc_wait", "a file server (NFS)"},
		{"sigtimedwait", "a signal"},
		{"pause", "a signal"},
		{"sigsuspend", "a signal or a child (sigsuspend)"},
		/* the entry to the kernel: the function that sleeps has left
		 * no frame, as in a call that goes on after a SIGCONT */
		{"do_syscall_64", ""},
		{"el0_svc", ""},
		{"invoke_syscall", ""},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strstr(function, names[i][0]))
			return names[i][1];
	return function;
}

/* "8.4 MB", into out[16]; returns out. */
static char *activity_size(uint64_t bytes, char *out)
{
	static const char *const units[] = {"kB", "MB", "GB", "TB"};
	double x = (double)bytes / 1000;
	size_t i = 0;

	for (; x >= 1000 && i + 1 < sizeof(units) / sizeof(*units); i++)
		x /= 1000;
	snprintf(out, 16, x < 10 ? "%.1f %s" : "%.0f %s", x, units[i]);
	return out;
}

/* "reads 812 MB/s, 15 GB so far (20 % CPU)" */
static void activity_put_loads(struct activity *a,
			       const struct activity_sample *now,
			       const struct activity_sample *then,
			       unsigned cpu)
{
	uint64_t ms = (now->ns - then->ns) / 1000000;
	uint64_t written = activity_grown(then->written, now->written);
	uint64_t io = activity_grown(then->io_bytes, now->io_bytes);
	char rate[16], sum[16];

	/* what it starts reads its libraries */
	if (io < ms * WRITES_LEAST &&
	    (now->processes != then->processes ||
	     activity_grown(then->reaped, now->reaped) >= FAULTS_LEAST))
		snprintf(a->words, sizeof(a->words),
			 "starts processes (%u %% CPU)", cpu);
	else if (ms && io >= IO_LEAST)
		snprintf(a->words, sizeof(a->words),
			 "%s %s/s, %s so far (%u %% CPU)",
			 written > io / 2 ? "writes" : "reads",
			 activity_size(io * 1000 / ms, rate),
			 activity_size(activity_grown(a->io_before,
						      now->io_bytes), sum),
			 cpu);
	else
		snprintf(a->words, sizeof(a->words),
			 "works (%u %% CPU, new memory)", cpu);
}

/* "sleeps (nanosleep)", "waits for a socket" */
static void activity_put_sleep(char *out, size_t size, const char *in)
{
	if (!*in)
		snprintf(out, size, "sleeps");
	else if (strcmp(in, "nanosleep") == 0)
		snprintf(out, size, "sleeps (nanosleep)");
	else
		snprintf(out, size, "waits for %s", in);
}

/* By the freezer of its cgroup: __refrigerator (version 1, or a suspended
 * host), do_freezer_trap (version 2). */
static int activity_is_frozen(const struct activity_sample *s)
{
	return strstr(s->sleeps_in, "refrigerator") ||
	       strstr(s->sleeps_in, "freezer_trap");
}

static void activity_put_words(struct activity *a,
			       const struct activity_sample *s,
			       const struct activity_sample *then, unsigned cpu)
{
	const char *in = activity_sleep_words(s->sleeps_in);
	char *out = a->words, name[SIGNAL_NAME_MAX];

	switch (a->doing) {
	case RANK_STARTS:
		if (s->has_left)
			snprintf(out, sizeof(a->words),
				 "has left with ddp_finalize");
		else if (s->state == 'S')
			activity_put_sleep(out, sizeof(a->words), in);
		else
			snprintf(out, sizeof(a->words), "starts");
		break;
	case RANK_WORKS:
		if (s->state == 'D' && s->syncs)
			snprintf(out, sizeof(a->words), "flushes to a disk");
		else
			snprintf(out, sizeof(a->words), "works (%u %% CPU)",
				 cpu);
		break;
	case RANK_LOADS:
		activity_put_loads(a, s, then, cpu);
		break;
	case RANK_BUSY:
		snprintf(out, sizeof(a->words),
			 "computes (%u %% CPU, no input or output)", cpu);
		break;
	case RANK_BLOCKED:
		if (strcmp(s->sleeps_in, "kernel_clone") == 0)
			activity_put_sleep(out, sizeof(a->words), in);
		else
			snprintf(out, sizeof(a->words),
				 "waits for a disk or a file server%s%s%s",
				 *in ? " (" : "", in, *in ? ")" : "");
		break;
	case RANK_STOPPED:
		if (activity_is_frozen(s))
			snprintf(out, sizeof(a->words),
				 "is frozen (the freezer of its cgroup)");
		else if (s->state != 'T' && s->state != 't')
			snprintf(out, sizeof(a->words),
				 "is in its handler of signal %d (%s)",
				 a->handles, signal_name(a->handles, name));
		else
			snprintf(out, sizeof(a->words), "is stopped (%s)",
				 s->state == 't' ? "by a debugger" : "SIGSTOP");
		break;
	case RANK_CALLS:
		snprintf(out, sizeof(a->words), "waits in that call");
		break;
	default:
		activity_put_sleep(out, sizeof(a->words), in);
	}
}

/* On a host whose CPUs are busy, a process that computes gets little time, but
 * is nearly always seen waiting for it. */
static int activity_wants_cpu(const struct activity *a,
			      const struct activity_sample *then)
{
	unsigned seen = 0;

	for (unsigned i = 0; i < a->n && i < ACTIVITY_TICKS; i++)
		seen += a->past[i].state == 'R' && a->past[i].ns >= then->ns;
	return seen > ACTIVITY_TICKS / 2;
}

static int activity_is_in_handler(const struct activity *a)
{
	return a->handled >= HANDLED_ENOUGH ||
	       (a->handled && a->doing == RANK_STOPPED);
}

/* If the handler waits, each reading finds the process there. If it returns,
 * the fault occurs again: most readings find it there, or a few on a busy host.
 */
static void activity_note_handler(struct activity *a,
				  const struct activity_sample *now,
				  const struct activity_sample *last)
{
	if (now->calls != last->calls || now->step != last->step ||
	    activity_grown(last->io_bytes, now->io_bytes) >= IO_LEAST)
		a->handled = 0;
	a->handled -= a->handled > 0;
	if (!now->handles)
		return;
	a->handles = now->handles;
	a->handled += HANDLED_SEEN;
	if (a->handled > HANDLED_MOST)
		a->handled = HANDLED_MOST;
}

/* As fast as for a checkpoint. */
static int activity_writes(const struct activity_sample *now,
			   const struct activity_sample *then)
{
	uint64_t bytes = activity_grown(then->written, now->written);

	return bytes >= IO_LEAST &&
	       bytes >= (now->ns - then->ns) / 1000000 * WRITES_LEAST;
}

/* What it does while it makes no call and reports no step. */
static enum wire_doing activity_classify(const struct activity *a,
					 const struct activity_sample *now,
					 const struct activity_sample *then,
					 unsigned cpu)
{
	uint64_t ms = activity_grown(then->cpu_ms, now->cpu_ms);

	if (now->state == 'T' || now->state == 't' ||
	    activity_is_frozen(now) || activity_is_in_handler(a))
		return RANK_STOPPED;
	if (now->in_call)
		return RANK_CALLS;
	if (now->has_left) /* libddp tells the ranks that wait */
		return RANK_STARTS;
	if (activity_writes(now, then))
		return RANK_WORKS;
	if (activity_grown(then->io_bytes, now->io_bytes) >= IO_LEAST ||
	    activity_grown(then->faults, now->faults) >= FAULTS_LEAST ||
	    now->processes != then->processes)
		return RANK_LOADS;
	if ((cpu >= BUSY_PERCENT && ms >= BUSY_LEAST_MS) ||
	    activity_wants_cpu(a, then))
		return RANK_BUSY;
	if (now->state == 'D')
		return now->syncs ? RANK_WORKS : RANK_BLOCKED;
	return now->calls || now->step >= 0 || now->dead_pid ||
			       now->cpu_ms >= STARTED_MS
		       ? RANK_IDLE
		       : RANK_STARTS;
}

/* Between two parts of a checkpoint it reads or computes for a while. */
static void activity_note_write(struct activity *a,
				const struct activity_sample *now)
{
	if (a->doing == RANK_WORKS)
		a->wrote_ns = now->ns;
	else if (a->wrote_ns &&
		 now->ns - a->wrote_ns < WRITES_TICKS * a->tick_ns &&
		 (a->doing == RANK_LOADS || a->doing == RANK_BUSY))
		a->doing = RANK_WORKS;
}

/* It has made progress. */
static void activity_begin_pause(struct activity *a, uint64_t ns,
				 const struct activity_sample *now)
{
	a->progress_ns = ns;
	a->io_before = now->io_bytes;
	a->wrote_ns = 0;
}

static void activity_add_step(struct activity *a,
			      const struct activity_sample *now,
			      const struct activity_sample *last)
{
	uint64_t us;

	if (now->step < 0 || now->step == last->step)
		return;
	if (last->step >= 0 && now->step > last->step && a->step_ns) {
		us = (now->ns - a->step_ns) / 1000 /
		     (uint64_t)(now->step - last->step);
		a->step_us = a->step_us ? (MEAN_STEPS * a->step_us + us) /
						  (MEAN_STEPS + 1)
					: us;
	}
	a->step_ns = now->ns;
	activity_begin_pause(a, now->ns, now);
}

static int activity_is_late(const struct activity *a,
			    const struct activity_sample *now,
			    const struct activity_sample *last)
{
	return now->ns - last->ns > GAP_TICKS * a->tick_ns;
}

/* A late sample says nothing about the time since the last one: that time does
 * not count, and what the worker does stays as it was. A call or a step is
 * progress. */
static void activity_skip(struct activity *a, const struct activity_sample *now,
			  const struct activity_sample *last)
{
	uint64_t gap = now->ns - last->ns;

	a->progress_ns += gap;
	a->since_ns += gap;
	if (now->calls != last->calls || now->step != last->step)
		a->progress_ns = now->ns;
	a->n = 0;
}

/* The oldest sample that is kept. What a worker did before its last call, or
 * step, says nothing about what it does now. */
static const struct activity_sample *activity_baseline(
	const struct activity *a, const struct activity_sample *now)
{
	unsigned n = a->n < ACTIVITY_TICKS ? a->n : ACTIVITY_TICKS;
	unsigned i = a->n - n;

	if (now->calls || now->step >= 0)
		while (i + 1 < a->n &&
		       a->past[i % ACTIVITY_TICKS].ns < a->progress_ns)
			i++;
	return &a->past[i % ACTIVITY_TICKS];
}

/* It has done nothing since then. */
static void activity_fall_idle(struct activity *a,
			       const struct activity_sample *now,
			       const struct activity_sample *then)
{
	a->since_ns = then->ns;
	if (!now->calls && now->step < 0 && a->progress_ns > then->ns)
		a->progress_ns = then->ns;
}

void activity_add(struct activity *a, const struct activity_sample *now)
{
	const struct activity_sample *last =
		&a->past[(a->n + ACTIVITY_TICKS - 1) % ACTIVITY_TICKS];
	const struct activity_sample *then;
	enum wire_doing before = a->doing;
	uint64_t ms, cpu;

	/* it has ended: what it did before is what counts */
	if (a->n && !now->processes)
		return;
	if (a->n && activity_is_late(a, now, last))
		activity_skip(a, now, last);
	if (a->n == 0) {
		if (now->step >= 0)
			a->step_ns = now->ns;
		if (!a->io_before)
			a->io_before = now->io_bytes;
		a->cpu = -1;
		a->past[a->n++] = *now;
		return;
	}
	activity_note_handler(a, now, last);
	then = activity_baseline(a, now);
	ms = (now->ns - then->ns) / 1000000;
	cpu = ms ? activity_grown(then->cpu_ms, now->cpu_ms) * 100 / ms : 0;
	a->cpu = (int)cpu * 10;
	a->doing = activity_classify(a, now, then, (unsigned)cpu);
	activity_note_write(a, now);
	if (a->doing != before)
		a->since_ns = now->ns;
	if (a->doing == RANK_IDLE && before != RANK_IDLE)
		activity_fall_idle(a, now, then);
	activity_put_words(a, now, then, (unsigned)cpu);
	activity_add_step(a, now, last);
	/* a worker may write garbage as the time of its call */
	if (now->calls != last->calls && now->call_ns > a->progress_ns)
		activity_begin_pause(
			a, now->call_ns < now->ns ? now->call_ns : now->ns,
			now);
	/* a worker without calls and steps is known by its work alone */
	if (!now->calls && now->step < 0 &&
	    (a->doing == RANK_WORKS || a->doing == RANK_LOADS))
		a->progress_ns = now->ns;
	a->past[a->n++ % ACTIVITY_TICKS] = *now;
}
