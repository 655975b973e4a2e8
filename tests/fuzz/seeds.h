/* seeds.h: the first inputs of the fuzzers of our own formats, written with the
 * code of those formats: seeds_NOUN.c writes those of fuzz_NOUN. */
#ifndef TESTS_FUZZ_SEEDS_H
#define TESTS_FUZZ_SEEDS_H

#include "base/buf.h"

enum { SEED_MAX = 1 << 20 };

/* Aborts with the text of what went wrong. */
void seeds_require(int ok, const char *what);
/* Writes DIR/NOUN/NAME, and empties b. */
void seeds_write(const char *noun, const char *name, struct buf *b);

void seeds_wire(void);
void seeds_server(void);
void seeds_journal(void);
void seeds_pmi(void);
void seeds_pmix(void);
void seeds_config(void);
void seeds_python(void);

#endif
