/* data_files.h: the data sets that are files. Finds them, compressed or not,
 * makes a text that changes when one of them does, and decodes them. */
#ifndef TRAINERS_DATA_FILES_H
#define TRAINERS_DATA_FILES_H

#include "base/error.h"
#include "trainers/data/dataset.h"

enum { DATA_FILES_MAX = 6, DATA_PATH_MAX = 4096, DATA_IDENTITY_MAX = 1024 };

/* The files of a data set and the usual subdirectories. */
struct data_files_spec {
	const char *set;           /* "MNIST" */
	const char *get;           /* the data set's name in get-data:
				    * "mnist" */
	const char *const *names;  /* names of its uncompressed files; ends with
				    * NULL */
	const char *const *below;  /* subdirectories to search after DIR itself;
				    * ends with NULL */
};

struct data_files {
	int count;
	char path[DATA_FILES_MAX][DATA_PATH_MAX]; /* in the spec's order */
	/* Size, mtime and inode of each. */
	char identity[DATA_IDENTITY_MAX];
};

/* Finds all files in dir, else in its subdirectories `below`; each plain, .gz
 * or .xz. -ENOENT: the text lists the files and folders searched. */
int data_files_find(struct data_files *f, const struct data_files_spec *s,
		    const char *dir, struct err *e);

/* ---- mnist.c ----
 *
 * Decodes MNIST's four idx files. */

enum { MNIST_FILES = 4 };

extern const struct image_shape mnist_shape;

/* Finds train images, train labels, test images and test labels in dir or
 * dir/mnist. Errors are data_files_find's. */
int mnist_find(struct data_files *f, const char *dir, struct err *e);

/* Decodes the files. The caller frees p->data. ERR_DATA names the file and the
 * fault: truncated, a wrong magic, another size, a label over 9, different
 * numbers of images and labels. */
int mnist_decode(const struct data_files *f, struct payload *p,
		 struct err *e);

/* ---- cifar.c ----
 *
 * Decodes CIFAR-10's "binary version". */

enum { CIFAR_SIDE = 32, CIFAR_FILES = 6 };
enum { CIFAR_PIXELS = 3 * CIFAR_SIDE * CIFAR_SIDE };

/* The means and standard deviations that most recipes use. */
extern const struct image_shape cifar_shape;

/* Finds data_batch_1.bin to _5 and test_batch.bin in dir, dir/cifar10 or
 * dir/cifar-10-batches-bin. Errors are data_files_find's. */
int cifar_find(struct data_files *f, const char *dir, struct err *e);

/* Decodes the files, in parallel if there are several cores. The caller frees
 * p->data. ERR_DATA names the file and the fault: truncated, a label over 9, a
 * different number of images than the others. */
int cifar_decode(const struct data_files *f, struct payload *p, struct err *e);

/* The contents of one file. */
struct cifar_images {
	uint32_t count;
	uint8_t *pixels; /* [count][CIFAR_PIXELS] */
	uint8_t *labels; /* [count] */
};

/* Decodes one file. The caller releases i, also after an error. */
int cifar_decode_file(const char *path, struct cifar_images *i, struct err *e);
void cifar_images_release(struct cifar_images *i);

#endif
