/* remote_wait.c: when the job is over, as some exits show, and a timer. */
#include "launcher/ssh/remote_wait.h"

#include <signal.h>

#include "base/log.h"
#include "launcher/config/config.h"
#include "launcher/config/host_choice.h"

enum {
	BEYOND_MS = 2000, /* the server's own word of a lost node */
	LEAVE_MS = 15000, /* beyond the time that the workers have */
};

static uint64_t lost_ms(const struct remote_wait *w)
{
	return (uint64_t)(w->config->heartbeat_s * 1000) + BEYOND_MS;
}

static uint64_t limit_ms(const struct remote_wait *w)
{
	double grace = w->config->grace_s;

	return lost_ms(w) + LEAVE_MS +
	       (uint64_t)((grace < 4e6 ? grace : 4e6) * 1000);
}

static uint32_t count(const struct remote_wait *w, enum remote_host_state state,
		      int stopped_too)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->n; i++)
		n += w->hosts[i].state == state &&
		     (stopped_too || !w->hosts[i].stopped);
	return n;
}

/* Some have come to their end, and nobody that is left does anything. */
static int nobody_works(const struct remote_wait *w)
{
	return count(w, HOST_DONE, 1) && count(w, HOST_RUNNING, 1) &&
	       !count(w, HOST_RUNNING, 0);
}

static void on_timer(uv_timer_t *t);

/* One that is stopped has nothing to wait for any more. */
static void be_over(struct remote_wait *w, uint64_t ms)
{
	w->over = 1;
	uv_timer_start(&w->timer, on_timer, ms, 0);
	for (uint32_t i = 0; i < w->n; i++) {
		if (w->hosts[i].state == HOST_RUNNING && w->hosts[i].stopped)
			w->events->signal(w->owner, i, SIGCONT);
	}
}

static void push(struct remote_wait *w)
{
	w->pushes = 0;
	uv_timer_start(&w->timer, on_timer, limit_ms(w), 0);
	for (uint32_t i = 0; i < w->n; i++) {
		if (w->hosts[i].state == HOST_RUNNING)
			w->events->signal(w->owner, i, SIGTERM);
	}
}

static const char *name_of(const struct remote_wait *w, uint32_t host)
{
	return host_list_name(&w->config->hosts, host);
}

static void say_late(const struct remote_wait *w)
{
	for (uint32_t i = 0; i < w->n; i++) {
		if (w->hosts[i].state == HOST_RUNNING)
			log_error("error: host %s: its ddprun has not ended "
				  "within %g s of the job's end, and is "
				  "killed; does a file system hang there, or "
				  "is it being debugged?", name_of(w, i),
				  (double)limit_ms(w) / 1000);
	}
}

static void on_timer(uv_timer_t *t)
{
	struct remote_wait *w = t->data;

	if (w->pushes) {
		push(w);
	} else if (w->over && w->held) {
		uv_timer_start(t, on_timer, limit_ms(w), 0);
	} else if (w->over) {
		say_late(w);
		w->events->on_limit(w->owner);
	} else if (nobody_works(w)) {
		w->code = (int)w->last_code;
		be_over(w, limit_ms(w));
	}
}

/* A job of a fixed number of nodes ends when any of them ends, unless there are
 * spares; a job that can lose nodes ends when the host of its server does.
 * Where there is no server, only a failure ends the others. */
static int ends_all(const struct remote_wait *w, uint32_t host)
{
	if (!w->hosts[host].code && w->unserved)
		return 0;
	return !host_choice_can_lose(w->config) || host == w->first;
}

/* ---- from outside ---- */

void remote_wait_init(struct remote_wait *w, uv_loop_t *loop)
{
	w->code = -1;
	uv_timer_init(loop, &w->timer);
	w->timer.data = w;
}

void remote_wait_close(struct remote_wait *w)
{
	uv_close((uv_handle_t *)&w->timer, NULL);
}

void remote_wait_stop(struct remote_wait *w)
{
	w->over = 1;
	w->pushes = 0;
	uv_timer_stop(&w->timer);
}

void remote_wait_push(struct remote_wait *w)
{
	if (w->pushes)
		return;
	w->pushes = 1;
	be_over(w, lost_ms(w));
}

void remote_wait_heard(struct remote_wait *w)
{
	if (w->over && !w->pushes && uv_is_active((uv_handle_t *)&w->timer))
		uv_timer_start(&w->timer, on_timer, limit_ms(w), 0);
}

void remote_wait_hold(struct remote_wait *w, int held)
{
	w->held = held;
	remote_wait_heard(w);
}

int remote_wait_code(const struct remote_wait *w)
{
	int can_lose = host_choice_can_lose(w->config);
	uint32_t code = w->hosts[w->first].code;

	if (can_lose)
		return w->code >= 0 ? w->code : (int)code;
	for (uint32_t i = 0; i < w->n && !code; i++) {
		if (w->hosts[i].state == HOST_DONE)
			code = w->hosts[i].code;
	}
	return (int)code;
}

void remote_wait_look(struct remote_wait *w)
{
	int idle = nobody_works(w);

	if (w->over)
		return;
	if (!idle)
		uv_timer_stop(&w->timer);
	else if (!uv_is_active((uv_handle_t *)&w->timer))
		uv_timer_start(&w->timer, on_timer, lost_ms(w), 0);
}

void remote_wait_exited(struct remote_wait *w, uint32_t host)
{
	w->last_code = w->hosts[host].code;
	if (!w->over && ends_all(w, host)) {
		w->code = (int)w->last_code;
		be_over(w, limit_ms(w));
	}
	remote_wait_look(w);
}

/* Its workers go on, but nobody hears of them. */
static void say_stopped(const struct remote_wait *w, uint32_t host,
			uint32_t pid)
{
	const char *name = name_of(w, host);

	if (!pid)
		log_info("host %s: its ddprun goes on", name);
	else if (w->over)
		log_info("host %s: its ddprun was stopped; it goes on, to its "
			 "end", name);
	else if (w->n == 1)
		log_warn("host %s: its ddprun was stopped; kill -CONT %u there "
			 "lets it go on", name, pid);
	else
		log_warn("host %s: its ddprun was stopped; the others count "
			 "this node as lost after %g s (--heartbeat-timeout) "
			 "unless it goes on: kill -CONT %u there", name,
			 w->config->heartbeat_s, pid);
}

void remote_wait_stopped(struct remote_wait *w, uint32_t host, uint32_t pid)
{
	w->hosts[host].stopped = pid;
	say_stopped(w, host, pid);
	if (pid && w->over)
		w->events->signal(w->owner, host, SIGCONT);
	remote_wait_look(w);
}
