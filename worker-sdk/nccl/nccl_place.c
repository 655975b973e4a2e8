/* nccl_place.c: chooses a GPU for this rank, and agrees with the others on
 * using NCCL. */
#include "worker-sdk/nccl/nccl_place.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker-sdk/core/dynlib.h"

/* 2.30.3 reads a variable of its own for it */
enum { MULTI_RANK_VERSION = 23003 };

static int place_is_shared(void)
{
	const char *share = getenv("DDP_NCCL_SHARE_GPU");

	return share && !strcmp(share, "1");
}

/* NCCL identifies hosts by NCCL_HOSTID and rejects a GPU that is used twice on
 * one host: with an id per process each rank is its own host, and ranks
 * communicate over sockets. Slow, for tests. NCCL reads these variables at its
 * first call, so they are set before. */
static void place_set_shared(const struct ddp__env *env)
{
	char id[96];

	snprintf(id, sizeof(id), "ddp-%.48s-%u-r%d", env->job ? env->job : "",
		 env->round, env->rank);
	setenv("NCCL_HOSTID", id, 0);
	setenv("NCCL_NET", "Socket", 0);
	if (env->nodes == 1)
		setenv("NCCL_SOCKET_IFNAME", "lo", 0);
	setenv("NCCL_IB_DISABLE", "1", 0);
	setenv("NCCL_NVLS_ENABLE", "0", 0);
	setenv("NCCL_MNNVL_ENABLE", "0", 0);
	setenv("NCCL_CUMEM_ENABLE", "0", 0);
	setenv("NCCL_PROTO", "Simple", 0);
	setenv("NCCL_MAX_CTAS", "2", 0);
	setenv("NCCL_RAS_ENABLE", "0", 0);
}

static const char driver_name[] = "libcuda.so.1";

/* 1 if the dynamic linker's cache lists the driver, or there is no cache. */
static int place_is_driver_listed(void)
{
	int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC), found;
	struct stat st;
	void *list;

	if (fd < 0)
		return 1;
	list = fstat(fd, &st) < 0 || st.st_size <= 0 ? MAP_FAILED :
	       mmap(NULL, (size_t)st.st_size, PROT_READ,
		    MAP_PRIVATE | MAP_POPULATE, fd, 0);
	close(fd);
	if (list == MAP_FAILED)
		return 1;
	found = memmem(list, (size_t)st.st_size, driver_name,
		       sizeof(driver_name)) != NULL;
	munmap(list, (size_t)st.st_size);
	return found;
}

/* For a library that is not cached the loader searches several directories,
 * each with subdirectories per kind of CPU: a hundred system calls in each of
 * many ranks of CPU jobs. So this check avoids a search that cannot succeed. */
static int place_may_have_driver(void)
{
	char path[PATH_MAX];

	return getenv("LD_LIBRARY_PATH") || dlsym(RTLD_DEFAULT, "cuInit") ||
	       place_is_driver_listed() ||
	       ddp__dynlib_program_path(driver_name, path, sizeof(path));
}

/* Loads the driver and keeps it: libcudart opens the driver by name, and may
 * not find it where the program does. */
static int place_has_driver(void)
{
	return place_may_have_driver() &&
	       ddp__dynlib_load(driver_name, RTLD_LAZY);
}

/* The kernel's boot id and the bus address identify a GPU, whatever host name a
 * container has. NCCL also treats two parts of one GPU as the same. */
static void place_name_gpu(struct ddp__nccl_place *p, const char *bus)
{
	char boot[40] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, boot, sizeof(boot) - 1);

	if (fd >= 0)
		close(fd);
	boot[n > 36 ? 36 : n < 0 ? 0 : n] = '\0';
	snprintf(p->gpu, sizeof(p->gpu), "%s %s", boot, bus);
}

static int place_choose_device(struct ddp__nccl_place *p,
			       const struct ddp__env *env, struct err *e)
{
	const struct ddp__cuda *cu = p->cuda;
	int n = ddp__cuda_devices(cu, e), current = 0, rc;
	char bus[DDP__CUDA_BUS_ID];

	if (n < 0)
		return n;
	/* a current device other than 0, or a context, is the program's
	 * choice */
	if (cu->get_device(&current) == 0 &&
	    (current > 0 || ddp__cuda_in_use()))
		p->device = current;
	else
		p->device = env->local_rank % n;
	rc = ddp__cuda_check(cu, cu->bus_id(bus, sizeof(bus), p->device),
			     "cudaDeviceGetPCIBusId", e);
	if (!rc)
		place_name_gpu(p, bus);
	if (!rc)
		ddp__cuda_name(p->device, p->kind, sizeof(p->kind));
	return rc;
}

static int place_find(struct ddp__nccl_place *p, const struct ddp__env *env,
		      int brief, struct err *e)
{
	int rc;

	if (!place_has_driver() && brief)
		return err_set(e, ERR_SYSTEM,
			       "no NVIDIA driver (libcuda.so.1) is installed "
			       "on this host");
	rc = ddp__cuda_load(&p->cuda, e);
	if (!rc)
		rc = place_choose_device(p, env, e);
	if (rc)
		return rc;
	p->share = place_is_shared();
	if (p->share)
		place_set_shared(env);
	rc = ddp__nccl_load(&p->nccl, e);
	if (rc)
		return rc;
	p->version = p->nccl->version;
	if (p->share && p->version >= MULTI_RANK_VERSION)
		setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
	return 0;
}

void ddp__nccl_place_find(struct ddp__nccl_place *p, const struct ddp__env *env,
			  int brief)
{
	struct err why = ERR_INIT;

	memset(p, 0, sizeof(*p));
	if (place_find(p, env, brief, &why))
		snprintf(p->why, sizeof(p->why), "%.*s",
			 (int)sizeof(p->why) - 1, why.text);
}

void ddp__nccl_place_put(struct buf *b, const struct ddp__nccl_place *p)
{
	buf_put_u32(b, (uint32_t)p->version);
	buf_put_u8(b, (uint8_t)p->share);
	buf_put_slice(b, SLICE_STR(p->gpu));
	buf_put_slice(b, SLICE_STR(p->kind));
	buf_put_slice(b, SLICE_STR(p->why));
}

static void place_get_text(struct reader *r, char *out, size_t size)
{
	struct slice s = reader_slice(r);

	if (s.len >= size)
		r->bad = 1;
	else if (s.len)
		memcpy(out, s.data, s.len);
}

int ddp__nccl_place_get(struct ddp__nccl_place *p, struct slice s,
			struct err *e)
{
	struct reader r;

	memset(p, 0, sizeof(*p));
	reader_init(&r, s);
	p->version = (int)reader_u32(&r);
	p->share = reader_u8(&r);
	place_get_text(&r, p->gpu, sizeof(p->gpu));
	place_get_text(&r, p->kind, sizeof(p->kind));
	place_get_text(&r, p->why, sizeof(p->why));
	if (!r.bad && !reader_left(&r))
		return 0;
	return err_set(e, ERR_PROTOCOL,
		       "ddp_init: a rank's description of its GPU does not "
		       "parse: start all ranks with the same libddp");
}

static int place_explain(int i, const struct ddp__nccl_place *p,
			 const struct ddp__peers *peers, char *why)
{
	char name[DDP__NAME_MAX];

	snprintf(why, ERR_TEXT_MAX, "%s cannot use NCCL: %s",
		 peers->name(peers->owner, i, name), p->why);
	return 0;
}

/* Orders ranks by GPU, then by rank. */
static int place_compare_gpus(const void *a, const void *b)
{
	const struct ddp__nccl_place *p = *(struct ddp__nccl_place *const *)a;
	const struct ddp__nccl_place *q = *(struct ddp__nccl_place *const *)b;
	int order = strcmp(p->gpu, q->gpu);

	return order ? order : p < q ? -1 : 1;
}

/* 1 and two ranks that use the same GPU without being allowed to. */
static int place_find_shared_gpu(const struct ddp__nccl_place *all, int n,
				 int *a, int *b)
{
	const struct ddp__nccl_place **order = malloc((size_t)n *
						      sizeof(*order));
	int found = 0;

	if (!order)
		return 0; /* NCCL will report it */
	for (int i = 0; i < n; i++)
		order[i] = &all[i];
	qsort(order, (size_t)n, sizeof(*order), place_compare_gpus);
	for (int i = 1; i < n && !found; i++) {
		if (strcmp(order[i - 1]->gpu, order[i]->gpu) ||
		    (order[i - 1]->share && order[i]->share))
			continue;
		*a = (int)(order[i - 1] - all);
		*b = (int)(order[i] - all);
		found = 1;
	}
	free(order);
	return found;
}

int ddp__nccl_agree(const struct ddp__nccl_place *all, int n,
		    const struct ddp__peers *peers, char why[ERR_TEXT_MAX])
{
	char one[DDP__NAME_MAX], two[DDP__NAME_MAX];
	int a, b;

	why[0] = '\0';
	for (int i = 0; i < n; i++)
		if (all[i].why[0])
			return place_explain(i, &all[i], peers, why);
	for (int i = 1; i < n; i++) {
		if (all[i].version == all[0].version)
			continue;
		snprintf(why, ERR_TEXT_MAX,
			 "%s has NCCL %d, but %s has NCCL %d: give all the "
			 "same version",
			 peers->name(peers->owner, i, one), all[i].version,
			 peers->name(peers->owner, 0, two), all[0].version);
		return 0;
	}
	if (!place_find_shared_gpu(all, n, &a, &b))
		return 1;
	snprintf(why, ERR_TEXT_MAX,
		 "%s and %s have the same GPU (%s), but NCCL needs one for "
		 "each rank: start fewer ranks, or, for a test, set "
		 "DDP_NCCL_SHARE_GPU=1",
		 peers->name(peers->owner, a, one),
		 peers->name(peers->owner, b, two),
		 strchr(all[a].gpu, ' ') ? strchr(all[a].gpu, ' ') + 1
					 : all[a].gpu);
	return 0;
}

int ddp__nccl_kinds_differ(const struct ddp__nccl_place *all, int n,
			   const struct ddp__peers *peers,
			   char why[ERR_TEXT_MAX])
{
	char one[DDP__NAME_MAX], two[DDP__NAME_MAX];
	int first = 0;

	while (first < n && !all[first].kind[0])
		first++;
	for (int i = first + 1; i < n; i++) {
		if (!all[i].kind[0] || !strcmp(all[i].kind, all[first].kind))
			continue;
		snprintf(why, ERR_TEXT_MAX,
			 "the GPUs are of several kinds: %s has an %s, %s an "
			 "%s; each collective waits for the slowest: give all "
			 "ranks GPUs of one kind",
			 peers->name(peers->owner, first, one), all[first].kind,
			 peers->name(peers->owner, i, two), all[i].kind);
		return 1;
	}
	return 0;
}
