/* wrap.c: parses --wrap and decides which ranks it applies to; finds
 * ddprun-check and writes its options. */
#include "launcher/plan/wrap.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int wrap_check_ranks(const struct wrap *w, const struct wrap_request *r,
			    struct err *e)
{
	if (!r->world_size || rank_list_last(&w->ranks) < r->world_size)
		return 0;
	return err_set(e, ERR_USAGE, "--wrap-ranks '%s': there is no rank %u: "
		       "this job has %u worker%s, counted from 0",
		       r->ranks, rank_list_last(&w->ranks), r->world_size,
		       r->world_size == 1 ? "" : "s");
}

static int wrap_parse(struct wrap *w, const struct wrap_request *r,
		      struct err *e)
{
	static const struct program_how by_name = {.no_python = 0};
	int rc = shell_words_split(&w->words, r->command, "--wrap", e);

	if (rc == 0 && w->words.n == 0)
		rc = err_set(e, ERR_USAGE, "--wrap names no command; give one, "
			     "as in --wrap 'gdb -batch -ex run --args'");
	if (rc == 0 && r->ranks && *r->ranks) {
		rc = rank_list_parse(&w->ranks, r->ranks, "--wrap-ranks",
				     e);
		if (rc == 0)
			rc = wrap_check_ranks(w, r, e);
	}
	if (rc == 0)
		rc = program_find(&w->program, w->words.list, &by_name, e);
	return rc;
}

int wrap_init(struct wrap *w, const struct wrap_request *r, struct err *e)
{
	int rc = 0;

	*w = (struct wrap){.words = {.n = 0}};
	if (r->command)
		rc = wrap_parse(w, r, e);
	else if (r->ranks && *r->ranks)
		rc = err_set(e, ERR_USAGE, "--wrap-ranks '%s' needs a --wrap "
			     "COMMAND to run them under", r->ranks);
	if (rc < 0)
		wrap_release(w);
	return rc;
}

void wrap_release(struct wrap *w)
{
	program_release(&w->program);
	rank_list_release(&w->ranks);
	shell_words_release(&w->words);
}

int wrap_applies(const struct wrap *w, uint32_t rank)
{
	return w->words.n &&
	       (w->ranks.n == 0 || rank_list_contains(&w->ranks, rank));
}

/* ---- the words that start ddprun-check ---- */

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
