/* unanswered.c: looks for the process's open sockets in /proc/PID/net/tcp and
 * tcp6. */
#include "launcher/watch/unanswered.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sock.h"

enum {
	LINES_MAX = 100000,
	/* Fewer retransmissions in a row may be a mere hiccup. */
	RESENT_MIN = 3
};

static int unanswered_is(const struct proc_tcp *s)
{
	return s->inode && (s->state == PROC_TCP_SYN_SENT ||
			    (s->state == PROC_TCP_ESTABLISHED &&
			     s->unacked && s->resent >= RESENT_MIN));
}

static void unanswered_read(struct unanswered *u, pid_t pid, const char *name)
{
	char path[64], line[512];
	struct proc_tcp s;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, name);
	file = fopen(path, "re");
	if (!file)
		return;
	for (int i = 0; i < LINES_MAX && u->n < UNANSWERED_MAX; i++) {
		if (!fgets(line, sizeof(line), file))
			break;
		if (proc_tcp_parse(SLICE_STR(line), &s) && unanswered_is(&s))
			u->found[u->n++] = s;
	}
	fclose(file);
}

/* The connection that this descriptor is, or NULL. */
static const struct proc_tcp *unanswered_of(const struct unanswered *u, int dir,
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
	for (int i = 0; i < u->n; i++) {
		if (u->found[i].inode == inode)
			return &u->found[i];
	}
	return NULL;
}

/* Reads the process's namespace, unless that has been read. */
static void unanswered_check(struct unanswered *u, pid_t pid)
{
	struct stat net;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	if (stat(path, &net) < 0)
		net.st_ino = 0;
	else if (u->net == net.st_ino)
		return;
	u->net = net.st_ino;
	u->n = 0;
	unanswered_read(u, pid, "tcp");
	unanswered_read(u, pid, "tcp6");
}

static void unanswered_put(const struct proc_tcp *s, char *out)
{
	char text[SOCK_TEXT_MAX];

	sock_addr_text(&s->peer, text);
	if (s->state == PROC_TCP_SYN_SENT)
		snprintf(out, UNANSWERED_WORDS_MAX,
			 ", connecting to %.60s without an answer", text);
	else
		snprintf(out, UNANSWERED_WORDS_MAX,
			 ", resending %u bytes to %.60s without an answer "
			 "(%u times)", s->unacked, text, s->resent);
}

char *unanswered_words(struct unanswered *u, pid_t pid, char *out)
{
	const struct proc_tcp *found = NULL;
	struct dirent *entry;
	char path[64];
	DIR *dir;

	*out = '\0';
	unanswered_check(u, pid);
	if (!u->n)
		return out;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir)))
		found = unanswered_of(u, dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
	if (found)
		unanswered_put(found, out);
	return out;
}
