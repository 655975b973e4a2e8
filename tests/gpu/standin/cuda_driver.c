/* cuda_driver.c: libcuda.so.1, as far as libddp looks for it. A thread never
 * has a context that it made itself. */
#include <stdio.h>
#include <stdlib.h>

#include "standin.h"

PUBLIC int cuInit(unsigned flags);
PUBLIC int cuCtxGetCurrent(void **context);
PUBLIC int cuDeviceGet(int *handle, int device);
PUBLIC int cuDeviceGetName(char *name, int size, int handle);

int cuInit(unsigned flags)
{
	return 0;
}

int cuCtxGetCurrent(void **context)
{
	*context = NULL;
	return 0;
}

int cuDeviceGet(int *handle, int device)
{
	*handle = device;
	return 0;
}

int cuDeviceGetName(char *name, int size, int handle)
{
	const char *kind = getenv("STANDIN_KIND");

	snprintf(name, (size_t)size, "%s", kind ? kind : "NVIDIA Stand-in");
	return 0;
}
