/* mnist.h: decodes MNIST's four idx files. */
#ifndef TRAINERS_MNIST_H
#define TRAINERS_MNIST_H

#include "trainers/data/data_files.h"
#include "trainers/data/dataset.h"

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

#endif
