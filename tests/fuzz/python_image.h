/* python_image.h: the memory of a Python process as fuzz_python reads it, and
 * seeds_python.c writes it: a byte that says the version, then what lies at
 * PYTHON_IMAGE_AT, beginning with _PyRuntime. */
#ifndef TESTS_FUZZ_PYTHON_IMAGE_H
#define TESTS_FUZZ_PYTHON_IMAGE_H

#include <stdint.h>

/* Inputs can have pointers, because the place is always the same: where neither
 * programs nor AddressSanitizer have anything. */
#define PYTHON_IMAGE_AT ((uint64_t)0x200000000000)

enum {
	PYTHON_IMAGE_MAX = 64 << 10,
	PYTHON_IMAGE_STATES = 16, /* the version: stated in the memory */
};

#endif
