/* data_files.c: searches folders; a folder counts only if it has all files of a
 * set. */
#include "trainers/data/data_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int data_files_find_one(char *path, const char *folder, const char *name,
			       struct stat *st)
{
	static const char *const ends[] = {"", ".gz", ".xz"};
	char text[DATA_PATH_MAX];

	for (int i = 0; i < 3; i++) {
		int n = snprintf(text, sizeof(text), "%s/%s%s", folder, name,
				 ends[i]);

		if (n < DATA_PATH_MAX && stat(text, st) == 0 &&
		    S_ISREG(st->st_mode)) {
			memcpy(path, text, (size_t)n + 1);
			return 0;
		}
	}
	return -ENOENT;
}

/* Returns how many there are in folder; *missing is the first that is not. */
static int data_files_find_all(struct data_files *f,
			       const struct data_files_spec *s,
			       const char *folder, const char **missing)
{
	size_t max = sizeof(f->identity), len = 0;
	int found = 0;

	*missing = NULL;
	f->count = 0;
	for (int i = 0; s->names[i]; i++, f->count++) {
		struct stat st;

		if (data_files_find_one(f->path[i], folder, s->names[i], &st) <
		    0) {
			if (!*missing)
				*missing = s->names[i];
			continue;
		}
		found++;
		len += (size_t)snprintf(
			f->identity + len, max - len,
			"%llu:%llu %llu bytes %lld.%09ld; ",
			(unsigned long long)st.st_dev,
			(unsigned long long)st.st_ino,
			(unsigned long long)st.st_size,
			(long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	}
	return found;
}

/* "mnist" or "cifar10, cifar-10-batches-bin" */
static void data_files_folders_text(const struct data_files_spec *s, char *out,
				    size_t max)
{
	size_t len = 0;

	*out = 0;
	for (int i = 0; s->below[i] && len < max; i++)
		len += (size_t)snprintf(out + len, max - len, "%s%s",
					i ? " or " : "", s->below[i]);
}

int data_files_find(struct data_files *f, const struct data_files_spec *s,
		    const char *dir, struct err *e)
{
	char folder[DATA_PATH_MAX], nearest[DATA_PATH_MAX], below[256];
	const char *missing, *first = NULL;
	struct stat st;
	int most = 0;

	if (stat(dir, &st) < 0)
		return err_set(e, -errno,
			       "no data folder %s: %s; set --data (or "
			       "DDP_DATA) to the folder with %s's files "
			       "(trainers/get-data %s DIR downloads them)",
			       dir, strerror(errno), s->set, s->get);
	snprintf(nearest, sizeof(nearest), "%s", dir);
	for (int i = -1; i < 0 || s->below[i]; i++) {
		const char *sub = i < 0 ? "" : s->below[i];
		int found;

		snprintf(folder, sizeof(folder), "%s%s%s", dir,
			 i < 0 ? "" : "/", sub);
		found = data_files_find_all(f, s, folder, &missing);
		if (found == f->count)
			return 0;
		/* report the folder that has most of the files */
		if (!first || found > most) {
			snprintf(nearest, sizeof(nearest), "%s", folder);
			first = missing;
			most = found;
		}
	}
	data_files_folders_text(s, below, sizeof(below));
	return err_set(
		e, -ENOENT,
		"%.400s has no %s, plain, .gz or .xz; set --data (or DDP_DATA) "
		"to the folder with %s's %d files, or to one with a subfolder "
		"%s that has them (trainers/get-data %s DIR downloads them)",
		nearest, first, s->set, f->count, below, s->get);
}
