/* nvml.c: a libnvidia-ml for machines without a GPU. Its GPUs are lines of the
 * file $STANDIN_NVML, which tests extend while it runs; the last line of a kind
 * counts:
 *   count N
 *   INDEX FIELD VALUE    fields as in launcher/gpu/gpu_record.h, and "links",
 *                        "down" (inactive ones), "mig" (instances)
 *   INDEX xid NUMBER     an event, once
 *   INDEX hang 1         calls on that GPU do not return
 *   INDEX crash 1        they crash
 *   INDEX lost 1         they are NVML_ERROR_GPU_IS_LOST
 *   INDEX denied 1       its events are NVML_ERROR_NO_PERMISSION
 *   0 init RC            nvmlInit_v2 returns that
 * Each wait for events, which follows a look at all GPUs, adds a line to
 * $STANDIN_NVML.waits.
 * Numbers and layouts are those of nvml.h 12.2. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, TIMEOUT = 10,
	IS_LOST = 15, GPUS_MAX = 8, STEP_MS = 5,
};

typedef struct nvml_device {
	unsigned index;
} *nvml_device;

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

static struct nvml_device devices[GPUS_MAX];
static unsigned events; /* that were delivered */

static FILE *standin_open(void)
{
	const char *path = getenv("STANDIN_NVML");

	return path ? fopen(path, "re") : NULL;
}

/* The last value of that field, or other. */
static long long standin_value(unsigned index, const char *field,
			       long long other)
{
	char line[256], name[32];
	FILE *f = standin_open();
	long long value;
	unsigned i;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%u %31s %lld", &i, name, &value) == 3 &&
		    i == index && strcmp(name, field) == 0)
			other = value;
	if (f)
		fclose(f);
	return other;
}

/* The beginning of each call on a GPU. Sets *value to the field's value; a
 * field without a line is not supported. */
static int standin_read(nvml_device d, const char *field, long long *value)
{
	while (standin_value(d->index, "hang", 0))
		pause();
	if (standin_value(d->index, "crash", 0))
		abort();
	if (standin_value(d->index, "lost", 0))
		return IS_LOST;
	*value = standin_value(d->index, field, -1);
	return *value < 0 ? NOT_SUPPORTED : 0;
}

static int standin_read_unsigned(nvml_device d, const char *field,
				 unsigned *value)
{
	long long n = 0;
	int rc = standin_read(d, field, &n);

	*value = (unsigned)n;
	return rc;
}

/* NVML's functions, for dlsym. No header declares them here. */
#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

int nvmlInit_v2(void)
{
	for (unsigned i = 0; i < GPUS_MAX; i++)
		devices[i].index = i;
	return (int)standin_value(0, "init", 0);
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
	char line[256];
	FILE *f = standin_open();

	*n = 0;
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "count %u", n);
	if (f)
		fclose(f);
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvml_device *d)
{
	*d = &devices[i];
	return i < GPUS_MAX ? 0 : NOT_FOUND;
}

int nvmlDeviceGetUUID(nvml_device d, char *out, unsigned size)
{
	snprintf(out, size, "GPU-f00d000%u-1", d->index);
	return 0;
}

/* MIG-INDEX names an instance of that GPU. */
int nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device *d)
{
	unsigned i = GPUS_MAX;

	if (sscanf(uuid, "MIG-%u", &i) != 1 || i >= GPUS_MAX)
		return NOT_FOUND;
	*d = &devices[i];
	return 0;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml_device mig,
						 nvml_device *d)
{
	*d = mig;
	return 0;
}

int nvmlDeviceGetName(nvml_device d, char *out, unsigned size)
{
	(void)d;
	snprintf(out, size, "NVIDIA Stand-in");
	return 0;
}

int nvmlDeviceGetTemperature(nvml_device d, int sensor, unsigned *celsius)
{
	(void)sensor;
	return standin_read_unsigned(d, "temperature", celsius);
}

int nvmlDeviceGetUtilizationRates(nvml_device d, struct nvml_utilization *u)
{
	return standin_read_unsigned(d, "utilization", &u->gpu);
}

int nvmlDeviceGetMemoryInfo(nvml_device d, struct nvml_memory *m)
{
	long long used = 0, total = 0;
	int rc = standin_read(d, "memory_used", &used);

	if (rc == 0)
		rc = standin_read(d, "memory_total", &total);
	*m = (struct nvml_memory){(unsigned long long)total,
				  (unsigned long long)(total - used),
				  (unsigned long long)used};
	return rc;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device d,
					      unsigned long long *reasons)
{
	long long n = 0;
	int rc = standin_read(d, "throttle", &n);

	*reasons = (unsigned long long)n;
	return rc;
}

int nvmlDeviceGetTotalEccErrors(nvml_device d, int kind, int counter,
				unsigned long long *out)
{
	long long n = 0;
	int rc = standin_read(d, counter ? "ecc_aggregate" : "ecc_volatile",
			      &n);

	*out = (unsigned long long)n;
	return kind == 1 ? rc : NOT_SUPPORTED;
}

int nvmlDeviceGetRemappedRows(nvml_device d, unsigned *corrected,
			      unsigned *uncorrected, unsigned *pending,
			      unsigned *failed)
{
	int rc = standin_read_unsigned(d, "remap_pending", pending);

	*corrected = *uncorrected = 0;
	*failed = (unsigned)standin_value(d->index, "remap_failed", 0);
	return rc;
}

int nvmlDeviceGetNvLinkState(nvml_device d, unsigned link, unsigned *active)
{
	long long links = 0;
	int rc = standin_read(d, "links", &links);

	if (rc == 0 && link >= links)
		rc = NOT_SUPPORTED;
	*active = link >= (unsigned)standin_value(d->index, "down", 0);
	return rc;
}

int nvmlDeviceGetNvLinkErrorCounter(nvml_device d, unsigned link,
				    unsigned counter, unsigned long long *n)
{
	*n = link || counter ? 0 : (unsigned long long)standin_value(
		d->index, "nvlink_errors", 0);
	return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(nvml_device d, unsigned *n)
{
	*n = 7;
	return standin_value(d->index, "mig", -1) < 0 ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device d, unsigned i,
					nvml_device *mig)
{
	*mig = d;
	return i < (unsigned)standin_value(d->index, "mig", 0) ? 0 : NOT_FOUND;
}

/* ---- events ---- */

int nvmlEventSetCreate(void **set)
{
	*set = devices;
	return 0;
}

int nvmlDeviceRegisterEvents(nvml_device d, unsigned long long types, void *set)
{
	(void)types;
	(void)set;
	return standin_value(d->index, "denied", 0) ? NO_PERMISSION : 0;
}

/* The next event that was not delivered: 1 if there is one. */
static int standin_next_event(struct nvml_event *event)
{
	FILE *f = standin_open();
	char line[256];
	unsigned n = 0, index, instance;
	unsigned long long xid;

	while (f && fgets(line, sizeof(line), f)) {
		int got = sscanf(line, "%u xid %llu %u", &index, &xid,
				 &instance);

		if (got < 2 || index >= GPUS_MAX || n++ < events)
			continue;
		*event = (struct nvml_event){
			&devices[index], 0x8, xid,
			got == 3 ? instance : 0xFFFFFFFF, 0xFFFFFFFF};
		events++;
		break;
	}
	if (f)
		fclose(f);
	return event->device != NULL;
}

static void standin_note_wait(void)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s.waits", getenv("STANDIN_NVML"));
	f = fopen(path, "ae");
	if (!f)
		return;
	fputs("waits\n", f);
	fclose(f);
}

int nvmlEventSetWait_v2(void *set, struct nvml_event *event, unsigned ms)
{
	(void)set;
	event->device = NULL;
	standin_note_wait();
	for (unsigned waited = 0; !standin_next_event(event);
	     waited += STEP_MS) {
		if (waited >= ms)
			return TIMEOUT;
		usleep(STEP_MS * 1000);
	}
	return 0;
}
