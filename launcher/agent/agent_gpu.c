/* agent_gpu.c: the health of this node's GPUs: what goes wrong is logged, and
 * is on the failure page. */
#include "base/log.h"
#include "launcher/agent/agent_internal.h"

static void agent_gpu_on_finding(void *owner, const struct gpu_finding *f)
{
	if (f->severity >= GPU_SLOW)
		log_warn("%s: %s", f->text, f->action);
	else
		log_info("%s: %s", f->text, f->action);
}

static void agent_gpu_on_read(void *owner)
{
}

void agent_init_gpus(struct agent *a)
{
	a->gpus.owner = a;
	a->gpus.on_finding = agent_gpu_on_finding;
	a->gpus.on_read = agent_gpu_on_read;
	gpu_monitor_init(&a->gpus, &a->loop);
	a->failure.gpus = &a->gpus;
}
