/* config_programs.c: turns the text of --multi-prog, or its file, into
 * roles. */
#include "launcher/config/config_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

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
