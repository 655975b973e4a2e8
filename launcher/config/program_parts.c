/* program_parts.c: a part's own options, and its line. */
#include "launcher/config/mpi_words.h"

#include <stddef.h>
#include <string.h>

#include "base/option.h"
#include "launcher/plan/roles.h"
#include "launcher/plan/shell_words.h"
#include "rendezvous/wire.h"

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
