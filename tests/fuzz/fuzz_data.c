/* fuzz_data: any files are a data set or a clean error: CIFAR-10's records, and
 * MNIST's images and labels, plain, gzipped or in xz. The first byte chooses
 * the format and where the images end and the labels begin. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trainers/data/data_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the descriptor of a file with these bytes. */
static int file_of(const uint8_t *data, size_t size, char *path)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, DATA_PATH_MAX, "/proc/self/fd/%d", fd);
	return fd;
}

static void as_cifar(const uint8_t *data, size_t size)
{
	char path[DATA_PATH_MAX];
	int fd = file_of(data, size, path);
	struct err e = ERR_INIT;
	struct cifar_images i;
	int rc = cifar_decode_file(path, &i, &e);

	if (rc ? e.code != rc || !e.text[0] : i.count == 0)
		abort();
	for (uint32_t k = 0; rc == 0 && k < i.count; k++)
		if (i.labels[k] > 9)
			abort();
	cifar_images_release(&i);
	close(fd);
}

static void as_mnist(const uint8_t *data, size_t size, size_t images)
{
	static struct data_files f = {.count = MNIST_FILES};
	struct err e = ERR_INIT;
	int fd[MNIST_FILES], rc;
	struct payload p;
	struct dataset d;

	if (images > size)
		images = size;
	for (int i = 0; i < MNIST_FILES; i++)
		fd[i] = i % 2 ? file_of(data + images, size - images,
					f.path[i]) :
				file_of(data, images, f.path[i]);
	rc = mnist_decode(&f, &p, &e);
	if (rc ? e.code != rc || !e.text[0] || p.data :
		 dataset_view(p.data, p.size, &d, &e) != 0)
		abort();
	free(p.data);
	for (int i = 0; i < MNIST_FILES; i++)
		close(fd[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0] == 0)
		as_cifar(data + 1, size - 1);
	else
		as_mnist(data + 1, size - 1, (size_t)data[0] * 16);
	return 0;
}
