/* calls.c: collectives and messages in all their forms: buffers in place and
 * not, at odd addresses between fences; blocking, or asynchronous with four
 * ways to wait, in any order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz_sdk/fuzz.h"

static const char *const kinds[] = {
	"all_reduce", "reduce",		"broadcast",  "all_gather", "gather",
	"scatter",    "reduce_scatter", "all_to_all", "all_gather_v",
	"reduce_scatter_v", "all_to_all_v", "barrier", "message"};
static const char *const types[] = {"f32", "f64",  "i32", "i64",
				    "f16", "bf16", "i8",  "u8"};
static const char *const ops[] = {"sum",  "avg",  "min", "max",
				  "prod", "band", "bor"};

static int reduces(enum kind kind)
{
	return kind == ALL_REDUCE || kind == REDUCE ||
	       kind == REDUCE_SCATTER || kind == REDUCE_SCATTER_V;
}

void call_text(const struct call *c, char *out, size_t size)
{
	char group[120];
	int len;

	group_text(&c->group, group, sizeof(group));
	len = snprintf(out, size, "%s of %s x %zu%s%s%s%s", kinds[c->kind],
		       types[c->type], c->count, reduces(c->kind) ? ", " : "",
		       reduces(c->kind) ? ops[c->op] : "",
		       c->special ? ", special values" : "",
		       c->large ? ", large values" : "");
	if (c->kind == MESSAGE)
		len += snprintf(out + len, size - (size_t)len,
				" from %d to %d", c->root, c->to);
	snprintf(out + len, size - (size_t)len, ", root %d, on %s", c->root,
		 group);
}

/* ---- drawing one ---- */

/* Sizes around which libddp changes its method, or which just fill a buffer. */
static size_t draw_size(struct rng *r)
{
	static const size_t tiny[] = {16, 48, 64},
			    middle[] = {4 << 10, 16 << 10, 32 << 10, 64 << 10},
			    large[] = {256 << 10, 512 << 10, 1 << 20},
			    huge[] = {2 << 20, 4 << 20, 8 << 20};
	unsigned which = rng_below(r, 100);

	if (which < 42)
		return rng_below(r, 200);
	if (which < 65)
		return tiny[rng_below(r, 3)];
	if (which < 94)
		return middle[rng_below(r, 4)];
	if (which < 97)
		return large[rng_below(r, 3)];
	return which < 98 ? large[0] : huge[rng_below(r, 3)];
}

struct call call_draw(struct rng *common, const struct group *g, int limits)
{
	const size_t many = g->n > 4 ? 4 << 20 : 8 << 20, few = 64 << 10;
	struct call c = {.group = *g, .number = fuzz.number};
	size_t size, elem, parts = 1, n = (size_t)g->n;
	int float_ops = DDP_BAND, halve;

	do
		c.kind = (enum kind)rng_below(common, MESSAGE);
	while (limits & CALL_REDUCES && !reduces(c.kind));
	c.type = (enum ddp_type)rng_below(common, DDP_TYPES);
	c.op = (enum ddp_op)rng_below(common, is_float(c.type)
						      ? (unsigned)float_ops
						      : DDP_OPS);
	c.root = (int)rng_below(common, (unsigned)n);
	c.key = rng_next(common);
	c.special = is_float(c.type) && rng_chance(common, 15);
	c.large = c.type == DDP_F16 && c.op == DDP_AVG && !c.special &&
		  reduces(c.kind) && rng_chance(common, 50) &&
		  !(g->hosts > 1 && is_left_out("f16-average"));
	elem = ddp_type_size(c.type);
	size = draw_size(common);
	halve = rng_chance(common, 40);
	if (limits & CALL_ONLY_SMALL && size > few)
		size = few;
	if (halve)
		size /= n;
	c.count = size / elem;
	if (c.count && rng_chance(common, 50))
		c.count += rng_below(common, 3) - 1;
	if (c.kind != ALL_REDUCE && c.kind != REDUCE && c.kind != BROADCAST)
		parts = n;
	if (c.count * parts * elem > many)
		c.count = many / parts / elem;
	if (c.kind == BARRIER) {
		c.type = DDP_U8;
		c.count = 0;
	}
	return c;
}

/* ---- buffers ---- */

enum { FENCE = 64, FENCE_BYTE = 0x5a, UNSET = 0xa5 };

struct buffer buffer_new(size_t size)
{
	size_t shift = rng_chance(&fuzz.own, 50) ? rng_below(&fuzz.own, 16) : 0;
	struct buffer b = {malloc(size + 2 * FENCE + 16), NULL, size};

	if (!b.raw)
		fail(NULL, "no memory for %zu bytes", size);
	b.data = b.raw + FENCE + shift;
	memset(b.raw, FENCE_BYTE, FENCE + shift);
	memset(b.data, UNSET, size);
	memset(b.data + size, FENCE_BYTE, FENCE);
	return b;
}

void buffer_free(struct buffer *b, const struct call *c)
{
	if (!b->raw)
		return;
	for (char *p = b->raw; p < b->data; p++)
		if (*p != FENCE_BYTE)
			fail(c, "wrote %td bytes before its buffer",
			     b->data - p);
	for (int i = 0; i < FENCE; i++)
		if (b->data[b->size + (size_t)i] != FENCE_BYTE)
			fail(c, "wrote %d bytes past its buffer", i + 1);
	free(b->raw);
	b->raw = NULL;
}

/* How many times the count this rank sends, and receives. */
static size_t parts_sent(const struct call *c)
{
	int rank = c->group.rank, n = c->group.n;

	switch (c->kind) {
	case BARRIER:
		return 0;
	case BROADCAST:
	case MESSAGE:
		return rank == c->root;
	case SCATTER:
		return rank == c->root ? (size_t)n : 0;
	case REDUCE_SCATTER:
	case ALL_TO_ALL:
		return (size_t)n;
	default:
		return 1;
	}
}

static size_t parts_received(const struct call *c)
{
	int rank = c->group.rank, n = c->group.n;

	switch (c->kind) {
	case BARRIER:
		return 0;
	case MESSAGE:
		return rank == c->to;
	case REDUCE:
		return rank == c->root;
	case GATHER:
		return rank == c->root ? (size_t)n : 0;
	case ALL_GATHER:
	case ALL_TO_ALL:
		return (size_t)n;
	default:
		return 1;
	}
}

/* A call of this rank that may be under way. */
struct pending {
	struct pending *next;
	struct call call;
	ddp_request *request;
	struct buffer send, recv; /* in place: one of them has no memory */
	char *in, *out;
	uint64_t sent; /* hash of the data that must not change; 0: none */
	int receives;  /* for a message: which side this rank is */
};

static struct pending *first;
static unsigned under_way;

static void prepare(struct pending *p)
{
	const struct call *c = &p->call;
	size_t bytes = c->count * ddp_type_size(c->type);
	size_t sends = parts_sent(c), gets = parts_received(c);
	size_t own = (size_t)c->group.rank * bytes;
	int in_place = c->kind == BROADCAST ||
		       (c->kind != MESSAGE && sends && gets &&
			rng_chance(&fuzz.own, 40));

	if (has_counts(c->kind)) {
		counts_prepare(c, &p->send, &p->recv, &p->in, &p->out);
		if (p->send.raw && p->recv.raw)
			p->sent = values_hash(p->send.data, p->send.size);
		return;
	}
	if (c->kind == MESSAGE) {
		sends = !p->receives;
		gets = (size_t)p->receives;
	}
	if (gets && (!in_place || gets >= sends)) {
		p->recv = buffer_new(gets * bytes);
		p->out = p->in = p->recv.data;
		if (sends < gets)
			p->in += own;
	}
	if (sends && (!in_place || sends > gets)) {
		p->send = buffer_new(sends * bytes);
		p->in = p->send.data;
		if (in_place)
			p->out = p->in + own;
	}
	if (sends)
		values_fill(c, c->group.rank, 0, sends * c->count, p->in);
	if (sends && !in_place)
		p->sent = values_hash(p->in, sends * bytes);
	if (!sends && c->kind != BROADCAST)
		p->in = NULL;
	if (!c->count && rng_chance(&fuzz.own, 30))
		p->in = p->out = NULL;
}

/* request NULL: the blocking form. */
static int issue(const struct call *c, const void *in, void *out, int receives,
		 ddp_request **request)
{
	ddp_comm *g = c->group.comm;
	size_t n = c->count;

	if (has_counts(c->kind))
		return counts_issue(c, in, out, request);
#define EITHER(name, ...)                                                     \
	(request ? name##_async(__VA_ARGS__, request) : name(__VA_ARGS__))
	switch (c->kind) {
	case ALL_REDUCE:
		return EITHER(ddp_all_reduce, g, in, out, n, c->type, c->op);
	case REDUCE:
		return EITHER(ddp_reduce, g, in, out, n, c->type, c->op,
			      c->root);
	case BROADCAST:
		return EITHER(ddp_broadcast, g, out, n, c->type, c->root);
	case ALL_GATHER:
		return EITHER(ddp_all_gather, g, in, out, n, c->type);
	case GATHER:
		return EITHER(ddp_gather, g, in, out, n, c->type, c->root);
	case SCATTER:
		return EITHER(ddp_scatter, g, in, out, n, c->type, c->root);
	case REDUCE_SCATTER:
		return EITHER(ddp_reduce_scatter, g, in, out, n, c->type,
			      c->op);
	case ALL_TO_ALL:
		return EITHER(ddp_all_to_all, g, in, out, n, c->type);
	case MESSAGE:
		if (receives)
			return EITHER(ddp_recv, g, out, n, c->type, c->root);
		return EITHER(ddp_send, g, in, n, c->type, c->to);
	default:
		return EITHER(ddp_barrier, g);
	}
#undef EITHER
}

/* ---- its result ---- */

static void check_parts(const struct call *c, const char *out)
{
	size_t bytes = c->count * ddp_type_size(c->type);

	for (int r = 0; r < c->group.n; r++)
		values_check_copied(c, r,
				    c->kind == ALL_TO_ALL
					    ? (size_t)c->group.rank * c->count
					    : 0,
				    c->count, out + (size_t)r * bytes,
				    (size_t)r * c->count);
}

static void check(const struct pending *p)
{
	const struct call *c = &p->call;
	size_t bytes = c->count * ddp_type_size(c->type);
	size_t own = (size_t)c->group.rank * c->count;

	if (p->sent && p->in &&
	    values_hash(p->in, p->send.size) != p->sent)
		fail(c, "changed what was sent");
	if (has_counts(c->kind)) {
		counts_check(c, p->out);
		return;
	}
	if (!p->out || !bytes)
		return;
	switch (c->kind) {
	case ALL_REDUCE:
	case REDUCE:
		values_check_reduced(c, 0, c->count, p->out);
		break;
	case REDUCE_SCATTER:
		values_check_reduced(c, own, c->count, p->out);
		break;
	case ALL_GATHER:
	case GATHER:
	case ALL_TO_ALL:
		check_parts(c, p->out);
		break;
	case SCATTER:
		values_check_copied(c, c->root, own, c->count, p->out, 0);
		break;
	default:
		values_check_copied(c, c->root, 0, c->count, p->out, 0);
	}
	if (c->kind == ALL_REDUCE)
		digest_add(c, values_hash(p->out, bytes));
}

/* The call has ended, and has been removed from the list. */
static void end(struct pending *p)
{
	check(p);
	buffer_free(&p->send, &p->call);
	buffer_free(&p->recv, &p->call);
	free(p);
}

/* ---- waiting ---- */

static struct pending *take(unsigned i)
{
	struct pending **at = &first, *p;

	while (i--)
		at = &(*at)->next;
	p = *at;
	*at = p->next;
	under_way--;
	return p;
}

static void wait_one(struct pending *p)
{
	int rc = 0;

	switch (rng_below(&fuzz.own, 3)) {
	case 0:
		while ((rc = ddp_test(p->request)) == 0)
			;
		must(rc == 1 ? 0 : rc, &p->call, "ddp_test");
		rc = ddp_wait(&p->request);
		break;
	case 1:
		do
			rc = ddp_wait_timeout(&p->request,
					      (int)rng_below(&fuzz.own, 4));
		while (p->request && rc == DDP_ERR_TIMEOUT);
		break;
	default:
		rc = ddp_wait(&p->request);
	}
	must(rc, &p->call, "waiting");
	if (p->request)
		fail(&p->call, "the request is still there");
	end(p);
}

static void wait_some(unsigned n)
{
	struct pending *taken[64] = {take(rng_below(&fuzz.own, under_way))};
	ddp_request *requests[64] = {taken[0]->request};

	if (n > 64)
		n = 64;
	for (unsigned i = 1; i < n; i++) {
		taken[i] = take(rng_below(&fuzz.own, under_way));
		requests[i] = taken[i]->request;
	}
	must(ddp_wait_all(requests, (int)n), &taken[0]->call, "ddp_wait_all");
	for (unsigned i = 0; i < n; i++) {
		if (requests[i])
			fail(&taken[i]->call, "ddp_wait_all left its request");
		end(taken[i]);
	}
}

void calls_wait(unsigned most)
{
	while (under_way > most) {
		if (rng_chance(&fuzz.own, 25))
			wait_some(1 + rng_below(&fuzz.own, under_way));
		else
			wait_one(take(rng_below(&fuzz.own, under_way)));
	}
}

void calls_wait_group(const ddp_comm *comm)
{
	unsigned i = 0;

	for (struct pending *p = first; p;) {
		if (p->call.group.comm != comm) {
			p = p->next;
			i++;
			continue;
		}
		p = p->next;
		wait_one(take(i));
	}
}

/* ---- making it ---- */

static void make(const struct call *c, int receives, int blocks)
{
	struct pending *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		fail(c, "no memory");
	p->call = *c;
	p->receives = receives;
	prepare(p);
	rc = issue(c, p->in, p->out, receives, blocks ? NULL : &p->request);
	must(rc, c, blocks ? "called" : "begun");
	if (blocks) {
		end(p);
		return;
	}
	p->next = first;
	first = p;
	under_way++;
}

void call_make(const struct call *c)
{
	int rank = c->group.rank, own = c->kind == MESSAGE && c->root == c->to;

	if (rank < 0 ||
	    (c->kind == MESSAGE && rank != c->root && rank != c->to))
		return;
	if (own) {
		int receives = rng_chance(&fuzz.own, 50);

		/* a blocking message to oneself would never end */
		make(c, receives, !receives && rng_chance(&fuzz.own, 50));
		make(c, !receives, rng_chance(&fuzz.own, 50));
		return;
	}
	make(c, c->kind == MESSAGE && rank == c->to, rng_chance(&fuzz.own, 45));
}

void call_begin(const struct call *c, int receives)
{
	make(c, receives, 0);
}

int call_try(const struct call *c)
{
	size_t parts = c->kind == ALL_REDUCE || c->kind == BROADCAST ||
				       c->kind == REDUCE
			       ? 1
			       : (size_t)c->group.n;
	size_t n = has_counts(c->kind) ? counts_sent(c) + counts_received(c)
				       : c->count * parts;
	size_t size = n * ddp_type_size(c->type);
	char *in = calloc(1, size + 8), *out = calloc(1, size + 8);
	ddp_request *request = NULL;
	int rc;

	if (!in || !out)
		fail(c, "no memory");
	if (rng_chance(&fuzz.own, 50)) {
		rc = issue(c, in, out, c->group.rank == c->to, NULL);
	} else {
		rc = issue(c, in, out, c->group.rank == c->to, &request);
		if (!rc)
			rc = ddp_wait(&request);
	}
	free(in);
	free(out);
	return rc;
}

/* ---- the same bits on all ranks ---- */

enum { PARTS = 8, OPERATIONS = 32 };

static uint64_t digests[OPERATIONS * PARTS];

/* Adds up, so that the order of the waits does not matter. */
void digest_add(const struct call *c, uint64_t hash)
{
	unsigned at = (c->number - fuzz.compared) % OPERATIONS * PARTS;

	digests[at + c->part % PARTS] += mix(hash ^ c->key) | 1;
}

void digests_compare(void)
{
	static uint64_t all[RANKS_MAX][OPERATIONS * PARTS];
	const ddp_comm *world = fuzz.groups[0].comm;

	must(ddp_all_gather((ddp_comm *)(uintptr_t)world, digests, all,
			    OPERATIONS * PARTS, DDP_I64),
	     NULL, "comparing the ranks' results");
	for (unsigned i = 0; i < OPERATIONS * PARTS; i++)
		for (int r = 0, one = -1; r < fuzz.size; r++) {
			if (!all[r][i])
				continue; /* it did not take part in the call */
			if (one >= 0 && all[r][i] != all[one][i])
				fail(NULL, "operation %u: rank %d of the world "
				     "has other bits than rank %d",
				     fuzz.compared + i / PARTS, r, one);
			one = r;
		}
	memset(digests, 0, sizeof(digests));
	fuzz.compared = fuzz.number + 1;
}
