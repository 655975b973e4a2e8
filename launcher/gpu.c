/* gpu.c: counting GPUs through NVML, which only the driver brings. */
#include "launcher/gpu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int gpu_visible(int devices, const char *visible)
{
	int n = 0;

	if (!visible)
		return devices;
	while (*visible && n < devices) {
		size_t len = strcspn(visible, ",");
		char *end;
		long index = strtol(visible, &end, 10);

		/* GPU-... and MIG-... name devices by their UUID */
		if (strncmp(visible, "GPU-", 4) != 0 &&
		    strncmp(visible, "MIG-", 4) != 0 &&
		    (end != visible + len || len == 0 || index < 0 ||
		     index >= devices))
			break;
		n++;
		visible += len;
		visible += *visible == ',';
	}
	return n;
}

int gpu_count(const char **why)
{
	/* our own declarations: there is no nvml.h without the CUDA toolkit */
	int (*init)(void), (*count)(unsigned int *), (*shutdown)(void);
	unsigned int devices = 0;
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	int n;

	*why = "no NVIDIA driver (libnvidia-ml.so.1) is installed";
	if (!nvml)
		return 0;
	*(void **)&init = dlsym(nvml, "nvmlInit_v2");
	*(void **)&count = dlsym(nvml, "nvmlDeviceGetCount_v2");
	*(void **)&shutdown = dlsym(nvml, "nvmlShutdown");
	*why = "the NVIDIA driver answers no questions (is it loaded?)";
	if (init && count && shutdown && init() == 0) {
		*why = "the NVIDIA driver sees none";
		if (count(&devices) != 0)
			devices = 0;
		shutdown();
	}
	dlclose(nvml);
	n = gpu_visible((int)devices, getenv("CUDA_VISIBLE_DEVICES"));
	if (devices && n == 0)
		*why = "CUDA_VISIBLE_DEVICES hides all of them";
	return n;
}
