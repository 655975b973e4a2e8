/* service_notify.c: READY, STOPPING, STATUS, WATCHDOG. */
#include "rendezvous/server/service_notify.h"

#include <stdio.h>

#include "rendezvous/net/systemd.h"

static void service_notify_on_watchdog(uv_timer_t *t)
{
	systemd_notify("WATCHDOG=1");
}

void service_notify_init(struct server *s)
{
	s->notifies = systemd_is_there();
	uv_timer_init(s->loop, &s->watchdog);
}

void service_notify_close(struct server *s)
{
	if (!uv_is_closing((uv_handle_t *)&s->watchdog))
		uv_close((uv_handle_t *)&s->watchdog, NULL);
}

static void service_notify_send(const struct server *s, const char *what)
{
	char text[512];
	size_t n = server_count_named_jobs(s);

	snprintf(text, sizeof(text), "%sSTATUS=%s at %s, %zu job%s", what,
		 s->draining ? "stopping" : "serving", s->endpoint, n,
		 n == 1 ? "" : "s");
	systemd_notify(text);
}

void service_notify_ready(struct server *s)
{
	uint64_t ms = s->notifies ? systemd_watchdog_ms() / 2 : 0;

	if (!s->notifies)
		return;
	service_notify_send(s, "READY=1\n");
	if (ms)
		uv_timer_start(&s->watchdog, service_notify_on_watchdog, ms,
			       ms);
}

void service_notify_stops(struct server *s)
{
	if (s->notifies)
		service_notify_send(s, "STOPPING=1\n");
}

void service_notify_jobs(struct server *s)
{
	if (s->notifies && !s->draining)
		service_notify_send(s, "");
}
