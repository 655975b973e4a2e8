/* gpu_status.c: GPUS as text and as JSON. */
#include "rendezvous/status/job_status.h"

enum { SHOWN = 64, MIB = 1 << 20 };

/* nvmlClocksThrottleReasons: by the hardware, heat or the power supply. */
enum { THROTTLED = 0x8 | 0x20 | 0x40 | 0x80 };

/* An iterator over the GPUs of all nodes. */
struct gpu_status_walk {
	struct slice rest;
	struct wire_gpus node;
	struct reader items;
	uint32_t left; /* on this node */
};

/* 0: there is none any more. */
static int gpu_status_next(struct gpu_status_walk *w, struct wire_gpu *g)
{
	struct wire_frame f;

	while (!w->left) {
		long n = wire_cut(w->rest, WIRE_BODY_MAX, &f, NULL);

		if (n <= 0 || wire_get_gpus(&f, &w->node, NULL) < 0)
			return 0;
		w->rest = SLICE(w->rest.data + n, w->rest.len - (size_t)n);
		reader_init(&w->items, w->node.gpus.bytes);
		w->left = w->node.gpus.count;
	}
	w->left--;
	*g = wire_get_gpu_item(&w->items);
	return !w->items.bad;
}

static void gpu_status_put_state(struct buf *out, const struct wire_gpu *g)
{
	if (g->is_lost == 1)
		buf_printf(out, "  lost");
	if (g->ecc_volatile > 0)
		buf_printf(out, "  %lld uncorrected memory errors",
			   (long long)g->ecc_volatile);
	if (g->remap_failed == 1)
		buf_printf(out, "  row remapping failed");
	if (g->remap_pending == 1)
		buf_printf(out, "  row remapping pending");
	if (g->throttle > 0 && g->throttle & THROTTLED)
		buf_printf(out, "  slowed down");
	if (g->nvlinks_inactive > 0)
		buf_printf(out, "  %lld of %lld NVLinks down",
			   (long long)g->nvlinks_inactive,
			   (long long)g->nvlinks);
}

static void gpu_status_put_gpu(struct buf *out, int32_t node_rank,
			       const struct wire_gpu *g)
{
	buf_printf(out, "  gpu %u on node %d  %.*s", g->index, node_rank,
		   SLICE_FMT(g->name));
	if (g->temperature >= 0)
		buf_printf(out, "  %lld C", (long long)g->temperature);
	if (g->utilization >= 0)
		buf_printf(out, "  %lld %% busy", (long long)g->utilization);
	if (g->memory_used >= 0)
		buf_printf(out, "  %lld of %lld MiB",
			   (long long)(g->memory_used / MIB),
			   (long long)(g->memory_total / MIB));
	if (g->instances > 0)
		buf_printf(out, "  %lld instances", (long long)g->instances);
	gpu_status_put_state(out, g);
	buf_put(out, "\n", 1);
}

void gpu_status_put(struct buf *out, struct slice frames)
{
	struct gpu_status_walk w = {.rest = frames};
	struct wire_gpu g;
	uint32_t n = 0;

	while (gpu_status_next(&w, &g))
		if (n++ < SHOWN)
			gpu_status_put_gpu(out, w.node.node_rank, &g);
	if (n > SHOWN)
		buf_printf(out, "  and %u more GPUs; --json has all\n",
			   n - SHOWN);
}

static void gpu_status_add_number(const struct json *j, cJSON *to,
				  const char *name, int64_t value)
{
	if (value >= 0)
		j->add_number(to, name, (double)value);
	else
		j->add_null(to, name);
}

void gpu_status_put_json(const struct json *j, cJSON *to, struct slice frames)
{
	struct gpu_status_walk w = {.rest = frames};
	cJSON *list = j->add_array(to, "gpus");
	struct wire_gpu g;

	while (gpu_status_next(&w, &g)) {
		cJSON *gpu = j->object();

		j->add_number(gpu, "node_rank", w.node.node_rank);
		json_add_text_or_null(j, gpu, "host", w.node.host);
		j->add_number(gpu, "index", g.index);
		json_add_text_or_null(j, gpu, "uuid", g.uuid);
		json_add_text_or_null(j, gpu, "name", g.name);
#define F(field) gpu_status_add_number(j, gpu, #field, g.field);
		WIRE_GPU_NUMBERS(F)
#undef F
		j->append(list, gpu);
	}
}
