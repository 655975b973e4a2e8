/* spans.c: many arrays broadcast in few calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/entry.h"
#include "worker-sdk/last_error.h"

/* A span above SMALL goes by itself: copying it would cost more than a call. */
enum { SMALL = 64 << 10, TOGETHER = 1 << 20 };

static size_t size_of(const struct ddp_span *s)
{
	return s->count * ddp_type_size(s->type);
}

static int check(const ddp_comm *c, const struct ddp_span *spans, int n,
		 int root)
{
	struct err *e = ddp__last_error();
	int rc = ddp__check_comm(c, "ddp_broadcast_spans", e);

	if (rc)
		return rc;
	if (n < 0 || (n && !spans))
		return err_set(e, ERR_ARGUMENT, "ddp_broadcast_spans: %s",
			       n < 0 ? "n is negative" : "spans is NULL");
	if (root < 0 || root >= ddp_world_size(c))
		return err_set(e, ERR_ARGUMENT, "ddp_broadcast_spans: there is "
			       "no root %d among %d ranks", root,
			       ddp_world_size(c));
	for (int i = 0; i < n; i++) {
		size_t size = ddp_type_size(spans[i].type);

		if (!size || spans[i].count > DDP__COUNT_MAX)
			return err_set(e, ERR_ARGUMENT, "ddp_broadcast_spans: "
				       "span %d: %s", i,
				       size ? "too many elements"
					    : "unknown type");
		if (spans[i].count && !spans[i].data)
			return err_set(e, ERR_ARGUMENT, "ddp_broadcast_spans: "
				       "span %d: data is NULL", i);
	}
	return 0;
}

/* How many spans from the first on go together, and their bytes. */
static int take(const struct ddp_span *s, int n, size_t *bytes)
{
	int k = 0;

	*bytes = 0;
	while (k < n && size_of(&s[k]) <= SMALL &&
	       *bytes + size_of(&s[k]) <= TOGETHER)
		*bytes += size_of(&s[k++]);
	return k;
}

static void move(const struct ddp_span *s, int n, char *room, int out)
{
	for (int i = 0; i < n; i++) {
		size_t size = size_of(&s[i]);

		if (size && out)
			memcpy(s[i].data, room, size);
		else if (size)
			memcpy(room, s[i].data, size);
		room += size;
	}
}

int ddp_broadcast_spans(ddp_comm *c, const struct ddp_span *spans, int n,
			int root)
{
	int rc = check(c, spans, n, root), here, k;
	char *room = NULL;
	size_t bytes;

	if (rc || !c->state)
		return rc;
	here = c->backend == &ddp__cpu; /* else memory is not ours to touch */
	for (int i = 0; i < n && !rc; i += k) {
		k = here ? take(spans + i, n - i, &bytes) : 0;
		if (k < 2) {
			k = 1;
			rc = ddp_broadcast(c, spans[i].data, spans[i].count,
					   spans[i].type, root);
			continue;
		}
		if (!room)
			room = malloc(TOGETHER);
		if (!room)
			return err_set(ddp__last_error(), -ENOMEM,
				       "ddp_broadcast_spans: no memory");
		if (c->rank == root)
			move(spans + i, k, room, 0);
		rc = ddp_broadcast(c, room, bytes, DDP_U8, root);
		if (!rc && c->rank != root)
			move(spans + i, k, room, 1);
	}
	free(room);
	return rc;
}
