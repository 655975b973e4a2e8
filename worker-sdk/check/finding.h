/* finding.h: the results of a check of one node: a list of findings, each with
 * a verdict; their bytes for other nodes; and a comparison that finds the nodes
 * that differ. Pure. The structs own no memory: there is nothing to free. */
#ifndef SDK_CHECK_FINDING_H
#define SDK_CHECK_FINDING_H

#include "base/buf.h"

enum {
	FINDING_NAME_MAX = 72,
	FINDING_TEXT_MAX = 104,
	FINDING_WRONG_MAX = 320,
	FINDINGS_MAX = 192, /* per node; more are dropped */
};

/* Values travel to other nodes, so they never change. */
enum finding_verdict {
	FINDING_OK = 0,
	FINDING_WARNING = 1, /* a job can run, but not as well as it should */
	FINDING_FAILURE = 2, /* a job cannot run on this node */
	FINDING_VERDICTS = 3
};

/* How nodes are compared. */
enum finding_compare {
	FINDING_ALONE = 0,     /* not at all */
	FINDING_SAME = 1,      /* the text should be that of most nodes */
	FINDING_AS_HIGH = 2,   /* the value should not be far below theirs */
	FINDING_COMPARES = 3
};

struct finding {
	char name[FINDING_NAME_MAX]; /* "open files": the same on all nodes */
	char text[FINDING_TEXT_MAX]; /* the result, for people */
	double value;		     /* the result as a number; NAN: none */
	uint8_t verdict, compare;
	char wrong[FINDING_WRONG_MAX]; /* the fault and what to do; "": none */
};

struct findings {
	struct finding list[FINDINGS_MAX];
	uint32_t n;
};

/* Appends a finding with the verdict OK and no value; the caller sets the rest.
 * The text is cut to fit. If the list is full, the new finding replaces the
 * last. */
struct finding *finding_add(struct findings *f, const char *name,
			    const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Sets the value; nodes with a much lower one are marked (FINDING_AS_HIGH). */
void finding_set_value(struct finding *f, double value);

/* Sets the verdict and the text of `wrong`. The worse verdict of two calls
 * stays, with its text. */
void finding_mark(struct finding *f, enum finding_verdict verdict,
		  const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Appends all of `more`. */
void findings_append(struct findings *f, const struct findings *more);

/* The worst verdict, and the first finding that has it (NULL if all are OK). */
enum finding_verdict findings_worst(const struct findings *f,
				    const struct finding **first);
/* How many findings have this verdict. */
uint32_t findings_count(const struct findings *f, enum finding_verdict verdict);

/* NULL if the node has no finding of that name. */
const struct finding *findings_get(const struct findings *f, const char *name);

/* Encodes the findings for another node; decodes them: 0, or ERR_PROTOCOL. */
void findings_put(struct buf *b, const struct findings *f);
int findings_read(struct findings *f, struct reader *r, struct err *e);

/* Compares the nodes and marks, as warnings, those whose finding differs from
 * that of most nodes (FINDING_SAME), or whose value is under half of the median
 * (FINDING_AS_HIGH; of two nodes, the lower one). If several texts are equally
 * frequent, the first node's counts as that of most nodes. hosts: the nodes'
 * names. If memory is short, nothing is marked. */
void findings_compare(struct findings *const *nodes, const char *const *hosts,
		      int n);

/* The median of n > 0 numbers, which it sorts. */
double finding_median(double *values, int n);

#endif
