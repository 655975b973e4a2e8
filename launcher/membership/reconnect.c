/* reconnect.c: losing a server, and finding it again. */
#include "launcher/membership/reconnect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/membership/member.h"

enum {
	SAID_MAX = 256 << 20,
	UNHEARD_MANY = 4, /* pings; of a stall that is no longer short */
	QUIET_MS = 1000,  /* where another server is to come, and soon */
};

/* ---- lost ---- */

static void note_time(struct reconnect *r)
{
	time_t now = time(NULL);
	struct tm tm;

	r->lost_ms = clock_ms();
	strftime(r->when, sizeof(r->when), "%H:%M:%S", localtime_r(&now, &tm));
}

static int is_over(struct member *m)
{
	struct reconnect *r = &m->reconnect;
	struct err e = ERR_INIT;
	char at[SOCK_TEXT_MAX];

	err_set(&e, ERR_REMOTE,
		"the rendezvous server at %s was lost at %s: "
		"%.900s",
		connection_server_text(&m->connection, at), r->when,
		r->why.text);
	member_give_up(m, &e);
	return 1;
}

int reconnect_needs(struct member *m)
{
	return m->reconnect.adrift ? is_over(m) : 0;
}

/* The others may have found the next server: who was silent to us has counted
 * us as lost, and so has whoever our own server heard nothing of. */
static int is_left_behind(const struct member *m)
{
	return m->connection.is_candidate &&
	       (m->reconnect.silent || m->connection.supervisor.cut_off);
}

/* Nobody is looked for any more: text, added to why, says why not. */
static void drift(struct member *m, const char *text)
{
	struct reconnect *r = &m->reconnect;
	struct err why = r->why;

	if (r->adrift)
		return;
	r->adrift = 1;
	uv_timer_stop(&r->timer);
	err_set(&r->why, ERR_REMOTE, "%.500s; %.500s", why.text, text);
	if (m->waiting || r->needs || is_left_behind(m)) {
		is_over(m);
		return;
	}
	log_warn("the rendezvous server is lost: %s; the workers go on until "
		 "one needs it",
		 r->why.text);
	m->events->on_adrift(m);
}

static void say_lost(struct member *m)
{
	struct reconnect *r = &m->reconnect;

	r->said_lost = 1;
	/* who starts it again has said so */
	if (!m->connection.hosts)
		log_warn("%s; %sooking for it for %g s (--rdzv-conf "
			 "reconnect_timeout)",
			 r->why.text, m->waiting ? "l" : "the workers go on, l",
			 m->config->reconnect_s);
}

static void on_timer(uv_timer_t *t);

/* For the time that is left, or until it is worth a line. */
static void start_timer(struct member *m, uint64_t gone_ms)
{
	uint64_t ms = config_again_ms(m->config);

	ms = ms > gone_ms ? ms - gone_ms : 0;
	if (!m->reconnect.said_lost && ms > QUIET_MS)
		ms = QUIET_MS;
	uv_timer_start(&m->reconnect.timer, on_timer, ms, 0);
}

static void on_timer(uv_timer_t *t)
{
	struct member *m = t->data;
	char text[128 + ERR_TEXT_MAX];

	if (!m->reconnect.said_lost) {
		say_lost(m);
		start_timer(m, clock_ms() - m->reconnect.lost_ms);
		return;
	}
	snprintf(text, sizeof(text),
		 "it did not come back within %g s "
		 "(--rdzv-conf reconnect_timeout)%s%.300s",
		 m->config->reconnect_s, m->connection.last.code ? ": " : "",
		 m->connection.last.text);
	drift(m, text);
}

int reconnect_lost(struct member *m, const struct err *why, int hopeless)
{
	struct reconnect *r = &m->reconnect;

	if (!config_again_ms(m->config) || m->over)
		return 0;
	if (!r->away || r->renews) {
		r->away = 1;
		r->renews = 0;
		r->why = *why;
		note_time(r);
		r->said_lost = 0;
		if (!m->connection.is_candidate)
			say_lost(m);
		start_timer(m, 0);
	}
	if (hopeless) {
		r->why = *why; /* says more than a connection's end */
		drift(m, "nobody starts it again");
	}
	return 1;
}

/* ---- held up ---- */

static void renew(struct member *m)
{
	struct reconnect *r = &m->reconnect;
	char at[SOCK_TEXT_MAX];

	r->away = r->renews = 1;
	err_set(&r->why, -ETIMEDOUT,
		"the network to the rendezvous server at "
		"%s was down",
		connection_server_text(&m->connection, at));
	log_debug("%s: connecting anew", r->why.text);
	note_time(r);
	connection_renew(&m->connection, &r->why);
}

static int is_held_up(const struct member *m)
{
	return m->connection.phase == CONNECTION_IN && !m->over &&
	       link_is_stalled(&m->connection.link);
}

static void on_reached(void *owner)
{
	struct member *m = owner;

	if (is_held_up(m))
		renew(m);
}

/* TCP waits twice as long from one try to the next: the lease might end before
 * it finds out that the network is back. */
void reconnect_unheard(struct member *m)
{
	if (m->unheard < UNHEARD_MANY)
		return;
	log_debug("%u of %d pings in a row are unanswered", m->unheard,
		  WIRE_PINGS);
	if (config_again_ms(m->config) && is_held_up(m))
		probe_start(&m->reconnect.probe, &m->connection.link.addr,
			    member_ping_ms(m) / 2);
}

/* ---- found ---- */

/* Whoever has started ours again has said so, just then. */
static int is_said(const struct member *m)
{
	return m->connection.supervisor.again_ms &&
	       m->connection.supervisor.again_ms + QUIET_MS >
		       m->reconnect.lost_ms;
}

/* One line in all, where nobody had the time to worry. */
static void say_back(const struct member *m)
{
	const struct reconnect *r = &m->reconnect;
	double s = (double)(clock_ms() - r->lost_ms) / 1e3;
	char at[SOCK_TEXT_MAX];

	connection_server_text(&m->connection, at);
	if (r->said_lost && m->connection.is_candidate)
		log_info("the job's server is at %s after %.3f s", at, s);
	else if (r->said_lost && !m->connection.hosts)
		log_info("the rendezvous server at %s is back after %.3f s", at,
			 s);
	else if (!r->said_lost && !is_said(m))
		log_info("%s; the job's server is at %s after %.3f s",
			 r->why.text, at, s);
	log_debug("back after %.0f ms", s * 1e3);
}

static void be_back(struct member *m)
{
	struct reconnect *r = &m->reconnect;

	uv_timer_stop(&r->timer);
	if (r->renews)
		log_debug("the rendezvous server is heard again");
	else
		say_back(m);
	r->away = r->renews = r->adrift = r->silent = 0;
	m->connection.supervisor.cut_off = 0;
}

int reconnect_greeted(struct member *m)
{
	struct reconnect *r = &m->reconnect;
	struct wire_resume x = {
		.node_id = SLICE_STR(m->node_id),
		.round = r->round,
		.began = (uint8_t)r->began,
		.ended = (uint8_t)r->ended,
	};

	if (!r->away)
		return 0;
	if (!m->config->private_endpoint)
		x.addrs = vouch_addrs(&m->vouch);
	r->asked = ++m->id;
	wire_put_resume(link_out(&m->connection.link), WIRE_RESUME,
			WIRE_REQUEST, r->asked, &x);
	link_flush(&m->connection.link);
	return 1;
}

/* The notices from that number on, once more. */
static void say_again(struct member *m, uint32_t heard)
{
	struct reconnect *r = &m->reconnect;
	struct reader in;
	const char *from;

	reader_init(&in, SLICE(r->said.data, r->said.len));
	while (heard-- && reader_left(&in) >= WIRE_HEADER_SIZE) {
		const char *frame = in.p;
		size_t body = reader_u32(&in);

		in.p = frame + WIRE_HEADER_SIZE + body;
	}
	from = in.p;
	if (from < in.end)
		buf_put(link_out(&m->connection.link), from,
			(size_t)(in.end - from));
	link_flush(&m->connection.link);
}

static void take_known(struct member *m, const struct wire_resumed *x)
{
	int again = m->waiting && !x->joined;

	be_back(m);
	m->join_sent = 1;
	if (again)
		member_send_join(m);
	else
		say_again(m, x->heard);
}

/* The others go on without this node, which may join them: as after a round
 * that ended. */
static void join_anew(struct member *m, const struct wire_resumed *x)
{
	struct reconnect *r = &m->reconnect;
	const struct wire_end end = {.round = r->round,
				     .verdict = WIRE_REGROUP,
				     .text = x->text,
				     .rank = -1};
	int again = r->anew;

	be_back(m);
	r->ended = r->anew = 1;
	if (m->waiting)
		member_send_join(m);
	else if (!again)
		m->events->on_end(m, &end);
}

/* It has forgotten more than that this node waits. */
static void be_forgotten(struct member *m, const struct wire_resumed *x)
{
	const char *left = "", *right = "";
	char text[ERR_TEXT_MAX];

	m->reconnect.adrift = 0;
	connection_stop_search(&m->connection);
	uv_timer_stop(&m->ping); /* nobody is left to be silent */
	if (x->known == WIRE_OVER) {
		m->reconnect.needs = 1;
	} else if (m->connection.is_candidate) { /* the others go on without
						    this node */
		left = "and the next one does not know this node any more (";
		right = ")";
		m->reconnect.silent = 1;
	} else {
		left = "it came back without its state (";
		right = "); --journal FILE keeps it";
	}
	snprintf(text, sizeof(text), "%s%.*s%s", left, SLICE_FMT(x->text),
		 right);
	drift(m, text);
}

static void take_unknown(struct member *m, const struct wire_resumed *x)
{
	if (x->known == WIRE_LOST && m->started &&
	    !m->connection.is_candidate) {
		join_anew(m, x);
	} else if (!m->started) {
		be_back(m);
		member_send_join(m);
	} else {
		be_forgotten(m, x);
	}
}

int reconnect_take(struct member *m, const struct wire_frame *f)
{
	struct wire_resumed x;
	struct err e = ERR_INIT;

	if (f->type != WIRE_RESUME || f->kind != WIRE_REPLY ||
	    f->id != m->reconnect.asked)
		return 0;
	if (wire_get_resumed(f, &x, &e) < 0)
		member_give_up(m, &e);
	else if (x.known == WIRE_KNOWN)
		take_known(m, &x);
	else
		take_unknown(m, &x);
	return 1;
}

/* ---- telling ---- */

void reconnect_begin(struct member *m)
{
	buf_reset(&m->reconnect.said);
	m->reconnect.needs = m->reconnect.anew = 0;
}

void reconnect_say(struct member *m, size_t from, int needs)
{
	struct reconnect *r = &m->reconnect;
	struct slice said;
	struct err e = ERR_INIT;
	int rc = buf_bytes(&r->said, &said);

	/* the server would wait for it, and all nodes for the server */
	if (rc < 0) {
		err_set(&e, rc,
			"cannot keep what this node has to tell the "
			"rendezvous server: %s",
			err_name(rc));
		member_give_up(m, &e);
		return;
	}
	r->needs |= needs;
	if (m->connection.phase == CONNECTION_IN && !r->away && !r->anew)
		buf_put(link_out(&m->connection.link), said.data + from,
			said.len - from);
	if (needs)
		reconnect_needs(m);
}

/* ---- begin and end ---- */

void reconnect_init(struct member *m, uv_loop_t *loop)
{
	buf_init(&m->reconnect.said, SAID_MAX);
	uv_timer_init(loop, &m->reconnect.timer);
	m->reconnect.timer.data = m;
	probe_init(&m->reconnect.probe, loop, on_reached, m);
}

void reconnect_close(struct member *m)
{
	uv_close((uv_handle_t *)&m->reconnect.timer, NULL);
	probe_close(&m->reconnect.probe);
	buf_release(&m->reconnect.said);
}
