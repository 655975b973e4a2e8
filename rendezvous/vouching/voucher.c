/* voucher.c: asks all agents of a connection's source host about it: the first
 * yes admits it, the last no closes it. */
#include "rendezvous/vouching/voucher.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rendezvous/server/hosted_job.h"

/* How to admit such clients on purpose. */
#define OPEN_ADVICE                                                         \
	"if a worker connects from there (through NAT, or from a container " \
	"with its own network), start with --store-open"

struct voucher {
	struct hash_item item; /* first: by number */
	uint32_t number;
	struct hosted_job *hosted;
	struct torch_client *client;
	struct sock_addr from;
	char host[SOCK_HOST_MAX]; /* the host of one of the agents asked */
	uint64_t ms;		  /* their time to answer */
	uint32_t n, open;	  /* agents asked; answers missing */
	struct peer *asked[];	  /* NULL: has answered, or is gone */
};

static struct peer *voucher_peer_of(struct addr_owner *o)
{
	return (struct peer *)((char *)o - offsetof(struct peer, addrs));
}

/* ---- the agents' addresses ---- */

static int voucher_parse_addr(struct hosted_job *h, struct addr_owner *to,
			      struct slice text, struct err *e)
{
	char host[SOCK_HOST_MAX];
	struct sock_addr a;

	if (text.len >= sizeof(host))
		text.len = 0;
	memcpy(host, text.data, text.len);
	host[text.len] = '\0';
	if (strlen(host) != text.len || !sock_addr_number(host, 0, &a))
		return err_set(e, ERR_PROTOCOL,
			       "the node sent an invalid address");
	if (sock_addr_is_loopback(&a) || sock_addr_is_any(&a))
		return 0;
	return addr_book_add(&h->vouchers.book, to, &a);
}

/* An agent whose connection has the same address at both ends is on this host,
 * where workers may connect from loopback. */
static int voucher_add_own(struct hosted_job *h, const struct peer *agent,
			   struct addr_owner *to)
{
	struct addr_book *book = &h->vouchers.book;
	struct sock_addr peer, own, loop;
	int rc;

	if (conn_addrs(&agent->conn, &peer, &own) < 0)
		return 0;
	rc = addr_book_add(book, to, &peer);
	if (rc < 0 || sock_addr_compare(&peer, &own) != 0)
		return rc;
	sock_addr_number("127.0.0.1", 0, &loop);
	return addr_book_add(book, to, &loop);
}

int voucher_prepare(struct hosted_job *h, const struct peer *agent,
		    const struct wire_items *addrs, struct addr_owner *to,
		    struct err *e)
{
	struct reader r;
	int rc;

	if (addrs->count > WIRE_ADDRS_MAX)
		return err_set(
			e, ERR_PROTOCOL,
			"the node sent %u addresses, but the limit is %d",
			addrs->count, WIRE_ADDRS_MAX);
	reader_init(&r, addrs->bytes);
	rc = voucher_add_own(h, agent, to);
	for (uint32_t i = 0; i < addrs->count && rc == 0; i++)
		rc = voucher_parse_addr(h, to, reader_slice(&r), e);
	if (rc == -ENOMEM)
		err_set(e, rc, "the rendezvous server is out of memory");
	if (rc == 0 && (r.bad || reader_left(&r)))
		rc = err_set(e, ERR_PROTOCOL,
			     "the node's list of addresses is malformed");
	if (rc < 0)
		addr_book_forget(&h->vouchers.book, to);
	return rc;
}

void voucher_settle(struct hosted_job *h, struct peer *agent,
		    struct addr_owner *from)
{
	struct vouchers *v = &h->vouchers;
	struct sock_addr peer, own;

	if (conn_addrs(&agent->conn, &peer, &own) == 0)
		v->nways =
			sock_addr_add(v->ways, v->nways, TORCH_ADDRS_MAX, &own);
	addr_book_move(&v->book, from, &agent->addrs);
}

struct peer *voucher_agent_at(struct hosted_job *h,
			      const struct sock_addr *from)
{
	const struct addr_claim *c = addr_book_find(&h->vouchers.book, from);

	return c ? voucher_peer_of(c->owner) : NULL;
}

/* ---- the log ---- */

/* 1 the first time that an address is refused, so that repeated attempts do not
 * fill the disk. */
static int voucher_is_new_address(struct vouchers *v,
				  const struct sock_addr *from)
{
	for (uint32_t i = 0; i < v->nnamed; i++)
		if (sock_addr_compare(&v->named[i], from) == 0)
			return 0;
	if (v->nnamed == VOUCHER_NAMED_MAX)
		return 0;
	v->named[v->nnamed++] = *from;
	return 1;
}

static void voucher_log_refused(struct hosted_job *h,
				const struct sock_addr *from, const char *host,
				struct slice why)
{
	struct vouchers *v = &h->vouchers;
	char text[SOCK_TEXT_MAX];

	if (!voucher_is_new_address(v, from))
		return;
	log_warn("job '%s': closed a connection to PyTorch's store from %s"
		 "%s%.255s%s: %.*s",
		 job_id(h->job), sock_addr_host(from, text), *host ? " (" : "",
		 host, *host ? ")" : "", SLICE_FMT(why));
	if (v->nnamed == VOUCHER_NAMED_MAX)
		log_warn("job '%s': further addresses that PyTorch's store "
			 "refuses are not logged",
			 job_id(h->job));
}

/* ---- asking ---- */

static struct vouchers *voucher_vouchers(struct voucher *q)
{
	return &q->hosted->vouchers;
}

/* Frees q and returns its client, which the caller admits or refuses. */
static struct torch_client *voucher_close_question(struct voucher *q)
{
	struct torch_client *k = q->client;

	hash_table_remove(&voucher_vouchers(q)->open, &q->item);
	free(q);
	return k;
}

static void voucher_refuse_client(struct voucher *q, struct slice why)
{
	voucher_log_refused(q->hosted, &q->from, q->host, why);
	torch_client_refuse(voucher_close_question(q));
}

/* Agent i does not vouch for the client. */
static void voucher_count_no(struct voucher *q, uint32_t i, struct slice why)
{
	q->asked[i] = NULL;
	if (--q->open == 0)
		voucher_refuse_client(q, why);
}

static void voucher_ask_agent(struct voucher *q, struct peer *p,
			      const struct wire_vouch *w)
{
	q->asked[q->n++] = p;
	if (q->ms < p->lease_ms)
		q->ms = p->lease_ms;
	wire_put_vouch(conn_out(&p->conn), WIRE_VOUCH, WIRE_NOTICE, 0, w);
}

static struct voucher *voucher_question_new(struct hosted_job *h,
					    struct torch_client *k,
					    const struct sock_addr *from,
					    const struct addr_claim *claims)
{
	struct vouchers *v = &h->vouchers;
	size_t n = 0;
	struct voucher *q;

	for (const struct addr_claim *c = claims; c; c = c->next)
		n++;
	q = calloc(1, sizeof(*q) + n * sizeof(q->asked[0]));
	if (!q)
		return NULL;
	q->hosted = h;
	q->client = k;
	q->from = *from;
	q->ms = VOUCHER_MIN_MS;
	q->number = ++v->last;
	q->item.key = SLICE((const char *)&q->number, sizeof(q->number));
	if (hash_table_find(&v->open, q->item.key) || /* after 2^32 questions */
	    hash_table_insert(&v->open, &q->item) < 0) {
		free(q);
		return NULL;
	}
	return q;
}

static void voucher_on_client(void *owner, struct torch_client *k,
			      const struct sock_addr *from,
			      const struct sock_addr *to)
{
	struct hosted_job *h = owner;
	struct addr_claim *claims = addr_book_find(&h->vouchers.book, from);
	char peer[SOCK_TEXT_MAX], own[SOCK_TEXT_MAX];
	struct wire_vouch w;
	struct voucher *q;

	if (!claims) {
		voucher_log_refused(
			h, from, "",
			SLICE_STR("no node of the job has that address"
				  "; " OPEN_ADVICE));
		torch_client_refuse(k);
		return;
	}
	q = voucher_question_new(h, k, from, claims);
	if (!q) {
		log_warn("PyTorch's store is out of memory for a client");
		torch_client_refuse(k);
		return;
	}
	w = (struct wire_vouch){
		.number = q->number,
		.peer = SLICE_STR(sock_addr_host(from, peer)),
		.peer_port = sock_addr_port(from),
		.own = SLICE_STR(sock_addr_host(to, own)),
		.own_port = sock_addr_port(to),
	};
	for (struct addr_claim *c = claims; c; c = c->next)
		voucher_ask_agent(q, voucher_peer_of(c->owner), &w);
	q->open = q->n;
	snprintf(q->host, sizeof(q->host), "%s",
		 job_node_host(q->asked[0]->node));
	torch_client_hold(k, q, q->ms);
}

static void voucher_on_timeout(void *ticket)
{
	struct voucher *q = ticket;
	char why[96];

	snprintf(why, sizeof(why),
		 "ddprun there did not name its owner within %.1f s",
		 (double)q->ms / 1e3);
	voucher_refuse_client(q, SLICE_STR(why));
}

static void voucher_on_gone(void *ticket)
{
	voucher_close_question(ticket);
}

struct torch_gate voucher_gate(struct hosted_job *h)
{
	return (struct torch_gate){.owner = h,
				   .on_come = voucher_on_client,
				   .on_late = voucher_on_timeout,
				   .on_gone = voucher_on_gone};
}

/* ---- answers ---- */

int voucher_answer(struct peer *agent, const struct wire_frame *f,
		   struct err *e)
{
	struct wire_vouched m;
	struct voucher *q = NULL;
	int rc = wire_get_vouched(f, &m, e);

	if (rc < 0)
		return rc;
	if (agent->hosted)
		q = (struct voucher *)hash_table_find(
			&agent->hosted->vouchers.open,
			SLICE((const char *)&m.number, sizeof(m.number)));
	for (uint32_t i = 0; q && i < q->n; i++) {
		if (q->asked[i] != agent)
			continue;
		if (m.yes)
			torch_client_admit(voucher_close_question(q));
		else
			voucher_count_no(q, i, m.text);
		break;
	}
	return 0;
}

/* Scans all open questions: a node is lost once, and few are open. */
void voucher_forget(struct hosted_job *h, struct peer *agent)
{
	struct vouchers *v = &h->vouchers;
	struct hash_item *item = NULL;
	struct voucher *q;
	uint32_t i;

	addr_book_forget(&v->book, &agent->addrs);
	while ((item = hash_table_next(&v->open, item))) {
		q = (struct voucher *)item;
		for (i = 0; i < q->n && q->asked[i] != agent; i++)
			;
		if (i == q->n)
			continue;
		voucher_count_no(q, i, SLICE_STR("ddprun there has left"));
		item = NULL; /* the table may have changed */
	}
}

void voucher_release(struct hosted_job *h)
{
	hash_table_release(&h->vouchers.open);
	addr_book_release(&h->vouchers.book);
}
