/* cuda_ptx.c: runs the few PTX instructions that libddp's kernels have, thread
 * after thread, so that tests see what the text computes. Anything else ends
 * the program. Also the driver's calls that load and launch kernels. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

enum { OPS_MAX = 64, ARGS = 4, NAMES_MAX = 48, NAME = 24, PARAMS = 3 };

#define PTX_OPS(X)                                                             \
	X(MOV, "mov.u32") X(CVT, "cvt.u64.u32") X(PARAM, "ld.param.u64")       \
	X(MUL_WIDE, "mul.wide.u32") X(ADD64, "add.u64") X(ADD32, "add.u32")    \
	X(SHL64, "shl.b64") X(SHL32, "shl.b32") X(SHR32, "shr.u32")            \
	X(AND, "and.b32") X(OR, "or.b32") X(GE64, "setp.ge.u64")               \
	X(GT32, "setp.gt.u32") X(SELECT, "selp.b32") X(LD32, "ld.global.u32")  \
	X(LD16, "ld.global.u16") X(ST32, "st.global.u32")                      \
	X(ST16, "st.global.u16") X(BRA, "bra") X(RET, "ret")

enum ptx_code {
#define X(code, text) PTX_##code,
	PTX_OPS(X)
#undef X
	PTX_CODES
};
static const char *const ptx_texts[] = {
#define X(code, text) text,
	PTX_OPS(X)
#undef X
};

struct ptx_op {
	enum ptx_code code;
	int guard; /* the register of @%p, or -1 */
	int arg[ARGS];
};

/* Registers, labels, parameters and constants are values with a name; a label's
 * is the number of its instruction. */
struct ptx_kernel {
	struct ptx_op op[OPS_MAX];
	int ops, names;
	char name[NAMES_MAX][NAME];
	uint64_t value[NAMES_MAX];
};

struct ptx_launch {
	const struct ptx_kernel *kernel;
	unsigned blocks, threads;
	uint64_t param[PARAMS];
};

PUBLIC int cuModuleLoadData(void **module, const void *image);
PUBLIC int cuModuleUnload(void *module);
PUBLIC int cuModuleGetFunction(void **function, void *module, const char *name);
PUBLIC int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z,
			  unsigned bx, unsigned by, unsigned bz,
			  unsigned shared, void *stream, void **arguments,
			  void **extra);

static void *(*ptx_bytes)(const void *p, size_t size);
static int (*ptx_fails)(const char *function);

static void ptx_die(const char *what)
{
	fprintf(stderr, "stand-in: PTX: %s\n", what);
	abort();
}

/* The runtime that the process has loaded. */
static void *ptx_runtime(const char *symbol)
{
	void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
	void *found = runtime ? dlsym(runtime, symbol) : NULL;

	if (!found)
		ptx_die("the stand-in's runtime is not loaded");
	dlclose(runtime);
	return found;
}

static int ptx_name(struct ptx_kernel *k, const char *text)
{
	int i = 0;

	while (i < k->names && strcmp(k->name[i], text) != 0)
		i++;
	if (i == NAMES_MAX || strlen(text) >= NAME)
		ptx_die("too many names");
	if (i == k->names) {
		strcpy(k->name[k->names++], text);
		k->value[i] = strtoull(text, NULL, 10);
	}
	return i;
}

static void ptx_parse_line(struct ptx_kernel *k, char *line)
{
	struct ptx_op *op = &k->op[k->ops];
	char *save, *word = strtok_r(line, " ,;[]", &save);
	size_t n = word ? strlen(word) : 0;

	if (!word || word[0] == '.' || word[0] == '{' || word[0] == '(')
		return;
	if (word[n - 1] == ':') {
		word[n - 1] = '\0';
		k->value[ptx_name(k, word)] = (uint64_t)k->ops;
		return;
	}
	if (++k->ops == OPS_MAX)
		ptx_die("too many instructions");
	op->guard = -1;
	if (word[0] == '@') {
		op->guard = ptx_name(k, word + 1);
		word = strtok_r(NULL, " ,;[]", &save);
	}
	while (op->code < PTX_CODES && strcmp(ptx_texts[op->code], word) != 0)
		op->code++;
	if (op->code == PTX_CODES)
		ptx_die(word);
	for (int i = 0; i < ARGS; i++) {
		word = strtok_r(NULL, " ,;[]", &save);
		if (!word)
			break;
		op->arg[i] = ptx_name(k, word);
	}
}

/* Reads a kernel from its name to the closing brace. */
static struct ptx_kernel *ptx_parse(const char *text)
{
	struct ptx_kernel *k = calloc(1, sizeof(*k));
	char line[128];

	for (text = strchr(text, '\n'); k && text && text[1] != '}';
	     text = strchr(text + 1, '\n')) {
		size_t n = strcspn(text + 1, "\n");

		if (n >= sizeof(line))
			ptx_die("a long line");
		memcpy(line, text + 1, n);
		line[n] = '\0';
		ptx_parse_line(k, line);
	}
	if (!k || !text)
		ptx_die("a kernel without an end");
	return k;
}

static uint64_t ptx_load(uint64_t at, size_t n)
{
	void *p = at % n ? NULL : ptx_bytes((void *)(uintptr_t)at, n);
	uint64_t value = 0;

	if (!p)
		ptx_die("a load from a wrong address");
	memcpy(&value, p, n); /* little-endian */
	return value;
}

static void ptx_store(uint64_t at, uint64_t value, size_t n)
{
	void *p = at % n ? NULL : ptx_bytes((void *)(uintptr_t)at, n);

	if (!p)
		ptx_die("a store to a wrong address");
	memcpy(p, &value, n);
}

/* The result of an instruction without a branch. v: all values. */
static uint64_t ptx_result(const struct ptx_op *op, const uint64_t *v)
{
	uint64_t a = v[op->arg[1]], b = v[op->arg[2]];

	switch (op->code) {
	case PTX_MOV:
	case PTX_CVT: return (uint32_t)a;
	case PTX_PARAM: return a;
	case PTX_MUL_WIDE: return (uint64_t)(uint32_t)a * (uint32_t)b;
	case PTX_ADD64: return a + b;
	case PTX_ADD32: return (uint32_t)(a + b);
	case PTX_SHL64: return a << b;
	case PTX_SHL32: return (uint32_t)(a << b);
	case PTX_SHR32: return (uint32_t)a >> b;
	case PTX_AND: return (uint32_t)(a & b);
	case PTX_OR: return (uint32_t)(a | b);
	case PTX_GE64: return a >= b;
	case PTX_GT32: return (uint32_t)a > (uint32_t)b;
	case PTX_SELECT: return v[op->arg[3]] ? a : b;
	case PTX_LD32: return ptx_load(a, 4);
	case PTX_LD16: return ptx_load(a, 2);
	default: ptx_die("an instruction at a wrong place");
	}
	return 0;
}

/* Runs one instruction; returns the number of the next one. */
static int ptx_step(uint64_t *v, const struct ptx_op *op, int at)
{
	uint64_t *to = &v[op->arg[0]];

	if (op->guard >= 0 && !v[op->guard])
		return at + 1;
	if (op->code == PTX_BRA)
		return (int)*to;
	if (op->code == PTX_ST32 || op->code == PTX_ST16)
		ptx_store(*to, v[op->arg[1]], op->code == PTX_ST32 ? 4 : 2);
	else
		*to = ptx_result(op, v);
	return at + 1;
}

/* What a thread knows of itself, in this order; then the arguments. */
static const char *const ptx_inputs[] = {
	"%tid.x", "%ctaid.x", "%ntid.x", "%nctaid.x", "to", "from", "count"};
enum { INPUTS = sizeof(ptx_inputs) / sizeof(*ptx_inputs) };

static void ptx_run(void *arg)
{
	struct ptx_launch *l = arg;
	struct ptx_kernel k = *l->kernel;
	uint64_t inputs[INPUTS] = {0, 0, l->threads, l->blocks};
	int name[INPUTS];

	memcpy(inputs + INPUTS - PARAMS, l->param, sizeof(l->param));
	for (int i = 0; i < INPUTS; i++)
		name[i] = ptx_name(&k, ptx_inputs[i]);
	for (unsigned n = 0; n < l->blocks * l->threads; n++) {
		int at = 0;

		inputs[0] = n % l->threads;
		inputs[1] = n / l->threads;
		for (int i = 0; i < INPUTS; i++)
			k.value[name[i]] = inputs[i];
		while (k.op[at].code != PTX_RET)
			at = ptx_step(k.value, &k.op[at], at);
	}
	free(l);
}

/* ---- the driver's calls; a module is its text */

int cuModuleLoadData(void **module, const void *image)
{
	*(void **)&ptx_bytes = ptx_runtime("standin_bytes");
	*(void **)&ptx_fails = ptx_runtime("standin_fails");
	*module = strdup(image);
	return ptx_fails("cuModuleLoadData");
}

int cuModuleUnload(void *module)
{
	free(module);
	return 0;
}

/* A function lives as long as the process. */
int cuModuleGetFunction(void **function, void *module, const char *name)
{
	static struct ptx_kernel *kernels[2];
	char entry[64];
	const char *text;
	int i = !strcmp(name, "ddp_from_bf16");

	snprintf(entry, sizeof(entry), ".entry %s\n", name);
	text = strstr(module, entry);
	if (!text || ptx_fails("cuModuleGetFunction"))
		return 1;
	if (!kernels[i])
		kernels[i] = ptx_parse(text);
	*function = kernels[i];
	return 0;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z,
		   unsigned bx, unsigned by, unsigned bz, unsigned shared,
		   void *stream, void **arguments, void **extra)
{
	cudaError_t (*run)(cudaStream_t s, cudaHostFn_t run, void *arg);
	struct ptx_launch *l = calloc(1, sizeof(*l));

	if (!l || y * z * by * bz != 1 || shared || extra)
		ptx_die("a launch of another shape");
	l->kernel = function;
	l->blocks = x;
	l->threads = bx;
	for (int i = 0; i < PARAMS; i++)
		memcpy(&l->param[i], arguments[i], sizeof(l->param[i]));
	if (ptx_fails("cuLaunchKernel")) {
		free(l);
		return 1;
	}
	*(void **)&run = ptx_runtime("cudaLaunchHostFunc");
	return (int)run(stream, ptx_run, l);
}
