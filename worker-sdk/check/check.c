/* check.c: the parts of a check, in their order; and the collectives that a
 * worker would call. */
#include "worker-sdk/check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "worker-sdk/check/pair.h"
#include "worker-sdk/check/probe.h"
#include "worker-sdk/ddp.h"

enum {
	QUICK_MS = 5000, FULL_MS = 30000,
	QUICK_COUNT = 64 << 10, FULL_COUNT = 4 << 20, /* f32 */
	TIMES = 3,
};

static int collective_failed(struct findings *found, const char *what)
{
	finding_mark(finding_add(found, "all_reduce", "failed"),
		     FINDING_FAILURE, "%s: %.250s", what, ddp_last_error());
	return -1;
}

/* Every rank contributes 1 + rank, so that each can compute the sum. */
static int collective_run(ddp_comm *world, float *data, size_t count,
			  struct findings *found, double *best)
{
	int n = ddp_world_size(world);
	float want = (float)n * (float)(n + 1) / 2;

	for (int i = 0; i < TIMES; i++) {
		uint64_t start;
		double ms;

		for (size_t k = 0; k < count; k++)
			data[k] = (float)(ddp_rank(world) + 1);
		if (ddp_barrier(world) < 0)
			return collective_failed(found, "barrier");
		start = clock_ns();
		if (ddp_all_reduce(world, data, data, count, DDP_F32,
				   DDP_SUM) < 0)
			return collective_failed(found, "all_reduce");
		ms = (double)(clock_ns() - start) / 1e6;
		*best = i == 0 || ms < *best ? ms : *best;
		for (size_t k = 0; k < count; k++) {
			if (data[k] == want)
				continue;
			finding_mark(finding_add(found, "all_reduce", "wrong"),
				     FINDING_FAILURE, "all_reduce: element %zu "
				     "is %g, not %g: this host or its network "
				     "corrupts data", k, (double)data[k],
				     (double)want);
			return -1;
		}
	}
	return 0;
}

/* On all nodes, one rank each: ddp_init and all_reduce. Adds the result to
 * `found`. */
static void check_collective(const struct check_options *o,
			     struct findings *found)
{
	const struct ddp_options options = {
		.backend = o->full ? NULL : "cpu",
		.timeout_ms = o->full ? FULL_MS : QUICK_MS,
	};
	size_t count = o->full ? FULL_COUNT : QUICK_COUNT;
	float *data = calloc(count, sizeof(*data));
	ddp_comm *world;
	double best = 0;

	if (!data)
		return;
	if (ddp_init(&world, &options) < 0) {
		collective_failed(found, "ddp_init");
		free(data);
		return;
	}
	if (collective_run(world, data, count, found, &best) == 0)
		finding_add(found, "all_reduce", "%s of %zu KiB in %.2f ms",
			    ddp_backend(world), count * sizeof(float) / 1024,
			    best);
	ddp_finalize(world);
	free(data);
}

enum {
	NODE_BYTES_MAX = 1 << 20,
	QUICK_GATHER_MS = 30000, FULL_GATHER_MS = 180000,
	/* the kernel sends a lost SYN again after 1, 3 and 7 s */
	QUICK_CONNECT_MS = 2500, FULL_CONNECT_MS = 8000, ANSWER_MS = 15000,
	QUICK_ROUNDS_MAX = 63, /* for pairs: enough for all of up to 64 nodes */
	QUICK_PAIRS_MS = 10000, FULL_PAIRS_MS = 60000, /* at most */
	FORMAT = 1, /* the version of the nodes' messages */
};

static const struct pair_options pair_quick = {
	.pings = 10, .transfer_ms = 5, .transfer_max = (uint64_t)16 << 20,
	.silence_ms = 1000,
};
static const struct pair_options pair_full = {
	.pings = 200, .transfer_ms = 150, .transfer_max = (uint64_t)1 << 30,
	.silence_ms = 5000,
};

static void check_part_over(struct check *c, const char *name)
{
	uint64_t now = clock_ns();

	if (c->nparts < CHECK_PARTS_MAX)
		c->parts[c->nparts++] = (struct check_part){
			name, (double)(now - c->part_ns) / 1e9};
	c->part_ns = now;
}

/* Sends `mine`, and receives the values of all nodes in c->values. */
static int check_gather(struct check *c, const char *what, struct buf *mine,
			void (*meanwhile)(void *arg), struct err *e)
{
	struct slice bytes;
	int rc = buf_bytes(mine, &bytes);

	if (rc < 0)
		return err_no_memory(e, "the results of this node");
	for (int i = 0; i < c->x.n; i++)
		buf_release(&c->values[i]);
	return exchange_gather(&c->x, what, bytes, c->values,
			       c->o->full ? FULL_GATHER_MS : QUICK_GATHER_MS,
			       meanwhile, c, e);
}

/* ---- the nodes ---- */

static void check_probe(struct check *c)
{
	const struct probe_options o = {
		.full = c->o->full, .nodes = c->x.n, .folders = c->o->folders,
		.command = c->o->command, .addr = c->x.env.node_addr,
		.time_ms = c->o->time_ms,
	};

	probes_run(&c->nodes[c->x.me].found, &o);
	check_part_over(c, "node");
}

static int check_read_node(struct check *c, int i, struct err *e)
{
	struct check_node *n = &c->nodes[i];
	struct slice host, addr;
	struct reader r;
	uint32_t format;

	reader_init(&r, SLICE(c->values[i].data, c->values[i].len));
	format = reader_u32(&r);
	host = reader_slice(&r);
	addr = reader_slice(&r);
	n->port = reader_u16(&r);
	for (size_t k = 0; k < sizeof(c->cookie); k++) {
		uint8_t byte = reader_u8(&r);

		if (i == 0)
			c->cookie[k] = byte;
	}
	if (r.bad || format != FORMAT || host.len >= sizeof(n->host) ||
	    addr.len >= sizeof(n->addr))
		return err_set(e, ERR_PROTOCOL, "the results of node %d are "
			       "malformed: do all nodes run the same ddprun?",
			       i);
	snprintf(n->host, sizeof(n->host), "%.*s", SLICE_FMT(host));
	snprintf(n->addr, sizeof(n->addr), "%.*s", SLICE_FMT(addr));
	return findings_read(&n->found, &r, e);
}

/* Every node learns the other nodes' addresses and the findings of their
 * probes. */
static int check_meet(struct check *c, struct err *e)
{
	const char *addr = c->x.env.node_addr ? c->x.env.node_addr
					      : "127.0.0.1";
	struct buf b = BUF_INIT(NODE_BYTES_MAX);
	uint16_t port;
	int rc = reach_init(&c->reach, c->x.me, c->x.n, c->x.env.round, addr,
			    &port, e);

	if (rc == 0)
		rc = random_bytes(c->cookie, sizeof(c->cookie), e);
	if (rc < 0)
		return rc;
	buf_put_u32(&b, FORMAT);
	buf_put_slice(&b, SLICE_STR(c->x.host));
	buf_put_slice(&b, SLICE_STR(addr));
	buf_put_u16(&b, port);
	buf_put(&b, c->cookie, sizeof(c->cookie));
	findings_put(&b, &c->nodes[c->x.me].found);
	rc = check_gather(c, "node", &b, NULL, e);
	buf_release(&b);
	for (int i = 0; i < c->x.n && rc == 0; i++)
		rc = check_read_node(c, i, e);
	for (int i = 0; i < c->x.n && rc == 0; i++) {
		struct endpoint *to = &c->reach.peers[i].where;

		snprintf(to->host, sizeof(to->host), "%.255s",
			 c->nodes[i].addr);
		sock_host_scope(to->host, addr);
		to->port = c->nodes[i].port;
		c->hosts[i] = c->nodes[i].host;
		c->addrs[i] = c->nodes[i].addr;
	}
	ddp__key_for(c->reach.key, c->cookie, "check");
	check_part_over(c, "meeting");
	return rc;
}

/* ---- the network ---- */

static int check_gather_rows(struct check *c, const char *what,
			     void (*meanwhile)(void *arg), struct err *e)
{
	struct buf b = BUF_INIT(SIZE_MAX);
	int rc;

	network_put_row(&b, &c->network, c->x.me);
	rc = check_gather(c, what, &b, meanwhile, e);
	buf_release(&b);
	for (int i = 0; i < c->x.n && rc == 0; i++)
		rc = network_read_row(&c->network, i,
				      SLICE(c->values[i].data,
					    c->values[i].len), e);
	return rc;
}

/* Another node's last call may arrive after ours have ended. */
static void check_on_waiting(void *arg)
{
	struct check *c = arg;

	reach_serve(&c->reach);
}

static int check_reach(struct check *c, struct err *e)
{
	int rc = reach_all(&c->reach, c->o->full ? FULL_CONNECT_MS
						 : QUICK_CONNECT_MS,
			   ANSWER_MS, e);

	for (int i = 0; i < c->x.n && rc == 0; i++)
		network_at(&c->network, c->x.me, i)->code =
			i == c->x.me ? 0 : c->reach.peers[i].code;
	if (rc == 0)
		rc = check_gather_rows(c, "connections", check_on_waiting, e);
	check_part_over(c, "connections");
	return rc;
}

static void check_measure(struct check *c, int partner,
			  const struct pair_options *o, int left_ms)
{
	struct network_link *l = network_at(&c->network, c->x.me, partner);
	int fd;

	if (partner > c->x.me) {
		l->error = pair_measure(c->reach.peers[partner].out, o,
					&l->pair);
		return;
	}
	fd = c->reach.peers[partner].in;
	if (fd >= 0)
		pair_serve(fd, o, left_ms);
}

/* All nodes go through the rounds in the same order: a pair begins when both
 * nodes have finished their earlier pairs. */
static int check_pairs(struct check *c, struct err *e)
{
	const struct pair_options *o = c->o->full ? &pair_full : &pair_quick;
	uint64_t end = clock_ms() + (c->o->full ? FULL_PAIRS_MS
						: QUICK_PAIRS_MS);
	int rounds = round_robin_rounds(c->x.n);

	if (!c->o->full && rounds > QUICK_ROUNDS_MAX)
		rounds = QUICK_ROUNDS_MAX;
	for (int i = 0; i < rounds && clock_ms() < end; i++) {
		int partner = round_robin_partner(c->x.n, i, c->x.me);

		if (partner >= 0 &&
		    network_is_linked(&c->network, c->x.me, partner))
			check_measure(c, partner, o, (int)(end - clock_ms()));
	}
	reach_release(&c->reach); /* a partner that waits for us continues */
	check_part_over(c, "pairs");
	return check_gather_rows(c, "pairs", NULL, e);
}

/* ---- the results ---- */

/* Adds a finding for each node, once all have met. */
static int check_share_collective(struct check *c, struct err *e)
{
	struct findings *mine = calloc(1, sizeof(*mine));
	struct buf b = BUF_INIT(NODE_BYTES_MAX);
	int rc = mine ? 0 : err_no_memory(e, "the results of this node");

	if (rc == 0) {
		check_collective(c->o, mine);
		check_part_over(c, "all_reduce");
		findings_put(&b, mine);
		rc = check_gather(c, "all_reduce", &b, NULL, e);
	}
	for (int i = 0; i < c->x.n && rc == 0; i++) {
		struct reader r;

		reader_init(&r, SLICE(c->values[i].data, c->values[i].len));
		rc = findings_read(mine, &r, e);
		if (rc == 0)
			findings_append(&c->nodes[i].found, mine);
	}
	free(mine);
	buf_release(&b);
	return rc;
}

static int check_alloc(struct check *c, struct err *e)
{
	size_t n = (size_t)c->x.n;

	c->nodes = calloc(n, sizeof(*c->nodes));
	c->hosts = calloc(n, sizeof(*c->hosts));
	c->addrs = calloc(n, sizeof(*c->addrs));
	c->founds = calloc(n, sizeof(*c->founds));
	c->values = calloc(n, sizeof(*c->values));
	if (!c->nodes || !c->hosts || !c->addrs || !c->founds || !c->values ||
	    network_init(&c->network, c->x.n, c->hosts, c->addrs) < 0)
		return err_no_memory(e, "a check of %d nodes", c->x.n);
	for (int i = 0; i < c->x.n; i++)
		c->founds[i] = &c->nodes[i].found;
	return 0;
}

int check_run(struct check *c, const struct check_options *o, struct err *e)
{
	int rc;

	c->o = o;
	c->part_ns = clock_ns();
	rc = check_alloc(c, e);
	if (rc == 0) {
		check_probe(c);
		rc = check_meet(c, e);
	}
	if (rc == 0 && c->x.n > 1)
		rc = check_reach(c, e);
	if (rc == 0 && c->x.n > 1)
		rc = check_pairs(c, e);
	if (rc < 0)
		return rc;
	network_judge(&c->network, c->founds, reach_text);
	if (o->with_collective && c->x.env.world_size == c->x.n &&
	    check_verdict(c) < FINDING_FAILURE)
		rc = check_share_collective(c, e);
	if (rc == 0)
		findings_compare(c->founds, c->hosts, c->x.n);
	return rc;
}

void check_release(struct check *c)
{
	reach_release(&c->reach);
	exchange_close(&c->x);
	for (int i = 0; c->values && i < c->x.n; i++)
		buf_release(&c->values[i]);
	network_release(&c->network);
	free(c->nodes);
	free(c->hosts);
	free(c->addrs);
	free(c->founds);
	free(c->values);
}

enum finding_verdict check_verdict(const struct check *c)
{
	enum finding_verdict worst = FINDING_OK;
	const struct finding *first;

	for (int i = 0; i < c->x.n; i++) {
		enum finding_verdict v = findings_worst(&c->nodes[i].found,
							&first);

		worst = v > worst ? v : worst;
	}
	return worst;
}
