/* agent_gpu.c: the health of GPUs: what goes wrong on this node is logged, and
 * passed on to the server with the state of all; what goes wrong on any node
 * is an event, and is on the failure page. */
#include "base/log.h"
#include "launcher/agent/agent_internal.h"

enum { GPUS_BYTES_MAX = 64 << 10 };

static void agent_gpu_on_finding(void *owner, const struct gpu_finding *f)
{
	struct agent *a = owner;
	const struct wire_gpu_news news = {
		.round = a->round, .index = f->index, .xid = f->xid,
		.severity = (uint8_t)f->severity, .uuid = SLICE_STR(f->uuid),
		.text = SLICE_STR(f->text), .action = SLICE_STR(f->action),
	};

	if (f->severity >= GPU_SLOW)
		log_warn("%s: %s", f->text, f->action);
	else
		log_info("%s: %s", f->text, f->action);
	member_gpu_news(&a->member, &news);
}

static void agent_gpu_on_read(void *owner)
{
	struct agent *a = owner;
	struct buf items = BUF_INIT(GPUS_BYTES_MAX);
	struct wire_gpus m = {.round = a->round, .node_rank = -1};
	const struct gpu_record *r = NULL;

	while ((r = gpu_monitor_next(&a->gpus, r))) {
		const struct wire_gpu item = {
			.index = r->index, .uuid = SLICE_STR(r->uuid),
			.name = SLICE_STR(r->name),
#define F(field) .field = r->field,
			GPU_NUMBERS(F)
#undef F
		};

		wire_put_gpu_item(&items, &item);
		m.gpus.count++;
	}
	m.gpus.bytes = SLICE(items.data, items.len);
	if (!items.failed && m.gpus.count)
		member_gpus(&a->member, &m);
	buf_release(&items);
}

/* From the server: of any node, this one included. */
void agent_on_gpu_news(struct member *m, const struct wire_gpu_news *news)
{
	struct agent *a = m->owner;
	const struct launch_env *env = a->rdzv->env;
	char text[ERR_TEXT_MAX];

	if (news->round != a->round)
		return;
	snprintf(text, sizeof(text), "node %u (%.*s): %.*s", news->node_rank,
		 SLICE_FMT(news->host), SLICE_FMT(news->text));
	/* its own agent has logged it */
	if (news->node_rank != a->node_rank && !env->shares_console)
		log_info("%s: %.*s", text, SLICE_FMT(news->action));
	failure_record_gpu(&a->failure, news);
	agent_run_event(a, "gpu", -1, text);
}

void agent_init_gpus(struct agent *a)
{
	a->gpus.owner = a;
	a->gpus.on_finding = agent_gpu_on_finding;
	a->gpus.on_read = agent_gpu_on_read;
	gpu_monitor_init(&a->gpus, &a->loop);
	a->failure.gpus = &a->gpus;
}
