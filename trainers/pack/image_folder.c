/* image_folder.c: lists folders, sorted, so that labels and the order do not
 * depend on the file system. */
#include "trainers/pack/packer.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static int image_folder_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void image_folder_free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

/* The names in a folder that `wanted` accepts, sorted; *ignored counts the
 * others. Skips names that begin with a dot. */
static int image_folder_names(const char *dir,
			      int (*wanted)(const char *dir, const char *name),
			      char ***out, size_t *count, size_t *ignored,
			      struct err *e)
{
	DIR *d = opendir(dir);
	char **names = NULL;
	size_t n = 0, room = 0;
	struct dirent *entry;
	int r = 0;

	if (!d)
		return err_set(e, -errno, "%s: %s", dir, strerror(errno));
	while (r == 0 && (errno = 0, entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		if (!wanted(dir, entry->d_name)) {
			++*ignored;
			continue;
		}
		if (n == room) {
			size_t more = room ? 2 * room : 64;
			char **p = realloc(names, more * sizeof(*p));

			if (!p) {
				r = err_no_memory(e, "the names in %s", dir);
				break;
			}
			names = p;
			room = more;
		}
		names[n] = strdup(entry->d_name);
		if (names[n])
			n++;
		else
			r = err_no_memory(e, "the names in %s", dir);
	}
	if (r == 0 && errno)
		r = err_set(e, -errno, "%s: %s", dir, strerror(errno));
	closedir(d);
	if (r < 0) {
		image_folder_free_names(names, n);
		return r;
	}
	if (n)
		qsort(names, n, sizeof(*names), image_folder_order);
	*out = names;
	*count = n;
	return 0;
}

static int image_folder_is_folder(const char *dir, const char *name)
{
	char *path = NULL;
	struct stat st;
	int r = asprintf(&path, "%s/%s", dir, name) >= 0 &&
		stat(path, &st) == 0 && S_ISDIR(st.st_mode);

	free(path);
	return r;
}

static int image_folder_is_image(const char *dir, const char *name)
{
	static const char *const ends[] = {".jpg", ".jpeg", ".png"};
	const char *end = strrchr(name, '.');

	for (size_t i = 0; end && i < sizeof(ends) / sizeof(*ends); i++)
		if (strcasecmp(end, ends[i]) == 0)
			return 1;
	return 0;
}

/* The label of a class; -1: no class has this name. */
static long image_folder_label(const struct image_folder *f, const char *name)
{
	char **at = f->class_count
			    ? bsearch(&name, f->classes, f->class_count,
				      sizeof(*f->classes), image_folder_order)
			    : NULL;

	return at ? at - f->classes : -1;
}

/* Appends the files of a class to the part's; room is for `room` files. */
static int image_folder_add(struct image_folder *f, enum records_part part,
			    const char *dir, uint32_t label, size_t *room,
			    struct err *e)
{
	size_t n = 0, have = f->count[part];
	char **names = NULL;
	int r = image_folder_names(dir, image_folder_is_image, &names, &n,
				   &f->ignored, e);

	if (r < 0)
		return r;
	if (have + n > *room) {
		size_t more = 2 * (have + n);
		struct image_file *p =
			realloc(f->file[part], more * sizeof(*p));

		if (p) {
			f->file[part] = p;
			*room = more;
		} else {
			r = err_no_memory(e, "the names in %s", dir);
		}
	}
	for (size_t i = 0; i < n && r == 0; i++) {
		struct image_file *file = &f->file[part][f->count[part]];

		file->label = label;
		if (asprintf(&file->path, "%s/%s", dir, names[i]) < 0)
			r = err_no_memory(e, "the names in %s", dir);
		else
			f->count[part]++;
	}
	image_folder_free_names(names, n);
	return r;
}

static int image_folder_add_part(struct image_folder *f,
				 enum records_part part, const char *dir,
				 char **classes, size_t count, struct err *e)
{
	size_t room = 0;
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		long label = image_folder_label(f, classes[i]);
		char *path = NULL;

		if (label < 0)
			return err_set(e, ERR_DATA, "%s/%s is a class that the "
				       "training images do not have", dir,
				       classes[i]);
		if (asprintf(&path, "%s/%s", dir, classes[i]) < 0)
			return err_no_memory(e, "the names in %s", dir);
		r = image_folder_add(f, part, path, (uint32_t)label, &room, e);
		free(path);
	}
	if (r == 0 && f->count[part] == 0)
		r = err_set(e, ERR_DATA,
			    "%s has no images: they are expected in "
			    "CLASS/FILE.jpg, .jpeg or .png below it", dir);
	return r;
}

/* Sets *out to the part's folder. */
static int image_folder_find(char **out, const char *folder,
			     enum records_part part, struct err *e)
{
	static const char *const names[RECORDS_PARTS][2] = {
		{"train", NULL}, {"val", "test"}};

	*out = NULL;
	for (int i = 0; i < 2 && names[part][i]; i++)
		if (image_folder_is_folder(folder, names[part][i]))
			return asprintf(out, "%s/%s", folder,
					names[part][i]) < 0
				       ? err_no_memory(e, "%s", folder)
				       : 0;
	return err_set(e, -ENOENT, "%s has no folder %s with a folder of "
		       "images for each class", folder,
		       part == RECORDS_TRAIN ? "train" : "val or test");
}

int image_folder_list(struct image_folder *f, const char *folder,
		      struct err *e)
{
	int r = 0;

	memset(f, 0, sizeof(*f));
	for (int i = 0; i < RECORDS_PARTS && r == 0; i++) {
		enum records_part part = (enum records_part)i;
		char *dir, **classes = NULL;
		size_t count = 0;

		r = image_folder_find(&dir, folder, part, e);
		if (r == 0)
			r = image_folder_names(dir, image_folder_is_folder,
					       &classes, &count, &f->ignored,
					       e);
		if (r == 0 && count > IMAGE_CLASSES_MAX)
			r = err_set(e, ERR_DATA, "%s has %zu classes; the "
				    "limit is %d", dir, count,
				    IMAGE_CLASSES_MAX);
		if (r == 0 && part == RECORDS_TRAIN) {
			f->classes = classes;
			f->class_count = (uint32_t)count;
		}
		if (r == 0)
			r = image_folder_add_part(f, part, dir, classes, count,
						  e);
		if (classes != f->classes)
			image_folder_free_names(classes, count);
		free(dir);
	}
	return r;
}

void image_folder_release(struct image_folder *f)
{
	image_folder_free_names(f->classes, f->class_count);
	for (int i = 0; i < RECORDS_PARTS; i++) {
		for (size_t k = 0; k < f->count[i]; k++)
			free(f->file[i][k].path);
		free(f->file[i]);
	}
	memset(f, 0, sizeof(*f));
}
