/* agent_alike.c: the options of this node that all nodes of a job must have
 * alike, by JOIN: the server refuses a node that differs, and names it. For
 * example, nodes without --env tf would let the others wait for their workers'
 * ports. */
#include <stdint.h>

#include "launcher/agent/agent_internal.h"
#include "launcher/plan/framework.h"

enum { VALUE_MAX = 2000, TEXT_MAX = 1 << 20 };

/* FNV-1a */
static uint32_t agent_alike_hash(const struct buf *text)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < text->len; i++)
		hash = (hash ^ (unsigned char)text->data[i]) * 16777619u;
	return hash;
}

/* Cuts a long value at a blank, and appends a hash of all of it. */
static void agent_alike_cut(struct buf *text)
{
	uint32_t hash = agent_alike_hash(text);
	size_t n = VALUE_MAX;

	if (text->len <= VALUE_MAX)
		return;
	while (n && text->data[n] != ' ')
		n--;
	text->len = n;
	buf_printf(text, "%sand more (%08x)", n ? " " : "", hash);
}

/* Adds an option, and empties the text. */
static void agent_alike_add(struct agent *a, const char *name, struct buf *text)
{
	struct wire_option o = {.name = SLICE_STR(name)};

	agent_alike_cut(text);
	o.value = SLICE(text->data, text->len);
	if (text->failed)
		a->alike.failed = text->failed;
	else
		wire_put_option(&a->alike, &o);
	buf_reset(text);
}

static void agent_alike_put_optional(const struct roles *roles,
				     struct buf *text)
{
	for (uint32_t i = 0; roles && i < roles->n; i++) {
		if (roles->list[i].is_optional)
			buf_printf(text, "%s%s", text->len ? " " : "",
				   roles->list[i].name);
	}
}

/* Unknown if this node cannot run workers: then it joins only to report why. */
static void agent_alike_add_mpi(struct agent *a, struct buf *text)
{
	if (!a->parts)
		return;
	buf_printf(text, "%s", a->parts->serves_pmi    ? "pmi"
			       : a->parts->serves_pmix ? "pmix"
						       : "none");
	agent_alike_add(a, "--mpi", text);
}

int agent_make_alike(struct agent *a, struct err *e)
{
	const struct roles *roles = a->options->failure.roles;
	struct buf text = BUF_INIT(TEXT_MAX);

	buf_init(&a->alike, WIRE_ALIKE_MAX);
	if (roles)
		roles_put(&text, roles, 0);
	agent_alike_add(a, "roles", &text);
	agent_alike_put_optional(roles, &text);
	agent_alike_add(a, "--role-optional", &text);
	framework_put_names(a->options->frameworks, &text);
	agent_alike_add(a, "--env", &text);
	agent_alike_add_mpi(a, &text);
	if (a->options->stage)
		buf_printf(&text, "%s", a->options->stage);
	agent_alike_add(a, "--stage", &text);
	buf_release(&text);
	return a->alike.failed ? err_no_memory(e, "the options of this node")
			       : 0;
}
