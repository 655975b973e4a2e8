/* gpu_helper.c: blocks, unlike our other programs: only the agent waits for it,
 * and not for long. */
#include "launcher/gpu/gpu_helper.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "launcher/gpu/nvml.h"

enum {
	INTERVAL_MS = 5000,
	OUT_MAX = 2 * GPU_LINE_MAX * GPU_WATCHED_MAX,
	PAUSE_MS = 100, /* after an error of the wait */
};

/* Between two readings. DDP_TEST_GPU_MS changes it, for tests. */
static uint32_t gpu_helper_interval_ms(void)
{
	const char *text = getenv("DDP_TEST_GPU_MS");
	long ms = text ? strtol(text, NULL, 10) : INTERVAL_MS;

	return ms > 0 && ms < INT_MAX ? (uint32_t)ms : INTERVAL_MS;
}

/* A signal to all processes of a terminal or a job is for the ranks. */
static void gpu_helper_ignore_signals(void)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM,
				      SIGTSTP, SIGUSR1, SIGUSR2};

	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGPIPE, SIG_DFL); /* the agent has closed its end */
}

static void gpu_helper_flush(struct buf *out)
{
	if (out->failed || file_write_all(STDOUT_FILENO, out->data, out->len))
		_exit(1);
	buf_reset(out);
}

static void gpu_helper_query(struct nvml *v, struct buf *out)
{
	struct gpu_record r;

	for (uint32_t i = 0; i < nvml_count(v); i++) {
		nvml_read(v, i, &r);
		gpu_record_put(out, &r);
	}
	gpu_record_put_end(out);
	gpu_helper_flush(out);
}

/* Until the next reading is due. */
static void gpu_helper_wait(struct nvml *v, struct buf *out)
{
	uint64_t due = clock_ns() / 1000000 + gpu_helper_interval_ms();
	uint64_t now;

	while ((now = clock_ns() / 1000000) < due) {
		uint32_t left = (uint32_t)(due - now), index, xid, instance;
		int rc = nvml_wait_xid(v, left, &index, &xid, &instance);

		if (rc > 0) {
			gpu_record_put_xid(out, index, xid, instance);
			gpu_helper_flush(out);
		} else if (rc < 0) { /* it did not wait */
			poll(NULL, 0, left < PAUSE_MS ? (int)left : PAUSE_MS);
		}
	}
}

int gpu_helper_main(void)
{
	struct buf out = BUF_INIT(OUT_MAX);
	struct err e = ERR_INIT;
	struct nvml *v;

	prctl(PR_SET_NAME, "ddprun-gpu");
	gpu_helper_ignore_signals();
	v = nvml_open(getenv("DDP_NVML_LIB"), getenv("CUDA_VISIBLE_DEVICES"),
		      &e);
	if (!v) {
		gpu_record_put_text(&out, 1, e.text);
		gpu_helper_flush(&out);
		buf_release(&out);
		return 0;
	}
	if (*nvml_no_events(v))
		buf_printf(&out, "note Xid errors are not watched: %s\n",
			   nvml_no_events(v));
	while (nvml_count(v)) {
		gpu_helper_query(v, &out);
		gpu_helper_wait(v, &out);
	}
	gpu_record_put_end(&out); /* no GPU is this job's */
	gpu_helper_flush(&out);
	buf_release(&out);
	nvml_free(v);
	return 0;
}
