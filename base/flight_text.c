/* flight_text.c: what the flight recorder holds, in words; the one place where
 * calls are named. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/flight.h"

enum shown { TYPE = 1, OP = 2, ROOT = 4, TO = 8, FROM = 16 };

static const struct {
	const char *name;
	int shows;
} kinds[] = {
	[FLIGHT_INIT] = {"ddp_init", 0},
	[FLIGHT_ALL_REDUCE] = {"all_reduce", TYPE | OP},
	[FLIGHT_BROADCAST] = {"broadcast", TYPE | ROOT},
	[FLIGHT_ALL_GATHER] = {"all_gather", TYPE},
	[FLIGHT_REDUCE_SCATTER] = {"reduce_scatter", TYPE | OP},
	[FLIGHT_BARRIER] = {"barrier", 0},
	[FLIGHT_REDUCE] = {"reduce", TYPE | OP | ROOT},
	[FLIGHT_GATHER] = {"gather", TYPE | ROOT},
	[FLIGHT_SCATTER] = {"scatter", TYPE | ROOT},
	[FLIGHT_ALL_TO_ALL] = {"all_to_all", TYPE},
	[FLIGHT_SEND] = {"send", TYPE | TO},
	[FLIGHT_RECV] = {"recv", TYPE | FROM},
	[FLIGHT_SPLIT] = {"comm_split", 0},
	[FLIGHT_REDUCER] = {"reducer_new", 0},
	[FLIGHT_SHOULD_STOP] = {"should_stop", 0},
	[FLIGHT_ONCE] = {"once", 0},
	[FLIGHT_BATCH_NORM] = {"sync_batch_norm", 0},
	[FLIGHT_PROGRESS] = {"progress_start", 0},
};
static_assert(sizeof(kinds) / sizeof(*kinds) == FLIGHT_KINDS, "one a kind");

/* In the order of ddp.h's enums. */
static const char *const types[] = {"f32", "f64",  "i32", "i64",
				    "f16", "bf16", "i8",  "u8"};
static const char *const ops[] = {"sum",  "avg",  "min", "max",
				  "prod", "band", "bor"};
static_assert(sizeof(types) / sizeof(*types) == FLIGHT_TYPES, "one a type");
static_assert(sizeof(ops) / sizeof(*ops) == FLIGHT_OPS, "one an operation");

int flight_is_collective(unsigned kind)
{
	return kind != FLIGHT_SEND && kind != FLIGHT_RECV;
}

/* What is in the brackets. */
static void put_details(const struct flight_call *c, int shows, char *out,
			size_t size)
{
	const char *how = shows & ROOT ? "root" : shows & TO ? "to" : "from";
	char op[16] = "", peer[32] = "";

	*out = '\0';
	if (!(shows & TYPE))
		return;
	if (shows & OP)
		snprintf(op, sizeof(op), ", %s",
			 c->op < FLIGHT_OPS ? ops[c->op] : "?");
	if (shows & (ROOT | TO | FROM))
		snprintf(peer, sizeof(peer), ", %s %d", how, c->root);
	snprintf(out, size, " (%s x %llu%s%s%s)",
		 c->type < FLIGHT_TYPES ? types[c->type] : "?",
		 (unsigned long long)c->count,
		 c->count == FLIGHT_COUNT_MOST ? " or more" : "", op, peer);
}

/* Which communicator: the world's is not named. */
static void put_group(const char *name, char *out, size_t size)
{
	const char *slash = name ? strrchr(name, '/') : NULL;
	const char *own = slash ? slash + 1 : name;
	int above = slash ? (int)(slash - name) : 0;

	*out = '\0';
	if (!name)
		return;
	if (*own == 'r')
		snprintf(out, size, " of reducer %.10s%s%.*s", own + 1,
			 above ? " of group " : "", above, name);
	else
		snprintf(out, size, " of group %.40s", name);
}

char *flight_call_text(const struct flight_call *c, char *out)
{
	int known = c->kind < FLIGHT_KINDS;
	char number[24] = "", details[72], group[64];

	if (c->number && c->kind != FLIGHT_INIT)
		snprintf(number, sizeof(number), " #%llu",
			 (unsigned long long)c->number);
	put_details(c, known ? kinds[c->kind].shows : 0, details,
		    sizeof(details));
	put_group(c->group, group, sizeof(group));
	snprintf(out, FLIGHT_CALL_MAX, "%s%s%s%s",
		 known ? kinds[c->kind].name : "?", number, details, group);
	return out;
}

char *flight_time_text(uint64_t from_ns, uint64_t to_ns, char *out)
{
	/* the clock of the entries is some ms behind, and garbage anywhere */
	uint64_t ns = to_ns > from_ns ? to_ns - from_ns : 0;
	uint64_t s = (ns + 500000000) / 1000000000, tenths;

	tenths = (ns + 50000000) / 100000000;
	/* no double: a program's locale may have decimal commas */
	if (tenths < 100)
		snprintf(out, 16, "%llu.%llu s",
			 (unsigned long long)tenths / 10,
			 (unsigned long long)tenths % 10);
	else
		snprintf(out, 16, "%llu s",
			 (unsigned long long)(s < 1000000000 ? s : 1000000000));
	return out;
}

static const char *group_of(const struct flight_view *v, uint32_t comm)
{
	if (!comm)
		return NULL;
	for (int i = 0; i < v->ncomms; i++) {
		if (v->comms[i].id == comm)
			return v->comms[i].name;
	}
	return "?"; /* it was freed */
}

char *flight_op_text(const struct flight_view *v, const struct flight_op *op,
		     char *out)
{
	struct flight_call call = op->call;

	call.group = group_of(v, op->comm);
	return flight_call_text(&call, out);
}

static int under_way(const struct flight_view *v)
{
	int n = 0;

	for (int i = 0; i < v->n; i++)
		n += v->ops[i].state == FLIGHT_ENTERED;
	return n;
}

char *flight_last_text(const struct flight_view *v, uint64_t now_ns, char *out)
{
	const struct flight_op *op = flight_under_way(v);
	char call[FLIGHT_CALL_MAX], ago[16], more[32] = "";
	int n = under_way(v);

	out[0] = '\0';
	if (!v->n)
		return out;
	if (!op)
		op = &v->ops[v->n - 1];
	flight_op_text(v, op, call);
	flight_time_text(op->ns, now_ns, ago);
	if (n > 1)
		snprintf(more, sizeof(more), " (and %d more)", n - 1);
	if (n)
		snprintf(out, FLIGHT_TEXT_MAX, "%s, entered %s earlier%s", call,
			 ago, more);
	else if (op->state == FLIGHT_FAILED)
		snprintf(out, FLIGHT_TEXT_MAX, "%s, entered %s earlier, failed",
			 call, ago);
	else
		snprintf(out, FLIGHT_TEXT_MAX,
			 "between calls; last: %s, entered %s earlier", call,
			 ago);
	return out;
}

char *flight_seen_text(const struct flight_view *v, char *out)
{
	const struct flight_op *op = flight_under_way(v);
	char call[FLIGHT_CALL_MAX];

	out[0] = '\0';
	if (!v->n)
		return out;
	if (!op)
		op = &v->ops[v->n - 1];
	flight_op_text(v, op, call);
	snprintf(out, FLIGHT_TEXT_MAX, "last seen %s %s",
		 op->state == FLIGHT_ENTERED ? "entering"
		 : op->state == FLIGHT_FAILED ? "failing in" : "leaving",
		 call);
	return out;
}
