/* remote_wait.c: which exits mean that the job is over, and a timer. */
#include "launcher/ssh/launch_internal.h"

#include <signal.h>

#include "base/log.h"

enum {
	MARGIN_MS = 2000, /* for the server to report a lost node */
	LEAVE_MS = 15000, /* beyond the grace period of the workers */
};

static uint64_t remote_wait_lost_ms(const struct remote_wait *w)
{
	return (uint64_t)(w->options->heartbeat_s * 1000) + MARGIN_MS;
}

static uint64_t remote_wait_limit_ms(const struct remote_wait *w)
{
	double grace = w->options->shutdown_timeout_s;

	return remote_wait_lost_ms(w) + LEAVE_MS +
	       (uint64_t)((grace < 4e6 ? grace : 4e6) * 1000);
}

static uint32_t remote_wait_count(const struct remote_wait *w,
				  enum remote_host_state state,
				  int with_stopped)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->n; i++)
		n += w->hosts[i].state == state &&
		     (with_stopped || !w->hosts[i].stopped);
	return n;
}

/* Some agents have exited, and all that are left are stopped. */
static int remote_wait_is_idle(const struct remote_wait *w)
{
	return remote_wait_count(w, HOST_DONE, 1) &&
	       remote_wait_count(w, HOST_RUNNING, 1) &&
	       !remote_wait_count(w, HOST_RUNNING, 0);
}

static void remote_wait_on_timer(uv_timer_t *t);

/* The job is over: agents that are stopped continue, to end. */
static void remote_wait_set_over(struct remote_wait *w, uint64_t ms)
{
	w->over = 1;
	uv_timer_start(&w->timer, remote_wait_on_timer, ms, 0);
	for (uint32_t i = 0; i < w->n; i++) {
		if (w->hosts[i].state == HOST_RUNNING && w->hosts[i].stopped)
			w->events->signal(w->owner, i, SIGCONT);
	}
}

static void remote_wait_signal_all(struct remote_wait *w)
{
	w->expects_end = 0;
	uv_timer_start(&w->timer, remote_wait_on_timer, remote_wait_limit_ms(w),
		       0);
	for (uint32_t i = 0; i < w->n; i++) {
		if (w->hosts[i].state == HOST_RUNNING)
			w->events->signal(w->owner, i, SIGTERM);
	}
}

static const char *remote_wait_host_name(const struct remote_wait *w,
					 uint32_t host)
{
	return host_list_name(w->options->hosts, host);
}

static void remote_wait_log_late(const struct remote_wait *w)
{
	for (uint32_t i = 0; i < w->n; i++) {
		if (w->hosts[i].state == HOST_RUNNING)
			log_error("error: host %s: its ddprun has not exited "
				  "within %g s of the job's end, so it is "
				  "killed; does a file system hang there, or "
				  "is it being debugged?",
				  remote_wait_host_name(w, i),
				  (double)remote_wait_limit_ms(w) / 1000);
	}
}

static void remote_wait_on_timer(uv_timer_t *t)
{
	struct remote_wait *w = t->data;

	if (w->expects_end) {
		remote_wait_signal_all(w);
	} else if (w->over && w->held) {
		uv_timer_start(t, remote_wait_on_timer, remote_wait_limit_ms(w),
			       0);
	} else if (w->over) {
		remote_wait_log_late(w);
		w->events->on_limit(w->owner);
	} else if (remote_wait_is_idle(w)) {
		w->code = (int)w->last_code;
		remote_wait_set_over(w, remote_wait_limit_ms(w));
	}
}

/* Whether the exit of this host ends the job. A job that can lose nodes ends
 * with the host of its server; any other with each of its hosts. Once the
 * server is lost, only a failure ends the others. */
static int remote_wait_ends_job(const struct remote_wait *w, uint32_t host)
{
	if (!w->hosts[host].code && w->server_lost)
		return 0;
	return !w->options->can_lose || host == w->first;
}

/* ---- the interface ---- */

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
	w->expects_end = 0;
	uv_timer_stop(&w->timer);
}

void remote_wait_expect_end(struct remote_wait *w)
{
	if (w->expects_end)
		return;
	w->expects_end = 1;
	remote_wait_set_over(w, remote_wait_lost_ms(w));
}

void remote_wait_heard(struct remote_wait *w)
{
	if (w->over && !w->expects_end &&
	    uv_is_active((uv_handle_t *)&w->timer))
		uv_timer_start(&w->timer, remote_wait_on_timer,
			       remote_wait_limit_ms(w), 0);
}

void remote_wait_set_held(struct remote_wait *w, int held)
{
	w->held = held;
	remote_wait_heard(w);
}

int remote_wait_code(const struct remote_wait *w)
{
	int can_lose = w->options->can_lose;
	uint32_t code = w->hosts[w->first].code;

	if (can_lose)
		return w->code >= 0 ? w->code : (int)code;
	for (uint32_t i = 0; i < w->n && !code; i++) {
		if (w->hosts[i].state == HOST_DONE)
			code = w->hosts[i].code;
	}
	return (int)code;
}

void remote_wait_check(struct remote_wait *w)
{
	int idle = remote_wait_is_idle(w);

	if (w->over)
		return;
	if (!idle)
		uv_timer_stop(&w->timer);
	else if (!uv_is_active((uv_handle_t *)&w->timer))
		uv_timer_start(&w->timer, remote_wait_on_timer,
			       remote_wait_lost_ms(w), 0);
}

void remote_wait_exited(struct remote_wait *w, uint32_t host)
{
	w->last_code = w->hosts[host].code;
	if (!w->over && remote_wait_ends_job(w, host)) {
		w->code = (int)w->last_code;
		remote_wait_set_over(w, remote_wait_limit_ms(w));
	}
	remote_wait_check(w);
}

/* The workers of a stopped agent run on, but it does not serve them. */
static void remote_wait_log_stopped(const struct remote_wait *w, uint32_t host,
				    uint32_t pid)
{
	const char *name = remote_wait_host_name(w, host);

	if (!pid)
		log_info("host %s: its ddprun continues", name);
	else if (w->over)
		log_info("host %s: its ddprun was stopped; continuing it, "
			 "because the job has ended",
			 name);
	else if (w->n == 1)
		log_warn("host %s: its ddprun was stopped; to continue it: "
			 "kill -CONT %u there", name, pid);
	else
		log_warn("host %s: its ddprun was stopped; the others count "
			 "this node as lost after %g s (--heartbeat-timeout) "
			 "unless it continues: kill -CONT %u there", name,
			 w->options->heartbeat_s, pid);
}

void remote_wait_stopped(struct remote_wait *w, uint32_t host, uint32_t pid)
{
	w->hosts[host].stopped = pid;
	remote_wait_log_stopped(w, host, pid);
	if (pid && w->over)
		w->events->signal(w->owner, host, SIGCONT);
	remote_wait_check(w);
}
