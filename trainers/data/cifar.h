/* cifar.h: CIFAR-10 from the files of its "binary version". */
#ifndef TRAINERS_CIFAR_H
#define TRAINERS_CIFAR_H

#include "trainers/data/data_files.h"
#include "trainers/data/dataset.h"

enum { CIFAR_SIDE = 32, CIFAR_FILES = 6 };
enum { CIFAR_PIXELS = 3 * CIFAR_SIDE * CIFAR_SIDE };

/* Its means and deviations are those that most recipes have. */
extern const struct image_shape cifar_shape;

/* data_batch_1.bin to _5, test_batch.bin, in dir, dir/cifar10 or
 * dir/cifar-10-batches-bin. Errors are data_files_find's. */
int cifar_find(struct data_files *f, const char *dir, struct err *e);

/* Decodes them, several at once where there are cores. The caller frees
 * p->data. ERR_DATA names the file and what is wrong: truncated, a label over
 * 9, not as many images as the others. */
int cifar_decode(const struct data_files *f, struct payload *p, struct err *e);

/* What one file holds. */
struct cifar_images {
	uint32_t count;
	uint8_t *pixels; /* [count][CIFAR_PIXELS] */
	uint8_t *labels; /* [count] */
};

/* One file alone. The caller releases i, also after an error. */
int cifar_decode_file(const char *path, struct cifar_images *i, struct err *e);
void cifar_images_release(struct cifar_images *i);

#endif
