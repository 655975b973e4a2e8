/* gpu.c: asks NVML, a library that comes with the driver. A share of
 * CUDA_VISIBLE_DEVICES is a run of entries, so it is one substring. */
#include "launcher/plan/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- CUDA_VISIBLE_DEVICES as a list ---- */

enum { NUMBER_BYTES = 11 }; /* ten digits and a comma */

uint32_t gpu_list_count(const char *list)
{
	uint32_t n = *list ? 1 : 0;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

size_t gpu_list_room(const char *list, uint32_t n)
{
	return (list ? strlen(list) : (size_t)n * NUMBER_BYTES) + 1;
}

/* Returns what follows the nth comma, or the end. */
static const char *gpu_list_skip(const char *p, uint32_t n)
{
	for (; n && *p; p++)
		n -= *p == ',';
	return p;
}

void gpu_list_share(const char *list, uint32_t first, uint32_t n, char *out)
{
	const char *begin, *end;
	size_t len;

	*out = '\0';
	if (!list) {
		for (uint32_t i = 0; i < n; i++)
			out += sprintf(out, "%s%u", i ? "," : "", first + i);
		return;
	}
	begin = gpu_list_skip(list, first);
	end = gpu_list_skip(begin, n);
	len = (size_t)(end - begin);
	if (len && begin[len - 1] == ',')
		len--;
	memcpy(out, begin, len);
	out[len] = '\0';
}

enum { UUID_MAX = 96, PCI_PATH_MAX = 64 };

/* our own declarations: there is no nvml.h without the CUDA toolkit */
typedef struct nvml_device *nvml_device;

struct nvml_pci {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

struct nvml {
	void *library;
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned int *n);
	/* some drivers lack these */
	int (*by_index)(unsigned int i, nvml_device *d);
	int (*by_uuid)(const char *uuid, nvml_device *d);
	int (*uuid)(nvml_device d, char *out, unsigned int size);
	int (*pci)(nvml_device d, struct nvml_pci *pci);
	int (*whole)(nvml_device mig, nvml_device *d);
	int (*mig_mode)(nvml_device d, unsigned int *current,
			unsigned int *pending);
	int (*mig_most)(nvml_device d, unsigned int *n);
	int (*mig_at)(nvml_device d, unsigned int i, nvml_device *mig);
};

/* 1 if the entry names a device by its UUID. */
static int gpu_is_uuid(const char *entry)
{
	return strncmp(entry, "GPU-", 4) == 0 ||
	       strncmp(entry, "MIG-", 4) == 0;
}

/* 1 if an entry of the list comes twice. */
static int gpu_has_repeats(const char *list)
{
	for (const char *a = list; *a; a++) {
		size_t len = strcspn(a, ",");

		for (const char *b = a + len; *b; b += strcspn(b, ",")) {
			b++;
			if (strcspn(b, ",") == len && !strncmp(a, b, len))
				return 1;
		}
		a += len;
		if (!*a)
			break;
	}
	return 0;
}

int gpu_visible(int devices, const char *visible)
{
	int n = 0;

	if (!visible)
		return devices;
	if (gpu_has_repeats(visible))
		return 0;
	while (*visible && n < devices) {
		size_t len = strcspn(visible, ",");
		char *end;
		long index = strtol(visible, &end, 10);

		if (!gpu_is_uuid(visible) &&
		    (end != visible + len || len == 0 || index < 0 ||
		     index >= devices))
			break;
		n++;
		visible += len;
		visible += *visible == ',';
	}
	return n;
}

static int nvml_open(struct nvml *v, const char **why)
{
	*v = (struct nvml){
		.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL),
	};
	*why = "no NVIDIA driver (libnvidia-ml.so.1) is installed";
	if (!v->library)
		return -1;
	*(void **)&v->init = dlsym(v->library, "nvmlInit_v2");
	*(void **)&v->shutdown = dlsym(v->library, "nvmlShutdown");
	*(void **)&v->count = dlsym(v->library, "nvmlDeviceGetCount_v2");
	*(void **)&v->by_index = dlsym(v->library,
				       "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&v->by_uuid = dlsym(v->library,
				      "nvmlDeviceGetHandleByUUID");
	*(void **)&v->uuid = dlsym(v->library, "nvmlDeviceGetUUID");
	*(void **)&v->pci = dlsym(v->library, "nvmlDeviceGetPciInfo_v3");
	*(void **)&v->whole = dlsym(v->library,
			"nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
	*(void **)&v->mig_mode = dlsym(v->library, "nvmlDeviceGetMigMode");
	*(void **)&v->mig_most = dlsym(v->library,
				       "nvmlDeviceGetMaxMigDeviceCount");
	*(void **)&v->mig_at = dlsym(v->library,
				     "nvmlDeviceGetMigDeviceHandleByIndex");
	*why = "the NVIDIA driver does not answer (is it loaded?)";
	if (v->init && v->shutdown && v->count && v->init() == 0)
		return 0;
	dlclose(v->library);
	return -1;
}

static void nvml_close(struct nvml *v)
{
	v->shutdown();
	dlclose(v->library);
}

static int nvml_count(const struct nvml *v)
{
	unsigned int devices = 0;

	return v->count(&devices) == 0 ? (int)devices : 0;
}

/* A UUID may be shortened if it remains unique. A MIG instance has its GPU's
 * NUMA node. */
static int nvml_find_uuid(const struct nvml *v, int devices, const char *entry,
			  size_t len, nvml_device *d)
{
	char uuid[UUID_MAX];
	nvml_device mig;

	for (int i = 0; i < devices; i++) {
		if (v->by_index((unsigned int)i, d) == 0 &&
		    v->uuid(*d, uuid, sizeof(uuid)) == 0 &&
		    strncmp(uuid, entry, len) == 0)
			return 0;
	}
	if (len >= sizeof(uuid) || !v->by_uuid || !v->whole)
		return -1;
	memcpy(uuid, entry, len);
	uuid[len] = '\0';
	return v->by_uuid(uuid, &mig) == 0 && v->whole(mig, d) == 0 ? 0 : -1;
}

/* How many of the first n entries come before a UUID that no device has: there
 * CUDA stops. */
static int nvml_find_entries(const struct nvml *v, int devices, int n,
			     const char *visible)
{
	nvml_device d;

	for (int i = 0; i < n && visible && v->by_index && v->uuid; i++) {
		size_t len = strcspn(visible, ",");

		if (gpu_is_uuid(visible) &&
		    nvml_find_uuid(v, devices, visible, len, &d) < 0)
			return i;
		visible += len + (visible[len] == ',');
	}
	return n;
}

/* ---- Instances of a GPU (MIG) ---- */

static int nvml_is_mig(const struct nvml *v, nvml_device d)
{
	unsigned int current = 0, pending;

	return v->mig_mode && v->mig_mode(d, &current, &pending) == 0 &&
	       current;
}

static int nvml_has_instance(const struct nvml *v, nvml_device d)
{
	unsigned int most = 0;
	nvml_device mig;

	if (!v->mig_most || !v->mig_at || v->mig_most(d, &most))
		return 0;
	for (unsigned int i = 0; i < most; i++)
		if (v->mig_at(d, i, &mig) == 0)
			return 1;
	return 0;
}

/* Counts the devices that CUDA shows, of n: the entries of the list or, without
 * a list, all. An instance hides all others, and whole GPUs; a GPU in MIG
 * mode without instances is hidden (NVIDIA's MIG User Guide, "CUDA Device
 * Enumeration"). A list of UUIDs is taken as it is: each worker may get one of
 * them. *first is the one whose instance is shown, if any. */
static int nvml_count_shown(const struct nvml *v, int n, const char *visible,
			    nvml_device *first)
{
	int shown = n;

	*first = NULL;
	for (int i = 0; i < n && v->by_index; i++) {
		unsigned int index = visible ? (unsigned int)atoi(visible)
					     : (unsigned int)i;
		int named = visible && gpu_is_uuid(visible);
		nvml_device d;

		if (!named && v->by_index(index, &d) == 0 &&
		    nvml_is_mig(v, d)) {
			if (nvml_has_instance(v, d)) {
				*first = d;
				return 1;
			}
			shown -= !visible;
		}
		if (visible)
			visible += strcspn(visible, ",");
		if (visible && *visible)
			visible++;
	}
	return shown;
}

int gpu_count(const char **why)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	nvml_device first;
	struct nvml v;
	int devices, n;

	if (nvml_open(&v, why) < 0)
		return 0;
	devices = nvml_count(&v);
	n = gpu_visible(devices, visible);
	n = nvml_find_entries(&v, devices, n, visible);
	n = nvml_count_shown(&v, n, visible, &first);
	nvml_close(&v);
	if (!visible && devices && !n) {
		*why = "all are in MIG mode and have no instances";
		return 0;
	}
	*why = devices ? "CUDA_VISIBLE_DEVICES hides all of them"
		       : "the NVIDIA driver sees none";
	return n;
}

static int nvml_numa_node(const struct nvml *v, nvml_device d)
{
	char path[PCI_PATH_MAX];
	struct nvml_pci pci;
	int node = -1;
	FILE *f;

	if (v->pci(d, &pci) != 0)
		return -1;
	snprintf(path, sizeof(path),
		 "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", pci.domain,
		 pci.bus, pci.device);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%d", &node) != 1)
		node = -1;
	fclose(f);
	return node;
}

static void gpu_find_nodes(const struct nvml *v, int devices, int n,
			   const char *visible, int *nodes)
{
	for (int i = 0; i < n; i++) {
		size_t len = visible ? strcspn(visible, ",") : 0;
		unsigned int index = visible ? (unsigned int)atoi(visible)
					     : (unsigned int)i;
		nvml_device d;
		int rc = visible && gpu_is_uuid(visible)
			 ? nvml_find_uuid(v, devices, visible, len, &d)
			 : v->by_index(index, &d);

		nodes[i] = rc == 0 ? nvml_numa_node(v, d) : -1;
		if (visible)
			visible += len + (visible[len] == ',');
	}
}

int gpu_nodes(int nodes[GPU_MAX])
{
	const char *why, *visible = getenv("CUDA_VISIBLE_DEVICES");
	nvml_device first;
	struct nvml v;
	int devices, n;

	if (nvml_open(&v, &why) < 0)
		return 0;
	devices = nvml_count(&v);
	n = gpu_visible(devices, visible);
	n = nvml_find_entries(&v, devices, n, visible);
	n = nvml_count_shown(&v, n, visible, &first);
	n = n < GPU_MAX ? n : GPU_MAX;
	for (int i = 0; i < n; i++)
		nodes[i] = -1;
	if (first && v.pci)
		nodes[0] = nvml_numa_node(&v, first);
	else if (v.by_index && v.uuid && v.pci)
		gpu_find_nodes(&v, devices, n, visible, nodes);
	nvml_close(&v);
	return n;
}
