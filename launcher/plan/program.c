/* program.c: finds the program before anything is started. */
#include "launcher/plan/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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

int program_find_lost_target(const char *path, char *out)
{
	char target[PATH_MAX];
	ssize_t n;

	if (program_check(path, F_OK) != -ENOENT ||
	    snprintf(out, PATH_MAX, "%s", path) >= PATH_MAX)
		return 0;
	while ((n = readlink(out, target, sizeof(target) - 1)) > 0) {
		char *slash = strrchr(out, '/');
		size_t folder = *target == '/' || !slash
					? 0
					: (size_t)(slash - out) + 1;

		if (folder + (size_t)n >= PATH_MAX)
			return 0;
		memcpy(out + folder, target, (size_t)n);
		out[folder + (size_t)n] = '\0';
	}
	return strcmp(out, path) != 0;
}

static int program_cannot_run(const char *name, int rc, struct err *e)
{
	const char *advice = "";
	char lost[PATH_MAX];

	if (rc == -ENOENT && strchr(name, '/') &&
	    program_find_lost_target(name, lost))
		return err_set(e, rc, "cannot run '%s': it is a link to '%s', "
			       "which does not exist on this node", name, lost);
	if (rc == -EACCES)
		advice = "; make it executable (chmod +x), or give its "
			 "interpreter as the program (--run-path for a Python "
			 "script)";
	else if (rc == -EISDIR)
		advice = "; name a program in it";
	else if (rc == -ENOENT && strchr(name, '/'))
		advice = "; check the path, on each node";
	else if (rc == -ENOENT && program_check(name, X_OK) == 0)
		advice = " in $PATH; for the one in this directory write "
			 "./NAME, for a Python script --run-path NAME";
	else if (rc == -ENOENT && program_check(name, R_OK) == 0)
		advice = " in $PATH; this directory has a file of that name: "
			 "if it is a Python script, --run-path NAME runs it";
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

/* ---- Python ---- */

static int program_is_script(const char *name)
{
	static const char *const ends[] = {".py", ".pyw", ".pyz"};
	size_t len = strlen(name);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t n = strlen(ends[i]);

		if (len > n && strcasecmp(name + len - n, ends[i]) == 0)
			return 1;
	}
	return 0;
}

/* A folder that Python runs. */
static int program_is_package(const char *path)
{
	char *main;
	int rc;

	if (program_check(path, R_OK) != -EISDIR ||
	    asprintf(&main, "%s/__main__.py", path) < 0)
		return 0;
	rc = program_check(main, R_OK);
	free(main);
	return rc == 0;
}

static int program_is_launcher(const char *word, size_t n)
{
	static const char *const names[] = {
		"torchrun", "ddprun", "torch.distributed.run",
		"torch.distributed.launch",
	};
	const char *slash = memrchr(word, '/', n);

	if (slash) {
		n -= (size_t)(slash + 1 - word);
		word = slash + 1;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strlen(names[i]) == n && memcmp(word, names[i], n) == 0)
			return 1;
	}
	return 0;
}

/* "#!/usr/bin/env -S torchrun --nproc_per_node gpu": executed, the file would
 * start ddprun again, without end. torchrun gives it to Python. */
static int program_starts_launcher(const char *path)
{
	char line[256], *word = line;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	if (fd >= 0)
		close(fd);
	if (n < 2 || memcmp(line, "#!", 2) != 0)
		return 0;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	for (word += 2; *word; word += strspn(word, " \t")) {
		size_t len = strcspn(word, " \t");

		if (program_is_launcher(word, len))
			return 1;
		word += len;
	}
	return 0;
}

/* In $PATH, another python3 would stand in for that of the environment. */
static int program_check_environment(const char *script, struct err *e)
{
	const char *folder = getenv("VIRTUAL_ENV");
	char path[PATH_MAX], lost[PATH_MAX];

	if (!folder || !*folder ||
	    snprintf(path, sizeof(path), "%s/bin/python3", folder) >=
		    (int)sizeof(path) ||
	    !program_find_lost_target(path, lost))
		return 0;
	return err_set(e, -ENOENT, "cannot run '%s', the Python for '%s': it "
		       "is a link to '%s', which does not exist on this node; "
		       "install that Python here, or set PYTHON_EXEC", path,
		       script, lost);
}

static int program_find_python(const char *script, char **out, struct err *e)
{
	const char *python = getenv("PYTHON_EXEC");
	int is_set = python && *python;
	int rc = is_set ? 0 : program_check_environment(script, e);

	if (rc < 0)
		return rc;
	if (!is_set)
		python = "python3";
	rc = program_find_path(python, out, NULL);
	if (rc == 0 || rc == -ENOMEM)
		return rc < 0 ? err_no_memory(e, "Python's path") : 0;
	return err_set(e, rc, "cannot run '%s', the Python for '%s'%s: %s%s; "
		       "set PYTHON_EXEC to a Python of this node", python,
		       script, is_set ? " ($PYTHON_EXEC)" : "", strerror(-rc),
		       strchr(python, '/') ? "" : " in $PATH");
}

/* Whether Python runs the program. With a macro each rank may have its own
 * script: then Python checks it. */
static int program_decide_python(const char *name,
				 const struct program_how *how, int *python,
				 struct err *e)
{
	int is_script = how->run_path ||
			(!how->no_python && program_is_script(name));
	int is_package = !how->no_python && program_is_package(name);
	int rc;

	*python = how->module || is_script || is_package;
	if (how->module || !is_script || is_package || macro_is_in(name))
		return 0;
	rc = program_check(name, R_OK);
	if (rc == -EISDIR)
		return err_set(e, -EACCES, "cannot run '%s': it is a folder "
			       "without a __main__.py; name a script in it",
			       name);
	return rc < 0 ? err_set(e, rc, "cannot run '%s': %s; check the path, "
				"on each node", name, strerror(-rc)) : 0;
}

/* Finds what is executed, unless it would start a launcher: then Python runs
 * it as p->script. */
static int program_find_executable(struct program *p, const char *name,
				   const struct program_how *how,
				   int *python, struct err *e)
{
	int rc = program_find_path(name, &p->path, e);

	if (rc < 0 || !program_starts_launcher(p->path))
		return rc;
	if (how->no_python)
		return err_set(e, -EACCES, "cannot run '%s' with --no-python: "
			       "its first line starts torchrun or ddprun "
			       "again; leave --no-python out", name);
	p->script = p->path;
	p->path = NULL;
	*python = 1;
	return 0;
}

/* "/usr/bin/python3.11" */
static int program_is_interpreter(const char *path)
{
	static const char name[] = "python";
	const char *slash = strrchr(path, '/');

	path = slash ? slash + 1 : path;
	return strncmp(path, name, strlen(name)) == 0 &&
	       !path[strlen(name) + strspn(path + strlen(name), "0123456789.")];
}

/* ---- the arguments ---- */

static void program_find_macros(struct program *p, char **words)
{
	for (; *words; words++) {
		p->macros |= macro_is_in(*words);
		p->ports |= macro_is_port_in(*words);
		p->peers |= macro_is_peers_file_in(*words);
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
	p->argv[p->nargs++] = p->script ? p->script : *words;
	words++;
	if (how->local_rank)
		p->argv[p->nargs++] = (char *)"--local-rank=${local_rank}";
	while (*words)
		p->argv[p->nargs++] = *words++;
	return 0;
}

int program_find(struct program *p, char **words, const struct program_how *how,
		 struct err *e)
{
	int python, rc;

	*p = (struct program){.path = NULL};
	rc = program_decide_python(words[0], how, &python, e);
	if (rc == 0 && !python)
		rc = program_find_executable(p, words[0], how, &python, e);
	if (rc == 0 && python)
		rc = program_find_python(words[0], &p->path, e);
	if (rc == 0)
		p->is_python = python || program_is_interpreter(p->path);
	if (rc == 0 && program_make_argv(p, words, python, how) < 0)
		rc = err_no_memory(e, "the program's arguments");
	if (rc < 0)
		program_release(p);
	return rc;
}

void program_release(struct program *p)
{
	free(p->path);
	free(p->script);
	free(p->argv);
	*p = (struct program){.path = NULL};
}
