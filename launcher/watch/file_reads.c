/* file_reads.c: which file a process reads, by the offsets of its descriptors
 * in /proc. Asks no file server, which may have stopped: statx with
 * AT_STATX_DONT_SYNC uses what the kernel knows. */
#include "launcher/watch/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/watch/statx.h"

enum { LOOKED_AT = 256, PATH_ROOM = 256, SHOWN_PATH = 64 };

static int64_t file_reads_offset(pid_t pid, const char *fd)
{
	char path[64], text[256];
	long long at = -1;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.11s", (int)pid, fd);
	file_read_text(path, text, sizeof(text));
	return sscanf(text, "pos: %lld", &at) == 1 ? at : -1;
}

/* Its last part, if it is long, with the size of the file. */
static void file_reads_put_name(struct file_reads *f, const char *path,
				uint64_t size)
{
	char link[PATH_ROOM];
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	const char *name = link;

	if (n <= 0)
		return;
	link[n] = '\0';
	if (n > SHOWN_PATH)
		name = link + n - SHOWN_PATH;
	snprintf(f->name, sizeof(f->name), "%s%.*s (%.1f MB)",
		 name == link ? "" : "...", SHOWN_PATH, name,
		 (double)size / 1e6);
}

/* Where it was at the last look; -1: it was not open. */
static int64_t file_reads_before(const struct file_reads *f,
				 const struct file_read *x)
{
	for (int i = 0; i < f->n; i++)
		if (f->seen[i].fd == x->fd && f->seen[i].inode == x->inode)
			return f->seen[i].at;
	return -1;
}

/* Adds a descriptor, if it is a regular file, to the list of this look. */
static void file_reads_add(struct file_reads *f, struct file_reads *now,
			   pid_t pid, const char *fd)
{
	struct file_read *x = &now->seen[now->n];
	struct statx st;
	char path[64];
	int64_t before;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.11s", (int)pid, fd);
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC,
		  STATX_TYPE | STATX_INO | STATX_SIZE, &st) < 0 ||
	    !S_ISREG(st.stx_mode))
		return;
	*x = (struct file_read){(int)strtol(fd, NULL, 10), st.stx_ino,
				file_reads_offset(pid, fd)};
	before = file_reads_before(f, x);
	now->n++;
	if (before >= 0 && x->at >= 0 && x->at != before)
		file_reads_put_name(now, path, st.stx_size);
}

void file_reads_look(struct file_reads *f, pid_t pid)
{
	struct file_reads now = {.n = 0};
	struct dirent *entry;
	char path[64];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	for (int i = 0; d && i < LOOKED_AT && now.n < FILE_READS_MAX; i++) {
		entry = readdir(d);
		if (!entry)
			break;
		if (entry->d_name[0] != '.')
			file_reads_add(f, &now, pid, entry->d_name);
	}
	if (d)
		closedir(d);
	/* it may have been closed for a moment */
	if (!now.name[0] && f->name[0] && now.n)
		memcpy(now.name, f->name, sizeof(now.name));
	*f = now;
}
