/* socket_holder.c: reads /proc/PID/fd and /proc/PID/task/TID/children (proc(5),
 * which lists a child under the thread that forked it). */
#include "launcher/worker/socket_holder.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH_MAX = 8 };

void socket_search_init(struct socket_search *s, uint64_t inode)
{
	snprintf(s->link, sizeof(s->link), "socket:[%llu]",
		 (unsigned long long)inode);
	s->looks = SOCKET_HOLDER_LOOKS;
}

static DIR *socket_search_open_folder(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return opendir(path);
}

static int socket_search_matches(const struct socket_search *s, DIR *fds,
				 const char *name)
{
	char link[sizeof(s->link)];
	ssize_t n = readlinkat(dirfd(fds), name, link, sizeof(link) - 1);

	if (n < 0)
		return 0;
	link[n] = '\0';
	return strcmp(link, s->link) == 0;
}

int socket_search_in(struct socket_search *s, pid_t pid)
{
	DIR *fds = socket_search_open_folder(pid, "fd");
	struct dirent *entry;
	int found = 0;

	while (fds && !found && s->looks > 0 && (entry = readdir(fds))) {
		s->looks--;
		found = socket_search_matches(s, fds, entry->d_name);
	}
	if (fds)
		closedir(fds);
	return found;
}

static pid_t socket_search_tree(struct socket_search *s, pid_t pid, int depth);

static pid_t socket_search_children(struct socket_search *s, pid_t pid,
				    const char *thread, int depth)
{
	char path[sizeof("/proc//task//children") + 16 + NAME_MAX];
	pid_t child, found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid,
		 thread);
	f = fopen(path, "re");
	while (f && !found && fscanf(f, "%d", &child) == 1)
		found = socket_search_in(s, child) ?
			child : socket_search_tree(s, child, depth + 1);
	if (f)
		fclose(f);
	return found;
}

static pid_t socket_search_tree(struct socket_search *s, pid_t pid, int depth)
{
	DIR *threads = depth < DEPTH_MAX
			       ? socket_search_open_folder(pid, "task")
			       : NULL;
	struct dirent *entry;
	pid_t found = 0;

	while (threads && !found && s->looks > 0 &&
	       (entry = readdir(threads))) {
		if (entry->d_name[0] == '.')
			continue;
		s->looks--;
		found = socket_search_children(s, pid, entry->d_name, depth);
	}
	if (threads)
		closedir(threads);
	return found;
}

pid_t socket_search_under(struct socket_search *s, pid_t pid)
{
	return socket_search_tree(s, pid, 0);
}
