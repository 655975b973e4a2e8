/* t_cifar.c: writes a small CIFAR-10 look-alike: noise that is brighter in one
 * channel, by its label. usage: t_cifar DIR IMAGES_A_FILE TEST_IMAGES */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t chance = 7;

static unsigned draw(void)
{
	chance = chance * 1664525u + 1013904223u;
	return chance >> 24;
}

static void record(FILE *f)
{
	unsigned label = draw() % 10;

	putc((int)label, f);
	for (unsigned c = 0; c < 3; c++)
		for (int i = 0; i < 1024; i++)
			putc((int)(draw() / 2 + (c == label % 3) * label * 12),
			     f);
}

static void write_file(const char *dir, const char *name, unsigned long count)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	if (!f) {
		perror(path);
		exit(1);
	}
	while (count--)
		record(f);
	if (fclose(f)) {
		perror(path);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	char name[32];

	if (argc != 4) {
		fprintf(stderr, "usage: t_cifar DIR IMAGES_A_FILE TEST_IMAGES"
			"\n");
		return 2;
	}
	for (int i = 1; i <= 5; i++) {
		snprintf(name, sizeof(name), "data_batch_%d.bin", i);
		write_file(argv[1], name, strtoul(argv[2], NULL, 10));
	}
	write_file(argv[1], "test_batch.bin", strtoul(argv[3], NULL, 10));
	return 0;
}
