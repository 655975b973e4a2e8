/* hostlist.c: parses Slurm's host lists. Cuts a token into literal pieces and
 * groups of ranges; an odometer over the groups then generates the names. */
#include "slurm/hostlist.h"

#include <errno.h>
#include <stdlib.h>

enum {
	GROUPS_MAX = HOSTLIST_NAME_MAX, /* each adds a digit to the name */
	DIGITS_MAX = 18,                /* fits 64 bits with room to add */
	SHOWN_MAX = 60,                 /* bytes of the list in an error */
};

struct hostlist_range {
	uint64_t low;
	uint32_t count;
	uint32_t width; /* zero-padded to it */
};

struct hostlist_group {
	size_t first; /* in token.ranges */
	size_t ranges;
	uint64_t hosts;
	/* the odometer's wheel: the index of a range, and a number in it */
	size_t at;
	uint32_t number;
};

struct hostlist_token {
	struct hostlist_range *ranges;
	size_t ranges_len, ranges_cap;
	struct hostlist_group groups[GROUPS_MAX];
	struct slice pieces[GROUPS_MAX + 1]; /* pieces[i] is before groups[i] */
	size_t groups_len;
};

struct hostlist_parser {
	const char *begin, *p, *end;
	struct err *e;
};

static int hostlist_refuse(const struct hostlist_parser *in, const char *at,
			   const char *why)
{
	int len = (int)(in->end - in->begin);

	return err_set(in->e, ERR_USAGE,
		       "host list \"%.*s%s\", character %zu: %s",
		       len > SHOWN_MAX ? SHOWN_MAX : len, in->begin,
		       len > SHOWN_MAX ? "..." : "",
		       (size_t)(at - in->begin) + 1, why);
}

static int hostlist_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int hostlist_is_separator(char c)
{
	return c == ',' || c == ' ' || c == '\t' || c == '\n';
}

static int hostlist_parse_number(struct hostlist_parser *in, uint64_t *value,
				 uint32_t *width)
{
	const char *start = in->p;

	*value = 0;
	while (in->p < in->end && hostlist_is_digit(*in->p)) {
		if (in->p - start == DIGITS_MAX)
			return hostlist_refuse(in, start,
					       "this number is too long");
		*value = *value * 10 + (uint64_t)(*in->p++ - '0');
	}
	*width = (uint32_t)(in->p - start);
	if (*width)
		return 0;
	if (in->p == in->end)
		return hostlist_refuse(in, in->p, "the list ends inside [...]");
	if (*in->p == 'x')
		return hostlist_refuse(in, in->p, "lists of more than one "
				       "dimension (AxB) are not supported");
	return hostlist_refuse(in, in->p, "a number is expected here");
}

static int hostlist_add_range(struct hostlist_token *t, struct hostlist_range r)
{
	if (t->ranges_len == t->ranges_cap) {
		size_t cap = t->ranges_cap ? t->ranges_cap * 2 : 16;
		struct hostlist_range *more = realloc(t->ranges,
						      cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		t->ranges = more;
		t->ranges_cap = cap;
	}
	t->ranges[t->ranges_len++] = r;
	return 0;
}

/* Parses "lo" or "lo-hi". */
static int hostlist_parse_range(struct hostlist_parser *in,
				struct hostlist_token *t,
				struct hostlist_group *g)
{
	const char *start = in->p;
	struct hostlist_range r = {0, 1, 0};
	uint64_t high;
	uint32_t ignored;
	int rc = hostlist_parse_number(in, &r.low, &r.width);

	if (rc)
		return rc;
	if (in->p < in->end && *in->p == '-') {
		in->p++;
		rc = hostlist_parse_number(in, &high, &ignored);
		if (rc)
			return rc;
		if (high < r.low)
			return hostlist_refuse(in, start,
					       "this range goes backwards");
		if (high - r.low >= HOSTLIST_RANGE_MAX)
			return hostlist_refuse(
				in, start,
				"this range has more than 65536 hosts");
		r.count = (uint32_t)(high - r.low) + 1;
	}
	g->ranges++;
	g->hosts += r.count;
	if (g->hosts > HOSTLIST_HOSTS_MAX)
		return hostlist_refuse(in, start,
				       "more than 262144 hosts up to here");
	rc = hostlist_add_range(t, r);
	return rc ? err_no_memory(in->e, "host list") : 0;
}

/* in->p is after the '['. */
static int hostlist_parse_group(struct hostlist_parser *in,
				struct hostlist_token *t)
{
	const char *open = in->p - 1;
	struct hostlist_group *g = &t->groups[t->groups_len];
	int rc;

	if (t->groups_len == GROUPS_MAX)
		return hostlist_refuse(in, open, "too many [...] in one name");
	*g = (struct hostlist_group){.first = t->ranges_len};
	for (;;) {
		rc = hostlist_parse_range(in, t, g);
		if (rc)
			return rc;
		if (in->p == in->end)
			return hostlist_refuse(in, open, "this '[' has no ']'");
		if (*in->p == ']')
			break;
		if (*in->p == 'x')
			return hostlist_refuse(in, in->p, "lists of more than "
					       "one dimension (AxB) are not "
					       "supported");
		if (*in->p++ != ',')
			return hostlist_refuse(
				in, in->p - 1,
				"',', '-' or ']' is expected here");
	}
	in->p++;
	t->groups_len++;
	return 0;
}

/* Cuts one token; in->p is at its first character, and then after it. */
static int hostlist_parse_token(struct hostlist_parser *in,
				struct hostlist_token *t)
{
	const char *piece = in->p;
	int rc;

	t->ranges_len = t->groups_len = 0;
	for (; in->p < in->end && !hostlist_is_separator(*in->p);) {
		unsigned char c = (unsigned char)*in->p;
		if (c == ']')
			return hostlist_refuse(in, in->p,
					       "this ']' has no '['");
		if (c == '{' || c == '}')
			return hostlist_refuse(in, in->p, "forms with {...} "
					       "need Slurm's controller: give "
					       "the names that `scontrol show "
					       "hostnames` prints");
		if (c <= ' ' || c >= 0x7f)
			return hostlist_refuse(in, in->p,
					       "not valid in a host name");
		in->p++;
		if (c != '[')
			continue;
		t->pieces[t->groups_len] =
			SLICE(piece, (size_t)(in->p - 1 - piece));
		rc = hostlist_parse_group(in, t);
		if (rc)
			return rc;
		piece = in->p;
	}
	t->pieces[t->groups_len] = SLICE(piece, (size_t)(in->p - piece));
	return 0;
}

static int hostlist_put_name(struct hostlist *l, const struct hostlist_token *t)
{
	size_t start = l->text.len;

	buf_put_u32(&l->starts, (uint32_t)start);
	for (size_t i = 0; i <= t->groups_len; i++) {
		buf_put(&l->text, t->pieces[i].data, t->pieces[i].len);
		if (i == t->groups_len)
			break;
		const struct hostlist_group *g = &t->groups[i];
		const struct hostlist_range *r = &t->ranges[g->first + g->at];
		buf_printf(&l->text, "%0*llu", (int)r->width,
			   (unsigned long long)(r->low + g->number));
	}
	buf_put_u8(&l->text, 0);
	if (l->text.failed || l->starts.failed)
		return -ENOMEM;
	l->count++;
	return l->text.len - 1 - start > HOSTLIST_NAME_MAX ? ERR_USAGE : 0;
}

/* Turns a wheel by one step; 1 if it is back at its start. */
static int hostlist_turn(const struct hostlist_token *t,
			 struct hostlist_group *g)
{
	if (++g->number < t->ranges[g->first + g->at].count)
		return 0;
	g->number = 0;
	if (++g->at < g->ranges)
		return 0;
	g->at = 0;
	return 1;
}

/* The last group is the fastest wheel, then the first, the second, ... */
static int hostlist_next_name(struct hostlist_token *t)
{
	size_t n = t->groups_len;

	if (n == 0)
		return 0;
	if (!hostlist_turn(t, &t->groups[n - 1]))
		return 1;
	for (size_t i = 0; i + 1 < n; i++)
		if (!hostlist_turn(t, &t->groups[i]))
			return 1;
	return 0;
}

static int hostlist_check_size(const struct hostlist_parser *in,
			       const struct hostlist *l,
			       const struct hostlist_token *t,
			       const char *start)
{
	uint64_t prefixes = 1, hosts = 1;

	for (size_t i = 0; i < t->groups_len; i++) {
		prefixes = hosts;
		if (prefixes > HOSTLIST_PREFIXES_MAX)
			return hostlist_refuse(in, start, "more than 65536 "
					       "names before the last [...]");
		hosts *= t->groups[i].hosts; /* under 2^16 * 2^18 */
	}
	if (l->count + hosts > HOSTLIST_HOSTS_MAX)
		return hostlist_refuse(in, start,
				       "more than 262144 hosts up to here");
	return 0;
}

static int hostlist_add_token(struct hostlist_parser *in, struct hostlist *l,
			      struct hostlist_token *t)
{
	const char *start = in->p;
	int rc = hostlist_parse_token(in, t);

	if (rc)
		return rc;
	rc = hostlist_check_size(in, l, t, start);
	if (rc)
		return rc;
	do {
		rc = hostlist_put_name(l, t);
		if (rc == ERR_USAGE)
			return hostlist_refuse(in, start, "this gives a name "
					       "of more than 255 bytes");
		if (rc)
			return err_no_memory(in->e, "host list");
	} while (hostlist_next_name(t));
	return 0;
}

void hostlist_init(struct hostlist *l)
{
	const size_t hosts = HOSTLIST_HOSTS_MAX;

	buf_init(&l->text, hosts * (HOSTLIST_NAME_MAX + 1));
	buf_init(&l->starts, hosts * sizeof(uint32_t));
	l->count = 0;
}

void hostlist_release(struct hostlist *l)
{
	buf_release(&l->text);
	buf_release(&l->starts);
	l->count = 0;
}

int hostlist_parse(struct hostlist *l, struct slice text, struct err *e)
{
	struct hostlist_parser in = {text.data, text.data, text.data + text.len,
				     e};
	/* too large for a stack */
	struct hostlist_token *t = calloc(1, sizeof(*t));
	int rc = 0;

	if (!t)
		return err_no_memory(e, "host list");
	while (rc == 0 && in.p < in.end) {
		if (hostlist_is_separator(*in.p))
			in.p++;
		else
			rc = hostlist_add_token(&in, l, t);
	}
	free(t->ranges);
	free(t);
	return rc;
}

const char *hostlist_name(const struct hostlist *l, uint32_t i)
{
	struct reader r;

	reader_init(&r, SLICE(l->starts.data + i * sizeof(uint32_t),
			      sizeof(uint32_t)));
	return l->text.data + reader_u32(&r);
}
