/* tcp_timeout.c: a step that makes no progress: notices to the hosts that it
 * waits for, and at its timeout the reason, by what the kernel knows of the
 * connections. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "worker-sdk/tcp/tcp_figures.h"
#include "worker-sdk/tcp/tcp_steps.h"

#define MS UINT64_C(1000000)

enum {
	/* After this long without progress the awaited hosts get a notice. */
	NOTICE_MS = 400,
	/* A probe that was sent later may still be answered. */
	PROBE_MS = 200,
	/* Operations that follow each other faster are counted as one; plus
	 * 1 ms for each host, because it takes a few microseconds. */
	COUNT_MS = 10,
	ENDS_TEXT = 112, /* two IPv6 addresses */
	WHY_TEXT = 384,
	EXPLAINED_TEXT = DDP__TCP_NETWORK_TEXT
};

static int step_is_awaited(void *arg, int link)
{
	const struct ddp__tcp *t = arg;

	for (int i = 0; i < t->busy; i++)
		if (t->streams[i].link == link && !t->streams[i].sends)
			return 1;
	return 0;
}

/* Notifies the hosts of the call in which this one waits: they may wait for
 * this host in another call, in which neither sends. */
static void step_send_waits(struct ddp__schedule *s, int to_readers_too)
{
	struct ddp__tcp *t = s->endpoint;
	int last = -1;

	for (int i = 0; i < t->busy; i++) {
		const struct ddp__stream *st = &t->streams[i];
		int host = ddp__tcp_host(t, st->link);

		if ((st->sends && !to_readers_too) || host == last)
			continue;
		ddp__tcp_send_waits(t, &s->call, host);
		last = host;
	}
}

static void step_notify(struct ddp__schedule *s)
{
	struct ddp__tcp *t = s->endpoint;

	if (t->noticed < s->turn)
		step_send_waits(s, 0);
	t->noticed = s->turn;
}

/* What a host's connections say. */
struct host_observation {
	struct ddp__figures data, small;
	int link; /* the link of data */
	enum ddp__verdict verdict;
	struct ddp__link_look look; /* without them */
};

/* Adds up the segments on the host's connections. */
struct host_sum {
	uint32_t came, sent, resent, stuck;
};

static struct host_sum host_count(const struct ddp__tcp *t, int host)
{
	struct host_sum sum = {0};
	struct ddp__figures f;

	for (int l = host * t->links; l < (host + 1) * t->links; l++) {
		if (ddp__figures_read(t->fd[l], &f))
			continue;
		sum.came += f.came;
		sum.sent += f.sent;
		sum.resent += f.resent;
		sum.stuck += ddp__figures_resent_stuck(&f);
	}
	return sum;
}

static void host_losses(const struct ddp__tcp *t, int host,
			struct ddp__link_look *l)
{
	const struct ddp__tcp_wait *w = &t->waits[host];
	struct host_sum sum = host_count(t, host);

	l->came = sum.came - w->came;
	l->before = w->before;
	l->since = ddp__loss_since(&w->before, sum.sent, sum.resent, sum.stuck);
}

void ddp__tcp_count_before(struct ddp__tcp *t)
{
	uint64_t now = clock_ns(), pause = (COUNT_MS + (uint64_t)t->n) * MS;

	if (t->timeout_ms < 0 || now < t->counted_ns + pause)
		return;
	t->counted_ns = now;
	for (int h = 0; h < t->n; h++) {
		struct host_sum sum;

		if (h == t->me)
			continue;
		sum = host_count(t, h);
		t->waits[h].before = (struct ddp__loss){sum.sent, sum.resent};
	}
}

/* Before the timeout: a short message to each host of the step, and the number
 * of segments that have arrived until then. */
static void step_probe(struct ddp__schedule *s, uint64_t now)
{
	struct ddp__tcp *t = s->endpoint;

	for (int h = 0; h < t->n; h++)
		if (h != t->me)
			t->waits[h].came = host_count(t, h).came;
	step_send_waits(s, 1);
	t->probed_ns = now;
}

/* Looks at all connections with the host, and keeps what explains most. */
static void host_observe(const struct ddp__tcp *t, int host, uint64_t now,
			 struct host_observation *k)
{
	struct ddp__figures f;

	*k = (struct host_observation){.verdict = DDP__LINK_UNKNOWN};
	host_losses(t, host, &k->look);
	k->look.between_ms = (uint32_t)((now - t->probed_ns) / MS);
	if (k->look.between_ms < PROBE_MS ||
	    ddp__figures_read(t->fd[host * t->links], &k->small))
		return;
	for (int i = 0; i < t->links; i++) {
		struct ddp__link_look l = k->look;
		enum ddp__verdict v;

		l.data = &f;
		l.small = i ? &k->small : NULL;
		if (ddp__figures_read(t->fd[host * t->links + i], &f))
			continue;
		v = ddp__link_verdict(&l);
		if (v <= k->verdict)
			continue;
		k->verdict = v;
		k->data = f;
		k->link = host * t->links + i;
	}
}

/* The host whose connection explains the wait: the late host, or else any host
 * to which the network fails, because the late host may wait for it. */
static int step_observe(const struct ddp__tcp *t, int late, uint64_t now,
			struct host_observation *k)
{
	struct host_observation other;

	host_observe(t, late, now, k);
	for (int h = 0; h < t->n && !ddp__link_is_bad(k->verdict); h++) {
		if (h == t->me || h == late)
			continue;
		host_observe(t, h, now, &other);
		if (!ddp__link_is_bad(other.verdict))
			continue;
		*k = other;
		return h;
	}
	return late;
}

static char *observation_text(const struct host_observation *k, char *out,
			      size_t size)
{
	struct ddp__link_look l = k->look;

	l.data = &k->data;
	l.small = &k->small;
	return ddp__link_text(k->verdict, &l, out, size);
}

/* Returns 1 and the text if the network fails at that host's connection. */
static int observation_text_bad(const struct ddp__tcp *t, int host,
			 const struct host_observation *k, char *out,
			 size_t size)
{
	char from[DDP__NAME_MAX], to[DDP__NAME_MAX], ends[ENDS_TEXT];
	char why[WHY_TEXT];

	if (!ddp__link_is_bad(k->verdict))
		return 0;
	snprintf(out, size, "%s -> %s (%s): %s", ddp__tcp_name(t, t->me, from),
		 ddp__tcp_name(t, host, to),
		 ddp__link_ends(t->fd[k->link], ends, sizeof(ends)),
		 observation_text(k, why, sizeof(why)));
	return 1;
}

/* Notifies the other hosts of a bad network: one of them may wait for this
 * host, and see nothing wrong at its end. */
static void step_judge(struct ddp__tcp *t, uint64_t now)
{
	char text[DDP__TCP_NETWORK_TEXT];
	struct host_observation k;
	int bad = step_observe(t, (t->me + 1) % t->n, now, &k);

	t->judged_ns = now;
	if (!observation_text_bad(t, bad, &k, text, sizeof(text)))
		return;
	for (int h = 0; h < t->n; h++)
		if (h != t->me)
			ddp__tcp_send_notice(t, h, DDP__FRAME_NETWORK, text,
					     strlen(text));
}

/* Packets were lost, but all that was sent has arrived by now. */
static int observation_is_past(const struct host_observation *k)
{
	return k->verdict == DDP__LINK_LOSSY && !k->data.unacked &&
	       !k->data.unsent;
}

static void step_explain(const struct ddp__tcp *t, int late, uint64_t waited,
			 char *out, size_t size)
{
	static const char absent[] =
		"it, or a rank that it waits for, has not arrived";
	uint64_t now = clock_ns();
	char ends[ENDS_TEXT], why[WHY_TEXT];
	struct host_observation k;
	int host = step_observe(t, late, now, &k);
	int has_heard = t->heard_ns + waited >= now;

	if (!(has_heard && observation_is_past(&k)) &&
	    observation_text_bad(t, host, &k, out, size))
		return;
	if (has_heard)
		snprintf(out, size, "%s", t->heard);
	else if (k.verdict == DDP__LINK_UNKNOWN)
		snprintf(out, size, "%s", absent);
	else
		snprintf(out, size, "%s; %s: %s", absent,
			 ddp__link_ends(t->fd[k.link], ends, sizeof(ends)),
			 observation_text(&k, why, sizeof(why)));
}

static int step_timed_out(const struct ddp__schedule *s, uint64_t waited,
			  struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX];
	char why[EXPLAINED_TEXT];
	const struct ddp__stream *late = &t->streams[0];
	int host;

	/* a host that sends nothing is a better clue than a host that
	 * receives nothing */
	for (int i = 1; i < t->busy && late->sends; i++)
		late = &t->streams[i];
	host = ddp__tcp_host(t, late->link);
	step_explain(t, host, waited, why, sizeof(why));
	return err_set(e, ERR_TIMEOUT, "%s: %s %s for %.1f s: %s",
		       ddp__call_text(&s->call, call),
		       late->sends ? "no data read by" : "no data from",
		       ddp__tcp_name(t, host, name), (double)waited / 1e9, why);
}

int ddp__tcp_step_check(void *tcp, uint64_t waited_ns, struct err *e)
{
	struct ddp__tcp *t = tcp;
	struct ddp__schedule *s = t->schedule;
	uint64_t limit = (uint64_t)t->timeout_ms * MS, now = clock_ns();
	int rc;

	if (!s || !t->busy)
		return 0;
	rc = ddp__tcp_check_all(t, &s->call, step_is_awaited, t, e);
	if (rc)
		return rc;
	if (waited_ns >= NOTICE_MS * MS)
		step_notify(s);
	if (t->timeout_ms < 0)
		return 0;
	if (waited_ns >= limit / 2 && t->probed_ns + waited_ns <= now)
		step_probe(s, now);
	if (waited_ns >= limit / 4 * 3 && t->judged_ns + waited_ns <= now)
		step_judge(t, now);
	return waited_ns >= limit ? step_timed_out(s, waited_ns, e) : 0;
}
