/* log_tree.c: DIR/JOB_SUFFIX/attempt_N/LOCAL_RANK/{stdout,stderr}.log, as
 * logdir.h lays them out. Each node of a job has a JOB_SUFFIX of its own, with
 * its place in the job in attempt_N/node.json. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "launcher/logs/logs.h"

enum {
	RUNS_MAX = 20000,
	RANKS_MAX = 1 << 20,
	/* A round begins on all nodes within a moment, unless one is slow: only
	 * a clock can differ by as much. */
	APART_S = 10,
};

/* A node's folder of one attempt. */
struct log_node {
	char path[PATH_MAX];
	char job[NAME_MAX + 1]; /* its run's name without _SUFFIX */
	struct timespec when;	/* the attempt's folder was made or changed */
	long attempt;
	int is_known; /* has a node.json */
	long rank, first, workers, world;
	long began; /* unix time, by its own clock; -1: not known */
	long ahead; /* its clock, in seconds */
	char host[64];
};

struct log_nodes {
	struct log_node *list;
	size_t n;
};

/* ---- one folder ---- */

static long log_tree_number(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	long n = -1;

	if (!at || sscanf(at + strlen(name), "%ld", &n) != 1)
		return -1;
	return n;
}

static void log_node_read_facts(struct log_node *x)
{
	char path[PATH_MAX + 16], text[1024];
	const char *host;

	snprintf(path, sizeof(path), "%s/node.json", x->path);
	if (file_read_text(path, text, sizeof(text)) <= 0)
		return;
	x->rank = log_tree_number(text, "\"node_rank\":");
	x->first = log_tree_number(text, "\"first_rank\":");
	x->workers = log_tree_number(text, "\"workers\":");
	x->world = log_tree_number(text, "\"world_size\":");
	x->began = log_tree_number(text, "\"began\":");
	host = strstr(text, "\"host\":\"");
	if (host)
		sscanf(host + 8, "%63[A-Za-z0-9._:-]", x->host);
	x->is_known = x->rank >= 0 && x->first >= 0 && x->workers > 0 &&
		      x->world > 0 && x->first < RANKS_MAX &&
		      x->workers < RANKS_MAX;
}

/* The N of attempt_N or attempt_N_round_R; -1: another name. */
static long log_tree_attempt(const char *name)
{
	long n;

	return sscanf(name, "attempt_%ld", &n) == 1 && n >= 0 ? n : -1;
}

/* "run7" of ".../run7_x8Df3q/attempt_0" */
static void log_node_set_job(struct log_node *x)
{
	char path[PATH_MAX], *name, *end;

	snprintf(path, sizeof(path), "%s", x->path);
	end = strrchr(path, '/');
	if (end)
		*end = '\0';
	name = strrchr(path, '/');
	name = name ? name + 1 : path;
	end = strrchr(name, '_');
	if (end)
		*end = '\0';
	snprintf(x->job, sizeof(x->job), "%.255s", name);
}

static int log_nodes_add(struct log_nodes *nodes, const char *path,
			 const char *name)
{
	struct log_node *list, *x;
	struct stat st;

	if (nodes->n >= RUNS_MAX)
		return 0;
	list = realloc(nodes->list, (nodes->n + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	nodes->list = list;
	x = &list[nodes->n];
	memset(x, 0, sizeof(*x));
	x->attempt = log_tree_attempt(name);
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode) ||
	    strlen(path) >= sizeof(x->path))
		return 0;
	memcpy(x->path, path, strlen(path) + 1);
	x->when = st.st_mtim;
	log_node_set_job(x);
	log_node_read_facts(x);
	nodes->n++;
	return 0;
}

/* Leaves out the run's earlier attempts, from the list's place first on: a page
 * that is written late makes an old folder new. */
static void log_nodes_keep_last(struct log_nodes *nodes, size_t first)
{
	long last = 0;
	size_t n = first;

	for (size_t i = first; i < nodes->n; i++)
		if (nodes->list[i].attempt > last)
			last = nodes->list[i].attempt;
	for (size_t i = first; i < nodes->n; i++)
		if (nodes->list[i].attempt == last)
			nodes->list[n++] = nodes->list[i];
	nodes->n = n;
}

/* Adds the attempts in a run's folder. Returns how many, or -errno. */
static int log_nodes_add_run(struct log_nodes *nodes, const char *run,
			     long attempt)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *d = opendir(run);
	size_t first = nodes->n;
	int n = 0, rc;

	if (!d)
		return -errno;
	while ((entry = readdir(d))) {
		long number = log_tree_attempt(entry->d_name);

		if (number < 0 || (attempt >= 0 && number != attempt))
			continue;
		snprintf(path, sizeof(path), "%.3800s/%.250s", run,
			 entry->d_name);
		rc = log_nodes_add(nodes, path, entry->d_name);
		if (rc < 0) {
			closedir(d);
			return rc;
		}
		n++;
	}
	closedir(d);
	log_nodes_keep_last(nodes, first);
	return n;
}

static int log_nodes_add_folder(struct log_nodes *nodes, const char *folder,
				long attempt)
{
	const char *name = strrchr(folder, '/');
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *d;
	int rc;

	name = name ? name + 1 : folder;
	if (log_tree_attempt(name) >= 0)
		return log_nodes_add(nodes, folder, name);
	rc = log_nodes_add_run(nodes, folder, attempt);
	if (rc)
		return rc < 0 ? rc : 0;
	d = opendir(folder);
	if (!d)
		return -errno;
	while (rc >= 0 && (entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%.3800s/%.250s", folder,
			 entry->d_name);
		rc = log_nodes_add_run(nodes, path, attempt);
		if (rc == -ENOTDIR || rc == -EACCES || rc == -ENOENT)
			rc = 0;
	}
	closedir(d);
	return rc < 0 ? rc : 0;
}

/* ---- which nodes are of one job ---- */

/* Newest first, by attempt within one moment. */
static int log_node_order(const void *a, const void *b)
{
	const struct log_node *x = a, *y = b;

	if (x->when.tv_sec != y->when.tv_sec)
		return x->when.tv_sec < y->when.tv_sec ? 1 : -1;
	if (x->when.tv_nsec != y->when.tv_nsec)
		return x->when.tv_nsec < y->when.tv_nsec ? 1 : -1;
	return x->attempt < y->attempt ? 1 : x->attempt > y->attempt ? -1 : 0;
}

/* Whether x may be a node of the same attempt of the same job as the first. */
static int log_node_belongs(const struct log_nodes *nodes, size_t chosen,
			    const struct log_node *x)
{
	const struct log_node *first = nodes->list;

	if (!x->is_known || !first->is_known || x->attempt != first->attempt ||
	    x->world != first->world || strcmp(x->job, first->job) != 0)
		return 0;
	for (size_t i = 0; i < chosen; i++)
		if (x->first < nodes->list[i].first + nodes->list[i].workers &&
		    nodes->list[i].first < x->first + x->workers)
			return 0;
	return 1;
}

/* Moves the nodes of the newest job to the front; returns how many. */
static size_t log_nodes_choose(struct log_nodes *nodes)
{
	size_t chosen = 0;

	qsort(nodes->list, nodes->n, sizeof(*nodes->list), log_node_order);
	for (size_t i = 0; i < nodes->n; i++) {
		struct log_node x = nodes->list[i];

		if (chosen && !log_node_belongs(nodes, chosen, &x))
			continue;
		nodes->list[i] = nodes->list[chosen];
		nodes->list[chosen++] = x;
	}
	return chosen;
}

/* ---- their clocks ---- */

/* Compares the clocks with that of the first node here. */
static void log_nodes_compare_clocks(struct log_tree *t, struct log_node *nodes,
				     size_t n)
{
	const struct log_node *first = NULL, *worst = NULL;
	size_t apart = 0;
	long s;

	for (size_t i = 0; i < n; i++)
		if (nodes[i].is_known && nodes[i].began > 0 &&
		    (!first || nodes[i].rank < first->rank))
			first = &nodes[i];
	for (size_t i = 0; first && i < n; i++) {
		if (!nodes[i].is_known || nodes[i].began <= 0)
			continue;
		s = nodes[i].began - first->began;
		if (labs(s) < APART_S)
			continue;
		nodes[i].ahead = s;
		apart++;
		if (!worst || labs(s) > labs(worst->ahead))
			worst = &nodes[i];
	}
	if (!worst)
		return;
	s = worst->ahead;
	snprintf(t->clocks, sizeof(t->clocks), "the clock of %s is about %ld s "
		 "%s that of %s%s: its lines are placed as if it were right",
		 worst->host, labs(s), s > 0 ? "ahead of" : "behind",
		 first->host, apart > 1 ? ", and others differ too" : "");
}

/* ---- the files ---- */

static int log_tree_add(struct log_tree *t, const struct log_node *node,
			long local, int is_stderr)
{
	struct log_file *files, *x;
	char path[PATH_MAX + 64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%ld/%s.log", node->path, local,
		 is_stderr ? "stderr" : "stdout");
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	files = realloc(t->files, (t->n + 1) * sizeof(*files));
	if (!files)
		return -ENOMEM;
	t->files = files;
	x = &files[t->n];
	*x = (struct log_file){.path = strdup(path), .is_stderr = is_stderr,
			       .ahead_ns = node->ahead * 1000000000ll,
			       .rank = (uint32_t)(local + (node->is_known
								   ? node->first
								   : 0))};
	if (!x->path)
		return -ENOMEM;
	t->n++;
	return 0;
}

static int log_tree_add_node(struct log_tree *t, const struct log_node *node)
{
	struct dirent *entry;
	DIR *d = opendir(node->path);
	int rc = 0;

	if (!d)
		return -errno;
	while (rc == 0 && (entry = readdir(d))) {
		char *end;
		long local = strtol(entry->d_name, &end, 10);

		if (*end || end == entry->d_name || local < 0 ||
		    local >= RANKS_MAX)
			continue;
		for (int i = 0; rc == 0 && i < 2; i++)
			rc = log_tree_add(t, node, local, i);
	}
	closedir(d);
	t->attempt = node->attempt;
	t->are_local |= !node->is_known;
	return rc;
}

static int log_file_order(const void *a, const void *b)
{
	const struct log_file *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->is_stderr - y->is_stderr;
}

int log_tree_find(struct log_tree *t, const char *folder, long attempt,
		  struct err *e)
{
	struct log_nodes nodes = {0};
	char plain[PATH_MAX];
	size_t n = strlen(folder), chosen = 0;
	int rc;

	*t = (struct log_tree){.attempt = attempt};
	while (n > 1 && folder[n - 1] == '/')
		n--;
	snprintf(plain, sizeof(plain), "%.*s", (int)n, folder);
	rc = log_nodes_add_folder(&nodes, plain, attempt);
	if (rc == 0 && nodes.n)
		chosen = log_nodes_choose(&nodes);
	log_nodes_compare_clocks(t, nodes.list, chosen);
	for (size_t i = 0; rc == 0 && i < chosen; i++)
		rc = log_tree_add_node(t, &nodes.list[i]);
	free(nodes.list);
	if (rc == -ENOMEM)
		return err_no_memory(e, "the files in %s", folder);
	if (rc < 0)
		return err_set(e, rc, "cannot read %s: %s", folder,
			       strerror(-rc));
	if (t->n) {
		qsort(t->files, t->n, sizeof(*t->files), log_file_order);
		return 0;
	}
	if (attempt >= 0)
		return err_set(e, ERR_ARGUMENT, "%s has no output of workers "
			       "in an attempt_%ld", folder, attempt);
	return err_set(e, ERR_ARGUMENT, "%s has no output of workers: give the "
		       "--log-dir of a job, whose --redirects or --tee send "
		       "output to files", folder);
}

void log_tree_release(struct log_tree *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->files[i].path);
	free(t->files);
	*t = (struct log_tree){0};
}
