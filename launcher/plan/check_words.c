/* check_words.c: finds ddprun-check, and writes its options. */
#include "launcher/plan/check_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "/usr/bin/ddprun-check" for "/usr/bin/ddprun"; else its name, for $PATH. */
static char *check_words_find(void)
{
	static const char name[] = "ddprun-check";
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path,
			     PATH_MAX - sizeof(name) - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		memcpy(slash + 1, name, sizeof(name));
	return strdup(slash && access(path, X_OK) == 0 ? path : name);
}

/* The user's folders, and that of the logs; else the current one. */
static char *check_words_folders(const struct check_words_request *r)
{
	const char *log_dir = r->log_dir, *own = r->folders;
	char *text;

	if (log_dir && strcmp(log_dir, "/dev/null") == 0)
		log_dir = NULL;
	if (!own && !log_dir)
		own = ".";
	return asprintf(&text, "%s%s%s", own ? own : "",
			own && log_dir ? "," : "", log_dir ? log_dir : "") < 0
		       ? NULL
		       : text;
}

static void check_words_add(struct check_words *w, const char *word)
{
	w->list[w->n++] = (char *)word;
}

static void check_words_add_option(struct check_words *w, const char *name,
				   const char *value)
{
	if (!value)
		return;
	check_words_add(w, name);
	check_words_add(w, value);
}

int check_words_init(struct check_words *w, const struct check_words_request *r,
		     struct err *e)
{
	*w = (struct check_words){.path = check_words_find(),
				  .folders = check_words_folders(r)};
	if (!w->path || !w->folders) {
		check_words_release(w);
		return err_no_memory(e, "the options of a check");
	}
	check_words_add(w, w->path);
	if (r->full)
		check_words_add(w, "--full");
	check_words_add_option(w, "--folders", w->folders);
	check_words_add_option(w, "--command", r->command);
	check_words_add_option(w, "--json", r->json);
	return 0;
}

void check_words_release(struct check_words *w)
{
	free(w->path);
	free(w->folders);
	*w = (struct check_words){.n = 0};
}
