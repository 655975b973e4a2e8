/* cuda_lib.c: finds libcudart, and explains its errors. */
#include "worker-sdk/nccl/cuda_lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/core/dynlib.h"

/* A runtime newer than the driver fails with 35, so all names are tried. */
static const char *const names[] = {
	"libcudart.so.13",
	"libcudart.so.12",
	"libcudart.so.11.0",
	"libcudart.so",
	"/usr/local/cuda/lib64/libcudart.so",
	NULL};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ddp__cuda loaded;
static int is_loaded;

static int cuda_find_symbols(struct ddp__cuda *cu, void *library, struct err *e)
{
	const char *missing = NULL;

#define X(field, symbol, args)                                                \
	*(void **)&cu->field = dlsym(library, #symbol);                        \
	if (!cu->field && !missing)                                            \
		missing = #symbol;
	DDP__CUDA_CALLS(X)
#undef X
	*(void **)&cu->error_text = dlsym(library, "cudaGetErrorString");
	if (!cu->error_text && !missing)
		missing = "cudaGetErrorString";
	ddp__dynlib_path(library, cu->from, sizeof(cu->from));
	if (!missing)
		return 0;
	return err_set(e, ERR_SYSTEM,
		       "%s has no %s: libddp needs the CUDA runtime 11.2 or "
		       "newer (libcudart); set DDP_CUDART_LIB to one",
		       cu->from, missing);
}

/* Prefers the runtime that the process has loaded, because a second one is not
 * needed. Otherwise loads the newest that the driver supports. */
static int cuda_load(struct ddp__cuda *cu, struct err *e)
{
	struct err why = ERR_INIT;
	void *library;
	int n, rc;

	library = ddp__dynlib_open("DDP_CUDART_LIB", names, RTLD_NOLOAD, e);
	if (library)
		return cuda_find_symbols(cu, library, e);
	for (int i = 0; names[i] && !getenv("DDP_CUDART_LIB"); i++) {
		library = ddp__dynlib_load(names[i], RTLD_NOW);
		if (!library)
			continue;
		rc = cuda_find_symbols(cu, library, &why);
		if (!rc && cu->device_count(&n) != DDP__CUDA_OLD_DRIVER)
			return 0;
		dlclose(library);
	}
	library = ddp__dynlib_open("DDP_CUDART_LIB", names, 0, e);
	return library ? cuda_find_symbols(cu, library, e) : e->code;
}

int ddp__cuda_load(const struct ddp__cuda **out, struct err *e)
{
	struct ddp__cuda cu = {.from = ""};
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (!is_loaded) {
		rc = cuda_load(&cu, e);
		if (!rc) {
			loaded = cu;
			is_loaded = 1;
		}
	}
	pthread_mutex_unlock(&lock);
	*out = rc ? NULL : &loaded;
	return rc;
}

static void cuda_version_text(int version, char *out, size_t size)
{
	snprintf(out, size, "%d.%d", version / 1000, version % 1000 / 10);
}

int ddp__cuda_devices(const struct ddp__cuda *cu, struct err *e)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	int n = 0, driver = 0, runtime = 0, rc = cu->device_count(&n);
	char has[16], needs[16];

	if (rc == 0 && n > 0)
		return n;
	ddp__cuda_forget(cu, rc);
	cu->driver_version(&driver);
	cu->runtime_version(&runtime);
	cuda_version_text(driver, has, sizeof(has));
	cuda_version_text(runtime, needs, sizeof(needs));
	if (rc == DDP__CUDA_OLD_DRIVER && !driver)
		return err_set(e, ERR_SYSTEM,
			       "no NVIDIA driver is loaded on this host "
			       "(nvidia-smi should say the same)");
	if (rc == DDP__CUDA_OLD_DRIVER)
		return err_set(e, ERR_SYSTEM,
			       "the NVIDIA driver of this host is for CUDA %s, "
			       "but %s needs CUDA %s: update the driver, or "
			       "set DDP_CUDART_LIB to an older libcudart",
			       has, cu->from, needs);
	if ((rc == DDP__CUDA_NO_DEVICE || rc == 0) && visible)
		return err_set(e, ERR_SYSTEM,
			       "the NVIDIA driver shows no GPU: "
			       "CUDA_VISIBLE_DEVICES is '%.100s'", visible);
	if (rc == DDP__CUDA_NO_DEVICE || rc == 0)
		return err_set(e, ERR_SYSTEM,
			       "the NVIDIA driver (for CUDA %s) sees no GPU on "
			       "this host", has);
	return err_set(e, ERR_SYSTEM,
		       "the GPUs of this host cannot be used: %s (%d)",
		       cu->error_text(rc), rc);
}

void ddp__cuda_forget(const struct ddp__cuda *cu, int rc)
{
	if (cu->peek_error() == rc)
		cu->last_error();
}

int ddp__cuda_check(const struct ddp__cuda *cu, int rc, const char *what,
		    struct err *e)
{
	int device = -1;

	if (!rc)
		return 0;
	cu->get_device(&device);
	ddp__cuda_forget(cu, rc);
	return err_set(e, ERR_SYSTEM, "%s: %s (%d) on device %d", what,
		       cu->error_text(rc), rc, device);
}

int ddp__cuda_on_device(const struct ddp__cuda *cu, const void *p)
{
	struct ddp__cuda_pointer at;

	int rc;

	memset(&at, 0, sizeof(at));
	rc = cu->pointer(&at, p);
	if (rc) {
		ddp__cuda_forget(cu, rc);
		return 0;
	}
	return at.memory == DDP__CUDA_DEVICE || at.memory == DDP__CUDA_MANAGED;
}

void *ddp__cuda_driver_function(const char *symbol)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *found = driver ? dlsym(driver, symbol) : NULL;

	if (driver)
		dlclose(driver);
	return found;
}

void ddp__cuda_name(int device, char *out, size_t size)
{
	int (*find)(int *handle, int device);
	int (*name)(char *out, int size, int handle);
	int handle;

	*(void **)&find = ddp__cuda_driver_function("cuDeviceGet");
	*(void **)&name = ddp__cuda_driver_function("cuDeviceGetName");
	if (!find || !name || find(&handle, device) ||
	    name(out, (int)size, handle))
		out[0] = '\0';
	out[size - 1] = '\0';
}

int ddp__cuda_in_use(void)
{
	int (*current)(void **context);
	void *context = NULL;

	*(void **)&current = ddp__cuda_driver_function("cuCtxGetCurrent");
	if (!current || current(&context))
		context = NULL;
	return context != NULL;
}
