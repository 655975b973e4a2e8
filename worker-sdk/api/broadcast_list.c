/* broadcast_list.c: ddp_broadcast_spans: many arrays in few broadcasts. */
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/core/last_error.h"
#include "worker-sdk/math/copy.h"

/* Spans over SMALL are broadcast separately: copying them would cost more than
 * another call. A batch of small spans ends with the root's digest of their
 * counts and types. */
enum { SMALL = 64 << 10, TOGETHER = 1 << 20, DIGEST = sizeof(uint64_t) };

static size_t broadcast_list_bytes(const struct ddp_span *s)
{
	return s->count * ddp_type_size(s->type);
}

int ddp__check_spans(const ddp_comm *c, const char *what,
		     const struct ddp_span *spans, int n, struct err *e)
{
	int rc = ddp__check_comm(c, what, e);

	if (rc)
		return rc;
	if (n < 0 || (n && !spans))
		return err_set(e, ERR_ARGUMENT, "%s: %s", what,
			       n < 0 ? "n is negative" : "spans is NULL");
	for (int i = 0; i < n; i++) {
		size_t size = ddp_type_size(spans[i].type);

		if (!size || spans[i].count > DDP__COUNT_MAX)
			return err_set(e, ERR_ARGUMENT, "%s: span %d: %s", what,
				       i, size ? "too many elements"
					       : "unknown type");
		if (spans[i].count && !spans[i].data)
			return err_set(e, ERR_ARGUMENT, "%s: span %d: data is "
				       "NULL", what, i);
	}
	return 0;
}

static int broadcast_list_check(const ddp_comm *c, const struct ddp_span *spans,
				int n, int root)
{
	struct err *e = ddp__last_error();
	int rc = ddp__check_spans(c, "ddp_broadcast_spans", spans, n, e);

	if (rc)
		return rc;
	if (root < 0 || root >= ddp_world_size(c))
		return err_set(e, ERR_ARGUMENT, "ddp_broadcast_spans: there is "
			       "no root %d among %d ranks", root,
			       ddp_world_size(c));
	return 0;
}

/* The number of spans at the front that fit one batch, and their bytes. */
static int broadcast_list_batch(const struct ddp_span *s, int n, size_t *bytes)
{
	int k = 0;

	*bytes = 0;
	while (k < n && broadcast_list_bytes(&s[k]) <= SMALL &&
	       *bytes + broadcast_list_bytes(&s[k]) <= TOGETHER)
		*bytes += broadcast_list_bytes(&s[k++]);
	return k;
}

static void broadcast_list_pack(const struct ddp_span *s, int n, char *room,
				int out)
{
	for (int i = 0; i < n; i++) {
		size_t size = broadcast_list_bytes(&s[i]);

		if (out)
			ddp__copy_plain(s[i].data, room, size);
		else
			ddp__copy_plain(room, s[i].data, size);
		room += size;
	}
}

static uint64_t broadcast_list_digest(const struct ddp_span *s, int n)
{
	uint64_t d = (uint64_t)n;

	for (int i = 0; i < n; i++)
		d = ddp__digest(d, (uint64_t)s[i].count << 8 | s[i].type);
	return d;
}

/* Broadcasts the n spans from `first` on in one call, through room. */
static int broadcast_list_send(struct ddp_comm *c, const struct ddp_span *spans,
			       int first, int n, size_t bytes, char *room,
			       int root)
{
	const struct ddp_span *s = spans + first;
	uint64_t mine = broadcast_list_digest(s, n);
	int rc;

	if (c->rank == root) {
		broadcast_list_pack(s, n, room, 0);
		memcpy(room + bytes, &mine, DIGEST);
	}
	rc = ddp_broadcast(c, room, bytes + DIGEST, DDP_U8, root);
	if (rc || c->rank == root)
		return rc;
	/* the total size may match although counts or types differ */
	if (memcmp(room + bytes, &mine, DIGEST))
		return err_set(
			ddp__last_error(), ERR_ARGUMENT,
			"ddp_broadcast_spans: one of the spans %d to %d "
			"differs in count or type between rank %d, the root, "
			"and rank %d: all ranks must give the same",
			first, first + n - 1, root, c->rank);
	broadcast_list_pack(s, n, room, 1);
	return 0;
}

int ddp_broadcast_spans(ddp_comm *c, const struct ddp_span *spans, int n,
			int root)
{
	int rc = broadcast_list_check(c, spans, n, root), here, k;
	char *room = NULL;
	size_t bytes;

	if (rc || !c->state)
		return rc;
	here = c->backend == &ddp__cpu; /* on another backend the memory may be
					 * a GPU's */
	for (int i = 0; i < n && !rc; i += k) {
		k = here ? broadcast_list_batch(spans + i, n - i, &bytes) : 0;
		if (k < 2) {
			k = 1;
			rc = ddp_broadcast(c, spans[i].data, spans[i].count,
					   spans[i].type, root);
			continue;
		}
		if (!room)
			room = malloc(TOGETHER + DIGEST);
		if (!room)
			return err_no_memory(ddp__last_error(),
					     "ddp_broadcast_spans");
		rc = broadcast_list_send(c, spans, i, k, bytes, room, root);
	}
	free(room);
	return rc;
}
