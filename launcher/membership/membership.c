/* membership.c: the table, and the outbox. */
#include "launcher/membership/membership.h"

#include <assert.h>

#define EDGE(next_, act_)                                                      \
	{                                                                      \
		.next = MEMBER_##next_, .act = MEMBER_DO_##act_, .is_known = 1 \
	}
#define EDGE_AT(next_, place_, act_)                              \
	{                                                         \
		.next = MEMBER_##next_, .place = MEMBER_##place_, \
		.act = MEMBER_DO_##act_, .is_known = 1            \
	}

const char *const membership_state_names[] = {
	[MEMBER_IDLE] = "IDLE",
	[MEMBER_CONNECTING] = "CONNECTING",
	[MEMBER_WAITING] = "WAITING",
	[MEMBER_SPARE] = "SPARE",
	[MEMBER_RUNNING] = "RUNNING",
	[MEMBER_ENDED] = "ENDED",
	[MEMBER_EXPELLED] = "EXPELLED",
	[MEMBER_RENEWING] = "RENEWING",
	[MEMBER_RECONNECTING] = "RECONNECTING",
	[MEMBER_DETACHED] = "DETACHED",
	[MEMBER_CLOSED] = "CLOSED",
};
const char *const membership_event_names[] = {
	[MEMBER_ON_JOIN] = "join",
	[MEMBER_ON_GREETED] = "greeted",
	[MEMBER_ON_TURNED_AWAY] = "turned-away",
	[MEMBER_ON_SPARE] = "spare",
	[MEMBER_ON_COUNTED] = "counted",
	[MEMBER_ON_START] = "start",
	[MEMBER_ON_ROUND_END] = "round-end",
	[MEMBER_ON_JOB_END] = "job-end",
	[MEMBER_ON_STALLED] = "stalled",
	[MEMBER_ON_AWAY] = "away",
	[MEMBER_ON_RESUMED] = "resumed",
	[MEMBER_ON_UNJOINED] = "unjoined",
	[MEMBER_ON_EXPELLED] = "expelled",
	[MEMBER_ON_FORGOTTEN] = "forgotten",
	[MEMBER_ON_DETACH] = "detach",
	[MEMBER_ON_NEEDED] = "needed",
	[MEMBER_ON_FAIL] = "fail",
	[MEMBER_ON_CLOSE] = "close",
};
const char *const membership_act_names[] = {
	[MEMBER_DO_NOTHING] = "nothing",
	[MEMBER_DO_CONNECT] = "connect",
	[MEMBER_DO_FINISH_JOIN] = "finish-join",
	[MEMBER_DO_JOIN] = "join",
	[MEMBER_DO_RETRY] = "retry",
	[MEMBER_DO_BE_SPARE] = "be-spare",
	[MEMBER_DO_START] = "start",
	[MEMBER_DO_END] = "end",
	[MEMBER_DO_RENEW] = "renew",
	[MEMBER_DO_RECONNECT] = "reconnect",
	[MEMBER_DO_RESUME] = "resume",
	[MEMBER_DO_REPLAY] = "replay",
	[MEMBER_DO_REJOIN] = "rejoin",
	[MEMBER_DO_BE_EXPELLED] = "be-expelled",
	[MEMBER_DO_DETACH] = "detach",
	[MEMBER_DO_LOSE] = "lose",
	[MEMBER_DO_FAIL] = "fail",
};

/* The edges of every state in which a server has accepted this node. */
#define CONNECTED                                                         \
	[MEMBER_ON_STALLED] = EDGE(RENEWING, RENEW),                      \
	[MEMBER_ON_AWAY] = EDGE(RECONNECTING, RECONNECT),                 \
	[MEMBER_ON_FAIL] = EDGE(CLOSED, FAIL),                            \
	[MEMBER_ON_CLOSE] = EDGE(CLOSED, NOTHING)

static const struct membership_edge table[][MEMBER_EVENTS] = {
	[MEMBER_IDLE] =
		{
			[MEMBER_ON_JOIN] =
				EDGE_AT(CONNECTING, WAITING, CONNECT),
			[MEMBER_ON_CLOSE] = EDGE(CLOSED, NOTHING),
		},
	[MEMBER_CONNECTING] =
		{
			[MEMBER_ON_GREETED] = EDGE(WAITING, FINISH_JOIN),
			[MEMBER_ON_TURNED_AWAY] = EDGE(CONNECTING, RETRY),
			/* our own server, which had turned us away, died */
			[MEMBER_ON_AWAY] = EDGE(RECONNECTING, RECONNECT),
			[MEMBER_ON_FAIL] = EDGE(CLOSED, FAIL),
			[MEMBER_ON_CLOSE] = EDGE(CLOSED, NOTHING),
		},
	[MEMBER_WAITING] =
		{
			[MEMBER_ON_TURNED_AWAY] = EDGE(CONNECTING, RETRY),
			[MEMBER_ON_SPARE] = EDGE(SPARE, BE_SPARE),
			[MEMBER_ON_START] = EDGE(RUNNING, START),
			[MEMBER_ON_ROUND_END] = EDGE(WAITING, END),
			[MEMBER_ON_JOB_END] = EDGE(CLOSED, END),
			CONNECTED,
		},
	[MEMBER_SPARE] =
		{
			[MEMBER_ON_TURNED_AWAY] =
				EDGE_AT(CONNECTING, WAITING, RETRY),
			[MEMBER_ON_COUNTED] = EDGE(WAITING, NOTHING),
			[MEMBER_ON_START] = EDGE(RUNNING, START),
			[MEMBER_ON_ROUND_END] = EDGE(SPARE, END),
			[MEMBER_ON_JOB_END] = EDGE(CLOSED, END),
			CONNECTED,
		},
	[MEMBER_RUNNING] =
		{
			[MEMBER_ON_ROUND_END] = EDGE(ENDED, END),
			[MEMBER_ON_JOB_END] = EDGE(CLOSED, END),
			CONNECTED,
		},
	[MEMBER_ENDED] =
		{
			[MEMBER_ON_JOIN] = EDGE(WAITING, JOIN),
			[MEMBER_ON_ROUND_END] = EDGE(ENDED, END),
			[MEMBER_ON_JOB_END] = EDGE(CLOSED, END),
			CONNECTED,
		},
	[MEMBER_EXPELLED] =
		{
			[MEMBER_ON_JOIN] = EDGE(WAITING, JOIN),
			[MEMBER_ON_ROUND_END] = EDGE(EXPELLED, END),
			[MEMBER_ON_JOB_END] = EDGE(CLOSED, END),
			CONNECTED,
		},
	[MEMBER_RENEWING] =
		{
			[MEMBER_ON_JOIN] = EDGE_AT(RENEWING, WAITING, NOTHING),
			[MEMBER_ON_GREETED] = EDGE(RENEWING, RESUME),
			[MEMBER_ON_TURNED_AWAY] = EDGE(RENEWING, RETRY),
			[MEMBER_ON_STALLED] = EDGE(RENEWING, RENEW),
			[MEMBER_ON_AWAY] = EDGE(RECONNECTING, RECONNECT),
			[MEMBER_ON_RESUMED] = EDGE(BACK, REPLAY),
			[MEMBER_ON_UNJOINED] = EDGE(WAITING, REJOIN),
			[MEMBER_ON_EXPELLED] = EDGE(EXPELLED, BE_EXPELLED),
			[MEMBER_ON_FORGOTTEN] = EDGE(DETACHED, DETACH),
			[MEMBER_ON_FAIL] = EDGE(CLOSED, FAIL),
			[MEMBER_ON_CLOSE] = EDGE(CLOSED, NOTHING),
		},
	[MEMBER_RECONNECTING] =
		{
			[MEMBER_ON_JOIN] =
				EDGE_AT(RECONNECTING, WAITING, NOTHING),
			[MEMBER_ON_GREETED] = EDGE(RECONNECTING, RESUME),
			[MEMBER_ON_TURNED_AWAY] = EDGE(RECONNECTING, RETRY),
			[MEMBER_ON_STALLED] = EDGE(RECONNECTING, RENEW),
			/* lost again before it answered: the time runs on */
			[MEMBER_ON_AWAY] = EDGE(RECONNECTING, NOTHING),
			[MEMBER_ON_RESUMED] = EDGE(BACK, REPLAY),
			[MEMBER_ON_UNJOINED] = EDGE(WAITING, REJOIN),
			[MEMBER_ON_EXPELLED] = EDGE(EXPELLED, BE_EXPELLED),
			[MEMBER_ON_FORGOTTEN] = EDGE(DETACHED, DETACH),
			[MEMBER_ON_DETACH] = EDGE(DETACHED, DETACH),
			[MEMBER_ON_FAIL] = EDGE(CLOSED, FAIL),
			[MEMBER_ON_CLOSE] = EDGE(CLOSED, NOTHING),
		},
	/* A server that comes after its time is still welcome. */
	[MEMBER_DETACHED] =
		{
			[MEMBER_ON_JOIN] = EDGE(CLOSED, LOSE),
			[MEMBER_ON_GREETED] = EDGE(DETACHED, RESUME),
			[MEMBER_ON_TURNED_AWAY] = EDGE(DETACHED, RETRY),
			[MEMBER_ON_STALLED] = EDGE(DETACHED, RENEW),
			[MEMBER_ON_AWAY] = EDGE(DETACHED, NOTHING),
			[MEMBER_ON_RESUMED] = EDGE(BACK, REPLAY),
			[MEMBER_ON_EXPELLED] = EDGE(EXPELLED, BE_EXPELLED),
			[MEMBER_ON_FORGOTTEN] = EDGE(DETACHED, DETACH),
			[MEMBER_ON_NEEDED] = EDGE(CLOSED, LOSE),
			[MEMBER_ON_FAIL] = EDGE(CLOSED, FAIL),
			[MEMBER_ON_CLOSE] = EDGE(CLOSED, NOTHING),
		},
	[MEMBER_CLOSED] =
		{
			[MEMBER_ON_CLOSE] = EDGE(CLOSED, NOTHING),
		},
};
static_assert(sizeof(table) / sizeof(*table) == MEMBER_STATES,
	      "a row for each state");

static int membership_is_place(enum membership_state s)
{
	return s == MEMBER_WAITING || s == MEMBER_SPARE ||
	       s == MEMBER_RUNNING || s == MEMBER_ENDED || s == MEMBER_EXPELLED;
}

const struct membership_edge *membership_step(struct membership *ms,
					      enum membership_event ev)
{
	const struct membership_edge *edge = &table[ms->state][ev];

	if (!edge->is_known)
		return edge;
	ms->state = edge->next == MEMBER_BACK ? ms->place : edge->next;
	if (edge->place != MEMBER_IDLE)
		ms->place = edge->place;
	else if (membership_is_place(ms->state))
		ms->place = ms->state;
	return edge;
}

int membership_waits(const struct membership *ms)
{
	return ms->state != MEMBER_CLOSED &&
	       (ms->place == MEMBER_WAITING || ms->place == MEMBER_SPARE);
}

int membership_has_deadline(const struct membership *ms)
{
	return membership_waits(ms) && ms->place != MEMBER_SPARE;
}

int membership_is_heard(const struct membership *ms)
{
	return membership_is_place(ms->state) && ms->state != MEMBER_EXPELLED;
}

int membership_is_away(const struct membership *ms)
{
	return ms->state == MEMBER_RENEWING ||
	       ms->state == MEMBER_RECONNECTING || ms->state == MEMBER_DETACHED;
}

void membership_print(FILE *f)
{
	for (int s = 0; s < MEMBER_STATES; s++) {
		for (int ev = 0; ev < MEMBER_EVENTS; ev++) {
			const struct membership_edge *edge = &table[s][ev];

			if (!edge->is_known)
				continue;
			fprintf(f, "%-12s %-11s -> %-12s %s\n",
				membership_state_names[s],
				membership_event_names[ev],
				edge->next == MEMBER_BACK
					? "(its place)"
					: membership_state_names[edge->next],
				membership_act_names[edge->act]);
		}
	}
}

enum { OUTBOX_MAX = 256 << 20 };

/* ---- the outbox ---- */

void outbox_init(struct outbox *o)
{
	*o = (struct outbox){.is_urgent = 0};
	buf_init(&o->frames, OUTBOX_MAX);
}

void outbox_release(struct outbox *o)
{
	buf_release(&o->frames);
}

void outbox_clear(struct outbox *o)
{
	buf_reset(&o->frames);
	o->is_urgent = 0;
}

/* What was put after the first `from` bytes is a notice of its own. */
static int outbox_added(struct outbox *o, size_t from, int is_urgent,
			struct slice *frame, struct err *e)
{
	struct slice all;
	int rc = buf_bytes(&o->frames, &all);

	if (rc < 0)
		return err_set(e, rc,
			       "cannot keep a notice for the "
			       "rendezvous server: %s",
			       err_name(rc));
	o->is_urgent |= is_urgent;
	*frame = SLICE(all.data + from, all.len - from);
	return 0;
}

int outbox_add_exited(struct outbox *o, const struct wire_exited *x,
		      struct slice *frame, struct err *e)
{
	size_t from = o->frames.len;

	wire_put_exited(&o->frames, WIRE_EXITED, WIRE_NOTICE, 0, x);
	return outbox_added(o, from, x->code || x->signal, frame, e);
}

int outbox_add_failed(struct outbox *o, const struct wire_failed *x,
		      struct slice *frame, struct err *e)
{
	size_t from = o->frames.len;

	wire_put_failed(&o->frames, WIRE_FAILED, WIRE_NOTICE, 0, x);
	return outbox_added(o, from, 1, frame, e);
}

int outbox_add_stop(struct outbox *o, const struct wire_stop *x,
		    struct slice *frame, struct err *e)
{
	size_t from = o->frames.len;

	wire_put_stop(&o->frames, WIRE_STOP, WIRE_NOTICE, 0, x);
	return outbox_added(o, from, 1, frame, e);
}

struct slice outbox_unheard(const struct outbox *o, uint32_t heard)
{
	struct reader in;

	reader_init(&in, SLICE(o->frames.data, o->frames.len));
	while (heard-- && reader_left(&in) >= WIRE_HEADER_SIZE) {
		const char *frame = in.p;
		size_t body = reader_u32(&in);

		in.p = frame + WIRE_HEADER_SIZE + body;
	}
	return SLICE(in.p, in.p < in.end ? (size_t)(in.end - in.p) : 0);
}
