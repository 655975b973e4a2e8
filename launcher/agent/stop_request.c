/* stop_request.c: turns signals and time limits into requests to stop. */
#include "launcher/agent/stop_request.h"

#include <signal.h>

#include "launcher/agent/worker_shutdown.h"

static uint32_t stop_request_ms(double seconds)
{
	double ms = seconds * 1000;

	return ms < (double)SHUTDOWN_NO_LIMIT - 1 ? (uint32_t)ms
						  : SHUTDOWN_NO_LIMIT - 1;
}

static struct signal_set stop_request_signals(int number)
{
	return (struct signal_set){number ? UINT64_C(1) << (number - 1) : 0};
}

/* After a warning the workers have until Slurm's time limit. We end them
 * earlier only if the job is to be requeued before that. */
static uint32_t stop_request_grace_ms(const struct stop_options *o,
				      uint64_t now)
{
	uint64_t end = o->end_time;

	if (!end || !o->requeues)
		return SHUTDOWN_NO_LIMIT;
	if (end < now + 2 * STOP_MARGIN_S)
		return STOP_MARGIN_S * 1000;
	return stop_request_ms((double)(end - now - STOP_MARGIN_S));
}

struct stop_request stop_request_of_signal(const struct stop_options *o,
					   int number, uint64_t now)
{
	int warns = signal_set_has(&o->warning, number);

	return (struct stop_request){
		.level = warns ? WIRE_WARNED : WIRE_STOPPED,
		.cause = WIRE_BY_SIGNAL, .signal = number,
		.grace_ms = warns ? stop_request_grace_ms(o, now)
				  : stop_request_ms(o->shutdown_timeout_s),
		.signals = stop_request_signals(number),
		.exit_code = 128 + number,
	};
}

struct stop_request stop_request_of_limit(const struct stop_options *o,
					  uint64_t now)
{
	/* workers that do not poll run until Slurm signals them, unless the
	 * user wants an end before that */
	int all = o->stop_before_given || o->requeues;

	return (struct stop_request){
		.level = WIRE_WARNED, .cause = WIRE_BY_LIMIT,
		.signal = all ? SIGTERM : 0,
		.grace_ms = stop_request_grace_ms(o, now),
		.signals = stop_request_signals(SIGTERM),
		.exit_code = 128 + SIGTERM,
	};
}

struct stop_request stop_request_of_wire(const struct wire_stop *m)
{
	int number = m->signal > 0 && m->signal <= SIGNAL_SET_MAX ? m->signal
								  : 0;

	return (struct stop_request){
		.level = m->level, .cause = m->cause, .signal = number,
		.grace_ms = m->grace_ms,
		.signals = stop_request_signals(number ? number : SIGTERM),
		.exit_code = 128 + (number ? number : SIGTERM),
	};
}

uint64_t stop_request_due_ms(const struct stop_options *o, uint64_t now)
{
	uint64_t end = o->end_time;
	uint64_t before = stop_request_ms(o->stop_before_s);
	uint64_t left = end > now ? (end - now) * 1000 : 0;

	if (!end || !before)
		return 0;
	return left > before ? left - before : 1;
}

int stop_request_merge(struct stop_request *old, const struct stop_request *n)
{
	struct stop_request last = *old;

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

static int stop_request_is_from_terminal(const struct stop_request *n)
{
	return n->signal == SIGINT || n->signal == SIGQUIT ||
	       n->signal == SIGHUP;
}

int stop_request_is_obeyed(const struct stop_request *n, const struct worker *w,
			   int is_notified)
{
	int number = w->signal ? w->signal : w->code - 128;

	if (w->killed && w->signal == SIGKILL)
		return 1;
	if (!w->signal && w->code == 0)
		return is_notified;
	if (number == SIGTERM || signal_set_has(&n->signals, number))
		return 1;
	return is_notified && stop_request_is_from_terminal(n);
}

int stop_request_may_follow(const struct stop_options *o,
			    const struct worker *w)
{
	int number = w->signal ? w->signal : w->code - 128;

	return signal_set_has(&o->ending, number) ||
	       signal_set_has(&o->warning, number);
}
