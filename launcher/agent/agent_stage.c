/* agent_stage.c: --stage: before a round's workers start, the agents exchange
 * where they listen, and each starts a helper that gets the copy from the node
 * before it. Nodes that have the copy come first in that order, then by rank:
 * a node that joins later gets it from its neighbour. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/local_addrs.h"
#include "base/log.h"
#include "base/random.h"
#include "launcher/agent/agent_internal.h"
#include "launcher/stage/stage.h"
#include "launcher/stage/stage_folder.h"

enum { VALUE_MAX = 2 * SOCK_TEXT_MAX + 128, PROGRESS_S = 5, FIRST_S = 2 };

/* One round's; freed when the helper's handles and the exchange are closed. */
struct agent_stage {
	struct agent *agent;
	int holds;
	struct stage stage;
	struct pmi_exchange exchange;
	int has_stage, has_exchange;
	int listener; /* -1: none */
	uint16_t port;
	struct proof own;
	int logs; /* this node reads the source, and logs for all */
	uint32_t nnodes;
	uint64_t began_ns, logged_ns, bytes;
};

/* What each agent publishes to the others. */
struct stage_peer {
	int is_done;
	unsigned port;
	char token[PROOF_HEX_SIZE];
	char host[SOCK_HOST_MAX], addr[SOCK_TEXT_MAX];
};

/* ---- the end ---- */

static void agent_stage_release(struct agent_stage *g)
{
	if (--g->holds)
		return;
	proof_wipe(&g->own, sizeof(g->own));
	free(g);
}

static void agent_stage_on_helper_closed(struct stage *s)
{
	agent_stage_release(s->owner);
}

static void agent_stage_on_exchange_closed(struct pmi_exchange *x)
{
	agent_stage_release(x->owner);
}

static void agent_stage_close_exchange(struct agent_stage *g)
{
	if (g->has_exchange)
		pmi_exchange_close(&g->exchange);
	g->has_exchange = 0;
}

static void agent_stage_close_listener(struct agent_stage *g)
{
	if (g->listener >= 0)
		close(g->listener);
	g->listener = -1;
}

void agent_stage_end(struct agent *a)
{
	struct agent_stage *g = a->stage;

	if (!g)
		return;
	a->stage = NULL;
	agent_stage_close_listener(g);
	agent_stage_close_exchange(g);
	if (g->has_stage)
		stage_stop(&g->stage, agent_stage_on_helper_closed);
	agent_stage_release(g);
}

static void agent_stage_fail(struct agent *a, const char *why)
{
	agent_stage_end(a);
	member_failed(&a->member, a->held.start.round, 0, why);
}

/* ---- the workers may start ---- */

/* Workers find the copy. */
static int agent_stage_use(struct agent *a, const char *copy, struct err *e)
{
	char dir[PATH_MAX];
	int rc;

	snprintf(dir, sizeof(dir), "%s", copy);
	*strrchr(dir, '/') = '\0';
	a->staged.hold = stage_folder_hold(dir, e);
	if (a->staged.hold < 0)
		return a->staged.hold;
	snprintf(a->staged.dir, sizeof(a->staged.dir), "%s", dir);
	rc = stage_use_environment(&a->staged.spec, copy, e);
	a->staged.parts = *a->parts;
	if (rc == 0 && !a->parts->roles)
		rc = stage_use_program(&a->staged.spec, copy,
				       &a->staged.parts.program, e);
	a->parts = &a->staged.parts;
	return rc;
}

static void agent_stage_continue(struct agent *a)
{
	struct agent_held held = a->held; /* pmix may hold another one */

	if (a->state != PRELOADING)
		return;
	if (!a->staged.has_preload) {
		a->staged.has_preload = 1;
		agent_start_preload(a);
	}
	if (preload_await(&a->preload))
		return;
	held.start.master_addr = SLICE_STR(held.master);
	a->starting = &held.start;
	agent_handle(a, EV_START, "the copy is complete");
	a->starting = NULL;
}

/* ---- reports ---- */

static double agent_stage_seconds(const struct agent_stage *g)
{
	return (double)(clock_ns() - g->began_ns) / 1e9;
}

static double agent_stage_gib(uint64_t bytes)
{
	return (double)bytes / (1 << 30);
}

static void agent_stage_log_list(struct agent_stage *g,
				 const struct stage_report *r)
{
	g->bytes = r->bytes;
	if (g->logs)
		log_info("staging '%.*s' on %u node%s: %.2f GiB in %u files",
			 SLICE_FMT(r->text), g->nnodes,
			 g->nnodes == 1 ? "" : "s", agent_stage_gib(r->bytes),
			 r->files);
}

static void agent_stage_log_progress(struct agent_stage *g, uint64_t bytes)
{
	uint64_t now = clock_ns();
	double s = agent_stage_seconds(g);

	if (!g->logs || !g->bytes || s < FIRST_S ||
	    now - g->logged_ns < PROGRESS_S * 1000000000ull)
		return;
	g->logged_ns = now;
	log_info("staging: %.0f %%, %.2f of %.2f GiB, %.0f MiB/s",
		 100.0 * (double)bytes / (double)g->bytes,
		 agent_stage_gib(bytes), agent_stage_gib(g->bytes),
		 (double)bytes / (1 << 20) / s);
}

static void agent_stage_log_end(const struct agent_stage *g)
{
	if (g->logs)
		log_info("staged on %u node%s in %.1f s", g->nnodes,
			 g->nnodes == 1 ? "" : "s", agent_stage_seconds(g));
}

static void agent_stage_on_report(void *owner, const struct stage_report *r)
{
	struct agent_stage *g = owner;
	struct agent *a = g->agent;
	struct err e = ERR_INIT;
	char copy[PATH_MAX];

	switch (r->kind) {
	case 'L':
		agent_stage_log_list(g, r);
		break;
	case 'N':
		log_warn("%.*s", SLICE_FMT(r->text));
		break;
	case 'P':
		agent_stage_log_progress(g, r->bytes);
		break;
	case 'A':
		agent_stage_log_end(g);
		agent_stage_continue(a);
		break;
	case 'D':
		if (*a->staged.dir) /* it was there before this round */
			break;
		snprintf(copy, sizeof(copy), "%.*s", SLICE_FMT(r->text));
		log_debug("the copy '%s' %s", copy,
			  r->number ? "was there" : "is complete");
		if (agent_stage_use(a, copy, &e) < 0)
			agent_stage_fail(a, e.text);
		break;
	}
}

static void agent_stage_on_failed(void *owner, const char *why)
{
	struct agent_stage *g = owner;
	struct agent *a = g->agent;

	if (a->state != PRELOADING) /* this node's workers run */
		log_warn("%s; other nodes may not get their copies", why);
	else
		agent_stage_fail(a, why);
}

/* ---- the helper ---- */

static int agent_stage_start_helper(struct agent_stage *g,
				    struct stage_order *o, struct err *e)
{
	struct agent *a = g->agent;
	int rc;

	o->folder = SLICE_STR(a->staged.spec.folder);
	o->own = g->own;
	g->began_ns = clock_ns();
	g->stage = (struct stage){.owner = g, .loop = &a->loop,
				  .on_report = agent_stage_on_report,
				  .on_failed = agent_stage_on_failed};
	g->has_stage = 1;
	g->holds++;
	rc = stage_start(&g->stage, o, o->serves ? g->listener : -1, e);
	agent_stage_close_listener(g);
	return rc;
}

/* This node is the first that has no copy. */
static int agent_stage_read_source(struct agent_stage *g,
				   struct stage_order *o, struct err *e)
{
	const struct stage_spec *spec = &g->agent->staged.spec;

	g->logs = 1;
	if (!*spec->source)
		return err_set(e, -ENOENT, "--stage: there is no '%s' on %s, "
			       "the first node, which reads it", spec->path,
			       g->agent->member.host);
	o->source = SLICE_STR(spec->source);
	return agent_stage_start_helper(g, o, e);
}

/* ---- the exchange ---- */

static int agent_stage_parse(struct stage_peer *p, struct slice value)
{
	char text[VALUE_MAX];

	if (value.len >= sizeof(text))
		return -1;
	memcpy(text, value.data, value.len);
	text[value.len] = '\0';
	return sscanf(text, "%d %u %64s %255s %319s", &p->is_done, &p->port,
		      p->token, p->host, p->addr) == 5 && p->port <= 65535
		       ? 0 : -1;
}

/* The neighbours of this node in the order in which nodes that have the copy
 * come first; -1: none. */
static void agent_stage_find_place(const struct stage_peer *p, uint32_t n,
				   uint32_t self, int64_t *before,
				   int64_t *after)
{
	int64_t last = -1;

	*before = *after = -1;
	for (uint32_t i = 0; i < 2 * n; i++) {
		if (p[i % n].is_done != (i < n))
			continue;
		if (i % n == self)
			*before = last;
		else if (last == self)
			*after = i % n;
		last = i % n;
	}
}

static int agent_stage_begin_chain(struct agent_stage *g,
				   const struct stage_peer *p, struct err *e)
{
	struct agent *a = g->agent;
	struct stage_order o = {{NULL, 0}};
	char name[2 * SOCK_TEXT_MAX];
	int64_t before, after;

	agent_stage_find_place(p, g->nnodes, a->held.start.node_rank, &before,
			       &after);
	o.serves = after >= 0 && !p[after].is_done;
	if (*a->staged.dir && !o.serves)
		return 0;
	if (proof_from_hex(&o.shared, p[0].token) < 0)
		return err_set(e, ERR_PROTOCOL, "--stage: node 0 (%s) sent no "
			       "token", p[0].host);
	if (*a->staged.dir) {
		o.copy = SLICE_STR(a->staged.dir);
		return agent_stage_start_helper(g, &o, e);
	}
	if (before < 0)
		return agent_stage_read_source(g, &o, e);
	snprintf(name, sizeof(name), "node %u (%s)", (unsigned)before,
		 p[before].host);
	o.name = SLICE_STR(name);
	o.addr = SLICE_STR(p[before].addr);
	o.port = (uint16_t)p[before].port;
	if (proof_from_hex(&o.token, p[before].token) < 0)
		return err_set(e, ERR_PROTOCOL, "--stage: %s sent no token",
			       name);
	return agent_stage_start_helper(g, &o, e);
}

static void agent_stage_on_done(struct pmi_exchange *x,
				const struct slice *values)
{
	struct agent_stage *g = x->owner;
	struct agent *a = g->agent;
	struct stage_peer *p = calloc(g->nnodes, sizeof(*p));
	struct err e = ERR_INIT;
	int rc = p ? 0 : err_no_memory(&e, "--stage");

	for (uint32_t i = 0; rc == 0 && i < g->nnodes; i++) {
		if (agent_stage_parse(&p[i], values[i]) < 0)
			rc = err_set(&e, ERR_PROTOCOL, "--stage: node %u sent "
				     "an invalid address", i);
	}
	if (rc == 0)
		rc = agent_stage_begin_chain(g, p, &e);
	free(p);
	if (rc < 0) {
		agent_stage_fail(a, e.text);
		return;
	}
	agent_stage_close_exchange(g);
	if (*a->staged.dir)
		agent_stage_continue(a);
}

static void agent_stage_on_exchange_failed(struct pmi_exchange *x,
					   const struct err *why)
{
	struct agent_stage *g = x->owner;

	agent_stage_fail(g->agent, why->text);
}

static const struct pmi_exchange_events exchange_events = {
	.on_done = agent_stage_on_done,
	.on_failed = agent_stage_on_exchange_failed,
	.on_closed = agent_stage_on_exchange_closed,
};

/* At the address where other nodes reach this one, if that is one of ours;
 * else, behind NAT, at any. */
static int agent_stage_listen(struct agent_stage *g, struct err *e)
{
	struct sock_addr a[SOCK_LISTEN_MAX];
	struct endpoint ep = {.port = 0};
	int n, i = 0;

	snprintf(ep.host, sizeof(ep.host), "%.*s", SOCK_HOST_MAX - 1,
		 g->agent->member.addr_text);
	n = local_addrs_of(&ep, a, SOCK_LISTEN_MAX, e);
	if (n == 0) {
		n = sock_resolve(&ep, a, 1, e);
		if (n > 0)
			sock_addr_number(a->ss.ss_family == AF_INET6
						 ? "::" : "0.0.0.0", 0, a);
	}
	if (n < 0)
		return n;
	while (i < n - 1 && sock_addr_is_loopback(&a[i]))
		i++;
	sock_addr_set_port(&a[i], 0);
	g->listener = sock_listen(&a[i], e);
	g->port = sock_addr_port(&a[i]);
	return g->listener < 0 ? g->listener : 0;
}

static int agent_stage_exchange(struct agent_stage *g,
				const struct wire_start *start, struct err *e)
{
	struct agent *a = g->agent;
	const struct pmi_exchange_round round =
		agent_exchange_round(a, start, "stage");
	char value[VALUE_MAX], token[PROOF_HEX_SIZE], addr[SOCK_TEXT_MAX];
	int rc = agent_stage_listen(g, e);

	if (rc == 0)
		rc = random_bytes(g->own.bytes, PROOF_SIZE, e);
	if (rc < 0)
		return rc;
	g->exchange.owner = g;
	rc = pmi_exchange_start(&g->exchange, &a->loop, &round,
				&exchange_events, e);
	if (rc < 0)
		return rc;
	g->has_exchange = 1;
	g->holds++;
	proof_to_hex(token, &g->own);
	memcpy(addr, a->member.addr_text, sizeof(addr));
	snprintf(value, sizeof(value), "%d %u %s %s %s", *a->staged.dir != 0,
		 g->port, token, a->member.host, sock_host_unscope(addr));
	pmi_exchange_begin(&g->exchange, SLICE_STR(value));
	proof_wipe(token, sizeof(token));
	proof_wipe(value, sizeof(value));
	return 0;
}

static int agent_stage_begin(struct agent *a, struct err *e)
{
	const struct wire_start *start = &a->held.start;
	struct agent_stage *g = calloc(1, sizeof(*g));
	struct stage_order o = {{NULL, 0}};

	if (!g)
		return err_no_memory(e, "--stage");
	g->agent = a;
	g->holds = 1;
	g->listener = -1;
	g->nnodes = start->nnodes;
	a->stage = g;
	if (start->nnodes > 1)
		return agent_stage_exchange(g, start, e);
	return agent_stage_read_source(g, &o, e);
}

/* The first round: what is to be copied. */
static int agent_stage_prepare(struct agent *a, struct err *e)
{
	if (*a->staged.spec.path)
		return 0;
	return stage_spec_parse(&a->staged.spec, a->options->stage,
				a->parts->program.path, e);
}

int agent_stage_waits(struct agent *a, const struct wire_start *start)
{
	struct err e = ERR_INIT;
	int rc;

	if (!a->options->stage || !a->parts || a->state != JOINING)
		return 0;
	agent_stage_end(a);
	if (start->nnodes == 1 && *a->staged.dir)
		return 0;
	agent_hold(a, start);
	agent_handle(a, EV_WAIT, "--stage copies");
	rc = agent_stage_prepare(a, &e);
	if (rc == 0)
		rc = agent_stage_begin(a, &e);
	if (rc < 0)
		agent_stage_fail(a, e.text);
	return 1;
}

int agent_stage_reaped(struct agent *a, pid_t pid, int status)
{
	return a->stage && a->stage->has_stage &&
	       stage_reaped(&a->stage->stage, pid, status);
}
