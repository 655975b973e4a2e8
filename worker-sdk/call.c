/* call.c: packing and naming collective calls. */
#include "worker-sdk/call.h"

#include <stdio.h>

/* kind 4 bits, type 4, op 4, root 16, count 36 */
uint64_t ddp__call_pack(const struct ddp__call *c)
{
	return (uint64_t)c->kind << 60 | (uint64_t)c->type << 56 |
	       (uint64_t)c->op << 52 | (uint64_t)(c->root & 0xffff) << 36 |
	       (uint64_t)c->count;
}

void ddp__call_unpack(struct ddp__call *c, uint64_t word, uint64_t number)
{
	c->kind = (enum ddp__kind)(word >> 60);
	c->type = (enum ddp_type)(word >> 56 & 15);
	c->op = (enum ddp_op)(word >> 52 & 15);
	c->root = (int)(word >> 36 & 0xffff);
	c->count = word & DDP__COUNT_MAX;
	c->number = number;
	c->group = NULL;
}

/* What is in the brackets. */
static void put_details(const struct ddp__call *c, char *out, size_t size)
{
	static const char *const types[] = {"f32", "f64",  "i32", "i64",
					    "f16", "bf16", "i8",  "u8"};
	static const char *const ops[] = {"sum",  "avg",  "min", "max",
					  "prod", "band", "bor"};
	const char *type = c->type < DDP_TYPES ? types[c->type] : "?";
	const char *op = c->op < DDP_OPS ? ops[c->op] : "?";

	switch (c->kind) {
	case DDP__ALL_REDUCE:
	case DDP__REDUCE_SCATTER:
		snprintf(out, size, " (%s x %zu, %s)", type, c->count, op);
		break;
	case DDP__REDUCE:
		snprintf(out, size, " (%s x %zu, %s, root %d)", type, c->count,
			 op, c->root);
		break;
	case DDP__BROADCAST:
	case DDP__GATHER:
	case DDP__SCATTER:
		snprintf(out, size, " (%s x %zu, root %d)", type, c->count,
			 c->root);
		break;
	case DDP__ALL_GATHER:
	case DDP__ALL_TO_ALL:
		snprintf(out, size, " (%s x %zu)", type, c->count);
		break;
	case DDP__SEND:
		snprintf(out, size, " (%s x %zu, to %d)", type, c->count,
			 c->root);
		break;
	case DDP__RECV:
		snprintf(out, size, " (%s x %zu, from %d)", type, c->count,
			 c->root);
		break;
	default:
		*out = 0;
	}
}

char *ddp__call_text(const struct ddp__call *c, char *out)
{
	static const char *const kinds[] = {
		"ddp_init", "all_reduce", "broadcast",	"all_gather",
		"reduce_scatter", "barrier", "reduce", "gather", "scatter",
		"all_to_all", "send", "recv", "comm_split"};
	char number[24] = "", details[72];

	_Static_assert(sizeof(kinds) / sizeof(*kinds) == DDP__KINDS,
		       "each kind has a name");
	if (c->number)
		snprintf(number, sizeof(number), " #%llu",
			 (unsigned long long)c->number);
	put_details(c, details, sizeof(details));
	snprintf(out, DDP__CALL_TEXT, "%s%s%s%s%.40s",
		 c->kind < DDP__KINDS ? kinds[c->kind] : "?", number, details,
		 c->group ? " of group " : "", c->group ? c->group : "");
	return out;
}
