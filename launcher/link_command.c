/* link_command.c: the names by which each command makes ddprun known. */
#include "launcher/commands.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "launcher/failure/exit_code.h"

static const struct link_command {
	const char *name;
	const char *links[3];
} link_commands[] = {
	{"install-mpiexec", {"mpiexec", "mpirun"}},
	{"install-torchrun", {"torchrun"}},
};

static const struct link_command *link_command_find(const char *word)
{
	size_t n = sizeof(link_commands) / sizeof(*link_commands);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(word, link_commands[i].name) == 0)
			return &link_commands[i];
	}
	return NULL;
}

static int link_command_read(const char *path, char to[PATH_MAX])
{
	ssize_t n = readlink(path, to, PATH_MAX - 1);

	to[n < 0 ? 0 : n] = '\0';
	return n < 0 ? -errno : 0;
}

/* 0 if there is nothing at path, or a link to a ddprun. */
static int link_command_check(const char *path, struct err *e)
{
	char to[PATH_MAX];
	const char *slash;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0
				       : err_set(e, -errno,
						 "cannot examine '%s': %s",
						 path, strerror(errno));
	if (S_ISLNK(st.st_mode) && link_command_read(path, to) == 0) {
		slash = strrchr(to, '/');
		if (strcmp(slash ? slash + 1 : to, "ddprun") == 0)
			return 0;
	}
	return err_set(e, ERR_USAGE, "'%s' exists and is not a link to ddprun; "
		       "give another folder, or remove it first", path);
}

/* By a rename, so that the name is never missing. */
static int link_command_make(const char *path, const char *self, struct err *e)
{
	char beside[PATH_MAX + 16];
	int rc;

	snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid());
	if (symlink(self, beside) == 0) {
		if (rename(beside, path) == 0) {
			printf("%s -> %s\n", path, self);
			return 0;
		}
		rc = -errno;
		unlink(beside);
	} else {
		rc = -errno;
	}
	return err_set(e, rc, "cannot create the link '%s': %s", path,
		       strerror(-rc));
}

static int link_command_run(const struct link_command *k, const char *dir,
			    struct err *e)
{
	char self[PATH_MAX], path[PATH_MAX];
	int rc = link_command_read("/proc/self/exe", self);

	if (rc < 0)
		return err_set(e, rc, "cannot find ddprun's own path: %s",
			       strerror(-rc));
	rc = file_make_folders(dir);
	if (rc < 0)
		return err_set(e, rc, "cannot create the folder '%s': %s", dir,
			       strerror(-rc));
	for (int make = 0; make < 2; make++) {
		for (const char *const *name = k->links; *name; name++) {
			int n = snprintf(path, sizeof(path), "%s/%s", dir,
					 *name);

			if (n >= (int)sizeof(path))
				return err_set(e, ERR_USAGE, "%s: the path is "
					       "too long", k->name);
			rc = make ? link_command_make(path, self, e)
				  : link_command_check(path, e);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

/* Below the folder that has bin/PROGRAM. */
static int link_command_find_pth(const char *program)
{
	const char *slash = strrchr(program, '/');
	char pattern[PATH_MAX], path[PATH_MAX];
	glob_t found;
	int n, rc = 0;

	if (!slash)
		return 0;
	n = snprintf(pattern, sizeof(pattern), "%.*s/../lib/python3*/"
		     "*-packages/ddprun-torchrun.pth", (int)(slash - program),
		     program);
	if (n >= (int)sizeof(pattern))
		return 0;
	rc = glob(pattern, 0, NULL, &found) == 0 &&
	     realpath(found.gl_pathv[0], path);
	if (rc)
		printf("python -m torch.distributed.run starts ddprun: %s\n",
		       path);
	globfree(&found);
	return rc;
}

void link_command_print_python(void)
{
	const char *python = getenv("PYTHON_EXEC");
	char self[PATH_MAX];

	if (python && link_command_find_pth(python))
		return;
	if (link_command_read("/proc/self/exe", self) == 0)
		link_command_find_pth(self);
}

int link_command_main(int argc, char **argv)
{
	const struct link_command *k = link_command_find(argv[0]);
	struct err e = ERR_INIT;
	int rc;

	if (argc != 2 || argv[1][0] == '-' || !argv[1][0])
		rc = err_set(&e, ERR_USAGE, "give the folder for the links: "
			     "ddprun %s DIR%s", k->name,
			     k->links[1] ? "" : "; for python -m "
			     "torch.distributed.run, which needs none, "
			     "python -m ddprun install-torchrun");
	else
		rc = link_command_run(k, argv[1], &e);
	if (rc == 0)
		return 0;
	log_error("error: %s", e.text);
	return exit_code_of(&e);
}
