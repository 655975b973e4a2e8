/* pmix_fabric.c: looks at devices, and at Open MPI's parameter files. */
#include "launcher/pmix/pmix_fabric.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether a path matches below root. */
static int fabric_exists(const char *root, const char *pattern)
{
	char path[PATH_MAX];
	glob_t found;
	int rc;

	snprintf(path, sizeof(path), "%s%s", root, pattern);
	rc = glob(path, GLOB_NOSORT, NULL, &found);
	if (rc == 0)
		globfree(&found);
	/* out of memory: say that it is there, which changes nothing */
	return rc != GLOB_NOMATCH;
}

static int fabric_has_hardware(const char *root)
{
	static const char *const signs[] = {
		"/sys/class/infiniband/*", /* also RoCE, EFA, Omni-Path */
		"/sys/class/cxi/*",	   /* Slingshot */
		"/dev/hfi1*",		   /* Omni-Path */
		"/dev/ipath*",		   /* TrueScale */
	};

	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (fabric_exists(root, signs[i]))
			return 1;
	return 0;
}

/* A line "mtl = ofi" or "pml = cm"; not "mtl = ^ofi". */
static int fabric_line_chooses(const char *line)
{
	line += strspn(line, " \t");
	if (strncmp(line, "mtl", 3) && strncmp(line, "pml", 3))
		return 0;
	line += 3;
	line += strspn(line, " \t");
	if (*line++ != '=')
		return 0;
	line += strspn(line, " \t\"'");
	return *line && *line != '^' && *line != '\n';
}

static int fabric_file_chooses(const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	int chooses = 0;

	while (f && !chooses && getline(&line, &size, f) >= 0)
		chooses = fabric_line_chooses(line);
	free(line);
	if (f)
		fclose(f);
	return chooses;
}

/* The user's file, and those of the system's installations. */
static int fabric_files_choose(const char *root)
{
	static const char *const patterns[] = {
		"/etc/openmpi*/openmpi-mca-params.conf",
		"/etc/openmpi-mca-params.conf",
		"/usr/local/etc/openmpi-mca-params.conf",
	};
	const char *prefix = getenv("OPAL_PREFIX"), *home = getenv("HOME");
	char path[PATH_MAX];
	int chooses = 0;

	snprintf(path, sizeof(path), "%s%s/.openmpi/mca-params.conf", root,
		 home ? home : "");
	if (fabric_file_chooses(path))
		return 1;
	snprintf(path, sizeof(path), "%s%s/etc/openmpi-mca-params.conf", root,
		 prefix ? prefix : "");
	if (fabric_file_chooses(path))
		return 1;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		glob_t found;

		snprintf(path, sizeof(path), "%s%s", root, patterns[i]);
		if (glob(path, GLOB_NOSORT, NULL, &found))
			continue;
		for (size_t k = 0; k < found.gl_pathc && !chooses; k++)
			chooses = fabric_file_chooses(found.gl_pathv[k]);
		globfree(&found);
	}
	return chooses;
}

const char *pmix_fabric_mtl(const char *root)
{
	if (getenv("OMPI_MCA_mtl") || getenv("OMPI_MCA_pml") ||
	    fabric_has_hardware(root) || fabric_files_choose(root))
		return NULL;
	return "^ofi,psm,psm2";
}
