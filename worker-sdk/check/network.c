/* network.c: the matrix of links, and its evaluation. */
#include "worker-sdk/check/network.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	CLOCK_OFF_MS = 1000,
	PAIRS_NAMED = 3, /* slow pairs that a node's findings name */
};

/* A round trip is far from the others if it is several times as long and the
 * difference is more than the noise of a busy host. */
#define FAR_TIMES 4
#define FAR_US 500

int network_init(struct network *w, int n, const char *const *hosts,
		 const char *const *addrs)
{
	*w = (struct network){.n = n, .hosts = hosts, .addrs = addrs};
	w->links = calloc((size_t)n * (size_t)n, sizeof(*w->links));
	return w->links ? 0 : -ENOMEM;
}

void network_release(struct network *w)
{
	free(w->links);
	w->links = NULL;
}

struct network_link *network_at(const struct network *w, int from, int to)
{
	return &w->links[(size_t)from * (size_t)w->n + (size_t)to];
}

int network_is_linked(const struct network *w, int a, int b)
{
	return network_at(w, a, b)->code == 0 && network_at(w, b, a)->code == 0;
}

const struct pair_result *network_pair(const struct network *w, int a, int b)
{
	const struct network_link *l = network_at(w, a < b ? a : b,
						  a < b ? b : a);

	return a != b && network_is_linked(w, a, b) && l->error == 0 &&
			       l->pair.rtt_us > 0
		       ? &l->pair
		       : NULL;
}

/* ---- bytes ---- */

static void network_put_number(struct buf *b, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	buf_put_u64(b, bits);
}

static double network_read_number(struct reader *r)
{
	uint64_t bits = reader_u64(r);
	double v;

	memcpy(&v, &bits, sizeof(v));
	return isfinite(v) ? v : 0;
}

void network_put_row(struct buf *b, const struct network *w, int from)
{
	buf_put_u32(b, (uint32_t)w->n);
	for (int i = 0; i < w->n; i++) {
		const struct network_link *l = network_at(w, from, i);

		buf_put_u32(b, (uint32_t)l->code);
		buf_put_u32(b, (uint32_t)l->error);
		network_put_number(b, l->pair.rtt_us);
		network_put_number(b, l->pair.out_mbytes_s);
		network_put_number(b, l->pair.in_mbytes_s);
		network_put_number(b, l->pair.clock_ms);
	}
}

int network_read_row(struct network *w, int from, struct slice bytes,
		     struct err *e)
{
	struct reader r;

	reader_init(&r, bytes);
	if (reader_u32(&r) != (uint32_t)w->n)
		r.bad = 1;
	for (int i = 0; i < w->n && !r.bad; i++) {
		struct network_link *l = network_at(w, from, i);

		l->code = (int)reader_u32(&r);
		l->error = (int)reader_u32(&r);
		l->pair.rtt_us = network_read_number(&r);
		l->pair.out_mbytes_s = network_read_number(&r);
		l->pair.in_mbytes_s = network_read_number(&r);
		l->pair.clock_ms = network_read_number(&r);
	}
	if (!r.bad && r.p == r.end)
		return 0;
	return err_set(e, ERR_PROTOCOL, "the results of node %d (%s) are "
		       "malformed: do all nodes run the same ddprun?", from,
		       w->hosts[from]);
}

/* ---- which nodes cannot be reached ---- */

static int network_is_broken(const struct network *w, int a, int b)
{
	return a != b && (!network_is_linked(w, a, b) ||
			  network_at(w, a < b ? a : b, a < b ? b : a)->error);
}

/* Counts the broken links to nodes that are not at fault already. */
static int network_count_broken(const struct network *w, int node,
				const char *at_fault)
{
	int n = 0;

	for (int i = 0; i < w->n; i++)
		n += !at_fault[i] && network_is_broken(w, node, i);
	return n;
}

/* "h1 cannot connect to h2 at 10.0.0.2: connection refused" */
static void network_explain(const struct network *w, int a, int b,
			    const char *(*code_text)(int code), char *out,
			    size_t size)
{
	const struct network_link *l = network_at(w, a, b);
	int from = a, to = b;

	if (l->code == 0) {
		l = network_at(w, b, a);
		from = b;
		to = a;
	}
	if (l->code) {
		snprintf(out, size, "%.40s cannot connect to %.40s at %.40s: "
			 "%s", w->hosts[from], w->hosts[to], w->addrs[to],
			 code_text(l->code));
		return;
	}
	l = network_at(w, a < b ? a : b, a < b ? b : a);
	snprintf(out, size, "the connection of %.40s and %.40s (%.40s) fails: "
		 "%s", w->hosts[a], w->hosts[b], w->addrs[b],
		 err_name(l->error));
}

static void network_mark_broken(const struct network *w, int node, int broken,
				const char *at_fault,
				struct findings *const *nodes,
				const char *(*code_text)(int code))
{
	char why[FINDING_WRONG_MAX];
	struct finding *f;
	int other = 0;

	while (other < w->n && (at_fault[other] ||
				!network_is_broken(w, node, other)))
		other++;
	if (other == w->n)
		return;
	network_explain(w, node, other, code_text, why, sizeof(why));
	f = finding_add(nodes[node], "connections", "%d of %d",
			w->n - 1 - broken, w->n - 1);
	if (broken > 1)
		finding_mark(f, FINDING_FAILURE, "%.250s; the same with %d "
			     "other node%s", why, broken - 1,
			     broken == 2 ? "" : "s");
	else
		finding_mark(f, FINDING_FAILURE, "%s", why);
}

/* Marks one node after another: the node with most broken links, of equals the
 * last. The remaining nodes then have no broken link between them. */
static void network_judge_links(const struct network *w,
				struct findings *const *nodes,
				const char *(*code_text)(int code),
				char *at_fault)
{
	for (;;) {
		int worst = -1, most = 0;

		for (int i = 0; i < w->n; i++) {
			int n = at_fault[i] ? 0
					    : network_count_broken(w, i,
								   at_fault);

			if (n && n >= most) {
				most = n;
				worst = i;
			}
		}
		if (worst < 0)
			break;
		network_mark_broken(w, worst, most, at_fault, nodes,
				    code_text);
		at_fault[worst] = 1;
	}
	for (int i = 0; i < w->n && w->n > 1; i++) {
		if (!at_fault[i])
			finding_add(nodes[i], "connections", "all");
	}
}

/* ---- speed ---- */

static double network_speed(const struct pair_result *p)
{
	return p->out_mbytes_s < p->in_mbytes_s ? p->out_mbytes_s
						: p->in_mbytes_s;
}

/* The pairs of a node, or all pairs (node < 0), into values; returns how
 * many. */
static int network_values(const struct network *w, int node, int is_rtt,
			  double *values)
{
	int n = 0;

	for (int a = 0; a < w->n; a++) {
		for (int b = a + 1; b < w->n; b++) {
			const struct pair_result *p = network_pair(w, a, b);

			if (p && (node < 0 || a == node || b == node))
				values[n++] = is_rtt ? p->rtt_us
						     : network_speed(p);
		}
	}
	return n;
}

static void network_add_speed(const struct network *w, int node, double usual,
			      struct findings *f, double *values)
{
	int n = network_values(w, node, 0, values), named = 0;
	double median = n ? finding_median(values, n) : 0;
	struct finding *at;

	if (!n)
		return;
	at = finding_add(f, "network speed", "%.0f MB/s", median);
	finding_set_value(at, median);
	for (int i = 0; i < node; i++) {
		const struct pair_result *p = network_pair(w, i, node);

		if (!p || network_speed(p) >= usual / 2 ||
		    median < usual / 2 || named++ >= PAIRS_NAMED)
			continue;
		at = finding_add(f, "slow link", "%.0f MB/s",
				 network_speed(p));
		finding_mark(at, FINDING_WARNING, "between %.40s and %.40s "
			     "only %s, others have %.0f MB/s: is a cable or a "
			     "switch port at fault?", w->hosts[i],
			     w->hosts[node], at->text, usual);
	}
}

static void network_add_latency(const struct network *w, int node, double usual,
				struct findings *f, double *values)
{
	int n = network_values(w, node, 1, values);
	double median = n ? finding_median(values, n) : 0;
	struct finding *at;

	if (!n)
		return;
	at = finding_add(f, "network latency", "%.0f us", median);
	at->value = median;
	if (median > usual * FAR_TIMES && median > usual + FAR_US)
		finding_mark(at, FINDING_WARNING, "a round trip takes %s, "
			     "between other nodes %.0f us: is it in another "
			     "room, or its link at fault?", at->text, usual);
}

static void network_judge_speed(const struct network *w,
				struct findings *const *nodes)
{
	double *values = calloc((size_t)w->n * (size_t)w->n, sizeof(*values));
	double speed, rtt;
	int n = values ? network_values(w, -1, 0, values) : 0;

	if (n) {
		speed = finding_median(values, n);
		rtt = finding_median(values,
				     network_values(w, -1, 1, values));
		for (int i = 0; i < w->n; i++) {
			network_add_latency(w, i, rtt, nodes[i], values);
			network_add_speed(w, i, speed, nodes[i], values);
		}
	}
	free(values);
}

/* ---- clocks ---- */

/* All clocks against node 0's, then against the median. */
static void network_judge_clocks(const struct network *w,
				 struct findings *const *nodes)
{
	double *off = calloc(2 * (size_t)w->n, sizeof(*off)), *sorted, usual;
	int n = 0;

	if (!off)
		return;
	sorted = off + w->n;
	for (int i = 0; i < w->n; i++) {
		const struct pair_result *p = i ? network_pair(w, 0, i) : NULL;

		off[i] = p ? p->clock_ms : i ? (double)NAN : 0;
		if (!isnan(off[i]))
			sorted[n++] = off[i];
	}
	usual = finding_median(sorted, n);
	if (n == 2) /* neither is known to be right: node 0's counts */
		usual = 0;
	for (int i = 0; i < w->n && n > 1; i++) {
		double ms = off[i] - usual;
		struct finding *f;

		if (isnan(ms))
			continue;
		f = finding_add(nodes[i], "clock", "%+.1f ms", ms);
		f->value = ms;
		if (fabs(ms) > CLOCK_OFF_MS)
			finding_mark(f, FINDING_WARNING, "its clock is %.1f s "
				     "%s those of the others: does NTP run "
				     "there (timedatectl)?", fabs(ms) / 1000,
				     ms > 0 ? "ahead of" : "behind");
	}
	free(off);
}

void network_judge(const struct network *w, struct findings *const *nodes,
		   const char *(*code_text)(int code))
{
	char *at_fault = calloc((size_t)w->n, 1);

	if (at_fault)
		network_judge_links(w, nodes, code_text, at_fault);
	free(at_fault);
	network_judge_speed(w, nodes);
	network_judge_clocks(w, nodes);
}

int network_summarise(const struct network *w, struct network_summary *s)
{
	double *values = calloc((size_t)w->n * (size_t)w->n, sizeof(*values));

	*s = (struct network_summary){.pairs = w->n * (w->n - 1) / 2};
	if (!values)
		return -ENOMEM;
	for (int a = 0; a < w->n; a++) {
		for (int b = a + 1; b < w->n; b++) {
			const struct pair_result *p = network_pair(w, a, b);

			if (!p)
				continue;
			if (!s->measured || p->rtt_us > s->slowest_rtt_us) {
				s->slowest_rtt_us = p->rtt_us;
				s->far_a = a;
				s->far_b = b;
			}
			if (!s->measured ||
			    network_speed(p) < s->slowest_mbytes_s) {
				s->slowest_mbytes_s = network_speed(p);
				s->slow_a = a;
				s->slow_b = b;
			}
			s->measured++;
		}
	}
	if (s->measured) {
		s->rtt_us = finding_median(values,
					   network_values(w, -1, 1, values));
		s->mbytes_s = finding_median(values,
					     network_values(w, -1, 0, values));
	}
	free(values);
	return 0;
}
