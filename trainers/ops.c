/* ops.c: which operations serve which --device. */
#include "trainers/ops.h"

#include <string.h>

const struct ops *ops_find(const char *device, struct err *e)
{
	if (!strcmp(device, "cpu") || !strcmp(device, "auto"))
		return &ops_cpu;
	if (!strcmp(device, "cuda"))
		err_set(e, ERR_USAGE, "--device cuda: this build has no CUDA "
			"operations; use --device cpu");
	else
		err_set(e, ERR_USAGE, "--device %s: no such device; use cpu, "
			"cuda or auto", device);
	return NULL;
}
