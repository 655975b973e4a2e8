/* cifar.h: decodes CIFAR-10's "binary version". */
#ifndef TRAINERS_CIFAR_H
#define TRAINERS_CIFAR_H

#include "trainers/data/data_files.h"
#include "trainers/data/dataset.h"

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
