/* last_error.c: the thread's last error, and the version. */
#include "worker-sdk/core/last_error.h"

#include <assert.h>

#include "worker-sdk/ddp.h"

/* The public list repeats base's list; programs may have stored its values, so
 * they never change. */
#define X(name, code, text)                                                   \
	static_assert((int)DDP_ERR_##name == (int)ERR_##name, #name);
ERR_LIST(X)
#undef X

static _Thread_local struct err last;

struct err *ddp__last_error(void)
{
	return &last;
}

const char *ddp_last_error(void)
{
	return last.text;
}

const char *ddp_error_name(int code)
{
	return err_name(code);
}

const char *ddp_version(void)
{
	return DDP_VERSION;
}
