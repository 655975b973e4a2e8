/* gpu_helper.c: blocks, unlike our other programs: only the agent waits for it,
 * and not for long. */
#include "launcher/gpu/gpu_helper.h"

#include <dlfcn.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

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

int gpu_helper_main(int argc, char **argv)
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

/* ---- NVML ----
 *
 * The declarations are ours: there is no nvml.h without the CUDA toolkit.
 * Layouts and numbers are those of nvml.h 12.2, which later versions keep. */

enum {
	NVML_NO_PERMISSION = 4, NVML_DRIVER_NOT_LOADED = 9, NVML_TIMEOUT = 10,
	NVML_GPU_IS_LOST = 15, NVML_VERSION_MISMATCH = 18,
	NVML_EVENT_XID = 0x8,
	NVML_UNCORRECTED = 1, NVML_VOLATILE = 0, NVML_AGGREGATE = 1,
	NVML_LINKS_MAX = 18,
	/* replays, recoveries, CRC errors of flits and of data */
	NVML_LINK_COUNTERS = 4,
};

typedef struct nvml_device *nvml_device;
typedef struct nvml_event_set *nvml_event_set;

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_utilization {
	unsigned gpu, memory;
};

struct nvml_event {
	nvml_device device;
	unsigned long long type, data;
	unsigned instance, compute_instance;
};

/* field, symbol, arguments: all return an nvmlReturn_t, 0 for success. Those
 * that a driver lacks are NULL, except the first four. */
#define NVML_CALLS(X)                                                         \
	X(init, nvmlInit_v2, (void))                                          \
	X(count, nvmlDeviceGetCount_v2, (unsigned *n))                        \
	X(by_index, nvmlDeviceGetHandleByIndex_v2,                            \
	  (unsigned i, nvml_device *d))                                       \
	X(uuid, nvmlDeviceGetUUID, (nvml_device d, char *out, unsigned size)) \
	X(by_uuid, nvmlDeviceGetHandleByUUID,                                 \
	  (const char *uuid, nvml_device *d))                                 \
	X(whole, nvmlDeviceGetDeviceHandleFromMigDeviceHandle,                \
	  (nvml_device mig, nvml_device *d))                                  \
	X(name, nvmlDeviceGetName, (nvml_device d, char *out, unsigned size)) \
	X(ecc, nvmlDeviceGetTotalEccErrors,                                   \
	  (nvml_device d, int kind, int counter, unsigned long long *n))      \
	X(remapped, nvmlDeviceGetRemappedRows,                                \
	  (nvml_device d, unsigned *corrected, unsigned *uncorrected,         \
	   unsigned *pending, unsigned *failed))                              \
	X(temperature, nvmlDeviceGetTemperature,                              \
	  (nvml_device d, int sensor, unsigned *celsius))                     \
	X(utilization, nvmlDeviceGetUtilizationRates,                         \
	  (nvml_device d, struct nvml_utilization *u))                        \
	X(memory, nvmlDeviceGetMemoryInfo,                                    \
	  (nvml_device d, struct nvml_memory *m))                             \
	X(throttle, nvmlDeviceGetCurrentClocksThrottleReasons,                \
	  (nvml_device d, unsigned long long *reasons))                       \
	X(link, nvmlDeviceGetNvLinkState,                                     \
	  (nvml_device d, unsigned link, unsigned *active))                   \
	X(link_errors, nvmlDeviceGetNvLinkErrorCounter,                       \
	  (nvml_device d, unsigned link, unsigned counter,                    \
	   unsigned long long *n))                                            \
	X(mig_most, nvmlDeviceGetMaxMigDeviceCount,                           \
	  (nvml_device d, unsigned *n))                                       \
	X(mig_at, nvmlDeviceGetMigDeviceHandleByIndex,                        \
	  (nvml_device d, unsigned i, nvml_device *mig))                      \
	X(set_create, nvmlEventSetCreate, (nvml_event_set *set))              \
	X(set_register, nvmlDeviceRegisterEvents,                             \
	  (nvml_device d, unsigned long long types, nvml_event_set set))      \
	X(set_wait, nvmlEventSetWait_v2,                                      \
	  (nvml_event_set set, struct nvml_event *event, unsigned ms))

struct nvml_gpu {
	nvml_device device;
	uint32_t index;
	char uuid[GPU_UUID_MAX], name[GPU_NAME_MAX];
	int is_lost; /* since it could not be opened */
};

struct nvml {
#define X(field, symbol, args) int (*field) args;
	NVML_CALLS(X)
#undef X
	struct nvml_gpu gpus[GPU_WATCHED_MAX];
	uint32_t n;
	nvml_event_set set;
	char no_events[128];
};

/* ---- which GPUs ---- */

static int nvml_has_uuid(struct nvml *v, const struct nvml_gpu *g,
			 const char *entry, size_t len)
{
	char uuid[GPU_UUID_MAX];
	nvml_device mig, whole;

	if (strncmp(g->uuid, entry, len) == 0)
		return 1;
	if (len >= sizeof(uuid) || !v->by_uuid || !v->whole)
		return 0;
	memcpy(uuid, entry, len);
	uuid[len] = '\0';
	return v->by_uuid(uuid, &mig) == 0 && v->whole(mig, &whole) == 0 &&
	       whole == g->device;
}

/* 1 if the entry of CUDA_VISIBLE_DEVICES is this GPU, or an instance of it. */
static int nvml_is_entry(struct nvml *v, const struct nvml_gpu *g,
			 const char *entry, size_t len)
{
	char *end;
	long index = strtol(entry, &end, 10);

	if (end == entry + len && len)
		return index == (long)g->index;
	return (strncmp(entry, "GPU-", 4) == 0 ||
		strncmp(entry, "MIG-", 4) == 0) && nvml_has_uuid(v, g, entry,
								 len);
}

static int nvml_is_visible(struct nvml *v, const struct nvml_gpu *g,
			   const char *visible)
{
	while (visible && *visible) {
		size_t len = strcspn(visible, ",");

		if (nvml_is_entry(v, g, visible, len))
			return 1;
		visible += len + (visible[len] == ',');
	}
	return visible == NULL;
}

static void nvml_add(struct nvml *v, uint32_t index, const char *visible)
{
	struct nvml_gpu *g = &v->gpus[v->n];
	int rc;

	*g = (struct nvml_gpu){.index = index};
	rc = v->by_index(index, &g->device);
	if (rc == 0) {
		v->uuid(g->device, g->uuid, sizeof(g->uuid));
		if (v->name)
			v->name(g->device, g->name, sizeof(g->name));
	}
	g->uuid[sizeof(g->uuid) - 1] = g->name[sizeof(g->name) - 1] = '\0';
	g->is_lost = rc == NVML_GPU_IS_LOST;
	v->n += (rc == 0 || g->is_lost) && nvml_is_visible(v, g, visible);
}

/* ---- events ---- */

static const char *nvml_error(int rc, char out[96])
{
	if (rc == NVML_NO_PERMISSION)
		return "no permission";
	if (rc == NVML_DRIVER_NOT_LOADED)
		return "the driver is not loaded";
	if (rc == NVML_VERSION_MISMATCH)
		return "the driver was updated: its library and its kernel "
		       "module differ; reload the module or reboot";
	snprintf(out, 96, "NVML error %d", rc);
	return out;
}

static void nvml_register(struct nvml *v)
{
	char room[96];
	int rc;

	if (!v->set_create || !v->set_register || !v->set_wait) {
		snprintf(v->no_events, sizeof(v->no_events),
			 "this driver has no events");
		return;
	}
	rc = v->set_create(&v->set);
	if (rc) {
		v->set = NULL;
		snprintf(v->no_events, sizeof(v->no_events), "%s",
			 nvml_error(rc, room));
		return;
	}
	for (uint32_t i = 0; i < v->n; i++) {
		if (v->gpus[i].is_lost)
			continue;
		rc = v->set_register(v->gpus[i].device, NVML_EVENT_XID, v->set);
		if (rc)
			snprintf(v->no_events, sizeof(v->no_events),
				 "GPU %u: %s", v->gpus[i].index,
				 nvml_error(rc, room));
	}
}

/* ---- opening ---- */

static int nvml_look_up(struct nvml *v, void *library)
{
#define X(field, symbol, args)                                                \
	*(void **)&v->field = dlsym(library, #symbol);
	NVML_CALLS(X)
#undef X
	return v->init && v->count && v->by_index && v->uuid ? 0 : -1;
}

static int nvml_start(struct nvml *v, const char *path, const char *visible,
		      struct err *e)
{
	void *library = dlopen(path ? path : "libnvidia-ml.so.1",
			       RTLD_NOW | RTLD_LOCAL);
	unsigned n = 0;
	char room[96];
	int rc;

	if (!library)
		return err_set(e, ERR_SYSTEM, "%s", dlerror());
	if (nvml_look_up(v, library) < 0)
		return err_set(e, ERR_SYSTEM, "%s is not NVML",
			       path ? path : "libnvidia-ml.so.1");
	rc = v->init();
	if (rc == 0)
		rc = v->count(&n);
	if (rc)
		return err_set(e, ERR_SYSTEM, "NVML does not start: %s",
			       nvml_error(rc, room));
	for (unsigned i = 0; i < n && i < GPU_WATCHED_MAX; i++)
		nvml_add(v, i, visible);
	nvml_register(v);
	return 0;
}

struct nvml *nvml_open(const char *path, const char *visible, struct err *e)
{
	struct nvml *v = calloc(1, sizeof(*v));

	if (!v) {
		err_no_memory(e, "NVML");
		return NULL;
	}
	if (nvml_start(v, path, visible, e) < 0) {
		free(v);
		return NULL;
	}
	return v;
}

void nvml_free(struct nvml *v)
{
	free(v);
}

uint32_t nvml_count(const struct nvml *v)
{
	return v->n;
}

const char *nvml_no_events(const struct nvml *v)
{
	return v->no_events;
}

/* ---- reading ---- */

static void nvml_read_errors(struct nvml *v, nvml_device d,
			     struct gpu_record *r)
{
	unsigned corrected, uncorrected, pending, failed;
	unsigned long long n;

	if (v->ecc && v->ecc(d, NVML_UNCORRECTED, NVML_VOLATILE, &n) == 0)
		r->ecc_volatile = (int64_t)n;
	if (v->ecc && v->ecc(d, NVML_UNCORRECTED, NVML_AGGREGATE, &n) == 0)
		r->ecc_aggregate = (int64_t)n;
	if (v->remapped && v->remapped(d, &corrected, &uncorrected, &pending,
				       &failed) == 0) {
		r->remap_pending = pending != 0;
		r->remap_failed = failed != 0;
	}
}

static int64_t nvml_link_errors(struct nvml *v, nvml_device d, unsigned link)
{
	unsigned long long n, sum = 0;
	int is_known = 0;

	for (unsigned i = 0; v->link_errors && i < NVML_LINK_COUNTERS; i++) {
		if (v->link_errors(d, link, i, &n) == 0) {
			sum += n;
			is_known = 1;
		}
	}
	return is_known ? (int64_t)sum : -1;
}

static void nvml_read_links(struct nvml *v, nvml_device d,
			    struct gpu_record *r)
{
	for (unsigned i = 0; v->link && i < NVML_LINKS_MAX; i++) {
		unsigned active = 0;
		int64_t errors;

		if (v->link(d, i, &active) != 0)
			continue;
		if (r->nvlinks < 0)
			r->nvlinks = r->nvlinks_inactive = 0;
		r->nvlinks++;
		r->nvlinks_inactive += !active;
		errors = nvml_link_errors(v, d, i);
		if (errors >= 0 && r->nvlink_errors < 0)
			r->nvlink_errors = 0;
		r->nvlink_errors += errors > 0 ? errors : 0;
	}
}

static void nvml_read_instances(struct nvml *v, nvml_device d,
				struct gpu_record *r)
{
	unsigned most = 0;
	nvml_device mig;

	if (!v->mig_most || !v->mig_at || v->mig_most(d, &most) != 0)
		return;
	r->instances = 0;
	for (unsigned i = 0; i < most; i++)
		r->instances += v->mig_at(d, i, &mig) == 0;
}

void nvml_read(struct nvml *v, uint32_t i, struct gpu_record *r)
{
	const struct nvml_gpu *g = &v->gpus[i];
	struct nvml_utilization u;
	struct nvml_memory m;
	unsigned long long reasons;
	unsigned celsius = 0;
	int rc = g->is_lost ? NVML_GPU_IS_LOST : 0;

	gpu_record_init(r, g->index);
	memcpy(r->uuid, g->uuid, sizeof(r->uuid));
	memcpy(r->name, g->name, sizeof(r->name));
	if (rc == 0 && v->temperature)
		rc = v->temperature(g->device, 0, &celsius);
	r->is_lost = rc == NVML_GPU_IS_LOST;
	if (r->is_lost)
		return;
	if (rc == 0 && v->temperature)
		r->temperature = celsius;
	if (v->utilization && v->utilization(g->device, &u) == 0)
		r->utilization = u.gpu;
	if (v->memory && v->memory(g->device, &m) == 0) {
		r->memory_used = (int64_t)m.used;
		r->memory_total = (int64_t)m.total;
	}
	if (v->throttle && v->throttle(g->device, &reasons) == 0)
		r->throttle = (int64_t)reasons;
	nvml_read_errors(v, g->device, r);
	nvml_read_links(v, g->device, r);
	nvml_read_instances(v, g->device, r);
}

int nvml_wait_xid(struct nvml *v, uint32_t ms, uint32_t *index, uint32_t *xid,
		  uint32_t *instance)
{
	struct nvml_event event = {.instance = GPU_NO_INSTANCE};
	int rc;

	if (!v->set)
		return -1;
	rc = v->set_wait(v->set, &event, ms);
	if (rc)
		return rc == NVML_TIMEOUT ? 0 : -rc;
	if (!(event.type & NVML_EVENT_XID))
		return 0;
	for (uint32_t i = 0; i < v->n; i++) {
		if (v->gpus[i].device != event.device)
			continue;
		*index = v->gpus[i].index;
		*xid = (uint32_t)event.data;
		*instance = event.instance;
		return 1;
	}
	return 0;
}
