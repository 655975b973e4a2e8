/* nccl_bf16.c: converts gradients on a GPU between f32 and bf16, for a reducer
 * that sends bf16. libddp is built without CUDA's compiler: the kernels are
 * PTX, which the driver compiles for its GPU. */
#include <stdio.h>
#include <stdlib.h>

#include "worker-sdk/nccl/nccl_backend.h"

enum { THREADS = 256, BLOCKS_MAX = 2048 };

/* Thread i converts the elements i, i + threads, i + 2 * threads and so on. */
#define PTX_LOOP                                                               \
	"(.param .u64 to, .param .u64 from, .param .u64 count)\n"              \
	"{\n"                                                                  \
	".reg .b32 %r<10>;\n"                                                  \
	".reg .b64 %d<10>;\n"                                                  \
	".reg .pred %p<3>;\n"                                                  \
	"mov.u32 %r1, %ctaid.x;\n"                                             \
	"mov.u32 %r2, %ntid.x;\n"                                              \
	"mov.u32 %r3, %tid.x;\n"                                               \
	"mov.u32 %r4, %nctaid.x;\n"                                            \
	"mul.wide.u32 %d1, %r1, %r2;\n"                                        \
	"cvt.u64.u32 %d2, %r3;\n"                                              \
	"add.u64 %d1, %d1, %d2;\n"                                             \
	"mul.wide.u32 %d3, %r4, %r2;\n"                                        \
	"ld.param.u64 %d4, [to];\n"                                            \
	"ld.param.u64 %d5, [from];\n"                                          \
	"ld.param.u64 %d6, [count];\n"                                         \
	"NEXT:\n"                                                              \
	"setp.ge.u64 %p1, %d1, %d6;\n"                                         \
	"@%p1 bra DONE;\n"                                                     \
	"shl.b64 %d7, %d1, 1;\n"                                               \
	"shl.b64 %d8, %d1, 2;\n"
#define PTX_END                                                                \
	"add.u64 %d1, %d1, %d3;\n"                                             \
	"bra NEXT;\n"                                                          \
	"DONE:\n"                                                              \
	"ret;\n"                                                               \
	"}\n"

/* To nearest even, with integers alone, so that it runs on every GPU and gives
 * the bits of ddp__f32_to_bf16: %r7 is the rounded value, %r9 a NaN. */
static const char ptx[] =
	".version 7.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry ddp_to_bf16\n"
	PTX_LOOP
	"add.u64 %d8, %d5, %d8;\n"
	"ld.global.u32 %r5, [%d8];\n"
	"shr.u32 %r6, %r5, 16;\n"
	"and.b32 %r7, %r6, 1;\n"
	"add.u32 %r7, %r7, 32767;\n"
	"add.u32 %r7, %r7, %r5;\n"
	"shr.u32 %r7, %r7, 16;\n"
	"and.b32 %r8, %r5, 2147483647;\n"
	"setp.gt.u32 %p2, %r8, 2139095040;\n"
	"or.b32 %r9, %r6, 64;\n"
	"selp.b32 %r7, %r9, %r7, %p2;\n"
	"add.u64 %d7, %d4, %d7;\n"
	"st.global.u16 [%d7], %r7;\n"
	PTX_END
	".visible .entry ddp_from_bf16\n"
	PTX_LOOP
	"add.u64 %d7, %d5, %d7;\n"
	"ld.global.u16 %r5, [%d7];\n"
	"shl.b32 %r5, %r5, 16;\n"
	"add.u64 %d8, %d4, %d8;\n"
	"st.global.u32 [%d8], %r5;\n"
	PTX_END;

/* The driver's functions; all return a CUresult. */
#define DRIVER_CALLS(X)                                                        \
	X(load, cuModuleLoadData, (void **module, const void *image))          \
	X(unload, cuModuleUnload, (void *module))                              \
	X(find, cuModuleGetFunction,                                           \
	  (void **function, void *module, const char *name))                   \
	X(launch, cuLaunchKernel,                                              \
	  (void *function, unsigned x, unsigned y, unsigned z, unsigned bx,    \
	   unsigned by, unsigned bz, unsigned shared, void *stream,            \
	   void **arguments, void **extra))

struct ddp__nccl_bf16 {
#define X(field, symbol, args) int (*field) args;
	DRIVER_CALLS(X)
#undef X
	struct ddp__nccl *n;
	void *module, *function[2]; /* to bf16, from bf16 */
};

static int bf16_find_driver(struct ddp__nccl_bf16 *b, struct err *e)
{
#define X(field, symbol, args)                                                 \
	*(void **)&b->field = ddp__cuda_driver_function(#symbol);              \
	if (!b->field)                                                         \
		return err_set(e, ERR_SYSTEM, "ddp_reducer_new: bf16 needs "   \
			       "%s, which the NVIDIA driver (libcuda.so.1) "   \
			       "lacks: update the driver, or leave bf16 out",  \
			       #symbol);
	DRIVER_CALLS(X)
#undef X
	return 0;
}

static int bf16_check(int rc, const char *what, struct err *e)
{
	return rc ? err_set(e, ERR_SYSTEM, "a reducer with bf16: %s failed "
			    "with CUDA's error %d", what, rc)
		  : 0;
}

static int bf16_load(struct ddp__nccl_bf16 *b, struct err *e)
{
	int rc = bf16_find_driver(b, e);

	if (!rc)
		rc = bf16_check(b->load(&b->module, ptx), "cuModuleLoadData",
				e);
	if (!rc)
		rc = bf16_check(b->find(&b->function[0], b->module,
					"ddp_to_bf16"),
				"cuModuleGetFunction", e);
	if (!rc)
		rc = bf16_check(b->find(&b->function[1], b->module,
					"ddp_from_bf16"),
				"cuModuleGetFunction", e);
	return rc;
}

int ddp__nccl_bf16_new(struct ddp_comm *c, struct ddp__nccl_bf16 **out,
		       struct err *e)
{
	struct ddp__nccl_bf16 *b = calloc(1, sizeof(*b));
	int before, rc;

	*out = b;
	if (!b)
		return err_no_memory(e, "ddp_reducer_new (bf16)");
	b->n = c->state;
	before = ddp__nccl_device(b->n);
	rc = bf16_load(b, e);
	b->n->cuda->set_device(before);
	return rc;
}

void ddp__nccl_bf16_free(struct ddp__nccl_bf16 *b)
{
	int before;

	if (!b)
		return;
	/* unloading waits for kernels that never end */
	if (b->module && !b->n->dead) {
		before = ddp__nccl_device(b->n);
		b->unload(b->module);
		b->n->cuda->set_device(before);
	}
	free(b);
}

/* Enqueues a conversion behind the program's work. */
static int bf16_run(struct ddp__nccl_bf16 *b, int k, void *to, const void *from,
		    size_t count, struct err *e)
{
	/* at least one, which has nothing to do if count is 0 */
	size_t blocks = count / THREADS < BLOCKS_MAX ? count / THREADS + 1
						     : BLOCKS_MAX;
	uint64_t n = count;
	void *arguments[] = {&to, &from, &n};
	int before, rc;

	before = ddp__nccl_device(b->n);
	rc = bf16_check(b->launch(b->function[k], (unsigned)blocks, 1, 1,
				  THREADS, 1, 1, 0, b->n->user, arguments,
				  NULL), "cuLaunchKernel", e);
	b->n->cuda->set_device(before);
	return rc;
}

int ddp__nccl_to_bf16(struct ddp__nccl_bf16 *b, uint16_t *to, const void *from,
		      size_t count, struct err *e)
{
	return bf16_run(b, 0, to, from, count, e);
}

int ddp__nccl_from_bf16(struct ddp__nccl_bf16 *b, void *to,
			const uint16_t *from, size_t count, struct err *e)
{
	return bf16_run(b, 1, to, from, count, e);
}

int ddp__nccl_bf16_wait(struct ddp__nccl_bf16 *b, struct err *e)
{
	struct ddp__nccl *n = b->n;
	int before, rc;

	if (n->user)
		return 0;
	before = ddp__nccl_device(n);
	rc = ddp__cuda_check(n->cuda, n->cuda->event_record(n->finish, NULL),
			     "cudaEventRecord", e);
	if (!rc)
		rc = ddp__nccl_wait_event(n->c, n->finish, e);
	n->cuda->set_device(before);
	return rc;
}
