/* cuda_driver.c: libcuda.so.1, as far as libddp looks for it. A thread never
 * has a context that it made itself. */
#include "standin.h"

PUBLIC int cuInit(unsigned flags);
PUBLIC int cuCtxGetCurrent(void **context);

int cuInit(unsigned flags)
{
	return 0;
}

int cuCtxGetCurrent(void **context)
{
	*context = NULL;
	return 0;
}
