/* model.h: what the store promises, one key at a time: a value that may be
 * there or not, or a queue. Values are known by hash, length and first bytes,
 * so that a history of megabytes is small. Knows no connection. */
#ifndef TESTS_FUZZ_STORE_MODEL_H
#define TESTS_FUZZ_STORE_MODEL_H

#include <stddef.h>
#include <stdint.h>

enum { MODEL_SHORT = 20, MODEL_QUEUE_MAX = 28 };

struct value {
	uint64_t hash;
	uint32_t len;
	char text[MODEL_SHORT]; /* the first bytes, zeroes behind */
};

struct value model_value(const void *data, size_t len);
/* Two values, one after the other. */
struct value model_join(const struct value *a, const struct value *b);
int model_same(const struct value *a, const struct value *b);

enum act_kind {
	ACT_SET, ACT_GET, ACT_ADD, ACT_COMPARE_SET, ACT_APPEND, ACT_DELETE,
	ACT_HAS,   /* the key was there */
	ACT_LACKS, /* the key was missing */
	ACT_PUSH, ACT_POP, ACT_LENGTH,
};

enum act_answer {
	ACT_UNKNOWN, /* none came: it may have happened or not */
	ACT_DONE,    /* without a value */
	ACT_VALUE,   /* with r, and found */
	ACT_NUMBER,  /* with n */
	ACT_REFUSED, /* ADD: the value is no number, or the sum too large */
};

/* What one request did to one key. */
struct act {
	uint64_t began, ended; /* ns, by the test's clock */
	uint32_t number;       /* the request's */
	uint32_t key;
	uint8_t kind, answer;
	uint8_t client, torch; /* torch: in PyTorch's protocol */
	uint8_t found;
	int64_t delta, n;
	struct value a, b; /* its arguments: value; expected, desired */
	struct value r;    /* what was answered */
};

struct state {
	uint32_t exists; /* or how many are queued */
	union {
		struct value value;
		uint64_t queued[MODEL_QUEUE_MAX]; /* their hashes */
	} u;
};

/* Does it to *s, which is changed: 1; 0: its answer contradicts the state. */
int model_apply(struct state *s, const struct act *a);
/* One line for people, without its end. */
void model_print(char *out, size_t size, const struct act *a);

#endif
