/* c_reducer_spans.c: a reducer over gradients that lie apart leaves their
 * averages. The spans are of all sizes, empty ones too; some are neighbours,
 * some at odd addresses. Prints "rank R of N: ok" or what was wrong.
 *
 *   c_reducer_spans [progress]   with a progress thread
 *   c_reducer_spans differs      rank 1 has an arena. Prints the error
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/sdk/ranks.h"
#include "worker-sdk/ddp.h"

enum { SPANS = 12, STEPS = 4 };
/* 70,000 f32 have a bucket of their own */
static const size_t counts[SPANS] = {5,	   0,	70000, 3, 1000, 70000,
				     2000, 30, 1,     0, 900,  4000};

static ddp_comm *world;

static void refuses(int rc, const char *text)
{
	if (rc != DDP_ERR_ARGUMENT || !strstr(ddp_last_error(), text))
		DIE("not refused with '%s': %d: %s", text, rc,
		    ddp_last_error());
}

/* apart 0: one after another; 1: each third is a neighbour of the one before
 * it; odd: bytes that addresses are off. The caller frees *memory. */
static void lay_out(struct ddp_span *s, enum ddp_type type, int apart,
		    size_t odd, char **memory)
{
	size_t element = ddp_type_size(type), at = odd;

	*memory = calloc(1, 160000 * element + SPANS * 64 + 64);
	if (!*memory)
		DIE("no memory");
	for (int i = 0; i < SPANS; i++) {
		if (apart && i % 3)
			at += 64;
		s[i] = (struct ddp_span){*memory + at, counts[i], type};
		at += counts[i] * element;
	}
}

/* Small integers, so that averages over few ranks are exact in bf16 as well. */
static double value(int r, int step, int i, size_t k)
{
	return (double)((k + (size_t)i * 3 + (size_t)step) % 7) * (r + 1);
}

static void put(const struct ddp_span *s, size_t k, double v)
{
	char *p = (char *)s->data + k * ddp_type_size(s->type);
	float f = (float)v;

	if (s->type == DDP_F32)
		memcpy(p, &f, sizeof(f));
	else
		memcpy(p, &v, sizeof(v));
}

static double get(const struct ddp_span *s, size_t k)
{
	const char *p = (const char *)s->data + k * ddp_type_size(s->type);
	float f;
	double d;

	memcpy(&f, p, sizeof(f));
	if (s->type == DDP_F32)
		return (double)f;
	memcpy(&d, p, sizeof(d));
	return d;
}

static void step(ddp_reducer *r, const struct ddp_span *s, int number,
		 int unused)
{
	must(ddp_reducer_begin(r, 1), "begin");
	for (int i = SPANS - 1; i >= 0; i--) {
		for (size_t k = 0; k < s[i].count; k++)
			put(&s[i], k, value(rank, number, i, k));
		if (i != unused)
			must(ddp_reducer_ready(r, i), "ready");
	}
	must(ddp_reducer_finish(r), "finish");
}

static void expect(const struct ddp_span *s, int number, int unused,
		   const char *what)
{
	for (int i = 0; i < SPANS; i++)
		for (size_t k = 0; k < s[i].count; k++) {
			double want = 0;

			for (int r = 0; r < size; r++)
				want += value(r, number, i, k);
			want = i == unused ? value(rank, number, i, k)
					   : want / size;
			if (get(&s[i], k) != want)
				DIE("%s: span %d element %zu is %g, not %g",
				    what, i, k, get(&s[i], k), want);
		}
}

static void average(enum ddp_type type, int apart, size_t odd,
		    const struct ddp_reducer_options *more, const char *what)
{
	int unused = more->find_unused ? 4 : -1;
	struct ddp_reducer_options o = *more;
	struct ddp_span s[SPANS], gone[SPANS];
	ddp_reducer *r;
	char *memory;

	lay_out(s, type, apart, odd, &memory);
	memcpy(gone, s, sizeof(s));
	o.first_bucket = 8000;
	o.bucket = 12000;
	must(ddp_reducer_new_spans(&r, world, gone, SPANS, &o), "new");
	memset(gone, 0, sizeof(gone));
	for (int i = 0; i < STEPS; i++) {
		step(r, s, i, unused);
		expect(s, i, unused, what);
	}
	ddp_reducer_free(r);
	free(memory);
}

static void misused(void)
{
	struct ddp_span s[SPANS];
	ddp_reducer *r;
	char *memory;

	lay_out(s, DDP_F32, 1, 0, &memory);
	refuses(ddp_reducer_new_spans(NULL, world, s, SPANS, NULL), "NULL");
	refuses(ddp_reducer_new_spans(&r, NULL, s, SPANS, NULL), "NULL");
	refuses(ddp_reducer_new_spans(&r, world, NULL, 1, NULL),
		"spans is NULL");
	refuses(ddp_reducer_new_spans(&r, world, s, -1, NULL), "negative");
	s[3].type = DDP_F64;
	refuses(ddp_reducer_new_spans(&r, world, s, SPANS, NULL),
		"span 3 is of type 1, span 0 of type 0");
	s[3].type = DDP_F32;
	s[2].data = NULL;
	refuses(ddp_reducer_new_spans(&r, world, s, SPANS, NULL),
		"span 2: data is NULL");
	for (int i = 0; i < SPANS; i++)
		s[i].type = DDP_I32;
	s[2].data = memory;
	refuses(ddp_reducer_new_spans(&r, world, s, SPANS, NULL), "f32 or f64");
	must(ddp_reducer_new_spans(&r, world, NULL, 0, NULL), "none");
	must(ddp_reducer_begin(r, 1), "begin");
	must(ddp_reducer_finish(r), "finish");
	ddp_reducer_free(r);
	free(memory);
}

static void differs(void)
{
	struct ddp_span s[SPANS];
	ddp_reducer *r;
	char *memory;
	int rc;

	lay_out(s, DDP_F32, 0, 0, &memory);
	if (rank == 1)
		rc = ddp_reducer_new(&r, world, memory, DDP_F32, counts, SPANS,
				     NULL);
	else
		rc = ddp_reducer_new_spans(&r, world, s, SPANS, NULL);
	printf("rank %d: %d: %s\n", rank, rc, ddp_last_error());
	must(ddp_barrier(world), "the communicator is still good");
	free(memory);
}

static void all_layouts(void)
{
	const struct ddp_reducer_options plain = {0}, bf16 = {.bf16 = 1},
					 unused = {.find_unused = 1};

	average(DDP_F32, 0, 0, &plain, "neighbours");
	average(DDP_F32, 1, 0, &plain, "apart");
	average(DDP_F32, 1, 1, &plain, "at odd addresses");
	average(DDP_F64, 1, 3, &plain, "f64 at odd addresses");
	average(DDP_F32, 0, 1, &bf16, "bf16 at odd addresses");
	average(DDP_F32, 1, 2, &bf16, "bf16 apart");
	average(DDP_F32, 1, 0, &unused, "a span that nobody used");
	misused();
}

int main(int argc, char **argv)
{
	must(ddp_init(&world, &(struct ddp_options){.backend = "cpu"}), "init");
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	if (argc > 1 && !strcmp(argv[1], "progress"))
		must(ddp_progress_start(world, -1), "progress_start");
	if (argc > 1 && !strcmp(argv[1], "differs")) {
		differs();
	} else {
		all_layouts();
		printf("rank %d of %d: ok\n", rank, size);
	}
	fflush(stdout);
	ddp_finalize(world);
	return 0;
}
