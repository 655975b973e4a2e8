/* owner.c: walks along a path as the kernel does. */
#include "base/owner.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40 }; /* as the kernel's */

/* Reads up to n numbers from a file of /proc; returns how many there were. */
static int owner_read_numbers(const char *path, unsigned long long *out, int n)
{
	FILE *f = fopen(path, "re");
	int got = 0;

	while (f && got < n && fscanf(f, "%llu", &out[got]) == 1)
		got++;
	if (f)
		fclose(f);
	return got;
}

int owner_is_unmapped(uid_t uid)
{
	unsigned long long overflow = 65534, map[4];
	int mapped;

	owner_read_numbers("/proc/sys/kernel/overflowuid", &overflow, 1);
	if (uid != overflow)
		return 0;
	mapped = owner_read_numbers("/proc/self/uid_map", map, 4);
	return mapped != 3 || map[0] != 0 || map[1] != 0 ||
	       map[2] != UINT32_MAX;
}

/* Root outside of a container without privileges is one of the users that the
 * container does not map. */
static int owner_is_other(const struct stat *st)
{
	return st->st_uid != geteuid() && st->st_uid != 0 &&
	       !owner_is_unmapped(st->st_uid);
}

/* A group with the number of its user is that user's alone: with it many
 * systems make folders that the group can write to. */
static int owner_others_can_write(const struct stat *st)
{
	gid_t group = st->st_gid;
	int is_own = group == 0 || (group == getegid() && group == geteuid());

	return (st->st_mode & S_IWOTH) || ((st->st_mode & S_IWGRP) && !is_own);
}

/* The part of a path that has been followed, and what is still to be. */
struct walk {
	char done[PATH_MAX], rest[PATH_MAX];
	int links;
};

static int walk_add(struct walk *w, const char *name)
{
	size_t len = strlen(w->done);
	const char *slash = len && w->done[len - 1] == '/' ? "" : "/";
	int n = snprintf(w->done + len, sizeof(w->done) - len, "%s%s", slash,
			 name);

	return (size_t)n < sizeof(w->done) - len ? 0 : -ENAMETOOLONG;
}

static void walk_up(struct walk *w)
{
	char *slash = strrchr(w->done, '/');

	slash[slash == w->done] = '\0';
}

/* Takes the next name from the rest. 0: there is none. */
static int walk_next(struct walk *w, char name[NAME_MAX + 1])
{
	char *from = w->rest + strspn(w->rest, "/");
	size_t n = strcspn(from, "/");

	if (n > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, from, n);
	name[n] = '\0';
	memmove(w->rest, from + n, strlen(from + n) + 1);
	return n > 0;
}

/* w->done is a link: replaces it by its target. */
static int walk_follow(struct walk *w)
{
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t n = readlink(w->done, target, sizeof(target) - 1);

	if (n < 0 || ++w->links > LINKS_MAX)
		return n < 0 ? -errno : -ELOOP;
	target[n] = '\0';
	memcpy(rest, w->rest, sizeof(rest));
	if ((size_t)snprintf(w->rest, sizeof(w->rest), "%s%s", target, rest) >=
	    sizeof(w->rest))
		return -ENAMETOOLONG;
	walk_up(w);
	if (target[0] == '/')
		strcpy(w->done, "/");
	return 0;
}

static int walk_found(const struct walk *w, const struct stat *st,
		      struct owner_place *at)
{
	memcpy(at->path, w->done, sizeof(at->path));
	at->mode = st->st_mode;
	at->uid = st->st_uid;
	return 1;
}

static int walk_start(struct walk *w, const char *path)
{
	char here[PATH_MAX] = "";

	memset(w, 0, sizeof(*w));
	if (path[0] != '/' && !getcwd(here, sizeof(here)))
		return -errno;
	if ((size_t)snprintf(w->rest, sizeof(w->rest), "%s/%s", here, path) >=
	    sizeof(w->rest))
		return -ENAMETOOLONG;
	strcpy(w->done, "/");
	return 0;
}

/* Follows one name. 1: to go on, or *found; 0: it does not exist. */
static int walk_step(struct walk *w, const char *name, struct owner_place *at,
		     int *found)
{
	struct stat folder, st;
	int rc;

	*found = 0;
	if (!strcmp(name, "."))
		return 1;
	if (!strcmp(name, "..")) {
		walk_up(w);
		return 1;
	}
	if (stat(w->done, &folder) < 0)
		return errno == ENOENT ? 0 : -errno;
	*found = owner_is_other(&folder) ||
		 (owner_others_can_write(&folder) &&
		  !(folder.st_mode & S_ISVTX));
	if (*found)
		return walk_found(w, &folder, at);
	rc = walk_add(w, name);
	if (rc < 0)
		return rc;
	if (lstat(w->done, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISLNK(st.st_mode))
		return 1;
	/* in a sticky folder everybody can make one */
	*found = owner_is_other(&st);
	if (*found)
		return walk_found(w, &st, at);
	rc = walk_follow(w);
	return rc < 0 ? rc : 1;
}

int owner_find_other(const char *path, struct owner_place *at)
{
	char name[NAME_MAX + 1];
	struct walk w;
	int found = 0, rc = walk_start(&w, path);

	while (rc >= 0 && (rc = walk_next(&w, name)) > 0) {
		rc = walk_step(&w, name, at, &found);
		if (rc <= 0 || found)
			return rc;
	}
	return rc;
}
