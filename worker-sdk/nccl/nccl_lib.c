/* nccl_lib.c: finds libnccl, and explains its errors. */
#include "worker-sdk/nccl/nccl_lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "worker-sdk/core/dynlib.h"

static const char *const names[] = {
	"libnccl.so.2",
	"libnccl.so",
	"/usr/local/cuda/lib64/libnccl.so.2",
	NULL};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ddp__nccl_lib loaded;
static int is_loaded;

static const char *nccl_find_symbols(struct ddp__nccl_lib *l, void *library)
{
	const char *missing = NULL;

#define X(field, symbol, args)                                                \
	*(void **)&l->field = dlsym(library, #symbol);                         \
	if (!l->field && !missing)                                             \
		missing = #symbol;
	DDP__NCCL_CALLS(X)
#undef X
#define X(field, symbol, args) *(void **)&l->field = dlsym(library, #symbol);
	DDP__NCCL_NEWER_CALLS(X)
#undef X
	*(void **)&l->error_text = dlsym(library, "ncclGetErrorString");
	*(void **)&l->last_error = dlsym(library, "ncclGetLastError");
	return missing ? missing : l->error_text ? NULL : "ncclGetErrorString";
}

static int nccl_load(struct ddp__nccl_lib *l, struct err *e)
{
	void *library = ddp__dynlib_open("DDP_NCCL_LIB", names, 0, e);
	const char *missing;
	int v;

	if (!library)
		return e->code;
	ddp__dynlib_path(library, l->from, sizeof(l->from));
	missing = nccl_find_symbols(l, library);
	/* report an old NCCL as too old, whatever functions it lacks */
	if (l->get_version && l->get_version(&l->version) == 0 &&
	    l->version < DDP__NCCL_OLDEST) {
		/* 2.8 and before: the major version counts 1000, not 10000 */
		v = l->version;
		err_set(e, ERR_SYSTEM,
			"%s is NCCL %d.%d.%d: libddp needs 2.18 or newer; set "
			"DDP_NCCL_LIB to one",
			l->from, v < 10000 ? v / 1000 : v / 10000,
			v % (v < 10000 ? 1000 : 10000) / 100, v % 100);
	} else if (missing) {
		err_set(e, ERR_SYSTEM,
			"%s has no %s: libddp needs NCCL 2.18 or newer; set "
			"DDP_NCCL_LIB to one", l->from, missing);
	} else {
		return 0;
	}
	dlclose(library);
	return e->code;
}

int ddp__nccl_load(const struct ddp__nccl_lib **out, struct err *e)
{
	struct ddp__nccl_lib l;
	int rc = 0;

	memset(&l, 0, sizeof(l));
	pthread_mutex_lock(&lock);
	if (!is_loaded) {
		rc = nccl_load(&l, e);
		if (!rc) {
			loaded = l;
			is_loaded = 1;
		}
	}
	pthread_mutex_unlock(&lock);
	*out = rc ? NULL : &loaded;
	return rc;
}

int ddp__nccl_type(enum ddp_type type)
{
	static const int of[DDP_TYPES] = {
		[DDP_F32] = 7, [DDP_F64] = 8,  [DDP_I32] = 2, [DDP_I64] = 4,
		[DDP_F16] = 6, [DDP_BF16] = 9, [DDP_I8] = 0,  [DDP_U8] = 1};

	return of[type];
}

int ddp__nccl_op(enum ddp_op op)
{
	static const int of[DDP_OPS] = {
		[DDP_SUM] = 0, [DDP_PROD] = 1,	[DDP_MAX] = 2, [DDP_MIN] = 3,
		[DDP_AVG] = 4, [DDP_BAND] = -1, [DDP_BOR] = -1};

	return of[op];
}

int ddp__nccl_abort_crashes(int version)
{
	return version >= 22803 && version <= 22808;
}

int ddp__nccl_fail(const struct ddp__nccl_lib *lib, void *comm, int rc,
		   const char *what, struct err *e)
{
	const char *last = lib->last_error ? lib->last_error(comm) : "";
	int has_text = last && last[0];

	if (!has_text)
		last = "set NCCL_DEBUG=WARN to see more";
	if (has_text && strstr(last, "Duplicate GPU"))
		return err_set(e, ERR_USAGE,
			       "%s: NCCL needs a separate GPU for each rank "
			       "(%.300s): start fewer ranks, or, for a test, "
			       "set DDP_NCCL_SHARE_GPU=1",
			       what, last);
	return err_set(e, rc == DDP__NCCL_REMOTE ? ERR_REMOTE : ERR_SYSTEM,
		       "%s: NCCL: %.100s: %.500s", what, lib->error_text(rc),
		       last);
}
