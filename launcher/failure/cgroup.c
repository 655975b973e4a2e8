/* cgroup.c: finds and reads the memory cgroup of this process. */
#include "launcher/failure/postmortem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum {
	MEMBERSHIP_MAX = 8 << 10,
	MOUNTS_MAX = 256 << 10,
	FILE_MAX = 4 << 10,
	DEPTH_MAX = 64,
};

/* Version 1 expresses "no limit" as the largest number of pages in a long. */
#define NO_LIMIT ((uint64_t)1 << 62)

/* ---- Parsing ---- */

/* Whether one of the words of a,b,c is name. */
static int cgroup_list_has(const char *list, const char *end, const char *name)
{
	size_t n = strlen(name);

	while (list < end) {
		const char *comma = memchr(list, ',', (size_t)(end - list));
		const char *stop = comma ? comma : end;

		if ((size_t)(stop - list) == n && memcmp(list, name, n) == 0)
			return 1;
		list = stop + 1;
	}
	return 0;
}

static int cgroup_copy(char *out, const char *text, size_t len)
{
	if (len >= CGROUP_PATH_MAX)
		return 0;
	memcpy(out, text, len);
	out[len] = '\0';
	return 1;
}

/* Copies the path of the line "4:memory:/path" or "0::/path"; 0 if there is
 * none. */
static int cgroup_parse_membership(const char *text, int version, char *path)
{
	for (const char *at = text; *at; at += strcspn(at, "\n"),
			at += *at == '\n') {
		const char *list = strchr(at, ':');
		const char *colon = list ? strchr(list + 1, ':') : NULL;
		int wanted;

		if (!colon)
			return 0;
		wanted = version == 2
				 ? strncmp(at, "0::", 3) == 0
				 : cgroup_list_has(list + 1, colon, "memory");
		if (wanted)
			return cgroup_copy(path, colon + 1,
					   strcspn(colon + 1, "\n"));
	}
	return 0;
}

/* mountinfo escapes blanks and the like, as \040. */
static void cgroup_unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' &&
		    s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 +
				       (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

/* "36 31 0:33 ROOT POINT options tags - TYPE source SUPER,OPTIONS" */
static int cgroup_parse_mount(const char *line, size_t len, int version,
			      char *root, char *point)
{
	char text[2 * CGROUP_PATH_MAX + 512], type[16], super[256];
	const char *dash;

	if (len >= sizeof(text))
		return 0;
	memcpy(text, line, len);
	text[len] = '\0';
	dash = strstr(text, " - ");
	if (!dash || sscanf(dash, " - %15s %*s %255s", type, super) != 2)
		return 0;
	if (strcmp(type, version == 2 ? "cgroup2" : "cgroup") != 0)
		return 0;
	if (version == 1 &&
	    !cgroup_list_has(super, super + strlen(super), "memory"))
		return 0;
	if (sscanf(text, "%*s %*s %*s %1023s %1023s", root, point) != 2)
		return 0;
	cgroup_unescape(root);
	cgroup_unescape(point);
	return 1;
}

static int cgroup_find_mount(const char *text, int version, char *root,
			     char *point)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		if (cgroup_parse_mount(text, len, version, root, point))
			return 1;
		text += len + (text[len] == '\n');
	}
	return 0;
}

/* The part of path below root, or "" if it is not below root. */
static const char *cgroup_path_below(const char *path, const char *root)
{
	size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (strncmp(path, root, n) != 0 || (path[n] && path[n] != '/'))
		return "";
	/* outside the namespace's root, where its files are not visible */
	if (strncmp(path + n, "/..", 3) == 0)
		return "";
	return strcmp(path + n, "/") == 0 ? "" : path + n;
}

static int cgroup_parse_version(struct cgroup *c, int version,
				const char *membership, const char *mountinfo)
{
	char root[CGROUP_PATH_MAX], point[CGROUP_PATH_MAX];
	int n;

	if (!cgroup_parse_membership(membership, version, c->path) ||
	    !cgroup_find_mount(mountinfo, version, root, point))
		return 0;
	n = snprintf(c->dir, sizeof(c->dir), "%s%s", point,
		     cgroup_path_below(c->path, root));
	if (n < 0 || (size_t)n >= sizeof(c->dir))
		return 0;
	c->version = version;
	c->mounted = strlen(point);
	return 1;
}

void cgroup_parse(struct cgroup *c, const char *membership,
		  const char *mountinfo)
{
	memset(c, 0, sizeof(*c));
	if (!cgroup_parse_version(c, 1, membership, mountinfo) &&
	    !cgroup_parse_version(c, 2, membership, mountinfo))
		c->version = 0;
}

int64_t cgroup_count(const char *text, const char *name)
{
	size_t n = strlen(name);

	while (*text) {
		if (strncmp(text, name, n) == 0 && text[n] == ' ')
			return strtoll(text + n, NULL, 10);
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return -1;
}

/* ---- Reading ---- */

void cgroup_find(struct cgroup *c)
{
	char membership[MEMBERSHIP_MAX], *mounts = malloc(MOUNTS_MAX);

	memset(c, 0, sizeof(*c));
	if (mounts &&
	    file_read_text("/proc/self/cgroup", membership,
			   MEMBERSHIP_MAX) > 0 &&
	    file_read_text("/proc/self/mountinfo", mounts, MOUNTS_MAX) > 0)
		cgroup_parse(c, membership, mounts);
	free(mounts);
}

/* The text of dir/name; "" if it cannot be read. */
static void cgroup_read(const char *dir, size_t len, const char *name,
			char *text)
{
	char file[CGROUP_PATH_MAX + 64];

	snprintf(file, sizeof(file), "%.*s/%s", (int)len, dir, name);
	file_read_text(file, text, FILE_MAX);
}

int64_t cgroup_oom_kills(const struct cgroup *c, int64_t *below)
{
	size_t len = strlen(c->dir);
	char text[FILE_MAX];
	int64_t all, own;

	*below = 0;
	if (c->version == 0)
		return -1;
	cgroup_read(c->dir, len, c->version == 1 ? "memory.oom_control"
					     : "memory.events", text);
	all = cgroup_count(text, "oom_kill");
	if (c->version == 1 || all <= 0)
		return all;
	cgroup_read(c->dir, len, "memory.events.local", text);
	own = cgroup_count(text, "oom_kill");
	if (own >= 0 && own < all)
		*below = all - own;
	return all;
}

/* Its limit, if anything ran into it; 0 if not. */
static uint64_t cgroup_own_limit_hit(const struct cgroup *c, size_t len)
{
	char text[FILE_MAX], *end;
	uint64_t limit;

	cgroup_read(c->dir, len, c->version == 1 ? "memory.limit_in_bytes"
					     : "memory.max", text);
	limit = strtoull(text, &end, 10); /* "max": no digits */
	if (end == text || limit >= NO_LIMIT)
		return 0;
	if (c->version == 1) {
		cgroup_read(c->dir, len, "memory.failcnt", text);
		return strtoull(text, NULL, 10) > 0 ? limit : 0;
	}
	cgroup_read(c->dir, len, "memory.events", text);
	return cgroup_count(text, "max") > 0 || cgroup_count(text, "oom") > 0
		? limit : 0;
}

/* path without its last `up` components; "/" at the top */
static void cgroup_path_up(const char *path, int up, char *out, size_t size)
{
	size_t n = strlen(path);

	while (up-- > 0) {
		while (n && path[n - 1] != '/')
			n--;
		while (n && path[n - 1] == '/')
			n--;
	}
	snprintf(out, size, "%.*s", n ? (int)n : 1, n ? path : "/");
}

uint64_t cgroup_limit_hit(const struct cgroup *c, char *path, size_t size)
{
	size_t len = strlen(c->dir);
	uint64_t lowest = 0;

	path[0] = '\0';
	if (c->version == 0)
		return 0;
	for (int up = 0; up < DEPTH_MAX; up++) {
		uint64_t limit = cgroup_own_limit_hit(c, len);

		if (limit && (lowest == 0 || limit < lowest)) {
			lowest = limit;
			cgroup_path_up(c->path, up, path, size);
		}
		if (len <= c->mounted)
			break;
		while (len > c->mounted && c->dir[len - 1] != '/')
			len--;
		while (len > c->mounted && c->dir[len - 1] == '/')
			len--;
	}
	return lowest;
}
