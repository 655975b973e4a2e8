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

enum { THREADS_MAX = 1024, STACK = 64 << 10, WARP = 32, LINE = 64 };
enum state { NEW, READY, AT_BLOCK, AT_WARP, LEFT };

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

/* What threads run on: a thread keeps its fiber while it waits, and leaves it
 * to the next one at its end. */
struct fiber {
	context place;
	char *stack;
};

static struct thread {
	enum state state;
	uint64_t says[2];
	unsigned turn; /* the last of them */
	struct fiber *fiber;
} threads[THREADS_MAX];
static struct fiber fibers[THREADS_MAX], *unused[THREADS_MAX];
static unsigned n_fibers, n_unused;
static context scheduler;
static unsigned now, count, n_left;
static const std::function<void()> *body;

static void give_up(const char *what)
{
	fprintf(stderr, "on_host: block %u %u: %s\n", blockIdx.x, blockIdx.y,
		what);
	abort();
}

static void step_aside(enum state s)
{
	threads[now].state = s;
	switch_to(&threads[now].fiber->place, &scheduler);
}

void __syncthreads(void)
{
	step_aside(AT_BLOCK);
}

/* Two slots: while a slow lane reads a value, the lane that wrote it may already write
 * its next one, but no third. */
uint64_t on_host_exchange(uint64_t mine, int d)
{
	unsigned other = now ^ (unsigned)d, turn = threads[now].turn ^= 1;

	threads[now].says[turn] = mine;
	step_aside(AT_WARP);
	if (other >= count)
		give_up("a lane asks a lane that does not exist");
	return threads[other].says[turn];
}

/* The k-th thread to run. */
static unsigned thread_at(unsigned k)
{
	return on_host_backwards ? count - 1 - k : k;
}

static void choose(unsigned i)
{
	now = i;
	threadIdx = dim3(i, 0, 0);
	if (i >= blockDim.x)
		threadIdx = dim3(i % blockDim.x, i / blockDim.x % blockDim.y,
				 i / blockDim.x / blockDim.y);
}

/* Most kernels' threads wait for none: one fiber runs them all, without a
 * switch. */
static void run_threads(void)
{
	for (;;) {
		struct fiber *me = threads[now].fiber;
		unsigned k;

		(*body)();
		threads[now].state = LEFT;
		n_left++;
		k = thread_at(now) + 1;
		if (k < count && threads[thread_at(k)].state == NEW) {
			choose(thread_at(k));
			threads[now].fiber = me;
			continue;
		}
		unused[n_unused++] = me;
		switch_to(&me->place, &scheduler);
	}
}

/* The stacks begin in different lines of the CPU's cache. */
static struct fiber *fiber_take(void)
{
	struct fiber *f;

	if (n_unused)
		return unused[--n_unused];
	f = &fibers[n_fibers];
	f->stack = static_cast<char *>(aligned_alloc(LINE, STACK));
	context_init(&f->place, f->stack, STACK - n_fibers % 64 * LINE,
		     run_threads);
	n_fibers++;
	return f;
}

static void resume(unsigned i)
{
	if (threads[i].state == NEW)
		threads[i].fiber = fiber_take();
	choose(i);
	switch_to(&scheduler, &threads[i].fiber->place);
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
	n_left = 0;
	for (unsigned i = 0; i < count; i++) {
		threads[i].state = NEW;
		threads[i].turn = 0;
	}
	for (;;) {
		int moved = 0;

		for (unsigned k = 0; k < count; k++) {
			unsigned i = thread_at(k);

			if (threads[i].state > READY)
				continue;
			resume(i);
			moved = 1;
		}
		if (n_left == count)
			return;
		for (unsigned w = 0; w < count; w += WARP)
			moved |= release(w, w + WARP < count ? w + WARP : count,
					 AT_WARP);
		moved |= release(0, count, AT_BLOCK);
		if (!moved)
			give_up("its threads wait for ever");
	}
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
