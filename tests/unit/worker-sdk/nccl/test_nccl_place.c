/* test_nccl_place.c: records of ranks' GPUs that are broken or unlike, a
 * dynamic linker's cache that cannot be read, and CUDA's answers about
 * memory. */
/* replaces: malloc */
/* replaces: calloc */
/* replaces: open */
/* replaces: mmap */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/nccl/nccl_tables.h"

static struct err e;
static char why[ERR_TEXT_MAX];

static char *name_rank(void *owner, int rank, char *out)
{
	snprintf(out, DDP__NAME_MAX, "rank %d", rank);
	return out;
}

static const struct ddp__peers peers = {.name = name_rank};

START_TEST(a_record_that_does_not_parse_is_refused)
{
	struct ddp__nccl_place p = {.version = 22809, .share = 1}, back;
	struct buf b = BUF_INIT(DDP__PLACE_MAX);

	strcpy(p.gpu, "boot 0000:01:00.0");
	strcpy(p.kind, "NVIDIA H200");
	ddp__nccl_place_put(&b, &p);
	ck_assert_int_eq(ddp__nccl_place_get(&back, SLICE(b.data, b.len), &e),
			 0);
	ck_assert_str_eq(back.gpu, p.gpu);
	ck_assert_str_eq(back.kind, p.kind);
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_eq(ddp__nccl_place_get(&back, SLICE(b.data, n),
						     &e), ERR_PROTOCOL);
	ck_assert_ptr_nonnull(strstr(e.text, "start all ranks with the same "));
	buf_release(&b);
	/* a GPU's name of more bytes than fit */
	b = (struct buf)BUF_INIT(DDP__PLACE_MAX);
	buf_put_u32(&b, 22809);
	buf_put_u8(&b, 0);
	memset(why, 'x', sizeof(p.gpu));
	buf_put_slice(&b, SLICE(why, sizeof(p.gpu)));
	buf_put_slice(&b, SLICE("", 0));
	buf_put_slice(&b, SLICE("", 0));
	ck_assert_int_eq(ddp__nccl_place_get(&back, SLICE(b.data, b.len), &e),
			 ERR_PROTOCOL);
	buf_release(&b);
}
END_TEST

START_TEST(a_gpu_that_two_ranks_use_is_named)
{
	struct ddp__nccl_place all[3] = {{.gpu = "boot a"},
					 {.gpu = "b"},
					 {.gpu = "b"}};

	ck_assert_int_eq(ddp__nccl_agree(all, 2, &peers, why), 1);
	ck_assert_int_eq(ddp__nccl_agree(all, 3, &peers, why), 0);
	ck_assert_ptr_nonnull(strstr(why, "rank 1 and rank 2 have the same "
					  "GPU (b)"));
	/* without memory to compare them NCCL finds it */
	allocations_left = 0;
	ck_assert_int_eq(ddp__nccl_agree(all, 3, &peers, why), 1);
}
END_TEST

START_TEST(several_kinds_of_gpus_are_named)
{
	struct ddp__nccl_place all[3] = {{.kind = ""},
					 {.kind = "NVIDIA H200"},
					 {.kind = "NVIDIA H200"}};

	/* a rank that does not know its GPU's kind has none */
	ck_assert_int_eq(ddp__nccl_kinds_differ(all, 3, &peers, why), 0);
	strcpy(all[2].kind, "NVIDIA A100");
	ck_assert_int_eq(ddp__nccl_kinds_differ(all, 2, &peers, why), 0);
	ck_assert_int_eq(ddp__nccl_kinds_differ(all, 3, &peers, why), 1);
	ck_assert_ptr_nonnull(strstr(why, "rank 1 has an NVIDIA H200, rank 2 "
					  "an NVIDIA A100; "));
}
END_TEST

START_TEST(a_device_without_a_driver_has_no_name)
{
	char name[8] = "x";

	ddp__cuda_name(0, name, sizeof(name));
	ck_assert_str_eq(name, "");
}
END_TEST

START_TEST(bf16_needs_a_driver_and_memory)
{
	struct ddp__nccl n = {.cuda = &table_cuda};
	struct ddp_comm c = {.state = &n};
	struct ddp__nccl_bf16 *b;

	ck_assert_int_eq(ddp__nccl_bf16_new(&c, &b, &e), ERR_SYSTEM);
	ck_assert_ptr_nonnull(strstr(e.text, "bf16 needs cuModuleLoadData, "
					     "which the NVIDIA driver"));
	ddp__nccl_bf16_free(b);
	allocations_left = 0;
	ck_assert_int_eq(ddp__nccl_bf16_new(&c, &b, &e), -ENOMEM);
	allocations_left = -1;
	ddp__nccl_bf16_free(b);
}
END_TEST

static int opens_nothing, maps_nothing;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
void *__real_mmap(void *at, size_t size, int may, int flags, int fd,
		  off_t from);
void *__wrap_mmap(void *at, size_t size, int may, int flags, int fd,
		  off_t from);

int __wrap_open(const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
	va_end(more);
	return opens_nothing ? -1 : __real_open(path, flags, mode);
}

void *__wrap_mmap(void *at, size_t size, int may, int flags, int fd, off_t from)
{
	return maps_nothing ? MAP_FAILED
			    : __real_mmap(at, size, may, flags, fd, from);
}

/* The linker itself then says that there is none. */
START_TEST(a_linker_s_cache_that_cannot_be_read_is_no_error)
{
	const struct ddp__env env = {.nodes = 1};
	struct ddp__nccl_place p;

	unsetenv("LD_LIBRARY_PATH");
	for (int i = 0; i < 2; i++) {
		opens_nothing = i == 0;
		maps_nothing = i == 1;
		ddp__nccl_place_find(&p, &env, 1);
		opens_nothing = maps_nothing = 0;
		ck_assert(p.why[0] || p.nccl);
	}
}
END_TEST

START_TEST(memory_that_cuda_does_not_know_is_the_host_s)
{
	ck_assert_int_eq(ddp__cuda_on_device(&table_cuda, &e), 1);
	table_calls_left = 0;
	ck_assert_int_eq(ddp__cuda_on_device(&table_cuda, &e), 0);
}
END_TEST

START_TEST(a_process_without_a_driver_has_no_context)
{
	ck_assert_int_eq(ddp__cuda_in_use(), 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("nccl_place");

	tcase_add_test(c, a_record_that_does_not_parse_is_refused);
	tcase_add_test(c, a_gpu_that_two_ranks_use_is_named);
	tcase_add_test(c, several_kinds_of_gpus_are_named);
	tcase_add_test(c, a_device_without_a_driver_has_no_name);
	tcase_add_test(c, bf16_needs_a_driver_and_memory);
	tcase_add_test(c, a_linker_s_cache_that_cannot_be_read_is_no_error);
	tcase_add_test(c, memory_that_cuda_does_not_know_is_the_host_s);
	tcase_add_test(c, a_process_without_a_driver_has_no_context);
	return run_case(c) != 0;
}
