/* rank_report.c: what the ranks of each job do, for Prometheus: the extremes
 * and the mean over its ranks. A series for each of 4096 ranks would be too
 * many; `ddprun status` and the page have the ranks. */
#include <stdlib.h>

#include "rendezvous/query/query.h"

/* Over the ranks of which it is known. */
struct rank_range {
	double lowest, highest, sum;
	uint32_t n;
};

struct rank_totals {
	struct hosted_job *job;
	uint32_t ranks; /* that agents have reported */
	struct rank_range step, rate, collective, age, cpu, memory;
};

static void rank_range_add(struct rank_range *r, double value)
{
	if (!r->n || value < r->lowest)
		r->lowest = value;
	if (!r->n || value > r->highest)
		r->highest = value;
	r->sum += value;
	r->n++;
}

static void rank_totals_add(struct rank_totals *t, const struct wire_rank *x)
{
	t->ranks++;
	if (x->step >= 0)
		rank_range_add(&t->step, (double)x->step);
	if (x->step_us)
		rank_range_add(&t->rate, 1e6 / (double)x->step_us);
	if (x->waited >= 0)
		rank_range_add(&t->collective, (double)x->waited / 1000);
	rank_range_add(&t->age, (double)x->quiet_ms / 1000);
	if (x->cpu >= 0)
		rank_range_add(&t->cpu, (double)x->cpu / 1000);
	if (x->memory >= 0)
		rank_range_add(&t->memory, (double)x->memory);
}

static void rank_totals_init(struct rank_totals *t, struct hosted_job *h)
{
	struct buf frame = BUF_INIT(WIRE_BODY_MAX);
	struct wire_frame f;
	struct wire_ranks m;
	struct reader r;

	*t = (struct rank_totals){.job = h};
	stall_report_put_ranks(&frame, h);
	if (wire_cut(SLICE(frame.data, frame.len), WIRE_BODY_MAX, &f, NULL) >
		    0 && wire_get_ranks(&f, &m, NULL) == 0) {
		reader_init(&r, m.ranks.bytes);
		for (uint32_t i = 0; i < m.ranks.count; i++) {
			struct wire_rank x = wire_get_rank_item(&r);

			if (r.bad)
				break;
			rank_totals_add(t, &x);
		}
	}
	buf_release(&frame);
}

static void rank_report_put_value(struct buf *out, const char *name,
				  const struct rank_totals *t,
				  const char *which, double value)
{
	buf_printf(out, "ddprdzv_job_%s{", name);
	gpu_report_put_label(out, "job", SLICE_STR(job_id(t->job->job)));
	if (which)
		buf_printf(out, ",ranks=\"%s\"", which);
	buf_printf(out, "} %.10g\n", value);
}

struct rank_metric {
	const char *name, *help;
	size_t range; /* in rank_totals */
};

static const struct rank_metric rank_metrics[] = {
	{"step", "The step that the ranks of a job have reached.",
	 offsetof(struct rank_totals, step)},
	{"steps_per_second", "Steps per second of the ranks.",
	 offsetof(struct rank_totals, rate)},
	{"collective_ratio", "Part of the last minute that ranks spent in "
	 "collectives.",
	 offsetof(struct rank_totals, collective)},
	{"progress_age_seconds", "Time since the last progress of the ranks.",
	 offsetof(struct rank_totals, age)},
	{"cpus", "CPUs that ranks use, with their child processes.",
	 offsetof(struct rank_totals, cpu)},
	{"memory_bytes", "Resident memory of ranks, with their child "
	 "processes.",
	 offsetof(struct rank_totals, memory)},
};

static void rank_report_put_metric(struct buf *out, const struct rank_metric *m,
				   const struct rank_totals *all, size_t n)
{
	int is_first = 1;

	for (const struct rank_totals *t = all; t < all + n; t++) {
		const struct rank_range *r =
			(const void *)((const char *)t + m->range);

		if (!r->n)
			continue;
		if (is_first)
			buf_printf(out, "# HELP ddprdzv_job_%s %s\n"
				   "# TYPE ddprdzv_job_%s gauge\n",
				   m->name, m->help, m->name);
		is_first = 0;
		rank_report_put_value(out, m->name, t, "lowest", r->lowest);
		rank_report_put_value(out, m->name, t, "mean", r->sum / r->n);
		rank_report_put_value(out, m->name, t, "highest", r->highest);
	}
}

/* What the server knows without reports. */
static void rank_report_put_jobs(struct buf *out, const struct rank_totals *all,
				 size_t n)
{
	static const struct {
		const char *name, *help;
	} gauges[] = {
		{"workers", "Workers of a job's running round that have not "
			    "ended."},
		{"restarts", "Restarts that a job has used."},
		{"watched_ranks", "Ranks that a job's agents report on."},
	};
	enum { KINDS = sizeof(gauges) / sizeof(*gauges) };

	for (int k = 0; n && k < KINDS; k++) {
		buf_printf(out, "# HELP ddprdzv_job_%s %s\n"
			   "# TYPE ddprdzv_job_%s gauge\n",
			   gauges[k].name, gauges[k].help, gauges[k].name);
		for (size_t i = 0; i < n; i++) {
			struct wire_job m;
			double values[KINDS];

			job_status(all[i].job->job, &m);
			values[0] = m.world_size - m.exited;
			values[1] = m.attempt;
			values[2] = all[i].ranks;
			rank_report_put_value(out, gauges[k].name, &all[i],
					      NULL, values[k]);
		}
	}
}

void rank_report_put_metrics(struct buf *out, const struct server *s)
{
	size_t room = server_count_named_jobs(s), n = 0;
	struct rank_totals *all = malloc((room + 1) * sizeof(*all));
	struct hosted_job *h = NULL;

	while (all && n < room && (h = server_next_named_job(s, h)))
		rank_totals_init(&all[n++], h);
	rank_report_put_jobs(out, all, n);
	for (size_t i = 0; i < sizeof(rank_metrics) / sizeof(*rank_metrics);
	     i++)
		rank_report_put_metric(out, &rank_metrics[i], all, n);
	free(all);
}
