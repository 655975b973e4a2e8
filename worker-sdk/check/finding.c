/* finding.c: lists of findings, and the comparison of nodes. */
#include "worker-sdk/check/finding.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES_NAMED = 4 }; /* in one text */

struct finding *finding_add(struct findings *f, const char *name,
			    const char *fmt, ...)
{
	struct finding *at = &f->list[f->n < FINDINGS_MAX ? f->n
							  : FINDINGS_MAX - 1];
	va_list ap;

	if (f->n < FINDINGS_MAX)
		f->n++;
	*at = (struct finding){.value = (double)NAN};
	snprintf(at->name, sizeof(at->name), "%s", name);
	va_start(ap, fmt);
	vsnprintf(at->text, sizeof(at->text), fmt, ap);
	va_end(ap);
	return at;
}

void finding_mark(struct finding *f, enum finding_verdict verdict,
		  const char *fmt, ...)
{
	va_list ap;

	if (verdict <= f->verdict)
		return;
	f->verdict = (uint8_t)verdict;
	va_start(ap, fmt);
	vsnprintf(f->wrong, sizeof(f->wrong), fmt, ap);
	va_end(ap);
}

void findings_append(struct findings *f, const struct findings *more)
{
	for (uint32_t i = 0; i < more->n && f->n < FINDINGS_MAX; i++)
		f->list[f->n++] = more->list[i];
}

enum finding_verdict findings_worst(const struct findings *f,
				    const struct finding **first)
{
	enum finding_verdict worst = FINDING_OK;

	*first = NULL;
	for (uint32_t i = 0; i < f->n; i++) {
		if (f->list[i].verdict > worst) {
			worst = f->list[i].verdict;
			*first = &f->list[i];
		}
	}
	return worst;
}

void finding_set_value(struct finding *f, double value)
{
	f->value = value;
	f->compare = FINDING_AS_HIGH;
}

uint32_t findings_count(const struct findings *f, enum finding_verdict verdict)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n; i++)
		n += f->list[i].verdict == verdict;
	return n;
}

const struct finding *findings_get(const struct findings *f, const char *name)
{
	for (uint32_t i = 0; i < f->n; i++) {
		if (strcmp(f->list[i].name, name) == 0)
			return &f->list[i];
	}
	return NULL;
}

/* ---- bytes ---- */

void findings_put(struct buf *b, const struct findings *f)
{
	buf_put_u32(b, f->n);
	for (uint32_t i = 0; i < f->n; i++) {
		const struct finding *at = &f->list[i];
		uint64_t bits;

		memcpy(&bits, &at->value, sizeof(bits));
		buf_put_slice(b, SLICE_STR(at->name));
		buf_put_slice(b, SLICE_STR(at->text));
		buf_put_slice(b, SLICE_STR(at->wrong));
		buf_put_u64(b, bits);
		buf_put_u8(b, at->verdict);
		buf_put_u8(b, at->compare);
	}
}

static void finding_read_text(struct reader *r, char *out, size_t size)
{
	struct slice s = reader_slice(r);

	if (s.len >= size || memchr(s.data, '\0', s.len)) {
		r->bad = 1;
		s.len = 0;
	}
	memcpy(out, s.data, s.len);
	out[s.len] = '\0';
}

static void finding_read(struct finding *f, struct reader *r)
{
	uint64_t bits;

	finding_read_text(r, f->name, sizeof(f->name));
	finding_read_text(r, f->text, sizeof(f->text));
	finding_read_text(r, f->wrong, sizeof(f->wrong));
	bits = reader_u64(r);
	memcpy(&f->value, &bits, sizeof(bits));
	f->verdict = reader_u8(r);
	f->compare = reader_u8(r);
	if (f->verdict >= FINDING_VERDICTS || f->compare >= FINDING_COMPARES)
		r->bad = 1;
}

int findings_read(struct findings *f, struct reader *r, struct err *e)
{
	uint32_t n = reader_u32(r);

	f->n = 0;
	while (!r->bad && f->n < n && n <= FINDINGS_MAX) {
		finding_read(&f->list[f->n], r);
		f->n += !r->bad;
	}
	if (!r->bad && n <= FINDINGS_MAX)
		return 0;
	f->n = 0;
	return err_set(e, ERR_PROTOCOL, "a node's results are malformed: do "
		       "all nodes run the same ddprun?");
}

/* ---- which nodes differ ---- */

static int finding_compare_values(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return a < b ? -1 : a > b;
}

double finding_median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), finding_compare_values);
	return n % 2 ? values[n / 2]
		     : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static struct finding *finding_of(struct findings *node, const char *name)
{
	return (struct finding *)findings_get(node, name);
}

/* "h1, h2, h3, h4 and 12 more": the nodes whose finding has that text. */
static void finding_name_hosts(struct finding **row, const char *const *hosts,
			       int n, const char *text, char *out, size_t size)
{
	int found = 0;
	size_t len = 0;

	out[0] = '\0';
	for (int i = 0; i < n; i++) {
		if (!row[i] || strcmp(row[i]->text, text) != 0)
			continue;
		if (found++ < NODES_NAMED && len < size)
			len += (size_t)snprintf(out + len, size - len, "%s%s",
						found > 1 ? ", " : "",
						hosts[i]);
	}
	if (found > NODES_NAMED && len < size)
		snprintf(out + len, size - len, " and %d more",
			 found - NODES_NAMED);
}

static int finding_count_text(struct finding **row, int n, const char *text)
{
	int found = 0;

	for (int i = 0; i < n; i++)
		found += row[i] && strcmp(row[i]->text, text) == 0;
	return found;
}

/* The node with the most frequent text. If two texts are equally frequent, the
 * first node's counts. */
static int finding_usual(struct finding **row, int n)
{
	int best = -1, most = 0;

	for (int i = 0; i < n; i++) {
		int found = row[i] ? finding_count_text(row, n, row[i]->text)
				   : 0;

		if (found > most) {
			most = found;
			best = i;
		}
	}
	return best;
}

static void finding_compare_texts(struct finding **row,
				  const char *const *hosts, int n)
{
	int usual = finding_usual(row, n);
	char others[FINDING_WRONG_MAX / 2], text[FINDING_TEXT_MAX];

	if (usual < 0)
		return;
	memcpy(text, row[usual]->text, sizeof(text));
	finding_name_hosts(row, hosts, n, text, others, sizeof(others));
	for (int i = 0; i < n; i++) {
		if (row[i] && strcmp(row[i]->text, text) != 0)
			finding_mark(row[i], FINDING_WARNING,
				     "%s here, but %s on %s: install and "
				     "configure all nodes alike", row[i]->text,
				     text, others);
	}
}

static void finding_compare_numbers(struct finding **row, double *values, int n)
{
	int found = 0;
	double usual;

	for (int i = 0; i < n; i++) {
		if (row[i] && !isnan(row[i]->value))
			values[found++] = row[i]->value;
	}
	if (found < 2)
		return;
	usual = finding_median(values, found);
	if (found == 2) /* neither is more frequent: the better one counts */
		usual = values[1];
	for (int i = 0; i < n; i++) {
		if (row[i] && row[i]->value < usual / 2)
			finding_mark(row[i], FINDING_WARNING,
				     "%s here is less than half of other "
				     "nodes' (%.3g, others %.3g)",
				     row[i]->name, row[i]->value, usual);
	}
}

/* 1 if an earlier node has that finding, so that it was compared already. */
static int finding_is_known(struct findings *const *nodes, int before,
			    const char *name)
{
	for (int i = 0; i < before; i++) {
		if (findings_get(nodes[i], name))
			return 1;
	}
	return 0;
}

static void finding_compare_row(struct findings *const *nodes,
				const char *const *hosts, int n,
				const struct finding *like,
				struct finding **row, double *values)
{
	char name[FINDING_NAME_MAX];

	memcpy(name, like->name, sizeof(name));
	for (int i = 0; i < n; i++)
		row[i] = finding_of(nodes[i], name);
	if (like->compare == FINDING_SAME)
		finding_compare_texts(row, hosts, n);
	else if (like->compare == FINDING_AS_HIGH)
		finding_compare_numbers(row, values, n);
}

void findings_compare(struct findings *const *nodes, const char *const *hosts,
		      int n)
{
	struct finding **row = calloc((size_t)n + 1, sizeof(*row));
	double *values = calloc((size_t)n + 1, sizeof(*values));

	for (int i = 0; row && values && i < n; i++) {
		for (uint32_t k = 0; k < nodes[i]->n; k++) {
			const struct finding *like = &nodes[i]->list[k];

			if (!finding_is_known(nodes, i, like->name))
				finding_compare_row(nodes, hosts, n, like, row,
						    values);
		}
	}
	free(row);
	free(values);
}
