/* script_modules.c: follows the lines "import a.b, c" and "from a.b import c".
 */
#include "launcher/plan/script_modules.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 256 << 10, NAME_MAX_BYTES = 256 };

struct script_modules {
	char folder[PATH_MAX]; /* the script is there */
	struct {
		dev_t dev;
		ino_t ino;
	} seen[SCRIPT_MODULES_MAX];
	char *paths[SCRIPT_MODULES_MAX]; /* files to read, in order */
	int n;
};

/* Appends a file; 0 if there is none. */
static int script_modules_add(struct script_modules *m, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	for (int i = 0; i < m->n; i++)
		if (m->seen[i].dev == st.st_dev && m->seen[i].ino == st.st_ino)
			return 1;
	if (m->n == SCRIPT_MODULES_MAX)
		return 1;
	m->paths[m->n] = strdup(path);
	if (!m->paths[m->n])
		return 1;
	m->seen[m->n].dev = st.st_dev;
	m->seen[m->n].ino = st.st_ino;
	m->n++;
	return 1;
}

/* The files that the import of module name reads, below folder: of "a.b",
 * a/__init__.py and a/b.py. */
static void script_modules_find(struct script_modules *m, const char *folder,
				const char *name)
{
	char path[PATH_MAX], file[PATH_MAX + 16];
	size_t at = (size_t)snprintf(path, sizeof(path), "%s", folder);

	while (*name && at < sizeof(path)) {
		size_t n = strcspn(name, ".");

		at += (size_t)snprintf(path + at, sizeof(path) - at, "/%.*s",
				       (int)n, name);
		name += n + (name[n] == '.');
		snprintf(file, sizeof(file), "%s/__init__.py", path);
		if (script_modules_add(m, file))
			continue;
		snprintf(file, sizeof(file), "%s.py", path);
		if (script_modules_add(m, file))
			return;
	}
}

/* Cuts the next name, "a.b", from rest; 0 if there is none. */
static int script_modules_name(struct slice *rest, char name[NAME_MAX_BYTES])
{
	size_t skip = 0, n = 0;

	while (skip < rest->len && strchr(" \t,()\\", rest->data[skip]))
		skip++;
	*rest = SLICE(rest->data + skip, rest->len - skip);
	while (n < rest->len && !strchr(" \t,()\\#;\r", rest->data[n]))
		n++;
	if (!n || n >= NAME_MAX_BYTES)
		return 0;
	memcpy(name, rest->data, n);
	name[n] = '\0';
	*rest = SLICE(rest->data + n, rest->len - n);
	return !strchr(name, '/');
}

static int script_modules_starts(struct slice *line, const char *word)
{
	size_t n = strlen(word);

	if (line->len < n || memcmp(line->data, word, n))
		return 0;
	*line = SLICE(line->data + n, line->len - n);
	return 1;
}

/* "import a.b as c, d": the word after "as" names no file, or does no harm. */
static void script_modules_import(struct script_modules *m, struct slice line)
{
	char name[NAME_MAX_BYTES];

	while (script_modules_name(&line, name))
		script_modules_find(m, m->folder, name);
}

/* "from a.b import c, d", in a file of that folder; "from .b" is relative to
 * it. */
static void script_modules_from(struct script_modules *m, const char *folder,
				struct slice line)
{
	char base[NAME_MAX_BYTES], name[NAME_MAX_BYTES];
	char full[2 * NAME_MAX_BYTES + 1], at[PATH_MAX];
	const char *module = base;

	if (!script_modules_name(&line, base))
		return;
	snprintf(at, sizeof(at), "%s", base[0] == '.' ? folder : m->folder);
	if (*module == '.')
		module++;
	for (; *module == '.'; module++) {
		char *slash = strrchr(at, '/');

		if (!slash)
			return;
		*slash = '\0';
	}
	script_modules_find(m, at, module);
	if (!script_modules_name(&line, name)) /* "import" */
		return;
	while (script_modules_name(&line, name)) {
		snprintf(full, sizeof(full), "%s%s%s", module,
			 *module ? "." : "", name);
		script_modules_find(m, at, full);
	}
}

static void script_modules_follow(struct script_modules *m, const char *path,
				  struct slice text)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%.*s",
		 slash ? (int)(slash - path) : 1, slash ? path : ".");
	while (text.len) {
		struct slice line = slice_next_line(&text);

		if (script_modules_starts(&line, "import "))
			script_modules_import(m, line);
		else if (script_modules_starts(&line, "from "))
			script_modules_from(m, folder, line);
	}
}

/* The file's bytes, which the caller frees; NULL: not a script. */
static char *script_modules_read(const char *path, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = NULL;
	struct stat st;
	ssize_t n = -1;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size > 0 && st.st_size < TEXT_MAX)
		text = malloc((size_t)st.st_size);
	if (text)
		n = read(fd, text, (size_t)st.st_size);
	if (fd >= 0)
		close(fd);
	*len = n > 0 ? (size_t)n : 0;
	return text;
}

void script_modules_each(const char *script,
			 void (*on_text)(struct slice text, void *arg),
			 void *arg)
{
	struct script_modules *m = calloc(1, sizeof(*m));
	const char *slash = strrchr(script, '/');

	if (!m)
		return;
	snprintf(m->folder, sizeof(m->folder), "%.*s",
		 slash ? (int)(slash - script) : 1, slash ? script : ".");
	script_modules_add(m, script);
	for (int i = 0; i < m->n; i++) {
		size_t len;
		char *text = script_modules_read(m->paths[i], &len);

		if (len) {
			on_text(SLICE(text, len), arg);
			script_modules_follow(m, m->paths[i],
					      SLICE(text, len));
		}
		free(text);
		free(m->paths[i]);
	}
	free(m);
}
