/* bench_top.c: the time of a redraw of `ddprun top` with RANKS ranks, from the
 * frames that the server sent to the bytes for a terminal of 200 x 50. Prints
 * the median of ROUNDS in milliseconds, and the bytes.
 *
 *   bench_top RANKS ROUNDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "launcher/top/top_internal.h"

enum { PER_NODE = 8 };

static struct job_status job;
static struct buf ranks, nodes, out;
static char (*hosts)[16];

static void job_make(uint32_t n)
{
	job = (struct job_status){
		.server = "10.0.0.1:29400",
		.as = {.job = SLICE_STR("run"), .state = 1, .state_ms = 12000,
		       .joined = n / PER_NODE, .max_nodes = n / PER_NODE,
		       .world_size = n},
	};
	buf_init(&ranks, 64 << 20);
	buf_init(&nodes, 64 << 20);
	buf_init(&out, 64 << 20);
	for (uint32_t i = 0; i < n; i++) {
		const struct wire_rank r = {
			.rank = n - 1 - i, .pid = 4000 + i, .step = 17,
			.step_us = 500000 + i, .quiet_ms = i % 40000,
			.waited = 123, .doing = RANK_CALLS, .cpu = 995,
			.call = SLICE_STR("all_reduce #7 (f32 x 4096, avg)"),
			.words = SLICE_STR(""), .memory = 12345678,
		};

		wire_put_rank_item(&ranks, &r);
	}
	for (uint32_t i = 0; i < n / PER_NODE; i++) {
		snprintf(hosts[i], sizeof(hosts[i]), "node%u", i);
		const struct wire_job_node node = {
			.node_rank = (int32_t)i, .host = SLICE_STR(hosts[i]),
			.addr = SLICE_STR("10.0.0.1"),
			.state = WIRE_NODE_RUNS, .base_rank = i * PER_NODE,
			.nproc = PER_NODE,
		};

		wire_put_job_node_item(&nodes, &node);
	}
	job.ranks.ranks.count = n;
	job.ranks.ranks.bytes = SLICE(ranks.data, ranks.len);
	job.as.nodes.count = n / PER_NODE;
	job.as.nodes.bytes = SLICE(nodes.data, nodes.len);
}

static int redraw(void)
{
	const struct top_screen screen = {
		.columns = 200, .lines = 50, .color = 1, .jobs = 1,
		.order = TOP_BY_QUIET,
	};
	struct top_rows rows;

	if (top_rows_init(&rows, &job) < 0)
		return -1;
	top_rows_sort(&rows, screen.order);
	top_rows_filter(&rows, "node");
	out.len = 0;
	top_screen_put(&out, &screen, &job, &rows);
	top_rows_release(&rows);
	return 0;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	uint32_t n = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	size_t rounds = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	double *ms = calloc(rounds + 1, sizeof(*ms));

	hosts = calloc(n / PER_NODE + 1, sizeof(*hosts));
	if (n < PER_NODE || n > WIRE_WORLD_MAX || !rounds || !ms || !hosts) {
		fprintf(stderr, "usage: bench_top RANKS ROUNDS\n");
		return 2;
	}
	job_make(n);
	for (size_t i = 0; i < rounds; i++) {
		uint64_t began = clock_ns();

		if (redraw() < 0)
			return 1;
		ms[i] = (double)(clock_ns() - began) / 1e6;
	}
	qsort(ms, rounds, sizeof(*ms), compare);
	printf("%.3f %zu\n", ms[rounds / 2], out.len);
	return 0;
}
