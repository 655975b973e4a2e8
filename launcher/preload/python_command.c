/* python_command.c: reads the interpreter's options as Python's own getopt. */
#include "launcher/preload/python_command.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/plan/program.h"

enum { LINE_MAX_BYTES = 256 }; /* Linux reads no more of a #! line */

#define BLANKS " \t"

static const char *python_command_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* python, python3, python3.11, python3.13t */
static int python_command_is_python(const char *path)
{
	static const char python[] = "python";
	const char *base = python_command_base(path);

	if (strncmp(base, python, sizeof(python) - 1) != 0)
		return 0;
	base += sizeof(python) - 1;
	base += strspn(base, "0123456789.");
	return *base == '\0' || strcmp(base, "t") == 0;
}

/* ---- the #! line ---- */

static int python_command_split(struct python_command *c, char *text)
{
	char *save;

	for (char *w = strtok_r(text, BLANKS, &save); w;
	     w = strtok_r(NULL, BLANKS, &save)) {
		if (c->nline == PYTHON_WORDS_MAX - 1)
			return -1;
		c->line[c->nline++] = w;
	}
	return c->nline ? 0 : -1;
}

/* `env python3`, or `env -S python3 -u`: the words after env. */
static int python_command_skip_env(struct python_command *c, char *rest)
{
	if (strncmp(rest, "-S", 2) == 0)
		rest += 2;
	else if (strpbrk(rest, BLANKS))
		return -1; /* Linux would pass it as one word */
	if (strpbrk(rest, "\"'\\$#"))
		return -1;
	return python_command_split(c, rest);
}

/* Linux passes what follows the interpreter's path as one word. */
static int python_command_parse_line(struct python_command *c)
{
	char *path = c->line_text + 2 + strspn(c->line_text + 2, BLANKS);
	char *rest = path + strcspn(path, BLANKS);
	size_t len;

	if (*rest)
		*rest++ = '\0';
	rest += strspn(rest, BLANKS);
	len = strlen(rest);
	while (len && strchr(BLANKS, rest[len - 1]))
		rest[--len] = '\0';
	if (strcmp(python_command_base(path), "env") == 0)
		return python_command_skip_env(c, rest);
	c->line[c->nline++] = path;
	if (*rest)
		c->line[c->nline++] = rest;
	return 0;
}

/* 1 if the file is a script with a #! line, which is in line_text. */
static int python_command_read_line(struct python_command *c, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	c->line_text = calloc(1, LINE_MAX_BYTES + 1);
	n = fd >= 0 && c->line_text ? read(fd, c->line_text, LINE_MAX_BYTES)
				    : -1;
	if (fd >= 0)
		close(fd);
	if (n < 3 || strncmp(c->line_text, "#!", 2) != 0)
		return 0;
	c->line_text[strcspn(c->line_text, "\n")] = '\0';
	return 1;
}

/* 1 if the file is a script whose #! line names a Python. */
static int python_command_is_script(struct python_command *c, const char *path,
				    struct err *e)
{
	static const struct program_how how = {.no_python = 1};
	struct program found;

	if (!python_command_read_line(c, path) ||
	    python_command_parse_line(c) < 0 ||
	    !python_command_is_python(c->line[0]))
		return 0;
	c->line[c->nline] = NULL;
	if (program_find(&found, c->line, &how, e) < 0)
		return 0;
	c->path = strdup(found.path);
	program_release(&found);
	return c->path != NULL;
}

/* ---- its options ---- */

const char *python_command_word(const struct python_command *c,
				const char *path, char *const *argv, int n)
{
	if (n < c->nline)
		return c->line[n];
	n -= c->nline;
	return c->nline && n == 0 ? path : argv[n];
}

static int python_command_refuse(struct err *e, const char *word,
				 const char *why)
{
	return err_set(e, ERR_USAGE, "the interpreter's '%s' %s", word, why);
}

/* The word is a cluster of options. 1: its last one takes the next word; 2: it
 * is -m. */
static int python_command_cluster(struct python_command *c, const char *word,
				  struct err *e)
{
	for (const char *at = word + 1; *at; at++) {
		if (*at == 'm' && at[1])
			return python_command_refuse(
				e, word, "should be two words (-m MODULE)");
		if (*at == 'm' && at == word + 1)
			return 2;
		if (*at == 'm') { /* -um: keeps the other options */
			c->own_option = strndup(word, (size_t)(at - word));
			if (!c->own_option)
				return err_no_memory(e, "an option");
			c->options[c->noptions++] = c->own_option;
			return 2;
		}
		if (*at == 'W' || *at == 'X')
			return at[1] == '\0';
		if (!strchr("bBEIOPqRsStu", *at))
			return python_command_refuse(
				e, word, "is not for a script or a module");
	}
	return 0;
}

/* Reads the word at n. 1: it is an option, and *n is the next word; 0: the
 * script is there, or the module. */
static int python_command_option(struct python_command *c, const char *path,
				 char *const *argv, int *n, struct err *e)
{
	const char *word = python_command_word(c, path, argv, *n);
	const char *next = word ? python_command_word(c, path, argv, *n + 1)
				: NULL;
	int rc;

	if (!word || strcmp(word, "-") == 0)
		return err_set(e, ERR_USAGE, "the interpreter reads its "
			       "program from stdin");
	if (word[0] != '-')
		return 0;
	if (strcmp(word, "--") == 0 || strncmp(word, "--", 2) == 0)
		return python_command_refuse(e, word,
					     "is not for a script or a module");
	if (c->noptions > PYTHON_WORDS_MAX - 3)
		return err_set(e, ERR_USAGE, "the interpreter has too many "
			       "options");
	rc = python_command_cluster(c, word, e);
	if (rc < 0)
		return rc;
	++*n;
	if (rc == 2) {
		c->is_module = 1;
		return next ? 0 : python_command_refuse(e, word, "is the last");
	}
	c->options[c->noptions++] = (char *)word;
	if (rc == 1 && !next)
		return python_command_refuse(e, word, "is the last");
	if (rc == 1) {
		c->options[c->noptions++] = (char *)next;
		++*n;
	}
	return 1;
}

static int python_command_parse(struct python_command *c, const char *path,
				char *const *argv, struct err *e)
{
	int rc = 1;

	c->options[c->noptions++] =
		(char *)python_command_word(c, path, argv, 0);
	c->at = 1;
	while (rc > 0)
		rc = python_command_option(c, path, argv, &c->at, e);
	return rc;
}

int python_command_find(struct python_command *c, const char *path,
			char *const *argv, struct err *e)
{
	int rc;

	*c = (struct python_command){.path = NULL};
	if (python_command_is_python(path))
		c->path = strdup(path);
	else if (!python_command_is_script(c, path, e))
		rc = err_set(e, ERR_USAGE, "'%s' is not a Python program",
			     path);
	rc = c->path ? python_command_parse(c, path, argv, e) : ERR_USAGE;
	if (rc < 0)
		python_command_release(c);
	return rc;
}

void python_command_release(struct python_command *c)
{
	free(c->path);
	free(c->line_text);
	free(c->own_option);
	*c = (struct python_command){.path = NULL};
}
