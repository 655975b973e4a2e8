/* image_folder.h: the images of a folder as torchvision's ImageFolder sees
 * them: FOLDER/train/CLASS/FILE, and the same in FOLDER/val or FOLDER/test. */
#ifndef TRAINERS_IMAGE_FOLDER_H
#define TRAINERS_IMAGE_FOLDER_H

#include <stdint.h>

#include "trainers/data/records_format.h"

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

#endif
