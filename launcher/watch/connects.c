/* connects.c: sockets in the state SYN-SENT, from /proc/PID/net/tcp and tcp6,
 * that are among the process's open files. */
#include "launcher/watch/connects.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sock.h"

enum { SYN_SENT = 2, LINES_MAX = 100000 };

static void connects_read(struct connects *c, pid_t pid, const char *name)
{
	char path[64], line[512];
	struct proc_tcp s;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, name);
	file = fopen(path, "re");
	if (!file)
		return;
	for (int i = 0; i < LINES_MAX && c->n < CONNECTS_MAX; i++) {
		if (!fgets(line, sizeof(line), file))
			break;
		if (proc_tcp_parse(SLICE_STR(line), &s) &&
		    s.state == SYN_SENT && s.inode)
			c->found[c->n++] = s;
	}
	fclose(file);
}

/* The connection that this descriptor is, or NULL. */
static const struct proc_tcp *connects_of(const struct connects *c, int dir,
					  const char *name)
{
	unsigned long long inode;
	char link[64];
	ssize_t n = readlinkat(dir, name, link, sizeof(link) - 1);

	if (n <= 0)
		return NULL;
	link[n] = '\0';
	if (sscanf(link, "socket:[%llu]", &inode) != 1)
		return NULL;
	for (int i = 0; i < c->n; i++) {
		if (c->found[i].inode == inode)
			return &c->found[i];
	}
	return NULL;
}

/* Reads the process's namespace, unless that has been read. */
static void connects_check(struct connects *c, pid_t pid)
{
	struct stat net;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	if (stat(path, &net) < 0)
		net.st_ino = 0;
	else if (c->net == net.st_ino)
		return;
	c->net = net.st_ino;
	c->n = 0;
	connects_read(c, pid, "tcp");
	connects_read(c, pid, "tcp6");
}

char *connects_words(struct connects *c, pid_t pid, char *out)
{
	const struct proc_tcp *found = NULL;
	char path[64], text[SOCK_TEXT_MAX];
	struct dirent *entry;
	DIR *dir;

	*out = '\0';
	connects_check(c, pid);
	if (!c->n)
		return out;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir)))
		found = connects_of(c, dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
	if (found)
		snprintf(out, CONNECTS_WORDS_MAX,
			 ", connecting to %.60s without an answer",
			 sock_addr_text(&found->peer, text));
	return out;
}
