/* pmix_frame.c: a length and three numbers; variables one after the other. */
#include "launcher/pmix/pmix_frame.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 4 };

static uint8_t *pmix_frame_head_u32(uint8_t *at, uint32_t v)
{
	v = htole32(v);
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

void pmix_frame_head(const struct pmix_frame *f, uint8_t head[PMIX_FRAME_HEAD])
{
	uint8_t *at = head;

	at = pmix_frame_head_u32(at, (uint32_t)(PMIX_FRAME_HEAD - LENGTH +
						f->data.len));
	*at++ = f->type;
	at = pmix_frame_head_u32(at, f->id);
	pmix_frame_head_u32(at, (uint32_t)f->code);
}

void pmix_frame_put(struct buf *b, const struct pmix_frame *f)
{
	uint8_t head[PMIX_FRAME_HEAD];

	pmix_frame_head(f, head);
	buf_put(b, head, sizeof(head));
	buf_put(b, f->data.data, f->data.len);
}

long pmix_frame_cut(struct slice in, struct pmix_frame *f, struct err *e)
{
	struct reader r;
	uint32_t length;

	if (in.len < PMIX_FRAME_HEAD)
		return 0;
	reader_init(&r, in);
	length = reader_u32(&r);
	f->type = reader_u8(&r);
	f->id = reader_u32(&r);
	f->code = (int32_t)reader_u32(&r);
	if (length < PMIX_FRAME_HEAD - LENGTH || length > PMIX_FRAME_MAX ||
	    !f->type || f->type >= HELPER_TYPES)
		return err_set(e, ERR_PROTOCOL, "a frame of type %u with %u "
			       "bytes between ddprun and its PMIx helper",
			       f->type, length);
	if (in.len - LENGTH < length)
		return 0;
	f->data = SLICE(in.data + PMIX_FRAME_HEAD,
			length - (PMIX_FRAME_HEAD - LENGTH));
	return LENGTH + (long)length;
}

/* ---- what a rank hands its server to print ---- */

/* Open MPI packs in network order. */
static uint32_t pmix_said_u32(const char *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return be32toh(v);
}

/* Cuts a count of 1 and a string, which ends with a NUL, from in: 0 or -1. */
static int pmix_said_cut(struct slice *in, struct slice *text)
{
	uint32_t n;

	if (in->len < 8)
		return -1;
	n = pmix_said_u32(in->data + 4);
	if (pmix_said_u32(in->data) != 1 || n == 0 || n > in->len - 8 ||
	    in->data[8 + n - 1])
		return -1;
	*text = SLICE(in->data + 8, n - 1);
	*in = SLICE(in->data + 8 + n, in->len - 8 - n);
	return 0;
}

struct slice pmix_said(struct slice bytes)
{
	struct slice text;

	if (pmix_said_cut(&bytes, &text) < 0 ||
	    pmix_said_cut(&bytes, &text) < 0 || bytes.len < 5 ||
	    pmix_said_u32(bytes.data) != 1 || bytes.data[4] != 1)
		return SLICE("", 0);
	bytes = SLICE(bytes.data + 5, bytes.len - 5);
	return pmix_said_cut(&bytes, &text) < 0 ? SLICE("", 0) : text;
}

/* ---- the variables of READY ---- */

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
