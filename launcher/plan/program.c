/* program.c: finds the program before anything is started. */
#include "launcher/plan/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/plan/macro.h"

/* 0 or -errno, such as -ENOENT or -EACCES */
static int program_check(const char *path, int mode)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return access(path, mode) < 0 ? -errno : 0;
}

static int program_cannot_run(const char *name, int rc, struct err *e)
{
	const char *advice = "";

	if (rc == -EACCES)
		advice = "; make it executable (chmod +x), or give its "
			 "interpreter as the program (--run-path for a Python "
			 "script)";
	else if (rc == -EISDIR)
		advice = "; name a program in it";
	else if (rc == -ENOENT && strchr(name, '/'))
		advice = "; check the path, on each node";
	else if (rc == -ENOENT)
		advice = " in $PATH; for one in this directory write ./NAME, "
			 "for a Python script --run-path NAME";
	return err_set(e, rc == -EISDIR ? -EACCES : rc,
		       "cannot run '%s': %s%s", name, strerror(-rc), advice);
}

/* Finds the first executable of that name in $PATH. Like execvp it skips a
 * file that may not be executed, and fails with -EACCES if there is no other.
 */
static int program_search(const char *name, char **out, struct err *e)
{
	const char *dirs = getenv("PATH");
	int worst = -ENOENT, rc;

	if (!dirs)
		dirs = "/bin:/usr/bin";
	for (;;) {
		int len = (int)strcspn(dirs, ":");
		char *path;

		if (asprintf(&path, "%.*s%s%s", len, dirs, len ? "/" : "./",
			     name) < 0)
			return err_no_memory(e, "the program's path");
		rc = program_check(path, X_OK);
		if (rc == 0) {
			*out = path;
			return 0;
		}
		free(path);
		if (rc == -EACCES)
			worst = rc;
		if (!dirs[len])
			return program_cannot_run(name, worst, e);
		dirs += len + 1;
	}
}

static int program_find_path(const char *name, char **out, struct err *e)
{
	int rc;

	if (!*name)
		return err_set(e, -ENOENT, "the program's name is empty");
	if (!strchr(name, '/'))
		return program_search(name, out, e);
	rc = program_check(name, X_OK);
	if (rc < 0)
		return program_cannot_run(name, rc, e);
	*out = strdup(name);
	return *out ? 0 : err_no_memory(e, "the program's path");
}

static int program_is_script(const char *name)
{
	size_t len = strlen(name);

	return len > 3 && strcmp(name + len - 3, ".py") == 0;
}

static void program_find_macros(struct program *p, char **words)
{
	for (; *words; words++) {
		p->macros |= macro_is_in(*words);
		p->ports |= macro_is_port_in(*words);
	}
}

/* Builds argv: the user's words and up to four of ours. */
static int program_make_argv(struct program *p, char **words, int python,
			     const struct program_how *how)
{
	enum { OURS_MAX = 4 };
	int n = 0;

	while (words[n])
		n++;
	p->argv = calloc((size_t)n + OURS_MAX + 1, sizeof(*p->argv));
	if (!p->argv)
		return -ENOMEM;
	p->macros = how->local_rank;
	program_find_macros(p, words + !python);
	if (python) {
		p->argv[p->nargs++] = p->path;
		p->argv[p->nargs++] = (char *)"-u";
		if (how->module)
			p->argv[p->nargs++] = (char *)"-m";
	}
	p->argv[p->nargs++] = *words++;
	if (how->local_rank)
		p->argv[p->nargs++] = (char *)"--local-rank=${local_rank}";
	while (*words)
		p->argv[p->nargs++] = *words++;
	return 0;
}

int program_find(struct program *p, char **words, const struct program_how *how,
		 struct err *e)
{
	const char *python = getenv("PYTHON_EXEC");
	int script = !how->module &&
		     (how->run_path ||
		      (!how->no_python && program_is_script(words[0])));
	int rc;

	*p = (struct program){.path = NULL};
	if (!python || !*python)
		python = "python3";
	/* with a macro each rank may have its own script: Python checks it */
	if (script && !macro_is_in(words[0])) {
		rc = program_check(words[0], R_OK);
		if (rc < 0)
			return err_set(e, rc, "cannot run '%s': %s; check the "
				       "path, on each node", words[0],
				       strerror(-rc));
	}
	rc = program_find_path(script || how->module ? python : words[0],
			       &p->path, e);
	if (rc < 0)
		return rc;
	rc = program_make_argv(p, words, script || how->module, how);
	if (rc < 0) {
		program_release(p);
		return err_no_memory(e, "the program's arguments");
	}
	return 0;
}

void program_release(struct program *p)
{
	free(p->path);
	free(p->argv);
	*p = (struct program){.path = NULL};
}
