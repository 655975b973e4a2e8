/* w_dies.c: a worker that the kernel kills. w_dies memory: allocates memory
 * until it is killed. w_dies shm: fills /dev/shm, through mapped memory, until
 * there is no room; its file stays. w_dies stack: recurses until the stack
 * overflows. w_dies null: writes to address 0. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

static int die_of_memory(void)
{
	for (;;) {
		char *p = malloc(CHUNK);

		if (!p)
			return 3;
		memset(p, 1, CHUNK);
	}
}

static int die_of_shm(void)
{
	const size_t size = (size_t)64 * CHUNK;
	int fd = open("/dev/shm/w_dies", O_RDWR | O_CREAT, 0600);
	char *p;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return 3;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return 3;
	memset(p, 1, size);
	return 4;
}

/* Returns only if the stack has no end. */
static int die_of_stack(volatile int depth)
{
	volatile char frame[4096];

	frame[0] = (char)depth;
	return depth < 0 ? 0 : die_of_stack(depth + 1) + frame[0];
}

static int die_of_null(void)
{
	volatile int *volatile nowhere = NULL;

	*nowhere = 1;
	return 4;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "memory") == 0)
		return die_of_memory();
	if (argc == 2 && strcmp(argv[1], "shm") == 0)
		return die_of_shm();
	if (argc == 2 && strcmp(argv[1], "stack") == 0)
		return die_of_stack(0);
	if (argc == 2 && strcmp(argv[1], "null") == 0)
		return die_of_null();
	fprintf(stderr, "usage: w_dies memory | shm | stack | null\n");
	return 2;
}
