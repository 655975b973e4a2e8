/* python_image.h: the memory of a Python process, which fuzz_python reads and
 * seeds_python.c writes: a byte with the version, then the memory at
 * PYTHON_IMAGE_AT, which begins with _PyRuntime. */
#ifndef TESTS_FUZZ_PYTHON_IMAGE_H
#define TESTS_FUZZ_PYTHON_IMAGE_H

#include <stdint.h>

/* A fixed address, so that inputs can have pointers. Neither programs nor
 * AddressSanitizer use it. */
#define PYTHON_IMAGE_AT ((uint64_t)0x200000000000)

enum {
	PYTHON_IMAGE_MAX = 64 << 10,
	PYTHON_IMAGE_STATES = 16, /* the version: stated in the memory */
};

#endif
