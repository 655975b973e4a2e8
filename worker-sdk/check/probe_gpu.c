/* probe_gpu.c: the GPUs of this host as NVML, which comes with the driver, sees
 * them, and the errors of GPUs (Xid) in the kernel's log. The declarations are
 * ours: there is no nvml.h without the CUDA toolkit. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker-sdk/check/probe.h"

enum {
	GPUS_MAX = 16, /* further GPUs of the host are not examined */
	LINKS_MAX = 18,
	HOT = 90, /* degrees Celsius */
	TEXT_MAX = 96,
	KMSG_RECORD = 8192,
	UNCORRECTED = 1, VOLATILE = 0, /* nvmlMemoryErrorType_t and so on */
	SLOW_HARDWARE = 0x8, SLOW_SOFT_HEAT = 0x20, SLOW_HEAT = 0x40,
	SLOW_POWER = 0x80, /* nvmlClocksThrottleReason... */
};

typedef struct nvml_device *nvml_device;

struct nvml_memory {
	unsigned long long total, free, used;
};

/* field, symbol, arguments: all return an nvmlReturn_t, 0 for success. Those
 * that a driver lacks are NULL. */
#define NVML_CALLS(X)                                                         \
	X(init, nvmlInit_v2, (void))                                           \
	X(shutdown, nvmlShutdown, (void))                                      \
	X(driver, nvmlSystemGetDriverVersion, (char *out, unsigned size))      \
	X(cuda, nvmlSystemGetCudaDriverVersion_v2, (int *version))             \
	X(count, nvmlDeviceGetCount_v2, (unsigned *n))                         \
	X(by_index, nvmlDeviceGetHandleByIndex_v2, (unsigned i,                \
						    nvml_device *d))           \
	X(name, nvmlDeviceGetName, (nvml_device d, char *out, unsigned size))  \
	X(ecc, nvmlDeviceGetTotalEccErrors, (nvml_device d, int kind,          \
					     int counter,                      \
					     unsigned long long *n))           \
	X(remapped, nvmlDeviceGetRemappedRows,                                 \
	  (nvml_device d, unsigned *corrected, unsigned *uncorrected,          \
	   unsigned *pending, unsigned *failed))                               \
	X(temperature, nvmlDeviceGetTemperature, (nvml_device d, int sensor,   \
						  unsigned *celsius))          \
	X(width, nvmlDeviceGetCurrPcieLinkWidth, (nvml_device d, unsigned *n)) \
	X(max_width, nvmlDeviceGetMaxPcieLinkWidth, (nvml_device d,            \
						     unsigned *n))             \
	X(link, nvmlDeviceGetNvLinkState, (nvml_device d, unsigned link,       \
					   unsigned *active))                  \
	X(throttle, nvmlDeviceGetCurrentClocksThrottleReasons,                 \
	  (nvml_device d, unsigned long long *reasons))                        \
	X(memory, nvmlDeviceGetMemoryInfo, (nvml_device d,                     \
					    struct nvml_memory *m))

struct nvml {
#define X(field, symbol, args) int (*field) args;
	NVML_CALLS(X)
#undef X
};

static void nvml_look_up(struct nvml *v, void *library)
{
#define X(field, symbol, args)                                                \
	*(void **)&v->field = dlsym(library, #symbol);
	NVML_CALLS(X)
#undef X
}

static void gpu_mark_errors(struct finding *f, const struct nvml *v,
			    nvml_device d)
{
	unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
	unsigned long long n = 0;

	if (v->ecc && v->ecc(d, UNCORRECTED, VOLATILE, &n) == 0 && n)
		finding_mark(f, FINDING_FAILURE, "%s: %llu uncorrected memory "
			     "errors (ECC) since the driver was loaded: reset "
			     "the GPU, or drain the node", f->name, n);
	if (!v->remapped || v->remapped(d, &corrected, &uncorrected, &pending,
					&failed) != 0)
		return;
	if (failed)
		finding_mark(f, FINDING_FAILURE, "%s: remapping a memory row "
			     "failed: the GPU must be replaced", f->name);
	if (pending)
		finding_mark(f, FINDING_FAILURE, "%s: a memory row waits to be "
			     "remapped: reset the GPU", f->name);
	if (uncorrected)
		finding_mark(f, FINDING_WARNING, "%s: %u memory rows were "
			     "remapped after uncorrected errors", f->name,
			     uncorrected);
}

static void gpu_mark_heat(struct finding *f, const struct nvml *v,
			  nvml_device d)
{
	unsigned long long slow = 0;
	unsigned celsius = 0;

	if (v->throttle && v->throttle(d, &slow) == 0 &&
	    (slow & (SLOW_HARDWARE | SLOW_HEAT | SLOW_SOFT_HEAT | SLOW_POWER)))
		finding_mark(f, FINDING_WARNING, "%s is slowed down: %s (look "
			     "at nvidia-smi -q -d PERFORMANCE)", f->name,
			     slow & SLOW_POWER ? "the power supply limits it"
			     : slow & (SLOW_HEAT | SLOW_SOFT_HEAT)
				     ? "it is too hot"
				     : "by its hardware");
	if (v->temperature && v->temperature(d, 0, &celsius) == 0 &&
	    celsius > HOT)
		finding_mark(f, FINDING_WARNING, "%s: %u degrees Celsius: is "
			     "its cooling in order?", f->name, celsius);
}

/* Other processes would take memory from the workers. */
static void gpu_mark_used(struct finding *f, const struct nvml *v,
			  nvml_device d)
{
	char used[PROBE_BYTES_MAX], total[PROBE_BYTES_MAX];
	struct nvml_memory m = {0, 0, 0};

	if (v->memory && v->memory(d, &m) == 0 && m.used > m.total / 10)
		finding_mark(f, FINDING_WARNING, "%s: %s of %s are in use: "
			     "which process is that (nvidia-smi)?", f->name,
			     probe_bytes_text(m.used, used),
			     probe_bytes_text(m.total, total));
}

static unsigned gpu_count_links(const struct nvml *v, nvml_device d)
{
	unsigned n = 0;

	for (unsigned i = 0; v->link && i < LINKS_MAX; i++) {
		unsigned active = 0;

		n += v->link(d, i, &active) == 0 && active;
	}
	return n;
}

static void gpu_add(struct findings *out, const struct nvml *v, unsigned i)
{
	unsigned width = 0, max_width = 0;
	char name[FINDING_NAME_MAX], model[TEXT_MAX] = "?";
	struct finding *f;
	nvml_device d;

	snprintf(name, sizeof(name), "GPU %u", i);
	if (v->by_index(i, &d) != 0) {
		finding_mark(finding_add(out, name, "lost"), FINDING_FAILURE,
			     "%s does not answer: it may have fallen off the "
			     "bus (dmesg); drain the node", name);
		return;
	}
	if (v->name)
		v->name(d, model, sizeof(model));
	if (v->width)
		v->width(d, &width);
	if (v->max_width)
		v->max_width(d, &max_width);
	f = finding_add(out, name, "%.56s, PCIe x%u, %u NVLinks", model, width,
			gpu_count_links(v, d));
	f->compare = FINDING_SAME;
	gpu_mark_errors(f, v, d);
	if (width && width < max_width)
		finding_mark(f, FINDING_WARNING, "%s: PCIe runs with %u of %u "
			     "lanes: reseat the card, or drain the node",
			     f->name, width, max_width);
	gpu_mark_heat(f, v, d);
	gpu_mark_used(f, v, d);
}

/* The last Xid in the kernel's log, if this user may read the log. */
static void gpu_add_xid(struct findings *out)
{
	char record[KMSG_RECORD], last[TEXT_MAX] = "";
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = 1;

	while (fd >= 0 && n != 0) {
		char *at;

		n = read(fd, record, sizeof(record) - 1);
		if (n < 0 && errno != EPIPE) /* EPIPE: the message was
					      * overwritten, continue */
			break;
		record[n > 0 ? n : 0] = '\0';
		at = strstr(record, "NVRM: Xid");
		if (at)
			snprintf(last, sizeof(last), "%.*s",
				 (int)strcspn(at, "\n"), at);
	}
	if (fd < 0)
		return;
	close(fd);
	if (last[0])
		finding_mark(finding_add(out, "GPU errors", "Xid"),
			     FINDING_WARNING, "the kernel's log has a GPU "
			     "error since the start of the system: %s", last);
	else
		finding_add(out, "GPU errors", "none");
}

static void gpu_add_all(struct findings *out, const struct nvml *v)
{
	char text[TEXT_MAX] = "unknown";
	unsigned n = 0;
	int cuda = 0;

	if (v->driver)
		v->driver(text, sizeof(text));
	finding_add(out, "GPU driver", "%s", text)->compare = FINDING_SAME;
	if (v->cuda && v->cuda(&cuda) == 0)
		finding_add(out, "CUDA of the driver", "%d.%d", cuda / 1000,
			    cuda / 10 % 100)->compare = FINDING_SAME;
	if (v->count)
		v->count(&n);
	finding_add(out, "GPUs", "%u", n)->compare = FINDING_SAME;
	for (unsigned i = 0; i < n && i < GPUS_MAX && v->by_index; i++)
		gpu_add(out, v, i);
	gpu_add_xid(out);
}

void probe_gpus(struct findings *out, const struct probe_call *c)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	struct nvml v = {.init = NULL};
	int rc = -1;

	if (!library) { /* compared among the nodes that have GPUs */
		finding_add(out, "GPUs", "none")->compare = FINDING_SAME;
		return;
	}
	nvml_look_up(&v, library);
	if (v.init)
		rc = v.init();
	if (rc) {
		finding_mark(finding_add(out, "GPUs", "driver error"),
			     FINDING_FAILURE, "the NVIDIA driver does not "
			     "answer (NVML error %d): is it loaded, and of the "
			     "library's version (nvidia-smi)?", rc);
		return;
	}
	gpu_add_all(out, &v);
	if (v.shutdown)
		v.shutdown();
}
