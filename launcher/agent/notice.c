/* notice.c: from signals and times to notices. */
#include "launcher/agent/notice.h"

#include <signal.h>

#include "launcher/agent/stopping.h"

static uint32_t ms_of(double seconds)
{
	double ms = seconds * 1000;

	return ms < (double)STOPPING_NO_LIMIT - 1 ? (uint32_t)ms
						  : STOPPING_NO_LIMIT - 1;
}

static struct signal_set set_of(int number)
{
	return (struct signal_set){number ? UINT64_C(1) << (number - 1) : 0};
}

/* A warning leaves the time that there is. Slurm ends it, and so do we only
 * where something has to be done after it and before Slurm's end. */
static uint32_t time_left(const struct config *c, uint64_t now)
{
	uint64_t end = c->slurm.end_time;

	if (!end || !(c->requeue & CONFIG_ON_TIMEOUT))
		return STOPPING_NO_LIMIT;
	if (end < now + 2 * NOTICE_MARGIN_S)
		return NOTICE_MARGIN_S * 1000;
	return ms_of((double)(end - now - NOTICE_MARGIN_S));
}

struct notice notice_of_signal(const struct config *c, int number,
			       uint64_t now)
{
	int warns = signal_set_has(&c->warning, number);

	return (struct notice){
		.level = warns ? WIRE_WARNED : WIRE_STOPPED,
		.cause = WIRE_BY_SIGNAL, .signal = number,
		.grace_ms = warns ? time_left(c, now) : ms_of(c->grace_s),
		.signals = set_of(number), .exit_code = 128 + number,
	};
}

struct notice notice_of_limit(const struct config *c, uint64_t now)
{
	/* who cannot be asked has until Slurm's own word, unless it is to end
	 * in time */
	int all = c->stop_before_given || c->requeue & CONFIG_ON_TIMEOUT;

	return (struct notice){
		.level = WIRE_WARNED, .cause = WIRE_BY_LIMIT,
		.signal = all ? SIGTERM : 0, .grace_ms = time_left(c, now),
		.signals = set_of(SIGTERM), .exit_code = 128 + SIGTERM,
	};
}

struct notice notice_of_wire(const struct wire_stop *m)
{
	int number = m->signal > 0 && m->signal <= SIGNAL_SET_MAX ? m->signal
								  : 0;

	return (struct notice){
		.level = m->level, .cause = m->cause, .signal = number,
		.grace_ms = m->grace_ms,
		.signals = set_of(number ? number : SIGTERM),
		.exit_code = 128 + (number ? number : SIGTERM),
	};
}

uint64_t notice_due_ms(const struct config *c, uint64_t now)
{
	uint64_t end = c->slurm.end_time, before = ms_of(c->stop_before_s);
	uint64_t left = end > now ? (end - now) * 1000 : 0;

	if (!end || !before)
		return 0;
	return left > before ? left - before : 1;
}

int notice_add(struct notice *old, const struct notice *n)
{
	struct notice last = *old;

	if (n->level <= last.level)
		return 0;
	*old = *n;
	old->warned = last.level ? last.warned : n->level == WIRE_WARNED;
	old->signals.bits |= last.signals.bits;
	if (last.level) {
		old->cause = last.cause;
		old->exit_code = last.exit_code;
	}
	return 1;
}

static int is_of_terminal(const struct notice *n)
{
	return n->signal == SIGINT || n->signal == SIGQUIT ||
	       n->signal == SIGHUP;
}

int notice_is_obeyed(const struct notice *n, const struct worker *w, int told)
{
	int number = w->signal ? w->signal : w->code - 128;

	if (w->killed && w->signal == SIGKILL)
		return 1;
	if (!w->signal && w->code == 0)
		return told;
	if (number == SIGTERM || signal_set_has(&n->signals, number))
		return 1;
	return told && is_of_terminal(n);
}

int notice_may_come(const struct config *c, const struct worker *w)
{
	int number = w->signal ? w->signal : w->code - 128;

	return signal_set_has(&c->ending, number) ||
	       signal_set_has(&c->warning, number);
}
