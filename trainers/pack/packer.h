/* packer.h: turns folders of JPEG and PNG files into a packed data set, on
 * several threads. The result does not depend on their number. */
#ifndef TRAINERS_PACKER_H
#define TRAINERS_PACKER_H

#include <stdint.h>

#include "base/error.h"
#include "trainers/data/records_format.h"

struct packer_options {
	const char *from; /* the folder with train and val or test */
	const char *to;	  /* the folder to make; must not exist */
	int side;	  /* height and width of the images */
	uint64_t shard_bytes;
	int threads;
	int skip_bad; /* leave out files that cannot be decoded */
	/* Gets a line about each such file, without "warning: ". */
	void (*note)(const char *line);
};

struct packer_result {
	uint64_t images[2]; /* train, test */
	uint32_t classes, files;
	uint64_t left_out; /* files that could not be decoded */
	uint64_t ignored;  /* files that are not images */
	uint64_t bytes;
};

/* On success all files are on the disk, in a folder that gets its name last; on
 * failure no folder of that name exists, nor any file. A kill leaves a folder
 * TO.partial-XXXXXX. ERR_DATA: a file cannot be decoded, or all were left out;
 * ERR_USAGE: TO exists; -errno. */
int packer_run(const struct packer_options *o, struct packer_result *result,
	       struct err *e);

/* ---- image_folder.c ----
 *
 * The images of a folder as torchvision's ImageFolder sees them:
 * FOLDER/train/CLASS/FILE, and the same in FOLDER/val or FOLDER/test. */

struct image_file {
	char *path;
	uint32_t label; /* the class's place in the sorted list of names */
};

struct image_folder {
	char **classes; /* the names of train's subfolders, sorted */
	uint32_t class_count;
	/* sorted by class and name */
	struct image_file *file[RECORDS_PARTS];
	size_t count[RECORDS_PARTS];
	size_t ignored; /* neither .jpg, .jpeg nor .png, in any case */
};

/* ERR_DATA or -errno: a folder is missing or empty, or the test has a class
 * that the training has not. The caller releases f, also after an error. */
int image_folder_list(struct image_folder *f, const char *folder,
		      struct err *e);
void image_folder_release(struct image_folder *f);

/* ---- record_writer.c ----
 *
 * Writes one part of a packed data set, shard by shard. Knows no images'
 * formats. */

struct record_writer {
	const char *dir;	  /* borrowed; it exists */
	struct records_head head; /* the shard under way, or the last */
	uint32_t per_shard;	  /* images of a full one */
	int fd;			  /* -1: none is under way */
	unsigned char *labels;	  /* [per_shard][label_size] */
	struct records_head *done; /* [done_count], total and shards unset */
	uint32_t done_count, done_room;
	uint64_t bytes; /* in all files so far */
};

/* set, shape and classes are the same for both parts. shard_bytes: about the
 * largest size of a file. Writes nothing yet. The caller releases w, also after
 * an error. */
int record_writer_init(struct record_writer *w, const char *dir,
		       enum records_part part, uint64_t set,
		       const struct image_shape *shape, uint64_t shard_bytes,
		       struct err *e);
/* Appends an image of the shape's size. */
int record_writer_put(struct record_writer *w, const uint8_t *pixels,
		      uint32_t label, struct err *e);
/* Writes the heads, which makes the files valid, and waits until all is on the
 * disk. ERR_DATA: there is no image. */
int record_writer_finish(struct record_writer *w, struct err *e);
void record_writer_release(struct record_writer *w);

#endif
