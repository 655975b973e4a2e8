/* t_idx.c: writes a small MNIST look-alike: each class has its own patch in a
 * noisy image. usage: t_idx DIR TRAIN TEST */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t chance = 7;

static unsigned draw(void)
{
	chance = chance * 1664525u + 1013904223u;
	return chance >> 24;
}

static void put32(FILE *f, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		putc((int)(v >> shift & 255), f);
}

static void image(FILE *f, unsigned label)
{
	unsigned left = label % 5 * 5 + 2, top = label / 5 * 12 + 3;

	for (unsigned y = 0; y < 28; y++)
		for (unsigned x = 0; x < 28; x++) {
			int in = x - left < 4 && y - top < 9;

			putc(in || draw() > 250 ? (int)draw() : 0, f);
		}
}

static FILE *open_file(const char *dir, const char *name)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	if (!f) {
		perror(path);
		exit(1);
	}
	return f;
}

static void write_set(const char *dir, const char *images, const char *labels,
		      uint32_t count)
{
	FILE *i = open_file(dir, images), *l = open_file(dir, labels);

	put32(i, 0x803);
	put32(i, count);
	put32(i, 28);
	put32(i, 28);
	put32(l, 0x801);
	put32(l, count);
	for (uint32_t k = 0; k < count; k++) {
		unsigned label = draw() % 10;

		putc((int)label, l);
		image(i, label);
	}
	if (fclose(i) || fclose(l)) {
		perror(dir);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: t_idx DIR TRAIN TEST\n");
		return 2;
	}
	write_set(argv[1], "train-images-idx3-ubyte",
		  "train-labels-idx1-ubyte", (uint32_t)strtoul(argv[2], 0, 10));
	write_set(argv[1], "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
		  (uint32_t)strtoul(argv[3], 0, 10));
	return 0;
}
