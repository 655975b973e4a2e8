/* pmix_vars.c: texts one after the other. */
#include "launcher/pmix/pmix_vars.h"

#include <stdlib.h>

enum { VARS_MAX = 256 }; /* for a rank */

void pmix_vars_put(struct buf *b, char *const *env, char *const *more,
		   uint32_t n)
{
	uint32_t nenv = 0;

	while (env[nenv])
		nenv++;
	buf_put_u32(b, nenv + n);
	for (uint32_t i = 0; i < nenv; i++)
		buf_put_slice(b, SLICE_STR(env[i]));
	for (uint32_t i = 0; i < n; i++)
		buf_put_slice(b, SLICE_STR(more[i]));
}

/* Copies one rank's variables to *to. */
static char *pmix_vars_copy(struct pmix_vars *v, struct reader *r,
			    uint32_t rank, char *to)
{
	for (uint32_t i = 0; i < v->n && !r->bad; i++) {
		struct slice var = reader_slice(r);

		memcpy(to, var.data, var.len);
		to[var.len] = '\0';
		v->vars[(size_t)rank * v->n + i] = to;
		to += var.len + 1;
	}
	return to;
}

int pmix_vars_get(struct pmix_vars *v, struct slice bytes, uint32_t nproc,
		  struct err *e)
{
	struct reader r;
	char *to;

	*v = (struct pmix_vars){.text = NULL};
	reader_init(&r, bytes);
	v->n = reader_u32(&r);
	if (r.bad || v->n > VARS_MAX)
		return err_set(e, ERR_PROTOCOL, "the variables of PMIx are "
			       "malformed");
	/* a length of 4 bytes is longer than a NUL */
	to = v->text = malloc(bytes.len + 1);
	v->vars = calloc((size_t)nproc * v->n + 1, sizeof(*v->vars));
	if (!v->text || !v->vars) {
		pmix_vars_release(v);
		return err_no_memory(e, "the variables of PMIx");
	}
	reader_init(&r, bytes);
	for (uint32_t i = 0; i < nproc && !r.bad; i++) {
		if (reader_u32(&r) != v->n)
			r.bad = 1;
		to = pmix_vars_copy(v, &r, i, to);
	}
	if (!r.bad && !reader_left(&r))
		return 0;
	pmix_vars_release(v);
	return err_set(e, ERR_PROTOCOL, "the variables of PMIx are malformed");
}

void pmix_vars_release(struct pmix_vars *v)
{
	free(v->text);
	free(v->vars);
	*v = (struct pmix_vars){.text = NULL};
}
