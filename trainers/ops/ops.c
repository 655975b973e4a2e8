/* ops.c: chooses the operations for --device, and loads those for cuda. */
#include "trainers/ops/ops.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libddp_cuda_ops.so"

/* The path of the library beside this program, if it is there. */
static const char *ops_path_beside(char *out, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", out, size - 1);
	char *slash;

	if (n <= 0)
		return LIBRARY;
	out[n] = '\0';
	slash = strrchr(out, '/');
	if (!slash || (size_t)(slash + 1 - out) + sizeof(LIBRARY) > size)
		return LIBRARY;
	strcpy(slash + 1, LIBRARY);
	return access(out, F_OK) == 0 ? out : LIBRARY;
}

/* Says which library is missing, and where the loader looked for it. */
static void ops_set_load_error(const char *path, struct err *e)
{
	const char *why = dlerror(), *folders = getenv("LD_LIBRARY_PATH");

	/* the library itself */
	if (!strncmp(why, path, strlen(path)))
		err_set(e, ERR_USAGE,
			"--device cuda: no CUDA operations: %.500s; build on a "
			"machine with CUDA and cuDNN, or use --device cpu",
			why);
	else
		err_set(e, ERR_USAGE, "--device cuda: %.300s; %.200s needs it, "
			"and it was looked for in LD_LIBRARY_PATH ('%.200s'), "
			"%s and the system's folders: install it, or add its "
			"folder to LD_LIBRARY_PATH, or use --device cpu", why,
			path, folders ? folders : "", CUDA_LIBRARIES);
}

static const struct ops *ops_load_cuda(struct err *e)
{
	char room[PATH_MAX];
	const char *path = getenv("DDP_CUDA_OPS");
	const struct ops *ops;
	ops_entry_fn entry;
	void *library;

	if (!path || !*path)
		path = ops_path_beside(room, sizeof(room));
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		ops_set_load_error(path, e);
		return NULL;
	}
	*(void **)&entry = dlsym(library, OPS_CUDA_ENTRY);
	ops = entry ? entry(OPS_VERSION) : NULL;
	if (!ops)
		err_set(e, ERR_USAGE,
			"--device cuda: %s belongs to another build; rebuild "
			"both",
			path);
	else if (ops->count(e) <= 0)
		ops = NULL;
	return ops;
}

/* Without the driver there is no GPU to use. The CUDA libraries look for it in
 * the same places, but take 0.1 s to load. */
static bool ops_has_cuda_driver(void)
{
	const char *given = getenv("DDP_CUDA_OPS");

	return (given && *given) || dlopen("libcuda.so.1", RTLD_LAZY) ||
		access(CUDA_LIBRARIES "/libcuda.so.1", F_OK) == 0;
}

const struct ops *ops_find(const char *device, struct err *e)
{
	const struct ops *ops;

	if (!strcmp(device, "cpu"))
		return &ops_cpu;
	if (!strcmp(device, "cuda"))
		return ops_load_cuda(e);
	if (!strcmp(device, "auto")) {
		ops = ops_has_cuda_driver() ? ops_load_cuda(NULL) : NULL;
		return ops ? ops : &ops_cpu;
	}
	err_set(e, ERR_USAGE, "--device %s: no such device; use cpu, cuda or "
		"auto", device);
	return NULL;
}
