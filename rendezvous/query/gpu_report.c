/* gpu_report.c: the last GPUS of each agent is kept as bytes, in its peer. */
#include "rendezvous/query/query.h"

#include <string.h>

#include "rendezvous/server/server.h"

enum {
	GPUS_BYTES_MAX = 64 << 10, /* an agent's */
	NEWS_TEXT_MAX = 1024,	   /* each text */
};

int gpu_report_take(struct peer *agent, const struct wire_frame *f,
		    struct err *e)
{
	struct wire_gpus m;
	struct reader r;
	int rc = wire_get_gpus(f, &m, e);

	if (rc < 0)
		return rc;
	reader_init(&r, m.gpus.bytes);
	for (uint32_t i = 0; i < m.gpus.count; i++) {
		wire_get_gpu_item(&r);
		if (r.bad)
			return err_set(e, ERR_PROTOCOL,
				       "GPUS: item %u is too short", i);
	}
	if (!agent->gpus.max)
		buf_init(&agent->gpus, GPUS_BYTES_MAX);
	buf_reset(&agent->gpus);
	buf_put(&agent->gpus, m.gpus.bytes.data, m.gpus.bytes.len);
	agent->ngpus = agent->gpus.failed ? 0 : m.gpus.count;
	return 0;
}

int gpu_report_pass(struct peer *agent, const struct wire_frame *f,
		    struct err *e)
{
	struct hosted_job *h = agent->hosted;
	struct wire_gpu_news m;
	struct job_node *n = NULL;
	struct peer *to;
	int rc = wire_get_gpu_news(f, &m, e);

	if (rc < 0)
		return rc;
	if (m.text.len > NEWS_TEXT_MAX || m.action.len > NEWS_TEXT_MAX ||
	    m.uuid.len > NEWS_TEXT_MAX)
		return err_set(e, ERR_PROTOCOL, "GPU_NEWS: a text is too long");
	if (!h || !agent->node || job_state(h->job) != JOB_RUNNING ||
	    m.round != job_round(h->job) || job_node_rank(agent->node) < 0)
		return 0;
	m.node_rank = (uint32_t)job_node_rank(agent->node);
	m.host = SLICE_STR(job_node_host(agent->node));
	while ((to = hosted_job_next_agent(h, &n)))
		wire_put_gpu_news(conn_out(&to->conn), WIRE_GPU_NEWS,
				  WIRE_NOTICE, 0, &m);
	return 0;
}

/* ---- for tools ---- */

void gpu_report_put(struct buf *out, struct hosted_job *h)
{
	struct job_node *n = NULL;

	while (!h->agentless && (n = job_next_node(h->job, n))) {
		const struct peer *p = job_node_owner(n);
		struct wire_gpus m = {.round = job_round(h->job)};

		if (!p || !p->ngpus)
			continue;
		m.node_rank = job_node_rank(n);
		m.host = SLICE_STR(job_node_host(n));
		m.gpus.count = p->ngpus;
		m.gpus.bytes = SLICE(p->gpus.data, p->gpus.len);
		wire_put_gpus(out, WIRE_GPUS, WIRE_NOTICE, 0, &m);
	}
}

/* ---- metrics ---- */

#define GPU_METRICS(F)                                                        \
	F(temperature, "temperature_celsius", "Temperature of the GPU.")      \
	F(utilization, "utilization_percent", "Time with a kernel running.")  \
	F(memory_used, "memory_used_bytes", "Memory in use.")                 \
	F(memory_total, "memory_bytes", "Memory of the GPU.")                 \
	F(throttle, "throttle_reasons", "Bits of nvmlClocksThrottleReasons.") \
	F(ecc_volatile, "ecc_uncorrected",                                    \
	  "Uncorrected memory errors since the driver was loaded.")           \
	F(ecc_aggregate, "ecc_uncorrected_lifetime",                          \
	  "Uncorrected memory errors since the GPU was made.")                \
	F(remap_pending, "row_remap_pending",                                 \
	  "1 if a memory row waits to be remapped.")                          \
	F(remap_failed, "row_remap_failed",                                   \
	  "1 if a memory row could not be remapped.")                         \
	F(nvlinks, "nvlinks", "NVLinks of the GPU.")                          \
	F(nvlinks_inactive, "nvlinks_inactive", "NVLinks that are down.")     \
	F(nvlink_errors, "nvlink_errors",                                     \
	  "Errors and replays that its NVLinks have counted.")                \
	F(instances, "mig_instances", "Instances of the GPU (MIG).")          \
	F(is_lost, "lost", "1 if the driver has lost the GPU.")

struct gpu_metric {
	const char *name, *help;
	size_t offset; /* in struct wire_gpu */
};

void gpu_report_put_label(struct buf *out, const char *name,
			  struct slice value)
{
	buf_printf(out, "%s=\"", name);
	for (size_t i = 0; i < value.len; i++) {
		unsigned char c = (unsigned char)value.data[i];

		if (c == '"' || c == '\\')
			buf_put(out, "\\", 1);
		if (c >= 0x20)
			buf_put(out, &value.data[i], 1);
	}
	buf_put(out, "\"", 1);
}

static void gpu_report_put_value(struct buf *out, const struct gpu_metric *m,
				 const struct peer *p, const struct wire_gpu *g)
{
	int64_t value;

	memcpy(&value, (const char *)g + m->offset, sizeof(value));
	if (value < 0)
		return;
	buf_printf(out, "ddprdzv_gpu_%s{", m->name);
	gpu_report_put_label(out, "job", SLICE_STR(job_id(p->hosted->job)));
	gpu_report_put_label(out, ",host", SLICE_STR(p->host ? p->host : ""));
	buf_printf(out, ",gpu=\"%u\"", g->index);
	gpu_report_put_label(out, ",uuid", g->uuid);
	buf_printf(out, "} %lld\n", (long long)value);
}

static int gpu_report_is_shown(const struct peer *p)
{
	return p->ngpus && p->hosted && p->node;
}

static void gpu_report_put_metric(struct buf *out, const struct server *s,
				  const struct gpu_metric *m)
{
	const struct peer *p = NULL;

	buf_printf(out, "# HELP ddprdzv_gpu_%s %s\n# TYPE ddprdzv_gpu_%s "
		   "gauge\n", m->name, m->help, m->name);
	while ((p = server_next_peer(s, p))) {
		struct reader r;

		if (!gpu_report_is_shown(p))
			continue;
		reader_init(&r, SLICE(p->gpus.data, p->gpus.len));
		for (uint32_t i = 0; i < p->ngpus; i++) {
			struct wire_gpu g = wire_get_gpu_item(&r);

			gpu_report_put_value(out, m, p, &g);
		}
	}
}

void gpu_report_put_metrics(struct buf *out, const struct server *s)
{
#define F(field, name, help) {name, help, offsetof(struct wire_gpu, field)},
	static const struct gpu_metric metrics[] = {GPU_METRICS(F)};
#undef F
	const struct peer *p = NULL;
	int is_any = 0;

	while ((p = server_next_peer(s, p)))
		is_any |= gpu_report_is_shown(p);
	for (size_t i = 0;
	     is_any && i < sizeof(metrics) / sizeof(*metrics); i++)
		gpu_report_put_metric(out, s, &metrics[i]);
}
