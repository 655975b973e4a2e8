/* model.h: what the store promises for a key, which is a value that may be
 * missing, or a queue. A value is represented by its hash, length and first
 * bytes, so that a history of megabytes stays small. Knows no connections. */
#ifndef TESTS_FUZZ_STORE_MODEL_H
#define TESTS_FUZZ_STORE_MODEL_H

#include <stddef.h>
#include <stdint.h>

enum { MODEL_SHORT = 20, MODEL_QUEUE_MAX = 28 };

struct value {
	uint64_t hash;
	uint32_t len;
	char text[MODEL_SHORT]; /* the first bytes, padded with zeroes */
};

struct value model_value(const void *data, size_t len);
/* The concatenation of two values. */
struct value model_join(const struct value *a, const struct value *b);
int model_same(const struct value *a, const struct value *b);

enum act_kind {
	ACT_SET, ACT_GET, ACT_ADD, ACT_COMPARE_SET, ACT_APPEND, ACT_DELETE,
	ACT_HAS,   /* the key was there */
	ACT_LACKS, /* the key was missing */
	ACT_PUSH, ACT_POP, ACT_LENGTH,
};

enum act_answer {
	ACT_UNKNOWN, /* no answer: it may have happened or not */
	ACT_DONE,    /* without a value */
	ACT_VALUE,   /* with r, and in found whether it existed */
	ACT_NUMBER,  /* with n */
	ACT_REFUSED, /* ADD: the value is not a number, or the sum is too
		      * large */
};

/* What one request did to one key. */
struct act {
	uint64_t began, ended; /* ns, by the test's clock */
	uint32_t number;       /* the request's */
	uint32_t key;
	uint8_t kind, answer;
	uint8_t client, torch; /* torch: it used PyTorch's protocol */
	uint8_t found;
	int64_t delta, n;
	struct value a, b; /* arguments: the value; the expected and the desired
			    * value */
	struct value r;    /* the value in the answer */
};

struct state {
	uint32_t exists; /* or the length of the queue */
	union {
		struct value value;
		uint64_t queued[MODEL_QUEUE_MAX]; /* their hashes */
	} u;
};

/* Applies a to *s. 1, or 0 if its answer contradicts the state; *s has changed
 * in both cases. */
int model_apply(struct state *s, const struct act *a);
/* One line for people, without its newline. */
void model_print(char *out, size_t size, const struct act *a);

#endif
