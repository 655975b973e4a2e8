/* on_host.cc: runs the threads of a block as contexts that take turns. */
#include "tests/unit/trainers/cuda/on_host.h"

#include <stdio.h>
#include <stdlib.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;
int on_host_backwards;
/* Set by on_host_cuda.cc: keeps work for later. */
bool (*on_host_keep)(const std::function<void()> &work);

enum { THREADS_MAX = 1024, STACK = 64 << 10, WARP = 32 };
enum state { READY, AT_BLOCK, AT_WARP, LEFT };

/* A context, and switch_to(FROM, TO), which returns when another one switches
 * back to FROM. A kernel of millions of threads is nothing but switches, and
 * swapcontext calls the operating system twice for each. */
#ifdef __x86_64__
typedef void *context; /* its stack pointer, below the registers it keeps */

extern "C" void on_host_switch(context *from, context to);
asm(".text\n"
    ".type on_host_switch, @function\n"
    "on_host_switch:\n"
    "	push %rbp\n	push %rbx\n	push %r12\n"
    "	push %r13\n	push %r14\n	push %r15\n"
    "	mov %rsp, (%rdi)\n"
    "	mov %rsi, %rsp\n"
    "	pop %r15\n	pop %r14\n	pop %r13\n"
    "	pop %r12\n	pop %rbx\n	pop %rbp\n"
    "	ret\n"
    ".size on_host_switch, . - on_host_switch\n");

static void switch_to(context *from, context *to)
{
	on_host_switch(from, *to);
}

/* Six registers, where to return to, and what would be a caller's address. */
static void context_init(context *c, char *stack, size_t bytes, void (*run)())
{
	void **top = reinterpret_cast<void **>(stack + bytes) - 8;

	memset(top, 0, 8 * sizeof(*top));
	top[6] = reinterpret_cast<void *>(run);
	*c = top;
}
#else
typedef ucontext_t context;

static void switch_to(context *from, context *to)
{
	swapcontext(from, to);
}

static void context_init(context *c, char *stack, size_t bytes, void (*run)())
{
	getcontext(c);
	c->uc_stack.ss_sp = stack;
	c->uc_stack.ss_size = bytes;
	makecontext(c, run, 0);
}
#endif

static struct thread {
	context place;
	enum state state;
	uint64_t says;
	char *stack;
} threads[THREADS_MAX];
static context scheduler;
static unsigned now, count;
static const std::function<void()> *body;

static void give_up(const char *what)
{
	fprintf(stderr, "on_host: block %u %u: %s\n", blockIdx.x, blockIdx.y,
		what);
	abort();
}

static void step_aside(enum state s)
{
	struct thread *me = &threads[now];

	me->state = s;
	switch_to(&me->place, &scheduler);
}

void __syncthreads(void)
{
	step_aside(AT_BLOCK);
}

uint64_t on_host_exchange(uint64_t mine, int d)
{
	unsigned other = now ^ (unsigned)d;
	uint64_t theirs;

	threads[now].says = mine;
	step_aside(AT_WARP);
	if (other >= count)
		give_up("a lane asks a lane that does not exist");
	theirs = threads[other].says;
	step_aside(AT_WARP);
	return theirs;
}

/* Its stack serves the thread of this number in all blocks. */
static void run_thread(void)
{
	for (;;) {
		(*body)();
		step_aside(LEFT);
	}
}

static void resume(unsigned i)
{
	now = i;
	threadIdx = dim3(i % blockDim.x, i / blockDim.x % blockDim.y,
			 i / blockDim.x / blockDim.y);
	switch_to(&scheduler, &threads[i].place);
}

static unsigned in_state(unsigned from, unsigned to, enum state s)
{
	unsigned n = 0;

	for (unsigned i = from; i < to; i++)
		n += threads[i].state == s;
	return n;
}

static int release(unsigned from, unsigned to, enum state s)
{
	if (in_state(from, to, s) != to - from)
		return 0;
	for (unsigned i = from; i < to; i++)
		threads[i].state = READY;
	return 1;
}

static void run_block(void)
{
	while (in_state(0, count, LEFT) < count) {
		int moved = 0;

		for (unsigned k = 0; k < count; k++) {
			unsigned i = on_host_backwards ? count - 1 - k : k;

			if (threads[i].state != READY)
				continue;
			resume(i);
			moved = 1;
		}
		for (unsigned w = 0; w < count; w += WARP)
			moved |= release(w, w + WARP < count ? w + WARP : count,
					 AT_WARP);
		moved |= release(0, count, AT_BLOCK);
		if (!moved)
			give_up("its threads wait for ever");
	}
}

static void begin_thread(struct thread *t)
{
	if (!t->stack) {
		t->stack = static_cast<char *>(aligned_alloc(64, STACK));
		context_init(&t->place, t->stack, STACK, run_thread);
	}
	t->state = READY;
}

static void begin_block(void)
{
	for (unsigned i = 0; i < count; i++)
		begin_thread(&threads[i]);
}

static void run_grid(dim3 grid, dim3 block, const std::function<void()> &kernel)
{
	body = &kernel;
	gridDim = grid;
	blockDim = block;
	count = block.x * block.y * block.z;
	for (unsigned y = 0; y < grid.y; y++)
		for (unsigned x = 0; x < grid.x; x++) {
			blockIdx = dim3(x, y, 0);
			begin_block();
			run_block();
		}
}

void on_host_launch(dim3 grid, dim3 block, const std::function<void()> &kernel)
{
	unsigned threads_wanted = block.x * block.y * block.z;

	if (!threads_wanted || threads_wanted > THREADS_MAX || !grid.x ||
	    !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535) {
		fprintf(stderr, "on_host: a grid that no GPU takes\n");
		abort();
	}
	if (on_host_keep &&
	    on_host_keep([=]() { run_grid(grid, block, kernel); }))
		return;
	run_grid(grid, block, kernel);
}
