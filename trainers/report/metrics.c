/* metrics.c: writes the lines, and removes those that a resumed run will write
 * again. */
#include "trainers/report/metrics.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "worker-sdk/ddp.h"

/* The offset where the lines of the first done_steps steps end. A line without
 * its newline is incomplete. */
static long metrics_kept_end(FILE *f, uint64_t done_steps)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	long end = 0;

	while ((n = getline(&line, &cap, f)) > 0 && line[n - 1] == '\n') {
		cJSON *o = cJSON_Parse(line);
		const cJSON *step = cJSON_GetObjectItem(o, "step");
		const cJSON *steps = cJSON_GetObjectItem(o, "steps");
		const cJSON *v = step ? step : steps;
		int keep = cJSON_IsNumber(v) &&
			   v->valuedouble <= (double)done_steps;

		cJSON_Delete(o);
		if (!keep)
			break;
		end += (long)n;
	}
	free(line);
	return end;
}

int metrics_open(struct metrics *m, const char *dir, uint64_t done_steps,
		 struct err *e)
{
	int r;
	long end;

	memset(m, 0, sizeof(*m));
	if (!dir)
		return 0;
	r = file_make_folders(dir);
	if (r < 0)
		return err_set(e, r, "cannot create --log-dir %s: %s", dir,
			       strerror(-r));
	if (asprintf(&m->path, "%s/metrics.jsonl", dir) < 0) {
		m->path = NULL;
		return err_no_memory(e, "--log-dir %s", dir);
	}
	m->file = fopen(m->path, done_steps ? "a+e" : "we");
	if (!m->file)
		return err_set(e, -errno, "--log-dir: cannot write %s: %s",
			       m->path, strerror(errno));
	r = ddp_metrics_open(&m->events, dir, DDP_TENSORBOARD);
	if (r < 0)
		return err_set(e, r, "--log-dir: %s", ddp_last_error());
	if (!done_steps)
		return 0;
	rewind(m->file);
	end = metrics_kept_end(m->file, done_steps);
	if (ftruncate(fileno(m->file), end) < 0 ||
	    fseek(m->file, 0, SEEK_END) < 0)
		return err_set(e, -errno, "--log-dir: cannot append to %s: %s",
			       m->path, strerror(errno));
	return 0;
}

/* Nine digits identify any float32. JSON has no NaN: null. */
static void metrics_add(cJSON *o, const char *name, double v)
{
	char text[32];

	snprintf(text, sizeof(text), isfinite(v) ? "%.9g" : "null", v);
	cJSON_AddRawToObject(o, name, text);
}

static void metrics_put(struct metrics *m, cJSON *o)
{
	char line[512];

	if (cJSON_PrintPreallocated(o, line, sizeof(line), 0))
		fprintf(m->file, "%s\n", line);
	cJSON_Delete(o);
}

void metrics_step(struct metrics *m, const struct metrics_step *v)
{
	int64_t step = (int64_t)v->step;
	cJSON *o;

	if (!m->file)
		return;
	o = cJSON_CreateObject();
	cJSON_AddNumberToObject(o, "step", (double)v->step);
	cJSON_AddNumberToObject(o, "epoch", (double)v->epoch);
	metrics_add(o, "lr", v->lr);
	if (v->loss_scale > 0) {
		metrics_add(o, "loss_scale", (double)v->loss_scale);
		cJSON_AddNumberToObject(o, "skipped", (double)v->skipped);
	}
	metrics_add(o, "loss", (double)v->loss);
	metrics_put(m, o);
	/* an error is kept, and returned at close */
	ddp_metrics_scalar(m->events, "loss/step", (double)v->loss, step);
	ddp_metrics_scalar(m->events, "lr", v->lr, step);
	if (v->loss_scale > 0)
		ddp_metrics_scalar(m->events, "loss_scale",
				   (double)v->loss_scale, step);
}

static void metrics_put_events(struct metrics *m, const struct metrics_epoch *v)
{
	int64_t step = (int64_t)v->step;

	ddp_metrics_scalar(m->events, "loss/train", v->train_loss, step);
	if (!isnan(v->test_loss))
		ddp_metrics_scalar(m->events, "loss/test", v->test_loss, step);
	if (v->test_accuracy >= 0)
		ddp_metrics_scalar(m->events, "accuracy/test",
				   v->test_accuracy, step);
	ddp_metrics_scalar(m->events, "samples_per_second",
			   v->samples_per_second, step);
}

int metrics_epoch(struct metrics *m, const struct metrics_epoch *v,
		  struct err *e)
{
	cJSON *o;

	if (!m->file)
		return 0;
	o = cJSON_CreateObject();
	cJSON_AddNumberToObject(o, "epoch", (double)v->epoch);
	cJSON_AddNumberToObject(o, "steps", (double)v->step);
	metrics_add(o, "train_loss", v->train_loss);
	if (!isnan(v->test_loss))
		metrics_add(o, "test_loss", v->test_loss);
	if (v->test_accuracy >= 0)
		metrics_add(o, "test_accuracy", v->test_accuracy);
	metrics_add(o, "seconds", v->seconds);
	metrics_add(o, "samples_per_second", v->samples_per_second);
	metrics_put(m, o);
	metrics_put_events(m, v);
	if (fflush(m->file) < 0 || ferror(m->file))
		return err_set(e, errno ? -errno : -EIO, "--log-dir: cannot "
			       "write %s: %s", m->path,
			       strerror(errno ? errno : EIO));
	return 0;
}

int metrics_close(struct metrics *m, struct err *e)
{
	int r = ddp_metrics_close(m->events);

	if (r < 0)
		err_set(e, r, "--log-dir: %s", ddp_last_error());
	if (m->file && fclose(m->file) < 0)
		r = err_set(e, -errno, "--log-dir: cannot write %s: %s",
			    m->path, strerror(errno));
	free(m->path);
	memset(m, 0, sizeof(*m));
	return r;
}
