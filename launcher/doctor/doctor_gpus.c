/* doctor_gpus.c: asks the PCI bus, NVML and NVIDIA's libraries. The
 * declarations are ours: there is no nvml.h without the CUDA toolkit. */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"
#include "launcher/doctor/doctor_internal.h"
#include "launcher/plan/gpu.h"

struct doctor_nvml_memory {
	unsigned long long total, free, used;
};

struct doctor_nvml {
	int (*init)(void);
	const char *(*error)(int code);
	int (*driver)(char *out, unsigned size);
	int (*cuda)(int *version);
	int (*count)(unsigned *n);
	int (*by_index)(unsigned i, void **device);
	int (*name)(void *device, char *out, unsigned size);
	int (*memory)(void *device, struct doctor_nvml_memory *m);
};

#define ROW(member, name) DYNLIB_SYMBOL(struct doctor_nvml, member, name)

static const struct dynlib_symbol rows[] = {
	ROW(init, "nvmlInit_v2"),
	ROW(error, "nvmlErrorString"),
	ROW(driver, "nvmlSystemGetDriverVersion"),
	ROW(cuda, "nvmlSystemGetCudaDriverVersion_v2"),
	ROW(count, "nvmlDeviceGetCount_v2"),
	ROW(by_index, "nvmlDeviceGetHandleByIndex_v2"),
	ROW(name, "nvmlDeviceGetName"),
	ROW(memory, "nvmlDeviceGetMemoryInfo"),
};

static const struct dynlib nvml = {
	.soname = "libnvidia-ml.so.1",
	.without = "no GPUs can be seen",
	.remedy = "it comes with NVIDIA's driver",
	.rows = rows,
	.n = sizeof(rows) / sizeof(*rows),
};

int doctor_gpus_on_bus(void)
{
	glob_t devices;
	int n = 0;

	if (glob("/sys/bus/pci/devices/*", 0, NULL, &devices) != 0)
		return 0;
	for (size_t i = 0; i < devices.gl_pathc; i++) {
		char path[512], line[DOCTOR_LINE_MAX];

		snprintf(path, sizeof(path), "%s/vendor",
			 devices.gl_pathv[i]);
		if (strcmp(doctor_read_line(path, line), "0x10de") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/class", devices.gl_pathv[i]);
		/* display and 3D controllers */
		n += strncmp(doctor_read_line(path, line), "0x03", 4) == 0;
	}
	globfree(&devices);
	return n;
}

/* ---- GPUs ---- */

static void doctor_gpus_put(struct buf *b, const struct doctor_nvml *v,
			    unsigned i)
{
	char label[24], name[96] = "unknown";
	struct doctor_nvml_memory m = {.total = 0};
	void *device;
	int rc = v->by_index(i, &device);

	snprintf(label, sizeof(label), "GPU %u", i);
	if (rc) {
		doctor_put(b, DOCTOR_ERROR, label,
			   "look for an Xid in dmesg; reset the GPU, or start "
			   "the host again", "cannot be used: %s",
			   v->error(rc));
		return;
	}
	v->name(device, name, sizeof(name));
	v->memory(device, &m);
	doctor_put(b, DOCTOR_FINE, label, NULL, "%s, %llu MiB", name,
		   m.total >> 20);
}

static void doctor_gpus_visible(struct buf *b, unsigned n)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	int shown = gpu_visible((int)n, list);

	if (!list)
		return;
	doctor_put(b, n && !shown ? DOCTOR_WARNING : DOCTOR_FINE, "visible",
		   n && !shown ? "CUDA stops at the first entry that names no "
				 "GPU: unset CUDA_VISIBLE_DEVICES, or mend it"
			       : NULL,
		   "%d of %u, by CUDA_VISIBLE_DEVICES=%s", shown, n, list);
}

static void doctor_gpus_list(struct buf *b, const struct doctor_nvml *v)
{
	char driver[96] = "unknown";
	unsigned n = 0;
	int cuda = 0, rc = v->init();

	if (rc) {
		doctor_put(b, DOCTOR_ERROR, "driver",
			   "nvidia-smi fails as well? load the kernel module "
			   "(modprobe nvidia), or start the host again if the "
			   "driver was just updated; in a container, start it "
			   "with --gpus all", "%s", v->error(rc));
		return;
	}
	v->driver(driver, sizeof(driver));
	v->cuda(&cuda);
	v->count(&n);
	doctor_put(b, DOCTOR_FINE, "driver", NULL, "%s, for CUDA %d.%d",
		   driver, cuda / 1000, cuda % 1000 / 10);
	if (!n)
		doctor_put(b, DOCTOR_WARNING, "GPUs",
			   "in a container, start it with --gpus all; in a "
			   "Slurm job, ask for some (--gpus-per-node)",
			   "none is visible to this process");
	for (unsigned i = 0; i < n && i < GPU_MAX; i++)
		doctor_gpus_put(b, v, i);
	doctor_gpus_visible(b, n);
}

/* ---- libraries ---- */

/* The version of a library as its function reports it, in hundreds or
 * thousands. */
struct doctor_library {
	const char *label, *sonames[4];
	const char *version; /* int f(int *version); NULL: size_t f(void) */
	const char *number;
};

static void doctor_gpus_library(struct buf *b, const struct doctor_library *l)
{
	void *library = NULL;
	int (*version)(int *);
	size_t (*number)(void);
	const char *const *name = l->sonames;
	long v = 0;
	int i = 0;

	while (*name && !(library = dlopen(*name, RTLD_NOW | RTLD_LOCAL)))
		name++;
	if (!library) {
		doctor_put(b, DOCTOR_FINE, l->label, NULL,
			   "not in the loader's path");
		return;
	}
	*(void **)&version = l->version ? dlsym(library, l->version) : NULL;
	*(void **)&number = l->number ? dlsym(library, l->number) : NULL;
	if (version && version(&i) == 0)
		v = i;
	else if (number)
		v = (long)number();
	/* 22105 is NCCL's 2.21.5, 12040 is CUDA's 12.4, 90100 cuDNN's 9.1.0 */
	if (strcmp(l->label, "CUDA runtime") == 0)
		doctor_put(b, DOCTOR_FINE, l->label, NULL, "%ld.%ld (%s)",
			   v / 1000, v % 1000 / 10, *name);
	else
		doctor_put(b, DOCTOR_FINE, l->label, NULL, "%ld.%ld.%ld (%s)",
			   v / 10000, v / 100 % 100, v % 100, *name);
}

static void doctor_gpus_libraries(struct buf *b)
{
	static const struct doctor_library libraries[] = {
		{"CUDA runtime",
		 {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
		 .version = "cudaRuntimeGetVersion"},
		{"NCCL", {"libnccl.so.2"}, .version = "ncclGetVersion"},
		{"cuDNN", {"libcudnn.so.9"}, .number = "cudnnGetVersion"},
	};

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
		doctor_gpus_library(b, &libraries[i]);
}

void doctor_probe_gpus(struct buf *b, const struct doctor_options *o)
{
	int on_bus = doctor_gpus_on_bus();
	struct err e = ERR_INIT;
	struct doctor_nvml v;

	if (dynlib_load(&nvml, &v, &e))
		doctor_gpus_list(b, &v);
	else if (on_bus)
		doctor_put(b, DOCTOR_ERROR, "driver",
			   "install NVIDIA's driver; in a container, start it "
			   "with --gpus all and the NVIDIA Container Toolkit",
			   "the host has %d GPU%s, but %s", on_bus,
			   on_bus == 1 ? "" : "s", e.text);
	else
		doctor_put(b, DOCTOR_FINE, "GPUs", NULL, "none of NVIDIA's");
	if (on_bus || e.code == 0)
		doctor_gpus_libraries(b);
}
