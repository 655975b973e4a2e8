/* test_nccl.c: the parts that need no GPU: our declarations against NCCL's and
 * CUDA's headers if these exist, libraries that are missing or are not what
 * they should be, and the agreement on which ranks use NCCL. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/nccl/cuda_lib.h"
#include "worker-sdk/nccl/nccl_lib.h"
#include "worker-sdk/nccl/nccl_place.h"

#if __has_include(<cuda_runtime_api.h>) && __has_include(<nccl.h>)
#include <cuda_runtime_api.h>
#include <nccl.h>

#define SAME(a, b) _Static_assert((long)(a) == (long)(b), #a " is not " #b)
#define FIELD(a, b)                                                           \
	SAME(offsetof(struct ddp__nccl_config, a), offsetof(ncclConfig_t, b))

SAME(sizeof(struct ddp__nccl_id), sizeof(ncclUniqueId));
SAME(DDP__NCCL_ID, NCCL_UNIQUE_ID_BYTES);
SAME(DDP__NCCL_SUCCESS, ncclSuccess);
SAME(DDP__NCCL_CUDA, ncclUnhandledCudaError);
SAME(DDP__NCCL_SYSTEM, ncclSystemError);
SAME(DDP__NCCL_INTERNAL, ncclInternalError);
SAME(DDP__NCCL_ARGUMENT, ncclInvalidArgument);
SAME(DDP__NCCL_USAGE, ncclInvalidUsage);
SAME(DDP__NCCL_REMOTE, ncclRemoteError);
SAME(DDP__NCCL_IN_PROGRESS, ncclInProgress);
FIELD(size, size);
FIELD(magic, magic);
FIELD(version, version);
FIELD(blocking, blocking);
FIELD(cga_cluster_size, cgaClusterSize);
FIELD(min_ctas, minCTAs);
FIELD(max_ctas, maxCTAs);
FIELD(net_name, netName);
FIELD(split_share, splitShare);
SAME(sizeof(struct ddp__cuda_pointer), sizeof(struct cudaPointerAttributes));
SAME(offsetof(struct ddp__cuda_pointer, memory),
     offsetof(struct cudaPointerAttributes, type));
SAME(offsetof(struct ddp__cuda_pointer, on_host),
     offsetof(struct cudaPointerAttributes, hostPointer));
SAME(DDP__CUDA_OLD_DRIVER, cudaErrorInsufficientDriver);
SAME(DDP__CUDA_NO_DEVICE, cudaErrorNoDevice);
SAME(DDP__CUDA_NOT_READY, cudaErrorNotReady);
SAME(DDP__CUDA_HOST, cudaMemoryTypeHost);
SAME(DDP__CUDA_DEVICE, cudaMemoryTypeDevice);
SAME(DDP__CUDA_MANAGED, cudaMemoryTypeManaged);
SAME(DDP__CUDA_NON_BLOCKING, cudaStreamNonBlocking);
SAME(DDP__CUDA_NO_TIMING, cudaEventDisableTiming);
SAME(DDP__CUDA_COPY_ANY, cudaMemcpyDefault);

START_TEST(types_and_operations_match_nccls)
{
	static const ncclDataType_t types[DDP_TYPES] = {
		[DDP_F32] = ncclFloat32, [DDP_F64] = ncclFloat64,
		[DDP_I32] = ncclInt32,	 [DDP_I64] = ncclInt64,
		[DDP_F16] = ncclFloat16, [DDP_BF16] = ncclBfloat16,
		[DDP_I8] = ncclInt8,	 [DDP_U8] = ncclUint8};

	for (int i = 0; i < DDP_TYPES; i++)
		ck_assert_int_eq(ddp__nccl_type(i), (int)types[i]);
	ck_assert_int_eq(ddp__nccl_op(DDP_SUM), ncclSum);
	ck_assert_int_eq(ddp__nccl_op(DDP_AVG), ncclAvg);
	ck_assert_int_eq(ddp__nccl_op(DDP_MIN), ncclMin);
	ck_assert_int_eq(ddp__nccl_op(DDP_MAX), ncclMax);
	ck_assert_int_eq(ddp__nccl_op(DDP_PROD), ncclProd);
	ck_assert_int_eq(ddp__nccl_op(DDP_BAND), -1);
	ck_assert_int_eq(ddp__nccl_op(DDP_BOR), -1);
}
END_TEST
#else
START_TEST(types_and_operations_match_nccls)
{
	puts("there are no CUDA headers here to hold ours against");
	ck_assert_int_eq(ddp__nccl_type(DDP_F32), 7);
	ck_assert_int_eq(ddp__nccl_op(DDP_BAND), -1);
}
END_TEST
#endif

static void expect_text(const struct err *e, const char *part)
{
	ck_assert_msg(strstr(e->text, part) != NULL, "no '%s' in '%s'", part,
		      e->text);
}

START_TEST(a_library_that_is_not_there_is_named)
{
	const struct ddp__nccl_lib *nccl;
	const struct ddp__cuda *cuda;
	struct err e = ERR_INIT;

	setenv("DDP_NCCL_LIB", "/nowhere/libnccl.so.2", 1);
	ck_assert_int_eq(ddp__nccl_load(&nccl, &e), ERR_SYSTEM);
	ck_assert_ptr_null(nccl);
	expect_text(&e, "DDP_NCCL_LIB is '/nowhere/libnccl.so.2', which cannot "
			"be loaded: ");
	setenv("DDP_CUDART_LIB", "/nowhere/libcudart.so", 1);
	ck_assert_int_eq(ddp__cuda_load(&cuda, &e), ERR_SYSTEM);
	ck_assert_ptr_null(cuda);
	expect_text(&e, "DDP_CUDART_LIB is '/nowhere/libcudart.so'");
}
END_TEST

START_TEST(another_library_is_named)
{
	const struct ddp__nccl_lib *nccl;
	const struct ddp__cuda *cuda;
	struct err e = ERR_INIT;

	setenv("DDP_NCCL_LIB", "libm.so.6", 1);
	ck_assert_int_eq(ddp__nccl_load(&nccl, &e), ERR_SYSTEM);
	expect_text(&e, "libm.so.6 has no ncclGetVersion: libddp needs NCCL "
			"2.18 or newer; set DDP_NCCL_LIB to one");
	setenv("DDP_CUDART_LIB", "libm.so.6", 1);
	ck_assert_int_eq(ddp__cuda_load(&cuda, &e), ERR_SYSTEM);
	expect_text(&e, "libm.so.6 has no cudaGetDeviceCount");
}
END_TEST

START_TEST(abort_is_left_out_where_it_crashes)
{
	ck_assert_int_eq(ddp__nccl_abort_crashes(22802), 0);
	ck_assert_int_eq(ddp__nccl_abort_crashes(22803), 1);
	ck_assert_int_eq(ddp__nccl_abort_crashes(22808), 1);
	ck_assert_int_eq(ddp__nccl_abort_crashes(22809), 0);
}
END_TEST

/* ---- the agreement */

static char *name(void *owner, int rank, char *out)
{
	snprintf(out, DDP__NAME_MAX, "rank %d on h%d", rank, rank / 2);
	return out;
}

static const struct ddp__peers peers = {.name = name};

static struct ddp__nccl_place place(const char *gpu, const char *why)
{
	struct ddp__nccl_place p = {.version = 22809};

	snprintf(p.gpu, sizeof(p.gpu), "%s", gpu);
	snprintf(p.why, sizeof(p.why), "%s", why);
	return p;
}

START_TEST(a_record_survives_its_encoding)
{
	struct ddp__nccl_place p = place("boot 0000:1b:00.0", "no \"driver\"");
	struct ddp__nccl_place q;
	struct buf b = BUF_INIT(DDP__PLACE_MAX);
	struct err e = ERR_INIT;

	p.share = 1;
	ddp__nccl_place_put(&b, &p);
	ck_assert_int_eq(b.failed, 0);
	ck_assert_int_eq(ddp__nccl_place_get(&q, SLICE(b.data, b.len), &e), 0);
	ck_assert_int_eq(q.version, 22809);
	ck_assert_int_eq(q.share, 1);
	ck_assert_str_eq(q.gpu, p.gpu);
	ck_assert_str_eq(q.why, p.why);
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_eq(ddp__nccl_place_get(&q, SLICE(b.data, n), &e),
				 ERR_PROTOCOL);
	buf_release(&b);
}
END_TEST

START_TEST(the_longest_record_fits)
{
	struct ddp__nccl_place p = {.version = 1}, q;
	struct buf b = BUF_INIT(DDP__PLACE_MAX);
	struct err e = ERR_INIT;

	memset(p.gpu, 'g', sizeof(p.gpu) - 1);
	memset(p.why, 'w', sizeof(p.why) - 1);
	ddp__nccl_place_put(&b, &p);
	/* with its length in front, as ranks gather it */
	ck_assert_int_eq(b.failed, 0);
	ck_assert_uint_le(b.len + 4, DDP__PLACE_MAX);
	ck_assert_int_eq(ddp__nccl_place_get(&q, SLICE(b.data, b.len), &e), 0);
	ck_assert_str_eq(q.why, p.why);
	buf_release(&b);
}
END_TEST

START_TEST(nccl_is_used_by_all_ranks_or_by_none)
{
	struct ddp__nccl_place all[] = {place("a 1", ""), place("a 2", ""),
					place("b 1", ""), place("b 2", "")};
	char why[ERR_TEXT_MAX];

	ck_assert_int_eq(ddp__nccl_agree(all, 4, &peers, why), 1);
	ck_assert_str_eq(why, "");
	all[3] = place("", "no GPU here");
	ck_assert_int_eq(ddp__nccl_agree(all, 4, &peers, why), 0);
	ck_assert_str_eq(why, "rank 3 on h1 cannot use NCCL: no GPU here");
}
END_TEST

START_TEST(a_gpu_for_each_rank_unless_they_share)
{
	struct ddp__nccl_place all[] = {place("a 2", ""), place("a 1", ""),
					place("b 1", ""), place("a 1", "")};
	char why[ERR_TEXT_MAX];

	ck_assert_int_eq(ddp__nccl_agree(all, 4, &peers, why), 0);
	ck_assert_str_eq(why,
			 "rank 1 on h0 and rank 3 on h1 have the same GPU (1), "
			 "but NCCL needs one for each rank: start fewer ranks, "
			 "or, for a test, set DDP_NCCL_SHARE_GPU=1");
	all[1].share = 1;
	ck_assert_int_eq(ddp__nccl_agree(all, 4, &peers, why), 0);
	all[3].share = 1;
	ck_assert_int_eq(ddp__nccl_agree(all, 4, &peers, why), 1);
	ck_assert_int_eq(ddp__nccl_agree(all, 1, &peers, why), 1);
}
END_TEST

START_TEST(one_nccl_for_all)
{
	struct ddp__nccl_place all[] = {place("a 1", ""), place("a 2", "")};
	char why[ERR_TEXT_MAX];

	all[1].version = 23007;
	ck_assert_int_eq(ddp__nccl_agree(all, 2, &peers, why), 0);
	ck_assert_str_eq(why, "rank 1 on h0 has NCCL 23007, but rank 0 on h0 "
			      "has NCCL 22809: give all the same version");
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("nccl");

	tcase_add_test(t, types_and_operations_match_nccls);
	tcase_add_test(t, a_library_that_is_not_there_is_named);
	tcase_add_test(t, another_library_is_named);
	tcase_add_test(t, abort_is_left_out_where_it_crashes);
	tcase_add_test(t, a_record_survives_its_encoding);
	tcase_add_test(t, the_longest_record_fits);
	tcase_add_test(t, nccl_is_used_by_all_ranks_or_by_none);
	tcase_add_test(t, a_gpu_for_each_rank_unless_they_share);
	tcase_add_test(t, one_nccl_for_all);
	return run_case(t);
}
