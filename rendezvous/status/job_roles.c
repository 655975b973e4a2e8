/* job_roles.c: reads the text of roles item by item. */
#include "rendezvous/status/job_roles.h"

static struct slice job_roles_option(const struct wire_job *job,
				     const char *name)
{
	struct slice value;

	return wire_find_option(job->alike, SLICE_STR(name), &value)
		       ? value : SLICE("", 0);
}

struct slice job_roles_text(const struct wire_job *job)
{
	return job_roles_option(job, "roles");
}

/* Cuts the text in front of the first mark; *text is what comes after it. */
static struct slice job_roles_cut(struct slice *text, char mark)
{
	const char *at = text->len ? memchr(text->data, mark, text->len) : NULL;
	size_t n = at ? (size_t)(at - text->data) : text->len;
	struct slice part = SLICE(text->data, n);

	n += at != NULL;
	*text = SLICE(text->data + n, text->len - n);
	return part;
}

static int job_roles_has_name(struct slice names, struct slice name)
{
	while (names.len) {
		const struct slice x = job_roles_cut(&names, ' ');

		if (x.len == name.len && memcmp(x.data, name.data, x.len) == 0)
			return 1;
	}
	return 0;
}

int job_roles_next(const struct wire_job *job, struct slice *text,
		   struct job_role *role)
{
	while (text->len) {
		struct slice item = job_roles_cut(text, ' ');

		role->name = job_roles_cut(&item, '=');
		role->ranks = item;
		if (!role->name.len || !item.len)
			continue;
		role->is_optional = job_roles_has_name(
			job_roles_option(job, "--role-optional"), role->name);
		return 1;
	}
	return 0;
}

/* The number that a text begins with; UINT64_MAX: none. */
static uint64_t job_roles_number(struct slice text)
{
	uint64_t n = 0;
	size_t i = 0;

	for (; i < text.len && text.data[i] >= '0' && text.data[i] <= '9' &&
	     n <= UINT32_MAX; i++)
		n = n * 10 + (uint64_t)(text.data[i] - '0');
	return i ? n : UINT64_MAX;
}

static int job_roles_has_rank(struct slice ranks, uint32_t rank)
{
	while (ranks.len) {
		struct slice range = job_roles_cut(&ranks, ',');
		uint64_t first = job_roles_number(job_roles_cut(&range, '-'));
		uint64_t last = range.len ? job_roles_number(range) : first;

		if (first <= rank && last != UINT64_MAX && rank <= last)
			return 1;
	}
	return 0;
}

struct slice job_roles_of(const struct wire_job *job, uint32_t rank)
{
	struct slice text = job_roles_text(job), rest = SLICE("", 0);
	struct job_role role;

	while (job_roles_next(job, &text, &role)) {
		if (role.ranks.data[0] == '*')
			rest = role.name;
		else if (job_roles_has_rank(role.ranks, rank))
			return role.name;
	}
	return rest;
}
