/* fuzz_roles: any text of --multi-prog is a list of roles or a clean error. In
 * a world that passes the check, each rank has one role and its own rank in
 * that role. Roles are the same after they are written and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/plan/roles.h"
#include "launcher/plan/shell_words.h"

enum { TEXT_BYTES_MAX = 64 << 20, WORLD_MAX = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A role counts its ranks from 0, in the order of the world. */
static void check_ranks(const struct roles *r, uint32_t world_size)
{
	uint32_t *next = calloc(r->n, sizeof(*next)), all = 0;

	for (uint32_t i = 0; i < world_size; i++) {
		uint32_t role_rank = UINT32_MAX;
		uint32_t role = roles_find(r, i, &role_rank);

		if (role >= r->n || &r->list[role] != roles_of(r, i) ||
		    role_rank != next[role]++ || !roles_has(r, role, i, 1))
			abort();
	}
	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t n = roles_size(r, i, world_size);

		if (!n || n != next[i] || !roles_has(r, i, 0, world_size))
			abort();
		all += n;
	}
	if (all != world_size)
		abort();
	free(next);
}

static void check_world(const struct roles *r, uint32_t world_size)
{
	struct buf text = BUF_INIT(TEXT_BYTES_MAX);
	struct err e = ERR_INIT;
	int rc = roles_check(r, world_size, &e);

	if (rc && (e.code != rc || !e.text[0]))
		abort();
	roles_put(&text, r, world_size);
	if (text.failed)
		abort();
	buf_release(&text);
	if (rc == 0)
		check_ranks(r, world_size);
}

/* A role's words as one line; its ranks are those of roles_put. */
static void put_line(struct buf *out, const struct role *role)
{
	const char *comma = "";

	if (!role->ranks.n)
		buf_put_u8(out, '*');
	for (size_t i = 0; i < role->ranks.n; i++) {
		buf_printf(out, "%s%u-%u", comma, role->ranks.ranges[i].first,
			   role->ranks.ranges[i].last);
		comma = ",";
	}
	buf_printf(out, " --role %s --gpus-per-proc %ld%s", role->name,
		   role->gpus_per_proc < 0 ? 0 : role->gpus_per_proc,
		   role->is_optional ? " --role-optional" : "");
	for (uint32_t i = 0; i < role->nvars; i++) {
		buf_printf(out, " -x ");
		shell_words_put_quoted(out, role->vars[i]);
	}
	/* a word that begins with '-' would be an option */
	for (char **w = role->words; *w; w++) {
		buf_put_u8(out, ' ');
		shell_words_put_quoted(out, *w);
	}
	buf_put_u8(out, '\n');
}

static void check_same(const struct roles *a, const struct roles *b)
{
	if (a->n != b->n || a->listed != b->listed ||
	    (a->rest ? a->rest - a->list : -1) !=
		    (b->rest ? b->rest - b->list : -1))
		abort();
	for (uint32_t i = 0; i < a->n; i++) {
		const struct role *x = &a->list[i], *y = &b->list[i];
		uint32_t n = 0;

		if (strcmp(x->name, y->name) != 0 || x->nvars != y->nvars ||
		    x->is_optional != y->is_optional)
			abort();
		for (; x->words[n] && y->words[n]; n++) {
			if (strcmp(x->words[n], y->words[n]) != 0)
				abort();
		}
		if (x->words[n] || y->words[n])
			abort();
		for (n = 0; n < x->nvars; n++) {
			if (strcmp(x->vars[n], y->vars[n]) != 0)
				abort();
		}
	}
}

static void check_again(const struct roles *r)
{
	struct buf text = BUF_INIT(TEXT_BYTES_MAX);
	struct err e = ERR_INIT;
	struct roles again;

	for (uint32_t i = 0; i < r->n; i++) {
		if (strlen(r->list[i].name) > 64 ||
		    r->list[i].words[0][0] == '-')
			goto out;
		put_line(&text, &r->list[i]);
	}
	buf_put_u8(&text, '\0');
	if (text.failed)
		abort();
	if (text.len > ROLES_TEXT_MAX)
		goto out;
	if (roles_parse(&again, text.data, &e) != 0)
		abort();
	check_same(r, &again);
	roles_release(&again);
out:
	buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct err e = ERR_INIT;
	struct roles r;
	int rc;

	memcpy(text, data, size);
	text[size] = '\0';
	rc = roles_parse(&r, text, &e);
	free(text); /* the roles own all texts */
	if (rc && (e.code != rc || !e.text[0] || r.list || r.n))
		abort();
	if (rc == 0) {
		uint32_t end = roles_end(&r);

		for (uint32_t i = 0; end < WORLD_MAX && i < 3; i++)
			check_world(&r, end + i);
		check_world(&r, 1);
		check_again(&r);
	}
	roles_release(&r);
	return 0;
}
