/* pmix.c: the few calls of a PMIx client that we need. */
#include "pmi/pmix.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pmi/pmix_abi.h"

struct pmix {
	void *lib;
	struct pmix_abi_proc me;
	int (*init)(struct pmix_abi_proc *me, struct pmix_abi_info *info,
		    size_t n);
	int (*put)(uint8_t scope, const char *key, struct pmix_abi_value *v);
	int (*commit)(void);
	int (*fence)(const struct pmix_abi_proc *procs, size_t n,
		     const struct pmix_abi_info *info, size_t ninfo);
	int (*get)(const struct pmix_abi_proc *of, const char *key,
		   const struct pmix_abi_info *info, size_t n,
		   struct pmix_abi_value **v);
	int (*finalize)(const struct pmix_abi_info *info, size_t n);
	const char *(*text)(int status);
};

static int pmix_failed(struct pmix *p, const char *what, int status,
		       struct err *e)
{
	return err_set(e, ERR_REMOTE,
		       "%s: the launcher's PMIx returned %d (%s)", what, status,
		       p->text ? p->text(status) : "?");
}

static int pmix_find_symbols(struct pmix *p, const char *name, void *to,
			     struct err *e)
{
	void *at = dlsym(p->lib, name);

	memcpy(to, &at, sizeof(at));
	return at ? 0
		  : err_set(e, ERR_USAGE, "libpmix.so.2 has no %s: %s", name,
			    "is it PMIx's library?");
}

static int pmix_load(struct pmix *p, struct err *e)
{
	const char *why;
	int rc;

	p->lib = dlopen(PMIX_ABI_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!p->lib) {
		why = dlerror();
		return err_set(e, ERR_USAGE,
			       "the launcher uses PMIx, but its library cannot "
			       "be loaded: %.300s; install libpmix2 or add its "
			       "folder to LD_LIBRARY_PATH",
			       why ? why : "libpmix.so.2");
	}
	if ((rc = pmix_find_symbols(p, "PMIx_Init", &p->init, e)) ||
	    (rc = pmix_find_symbols(p, "PMIx_Put", &p->put, e)) ||
	    (rc = pmix_find_symbols(p, "PMIx_Commit", &p->commit, e)) ||
	    (rc = pmix_find_symbols(p, "PMIx_Fence", &p->fence, e)) ||
	    (rc = pmix_find_symbols(p, "PMIx_Get", &p->get, e)) ||
	    (rc = pmix_find_symbols(p, "PMIx_Finalize", &p->finalize, e)) ||
	    (rc = pmix_find_symbols(p, "PMIx_Error_string", &p->text, e)))
		return rc;
	return 0;
}

/* A number that the launcher knows about a rank, or -1. */
static int pmix_get_number(struct pmix *p, uint32_t rank, const char *key)
{
	struct pmix_abi_proc of = p->me;
	struct pmix_abi_value *v = NULL;
	int n = -1;

	of.rank = rank;
	if (p->get(&of, key, NULL, 0, &v) || !v)
		return -1;
	if (v->type == PMIX_ABI_UINT32 && v->data.u32 <= INT32_MAX)
		n = (int)v->data.u32;
	else if (v->type == PMIX_ABI_UINT16)
		n = v->data.u16;
	free(v);
	return n;
}

int pmix_open(struct pmix **out, struct pmix_self *self,
		   struct err *e)
{
	struct pmix *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return err_no_memory(e, "PMIx");
	rc = pmix_load(p, e);
	if (!rc && (rc = p->init(&p->me, NULL, 0)))
		rc = pmix_failed(p, "cannot talk to the launcher", rc, e);
	if (rc) {
		/* not unloaded: its threads may still run */
		free(p);
		return rc;
	}
	self->rank = (int)p->me.rank;
	self->world_size =
		pmix_get_number(p, PMIX_ABI_RANK_WILDCARD, "pmix.job.size");
	self->local_rank = pmix_get_number(p, p->me.rank, "pmix.lrank");
	self->local_world_size =
		pmix_get_number(p, PMIX_ABI_RANK_WILDCARD, "pmix.local.size");
	*out = p;
	return 0;
}

static void pmix_limit(struct pmix_abi_info *info, int timeout_ms)
{
	memset(info, 0, sizeof(*info));
	strcpy(info->key, "pmix.timeout");
	info->value.type = PMIX_ABI_INT;
	info->value.data.integer = timeout_ms < 0 ? 0
				 : timeout_ms < 1000 ? 1 : timeout_ms / 1000;
}

int pmix_share(struct pmix *p, const char *key, int from, char *text,
	       size_t size, int timeout_ms, struct err *e)
{
	struct pmix_abi_value mine = {.type = PMIX_ABI_STRING,
				      .data.string = text};
	struct pmix_abi_value *v = NULL;
	struct pmix_abi_proc all = p->me, other = p->me;
	struct pmix_abi_info info[2];
	int rc = 0;

	pmix_limit(&info[0], timeout_ms);
	memset(&info[1], 0, sizeof(info[1]));
	strcpy(info[1].key, "pmix.collect"); /* and collect all values */
	info[1].value.type = PMIX_ABI_BOOL;
	info[1].value.data.flag = 1;
	all.rank = PMIX_ABI_RANK_WILDCARD;
	other.rank = (uint32_t)from;
	if (p->me.rank == other.rank) {
		rc = p->put(PMIX_ABI_GLOBAL, key, &mine);
		if (!rc)
			rc = p->commit();
	}
	if (!rc)
		rc = p->fence(&all, 1, info, 2);
	if (rc)
		return pmix_failed(p, "the ranks cannot meet", rc, e);
	if (p->me.rank == other.rank)
		return 0;
	rc = p->get(&other, key, info, 1, &v);
	if (rc || !v || v->type != PMIX_ABI_STRING ||
	    strlen(v->data.string) >= size)
		return pmix_failed(
			p, "a rank has not published where the ranks meet", rc,
			e);
	strcpy(text, v->data.string);
	free(v->data.string);
	free(v);
	return 0;
}

void pmix_close(struct pmix *p)
{
	if (!p)
		return;
	p->finalize(NULL, 0);
	/* not unloaded: it may have threads and atexit functions */
	free(p);
}
