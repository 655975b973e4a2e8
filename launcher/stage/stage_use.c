/* stage_use.c: what the user asked for, and programs that use the copy. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sock.h"
#include "launcher/stage/stage.h"

/* ---- PATH[:FOLDER] ---- */

/* Where the colon is, or the text's end. */
static const char *spec_colon(const char *text)
{
	const char *colon = strrchr(text, ':');

	return colon ? colon : text + strlen(text);
}

int stage_spec_check(const char *text, struct err *e)
{
	const char *colon = spec_colon(text);

	if (colon == text)
		return err_set(e, ERR_USAGE, "--stage '%s': give a path, or "
			       "auto for the virtual environment", text);
	if (strlen(text) >= PATH_MAX || strchr(text, '\n'))
		return err_set(e, ERR_USAGE, "--stage: the path is too long, "
			       "or has a newline");
	if (*colon && colon[1] != '/')
		return err_set(e, ERR_USAGE, "--stage '%s': the folder after "
			       "the colon must be an absolute path", text);
	return 0;
}

/* The folder above the program's own, if it is a virtual environment (it has
 * pyvenv.cfg) or conda's. */
static int spec_find_programs_environment(char *out, const char *program)
{
	static const char *const marks[] = {"pyvenv.cfg", "conda-meta"};
	char mark[PATH_MAX + 16];

	if (!program || snprintf(out, PATH_MAX, "%s", program) >= PATH_MAX)
		return -1;
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(out, '/');

		if (!slash)
			return -1;
		*slash = '\0';
	}
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		snprintf(mark, sizeof(mark), "%s/%s", out, marks[i]);
		if (access(mark, R_OK) == 0)
			return 0;
	}
	return -1;
}

/* The program's comes first: conda's base environment is often active beside
 * a virtual environment whose Python is named by its path. */
static int spec_find_environment(char *out, const char *program)
{
	static const char *const names[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};

	if (spec_find_programs_environment(out, program) == 0)
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value) {
			snprintf(out, PATH_MAX, "%s", value);
			return 0;
		}
	}
	return -1;
}

/* Makes the path absolute, and cuts off slashes at its end. */
static int spec_complete(char *path)
{
	char whole[2 * PATH_MAX], folder[PATH_MAX];
	size_t n = strlen(path);

	while (n > 1 && path[n - 1] == '/')
		path[--n] = '\0';
	if (*path == '/')
		return 0;
	if (!getcwd(folder, sizeof(folder)))
		return -errno;
	while (path[0] == '.' && path[1] == '/')
		memmove(path, path + 2, strlen(path + 2) + 1);
	if (strcmp(path, ".") == 0)
		*path = '\0';
	snprintf(whole, sizeof(whole), "%s%s%s", folder, *path ? "/" : "",
		 path);
	if (strlen(whole) >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(path, whole, strlen(whole) + 1);
	return 0;
}

int stage_spec_parse(struct stage_spec *s, const char *text,
		     const char *program, struct err *e)
{
	const char *colon = spec_colon(text);
	int rc = stage_spec_check(text, e);

	if (rc < 0)
		return rc;
	snprintf(s->path, sizeof(s->path), "%.*s", (int)(colon - text), text);
	snprintf(s->folder, sizeof(s->folder), "%s", *colon ? colon + 1 : "");
	if (strcmp(s->path, "auto") == 0 &&
	    spec_find_environment(s->path, program) < 0)
		return err_set(e, ERR_USAGE, "--stage auto: no virtual "
			       "environment is active here; activate it, or "
			       "give its path");
	rc = spec_complete(s->path);
	if (rc < 0)
		return err_set(e, rc, "--stage: cannot use '%s': %s", text,
			       err_name(rc));
	if (!realpath(s->path, s->source))
		*s->source = '\0';
	if (strcmp(s->source, "/") == 0)
		return err_set(e, ERR_USAGE, "--stage %s: name a file or "
			       "folder in '/'", text);
	return 0;
}

/* ---- the use of the copy ---- */

/* The length of the part of path that is the source; 0: it is not below it. */
static size_t use_below(const struct stage_spec *s, const char *path, size_t n)
{
	const char *const roots[] = {s->path, s->source};

	for (size_t i = 0; i < 2; i++) {
		size_t len = strlen(roots[i]);

		if (len && len <= n && memcmp(path, roots[i], len) == 0 &&
		    (len == n || path[len] == '/'))
			return len;
	}
	return 0;
}

/* A list of paths between colons, with the source's replaced; NULL: out of
 * memory. The caller frees it. */
static char *use_list(const struct stage_spec *s, const char *copy,
		      const char *list)
{
	struct buf out = BUF_INIT(SIZE_MAX);

	for (;;) {
		size_t n = strcspn(list, ":"), cut = use_below(s, list, n);

		if (cut)
			buf_put(&out, copy, strlen(copy));
		buf_put(&out, list + cut, n - cut);
		if (!list[n])
			break;
		buf_put_u8(&out, ':');
		list += n + 1;
	}
	buf_put_u8(&out, '\0');
	if (!out.failed)
		return out.data;
	buf_release(&out);
	return NULL;
}

int stage_use_environment(const struct stage_spec *s, const char *copy,
			  struct err *e)
{
	static const char *const names[] = {
		"PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
		"CONDA_PREFIX"};
	int rc = setenv("DDP_STAGE", copy, 1);

	for (size_t i = 0; rc == 0 && i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);
		char *list = value ? use_list(s, copy, value) : NULL;

		if (value)
			rc = list ? setenv(names[i], list, 1) : -1;
		free(list);
	}
	return rc < 0 ? err_no_memory(e, "the workers' environment") : 0;
}

/* The path in the copy, if it lies in the source; it may be relative. */
static char *use_path(const struct stage_spec *s, const char *copy,
		      const char *path)
{
	char whole[PATH_MAX];
	size_t cut;
	char *out;

	snprintf(whole, sizeof(whole), "%s", path);
	cut = spec_complete(whole) == 0 ? use_below(s, whole, strlen(whole))
					: 0;
	if (!cut)
		return strdup(path);
	return asprintf(&out, "%s%s", copy, whole + cut) < 0 ? NULL : out;
}

/* The interpreter of a script and its argument, into line, if the interpreter
 * is in the source; else 0. pip writes the environment's path there. */
static int use_read_first_line(const struct stage_spec *s, const char *path,
			       char *line, size_t size, char **arg)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, size - 1);
	char *end;

	if (fd >= 0)
		close(fd);
	if (n < 3 || memcmp(line, "#!", 2) != 0)
		return 0;
	line[n] = '\0';
	end = strchr(line, '\n');
	if (!end)
		return 0;
	*end = '\0';
	memmove(line, line + 2, strlen(line + 2) + 1);
	memmove(line, line + strspn(line, " \t"),
		strlen(line + strspn(line, " \t")) + 1);
	*arg = line + strcspn(line, " \t");
	if (**arg)
		*(*arg)++ = '\0';
	*arg += strspn(*arg, " \t");
	return use_below(s, line, strlen(line)) != 0;
}

/* How many of the first words may name files in the source: the program's path;
 * for Python all up to the script. */
static int use_words(const struct program *p)
{
	int n = 1;

	while (p->is_python && n < p->nargs && p->argv[n][0] == '-' &&
	       strcmp(p->argv[n], "-m") != 0 && strcmp(p->argv[n], "-c") != 0)
		n++;
	return p->is_python && n < p->nargs && p->argv[n][0] != '-' ? n + 1 : 1;
}

static int use_check_program(const char *path, struct err *e)
{
	char target[PATH_MAX], host[256];

	if (!program_find_lost_target(path, target))
		return 0;
	sock_host_name(host);
	return err_set(e, ERR_USAGE, "--stage: '%s' is a link to '%s', which "
		       "%s lacks; install that on each node, or stage a folder "
		       "that contains it", path, target, host);
}

int stage_use_program(const struct stage_spec *s, const char *copy,
		      struct program *p, struct err *e)
{
	char line[PATH_MAX], *arg = NULL, **argv;
	int n = 0, words = use_words(p), failed = 0;
	int has_line = use_read_first_line(s, p->path, line, sizeof(line),
					   &arg);

	argv = calloc((size_t)p->nargs + 3, sizeof(*argv));
	if (!argv)
		return err_no_memory(e, "a worker's arguments");
	p->path = use_path(s, copy, p->path);
	if (has_line) {
		argv[n++] = use_path(s, copy, line);
		if (*arg)
			argv[n++] = strdup(arg);
		failed |= !argv[0] || (*arg && !argv[1]);
	}
	for (int i = 0; i < p->nargs; i++, n++) {
		argv[n] = i >= words ? p->argv[i]
			  : has_line && i == 0
				  ? p->path
				  : use_path(s, copy, p->argv[i]);
		failed |= !argv[n];
	}
	if (failed || !p->path)
		return err_no_memory(e, "a worker's arguments");
	if (has_line)
		p->path = argv[0];
	p->argv = argv;
	p->nargs = n;
	return use_check_program(p->path, e);
}
