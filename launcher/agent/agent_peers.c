/* agent_peers.c: the addresses of all workers of a round, which --env tf and
 * --env paddle need before the workers start. */
#include <stdio.h>
#include <stdlib.h>

#include "launcher/agent/agent_internal.h"

enum { PEERS_MAX = 64 << 20 };

struct agent_peers {
	struct agent *agent;
	struct pmi_exchange exchange;
};

/* Appends "host:port" of this node's workers. */
static void agent_peers_put_own(const struct agent *a, struct buf *out)
{
	struct endpoint ep;
	char text[SOCK_TEXT_MAX];

	snprintf(ep.host, sizeof(ep.host), "%.*s", SOCK_HOST_MAX - 1,
		 a->member.addr_text);
	sock_host_unscope(ep.host);
	for (uint32_t i = 0; i < a->rdzv->nproc; i++) {
		ep.port = a->ports.ports[i];
		buf_printf(out, "%s%s", i ? "," : "",
			   endpoint_text(&ep, text));
	}
}

static void agent_peers_on_done(struct pmi_exchange *x,
				const struct slice *values)
{
	struct agent_peers *p = x->owner;
	struct agent *a = p->agent;

	buf_reset(&a->peers_text);
	for (uint32_t i = 0; i < x->round.nnodes; i++) {
		if (i)
			buf_put_u8(&a->peers_text, ',');
		buf_put(&a->peers_text, values[i].data, values[i].len);
	}
	buf_put_u8(&a->peers_text, '\0');
	agent_peers_end(a);
	if (a->peers_text.failed)
		member_failed(&a->member, a->round, 0,
			      "out of memory for the addresses of all workers");
	else
		agent_continue(a);
}

static void agent_peers_on_failed(struct pmi_exchange *x, const struct err *why)
{
	struct agent_peers *p = x->owner;
	struct agent *a = p->agent;

	agent_peers_end(a);
	member_failed(&a->member, a->round, 0, why->text);
}

static void agent_peers_on_closed(struct pmi_exchange *x)
{
	free(x->owner);
}

static const struct pmi_exchange_events exchange_events = {
	.on_done = agent_peers_on_done,
	.on_failed = agent_peers_on_failed,
	.on_closed = agent_peers_on_closed,
};

static int agent_peers_exchange(struct agent *a, const struct wire_start *start,
				struct err *e)
{
	const struct pmi_exchange_round round =
		agent_exchange_round(a, start, "ports");
	struct agent_peers *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return err_no_memory(e, "the exchange of ports");
	p->agent = a;
	p->exchange.owner = p;
	rc = pmi_exchange_start(&p->exchange, &a->loop, &round,
				&exchange_events, e);
	if (rc < 0) {
		free(p);
		return rc;
	}
	a->peers = p;
	agent_hold(a, start);
	pmi_exchange_begin(&p->exchange, SLICE(a->peers_text.data,
					       a->peers_text.len));
	return AGENT_LATER;
}

int agent_peers_begin(struct agent *a, const struct wire_start *start,
		      struct err *e)
{
	agent_peers_end(a);
	buf_release(&a->peers_text);
	buf_init(&a->peers_text, PEERS_MAX);
	if (!framework_needs_peers(a->options->frameworks))
		return 0;
	agent_peers_put_own(a, &a->peers_text);
	if (!a->peers_text.failed && start->nnodes > 1)
		return agent_peers_exchange(a, start, e);
	buf_put_u8(&a->peers_text, '\0');
	return a->peers_text.failed ? err_no_memory(e, "the workers' ports")
				    : 0;
}

void agent_peers_end(struct agent *a)
{
	if (a->peers)
		pmi_exchange_close(&a->peers->exchange);
	a->peers = NULL;
}

const char *agent_peers_list(const struct agent *a)
{
	return a->peers_text.len ? (const char *)a->peers_text.data : "";
}
