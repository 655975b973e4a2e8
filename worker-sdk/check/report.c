/* report.c: a row of the table is a finding, with the results of all nodes that
 * have it. */
#include "worker-sdk/check/check.h"

#include <math.h>

#include "base/json.h"

enum { JSON_VERSION = 1, HOSTS_NAMED = 3, TEXTS_NAMED = 3 };

static const char *const report_verdicts[FINDING_VERDICTS] = {
	[FINDING_OK] = "ok",
	[FINDING_WARNING] = "warning",
	[FINDING_FAILURE] = "failure",
};
/* The prefix of a line of the table. */
static const char report_signs[FINDING_VERDICTS] = {
	[FINDING_OK] = ' ', [FINDING_WARNING] = '!', [FINDING_FAILURE] = 'X',
};

static double report_seconds(const struct check *c)
{
	double sum = 0;

	for (int i = 0; i < c->nparts; i++)
		sum += c->parts[i].seconds;
	return sum;
}

/* ---- the table ---- */

static const struct finding *report_get(const struct check *c, int node,
					const char *name)
{
	return findings_get(&c->nodes[node].found, name);
}

/* 1 if an earlier node, or an earlier finding of this one, has that name. */
static int report_is_known(const struct check *c, int node, uint32_t i)
{
	const char *name = c->nodes[node].found.list[i].name;

	for (int k = 0; k < node; k++) {
		if (report_get(c, k, name))
			return 1;
	}
	return report_get(c, node, name) != &c->nodes[node].found.list[i];
}

/* The nodes with the lowest and the highest value; 0: none has one. */
static int report_find_ends(const struct check *c, const char *name, int *low,
			    int *high)
{
	*low = *high = -1;
	for (int i = 0; i < c->x.n; i++) {
		const struct finding *f = report_get(c, i, name);

		if (!f)
			continue;
		if (isnan(f->value))
			return 0;
		if (*low < 0 || f->value < report_get(c, *low, name)->value)
			*low = i;
		if (*high < 0 || f->value > report_get(c, *high, name)->value)
			*high = i;
	}
	return *low >= 0;
}

/* How many nodes have the text of that node; 0: an earlier node has it. */
static int report_count_like(const struct check *c, const char *name, int node)
{
	const struct finding *like = report_get(c, node, name);
	int n = 0;

	for (int i = 0; like && i < c->x.n; i++) {
		const struct finding *f = report_get(c, i, name);

		if (!f || strcmp(f->text, like->text) != 0)
			continue;
		if (i < node)
			return 0;
		n++;
	}
	return n;
}

static int report_count_texts(const struct check *c, const char *name)
{
	int n = 0;

	for (int i = 0; i < c->x.n; i++)
		n += report_count_like(c, name, i) > 0;
	return n;
}

/* "12 GiB (h3) to 31 GiB (h1)", or the texts and how many nodes have each. */
static void report_put_values(struct buf *out, const struct check *c,
			      const struct finding *f)
{
	int low, high, texts = report_count_texts(c, f->name), named = 0;

	if (texts == 1) {
		buf_printf(out, "%s", f->text);
		return;
	}
	if (report_find_ends(c, f->name, &low, &high)) {
		buf_printf(out, "%s (%s) to %s (%s)",
			   report_get(c, low, f->name)->text,
			   c->nodes[low].host,
			   report_get(c, high, f->name)->text,
			   c->nodes[high].host);
		return;
	}
	for (int i = 0; i < c->x.n && named < TEXTS_NAMED; i++) {
		int n = report_count_like(c, f->name, i);

		if (!n)
			continue;
		buf_printf(out, "%s%s (", named++ ? ", " : "",
			   report_get(c, i, f->name)->text);
		if (n == 1)
			buf_printf(out, "%s)", c->nodes[i].host);
		else
			buf_printf(out, "%d nodes)", n);
	}
	if (texts > named)
		buf_printf(out, ", %d others", texts - named);
}

static uint8_t report_row_verdict(const struct check *c, const char *name)
{
	uint8_t worst = FINDING_OK;

	for (int i = 0; i < c->x.n; i++) {
		const struct findings *all = &c->nodes[i].found;

		for (uint32_t k = 0; k < all->n; k++) {
			if (strcmp(all->list[k].name, name) == 0 &&
			    all->list[k].verdict > worst)
				worst = all->list[k].verdict;
		}
	}
	return worst;
}

static void report_put_wrongs(struct buf *out, const struct check *c,
			      const char *name)
{
	for (int i = 0; i < c->x.n; i++) {
		const struct findings *all = &c->nodes[i].found;

		for (uint32_t k = 0; k < all->n; k++) {
			const struct finding *f = &all->list[k];

			if (f->verdict && strcmp(f->name, name) == 0)
				buf_printf(out, "%c     node %d (%s): %s\n",
					   report_signs[f->verdict], i,
					   c->nodes[i].host, f->wrong);
		}
	}
}

static void report_put_row(struct buf *out, const struct check *c,
			   const struct finding *f)
{
	buf_printf(out, "%c %-22s ", report_signs[report_row_verdict(c,
								     f->name)],
		   f->name);
	report_put_values(out, c, f);
	buf_printf(out, "\n");
	report_put_wrongs(out, c, f->name);
}

static void report_put_network(struct buf *out, const struct check *c)
{
	struct network_summary s;

	if (c->x.n < 2 || network_summarise(&c->network, &s) < 0)
		return;
	buf_printf(out, "  %-22s %d of %d measured", "pairs", s.measured,
		   s.pairs);
	if (s.measured)
		buf_printf(out, ": %.0f us, %.0f MB/s (medians); worst %.0f us "
			   "(%s, %s), %.0f MB/s (%s, %s)", s.rtt_us,
			   s.mbytes_s, s.slowest_rtt_us,
			   c->nodes[s.far_a].host, c->nodes[s.far_b].host,
			   s.slowest_mbytes_s, c->nodes[s.slow_a].host,
			   c->nodes[s.slow_b].host);
	buf_printf(out, "\n");
}

static void report_put_times(struct buf *out, const struct check *c)
{
	buf_printf(out, "  took %.2f s:", report_seconds(c));
	for (int i = 0; i < c->nparts; i++)
		buf_printf(out, "%s %s %.2f", i ? "," : "", c->parts[i].name,
			   c->parts[i].seconds);
	buf_printf(out, "\n");
}

/* "2 of 2 nodes are fit, 1 warning" */
static void report_put_counts(struct buf *out, const struct check *c)
{
	uint32_t warnings = 0;
	int unfit = 0;

	for (int i = 0; i < c->x.n; i++) {
		const struct findings *found = &c->nodes[i].found;

		warnings += findings_count(found, FINDING_WARNING);
		unfit += findings_count(found, FINDING_FAILURE) > 0;
	}
	buf_printf(out, "%d of %d node%s %s fit, %u warning%s", c->x.n - unfit,
		   c->x.n, c->x.n == 1 ? "" : "s", c->x.n == 1 ? "is" : "are",
		   warnings, warnings == 1 ? "" : "s");
}

static void report_put_verdict(struct buf *out, const struct check *c)
{
	for (int i = 0; i < c->x.n; i++) {
		const struct finding *first;

		if (findings_worst(&c->nodes[i].found, &first) ==
		    FINDING_FAILURE)
			buf_printf(out, "node %d (%s) is not fit: %s\n", i,
				   c->nodes[i].host, first->wrong);
	}
	report_put_counts(out, c);
	buf_printf(out, "\n");
}

void report_put_table(struct buf *out, const struct check *c)
{
	buf_printf(out, "%s check of %d node%s:", c->o->full ? "full" : "quick",
		   c->x.n, c->x.n == 1 ? "" : "s");
	for (int i = 0; i < c->x.n && i < HOSTS_NAMED; i++)
		buf_printf(out, "%s %s (%s)", i ? "," : "", c->nodes[i].host,
			   c->nodes[i].addr);
	buf_printf(out, "%s\n", c->x.n > HOSTS_NAMED ? ", ..." : "");
	for (int i = 0; i < c->x.n; i++) {
		for (uint32_t k = 0; k < c->nodes[i].found.n; k++) {
			if (!report_is_known(c, i, k))
				report_put_row(out, c,
					       &c->nodes[i].found.list[k]);
		}
	}
	report_put_network(out, c);
	report_put_times(out, c);
	report_put_verdict(out, c);
}

void report_put_summary(struct buf *out, const struct check *c)
{
	report_put_counts(out, c);
	buf_printf(out, " (%s, %.2f s)\n", c->o->full ? "full" : "quick",
		   report_seconds(c));
}

void report_put_marks(struct buf *out, const struct check *c)
{
	for (int i = 0; i < c->x.n; i++) {
		const struct findings *all = &c->nodes[i].found;

		for (uint32_t k = 0; k < all->n; k++) {
			if (all->list[k].verdict)
				buf_printf(out, "%s: node %d (%s): %s\n",
					   report_verdicts[all->list[k]
								   .verdict],
					   i, c->nodes[i].host,
					   all->list[k].wrong);
		}
	}
}

/* ---- JSON ---- */

static void report_add_number(const struct json *j, cJSON *to,
			      const char *name, double v)
{
	if (isfinite(v))
		j->add_number(to, name, v);
	else
		j->add_null(to, name);
}

static void report_add_finding(const struct json *j, cJSON *list,
			       const struct finding *f)
{
	cJSON *o = j->object();

	json_add_text(j, o, "name", SLICE_STR(f->name));
	json_add_text(j, o, "found", SLICE_STR(f->text));
	report_add_number(j, o, "value", f->value);
	j->add_string(o, "verdict", report_verdicts[f->verdict]);
	json_add_text_or_null(j, o, "wrong", SLICE_STR(f->wrong));
	j->append(list, o);
}

static void report_add_node(const struct json *j, cJSON *list,
			    const struct check *c, int i)
{
	const struct check_node *n = &c->nodes[i];
	const struct finding *first;
	cJSON *o = j->object(), *found;

	j->add_number(o, "node_rank", i);
	json_add_text(j, o, "host", SLICE_STR(n->host));
	json_add_text(j, o, "address", SLICE_STR(n->addr));
	j->add_string(o, "verdict",
		      report_verdicts[findings_worst(&n->found, &first)]);
	found = j->add_array(o, "findings");
	for (uint32_t k = 0; k < n->found.n; k++)
		report_add_finding(j, found, &n->found.list[k]);
	j->append(list, o);
}

static void report_add_link(const struct json *j, cJSON *list,
			    const struct check *c, int from, int to)
{
	const struct network_link *l = network_at(&c->network, from, to);
	const struct pair_result *p =
		from < to ? network_pair(&c->network, from, to) : NULL;
	cJSON *o = j->object();

	j->add_number(o, "from", from);
	j->add_number(o, "to", to);
	if (l->code || l->error)
		j->add_string(o, "error", l->code ? reach_text(l->code)
						  : err_name(l->error));
	else
		j->add_null(o, "error");
	if (p) {
		report_add_number(j, o, "rtt_us", p->rtt_us);
		report_add_number(j, o, "mbytes_per_second", p->out_mbytes_s);
		report_add_number(j, o, "mbytes_per_second_back",
				  p->in_mbytes_s);
		report_add_number(j, o, "clock_ms", p->clock_ms);
	}
	j->append(list, o);
}

int report_put_json(struct buf *out, const struct check *c, struct err *e)
{
	const struct json *j = json_load(e);
	cJSON *all, *list;

	if (!j)
		return ERR_SYSTEM;
	all = j->object();
	j->add_number(all, "version", JSON_VERSION);
	j->add_string(all, "mode", c->o->full ? "full" : "quick");
	j->add_string(all, "verdict", report_verdicts[check_verdict(c)]);
	report_add_number(j, all, "seconds", report_seconds(c));
	list = j->add_object(all, "parts");
	for (int i = 0; i < c->nparts; i++)
		report_add_number(j, list, c->parts[i].name,
				  c->parts[i].seconds);
	list = j->add_array(all, "nodes");
	for (int i = 0; i < c->x.n; i++)
		report_add_node(j, list, c, i);
	list = j->add_array(all, "links");
	for (int a = 0; a < c->x.n; a++) {
		for (int b = 0; b < c->x.n; b++) {
			if (a != b)
				report_add_link(j, list, c, a, b);
		}
	}
	return json_put(out, j, all, e);
}
