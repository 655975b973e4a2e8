/* config_programs.c: the programs of a job: a command line of several as the
 * text of --multi-prog, that text or its file as roles, and the number of
 * workers, -n. */
#include "launcher/config/config_internal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/option.h"
#include "launcher/config/mpi_words.h"
#include "launcher/plan/roles.h"
#include "launcher/plan/shell_words.h"
#include "rendezvous/wire.h"

/* ---- --multi-prog ---- */

/* Copies the lines, or reads those of the file, into c->programs. */
static int config_programs_read(struct config *c, struct err *e)
{
	long n;

	if (strchr(c->multi_prog, '\n')) {
		c->programs = strdup(c->multi_prog);
		return c->programs ? 0 : err_no_memory(e, "the programs");
	}
	c->programs = malloc(ROLES_TEXT_MAX + 2);
	if (!c->programs)
		return err_no_memory(e, "the programs");
	n = file_read_text(c->multi_prog, c->programs, ROLES_TEXT_MAX + 1);
	if (n < 0)
		return err_set(e, ERR_USAGE, "--multi-prog: cannot read '%s': "
			       "%s", c->multi_prog, strerror((int)-n));
	if (strlen(c->programs) != (size_t)n)
		return err_set(e, ERR_USAGE, "--multi-prog: '%s' has a NUL "
			       "byte, so it is not a text file", c->multi_prog);
	/* other hosts would take a text without a newline for a file name */
	memcpy(c->programs + n, "\n", 2);
	return 0;
}

/* Refuses options for the only program of a job. */
static int config_programs_refuse(const struct config *c, struct err *e)
{
	if (c->words[0])
		return err_set(e, ERR_USAGE, "--multi-prog names the programs, "
			       "so '%s' cannot be another one; leave one of "
			       "them out", c->words[0]);
	if (strcmp(c->role, CONFIG_ROLE) != 0)
		return err_set(e, ERR_USAGE, "--role %s: with several "
			       "programs, each has its own; write it after the "
			       "program's ranks", c->role);
	if (c->role_optional)
		return err_set(e, ERR_USAGE, "--role-optional applies to one "
			       "program; write it after the program's ranks");
	if (c->preload)
		return err_set(e, ERR_USAGE, "--preload supports jobs of one "
			       "program, and this one has several; leave it "
			       "out");
	return 0;
}

int config_programs_init(struct config *c, struct err *e)
{
	int rc;

	if (!c->multi_prog && c->role_optional)
		return err_set(e, ERR_USAGE, "--role-optional needs a job of "
			       "several programs: -n 4 ./a : -n 1 "
			       "--role-optional ./b");
	if (!c->multi_prog)
		return 0;
	rc = config_programs_refuse(c, e);
	if (rc == 0)
		rc = config_programs_read(c, e);
	if (rc == 0)
		rc = roles_parse(&c->roles, c->programs, e);
	if (rc < 0)
		return rc;
	c->words = c->roles.list[0].words;
	if (c->world_size)
		return roles_check(&c->roles, (uint32_t)c->world_size, e);
	if (c->roles.rest)
		return 0;
	rc = roles_check(&c->roles, roles_end(&c->roles), e);
	if (rc == 0 && !c->nproc_given)
		c->world_size = (long)c->roles.listed;
	return rc;
}

void config_programs_release(struct config *c)
{
	roles_release(&c->roles);
	free(c->programs);
	c->programs = NULL;
}

int config_programs_check(const struct config *c, struct err *e)
{
	return c->roles.n && c->max_nodes == 1
		       ? roles_check(&c->roles, c->nproc, e) : 0;
}

/* ---- a command line of several programs, with ':' ---- */

struct part_options {
	const char *size, *role, *wrap, *gpus_per_proc;
	int is_optional, module, no_python, run_path;
};

#define AT(field) offsetof(struct part_options, field)

static const struct option_spec part_option_rows[] = {
	{.name = "world-size", .letter = 'n', .kind = OPTION_STRING,
	 .offset = AT(size), .arg = "N"},
	{.name = "role", .kind = OPTION_STRING, .offset = AT(role),
	 .arg = "NAME"},
	{.name = "wrap", .kind = OPTION_STRING, .offset = AT(wrap),
	 .arg = "COMMAND"},
	{.name = "gpus-per-proc", .kind = OPTION_STRING,
	 .offset = AT(gpus_per_proc), .arg = "K"},
	{.name = "role-optional", .kind = OPTION_FLAG,
	 .offset = AT(is_optional)},
	{.name = "module", .letter = 'm', .kind = OPTION_FLAG,
	 .offset = AT(module)},
	{.name = "no-python", .kind = OPTION_FLAG, .offset = AT(no_python)},
	{.name = "run-path", .kind = OPTION_FLAG, .offset = AT(run_path)},
	{.name = NULL},
};

int program_parts_owns(const char *name)
{
	for (const struct option_spec *s = part_option_rows; s->name; s++) {
		if (strcmp(s->name, name) == 0)
			return 1;
	}
	return 0;
}

int program_parts_is_end(char *const *word, int is_mpiexec)
{
	const char *next = word[0] ? word[1] : NULL;

	if (!word[0] || strcmp(word[0], ":") != 0)
		return !word[0];
	return is_mpiexec || (next && next[0] == '-' && next[1]);
}

int program_parts_are_several(char *const *words, int is_mpiexec)
{
	while (!program_parts_is_end(words, is_mpiexec))
		words++;
	return *words != NULL;
}

static void program_parts_put_value(struct buf *text, const char *option,
				    const char *value)
{
	if (!value)
		return;
	buf_printf(text, " %s ", option);
	shell_words_put_quoted(text, value);
}

static void program_parts_put_flag(struct buf *text, const char *option,
				   int is_set)
{
	if (is_set)
		buf_printf(text, " %s", option);
}

static int program_parts_size(const struct part_options *o, const char *program,
			      uint32_t next, long *size, struct err *e)
{
	char number[OPTION_NUMBER_MAX];

	if (!o->size)
		return err_set(e, ERR_USAGE, "%s: give each program of a "
			       "command line with ':' its number of workers: "
			       "-n N", program);
	if (parse_long(option_trim(o->size, number), 0, WIRE_WORLD_MAX, "",
		       size, NULL) < 0)
		return err_set(e, ERR_USAGE, "%s: -n '%s': give a number from "
			       "1 to %d", program, o->size, WIRE_WORLD_MAX);
	if (!*size)
		return err_set(e, ERR_USAGE, "%s: -n 0: a program needs a "
			       "worker; leave it out, with its ':'", program);
	if (*size > WIRE_WORLD_MAX - (long)next)
		return err_set(e, ERR_USAGE, "%s: -n %ld: the programs have "
			       "more than %d workers together", program, *size,
			       WIRE_WORLD_MAX);
	return 0;
}

int program_parts_put(struct buf *text, const struct program_part *part,
		      uint32_t *next, struct err *e)
{
	struct part_options o = {.is_optional = 0};
	const char *program = part->words[0];
	long size = 0;
	int rc = option_parse(part_option_rows, &o, part->noptions,
			      part->options, 0, e);

	if (rc < 0)
		return rc;
	rc = program_parts_size(&o, program, *next, &size, e);
	if (rc < 0)
		return rc;
	buf_printf(text, "%u-%u", *next, *next + (uint32_t)size - 1);
	*next += (uint32_t)size;
	program_parts_put_value(text, "--role", o.role);
	program_parts_put_value(text, "--wrap", o.wrap);
	program_parts_put_value(text, "--gpus-per-proc", o.gpus_per_proc);
	program_parts_put_flag(text, "--role-optional", o.is_optional);
	program_parts_put_flag(text, "--module", o.module);
	program_parts_put_flag(text, "--no-python", o.no_python);
	program_parts_put_flag(text, "--run-path", o.run_path);
	for (int i = 0; i < part->nvars; i++)
		program_parts_put_value(text, "-x", part->vars[i]);
	for (int i = 0; i < part->nwords; i++)
		program_parts_put_value(text, "", part->words[i]);
	buf_printf(text, "\n");
	return text->failed ? err_no_memory(e, "the programs") : 0;
}

/* ---- -n: from the number of all workers to those of each node ---- */

/* The number that --nproc-per-node gives, 0 if it is not given. */
static int world_size_each(const struct config *c, long *each, struct err *e)
{
	char number[OPTION_NUMBER_MAX];

	*each = 0;
	if (!c->nproc_given)
		return 0;
	if (parse_long(option_trim(c->nproc_text, number), 1, WIRE_NPROC_MAX,
		       "", each, NULL) == 0)
		return 0;
	return err_set(e, ERR_USAGE, "--world-size (-n) %ld with "
		       "--nproc-per-node %s: both say how many workers there "
		       "are; leave one of them out", c->world_size,
		       c->nproc_text);
}

static uint32_t world_size_listed(const struct config *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->hosts.count; i++)
		n += c->hosts.hosts[i].slots != 0;
	return n;
}

/* Consecutive ranks on each host; the first ones have one more. */
static void world_size_share(struct config *c)
{
	uint32_t n = c->hosts.count;

	if ((long)n > c->world_size)
		n = (uint32_t)c->world_size;
	for (uint32_t i = 0; i < n; i++)
		c->hosts.hosts[i].slots = (uint32_t)(c->world_size / n) +
					  (i < c->world_size % n);
	c->hosts.count = n;
}

static int world_size_fill(struct config *c, struct err *e)
{
	long left = c->world_size;
	uint32_t n = 0;

	for (; n < c->hosts.count && left; n++) {
		struct host *h = &c->hosts.hosts[n];

		if ((long)h->slots > left)
			h->slots = (uint32_t)left;
		left -= h->slots;
	}
	if (left)
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld: %s has "
			       "room for %ld workers; list more, or ask for "
			       "fewer", c->world_size, c->hosts.from,
			       c->world_size - left);
	c->hosts.count = n;
	return 0;
}

int world_size_place(struct config *c, struct err *e)
{
	uint32_t listed = world_size_listed(c);
	long each;

	if (!c->world_size)
		return 0;
	if (c->nnodes_given)
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld with "
			       "--nnodes %s: the workers and %s determine how "
			       "many hosts the job has; leave one of them out",
			       c->world_size, c->nnodes_text, c->hosts.from);
	if (world_size_each(c, &each, e) < 0)
		return ERR_USAGE;
	if (!each && listed && listed < c->hosts.count)
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld: %s gives "
			       "the workers of some hosts only; give HOST:N "
			       "for all of them, or HOST", c->world_size,
			       c->hosts.from);
	if (!each && !listed) {
		world_size_share(c);
		return 0;
	}
	for (uint32_t i = 0; each && i < c->hosts.count; i++) {
		if (!c->hosts.hosts[i].slots)
			c->hosts.hosts[i].slots = (uint32_t)each;
	}
	return world_size_fill(c, e);
}

/* For this node, and others that run the same command. */
int world_size_split(struct config *c, struct err *e)
{
	long nodes = c->max_nodes, share, each;

	if (!c->world_size)
		return 0;
	if (c->min_nodes != c->max_nodes)
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld with "
			       "--nnodes %s: the nodes come and go; give "
			       "--nproc-per-node", c->world_size,
			       c->nnodes_text);
	if (world_size_each(c, &each, e) < 0)
		return ERR_USAGE;
	/* a scheduler's counts of tasks may be uneven */
	if (c->world_size % nodes && c->roles.n && !c->nproc_given &&
	    c->env.role == LAUNCH_TASK && c->env.tasks)
		return 0;
	if (c->world_size % nodes)
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld: %ld nodes "
			       "cannot share them evenly; give "
			       "--nproc-per-node on each node",
			       c->world_size, nodes);
	share = c->world_size / nodes;
	if (each && (each < share || (nodes > 1 && each > share)))
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld with "
			       "--nproc-per-node %ld: %ld node%s would have "
			       "%ld workers; leave one of them out",
			       c->world_size, each, nodes,
			       nodes == 1 ? "" : "s", each * nodes);
	snprintf(c->slots_text, sizeof(c->slots_text), "%ld", share);
	c->nproc_text = c->slots_text;
	c->nproc_given = 1;
	return 0;
}
