/* on_host.cc: runs the threads of a block as contexts that take turns. */
#include "tests/unit/trainers/cuda/on_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

dim3 threadIdx, blockIdx, blockDim, gridDim;
int on_host_backwards;
/* Set by on_host_cuda.cc: keeps work for later. */
bool (*on_host_keep)(const std::function<void()> &work);

enum { THREADS_MAX = 1024, STACK = 64 << 10, WARP = 32 };
enum state { READY, AT_BLOCK, AT_WARP, LEFT };

static struct thread {
	ucontext_t context;
	enum state state;
	uint64_t says;
	char *stack;
} threads[THREADS_MAX];
static ucontext_t scheduler;
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
	swapcontext(&me->context, &scheduler);
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

static void run_thread(void)
{
	(*body)();
	threads[now].state = LEFT;
}

static void resume(unsigned i)
{
	now = i;
	threadIdx = dim3(i % blockDim.x, i / blockDim.x % blockDim.y,
			 i / blockDim.x / blockDim.y);
	swapcontext(&scheduler, &threads[i].context);
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
	if (!t->stack)
		t->stack = static_cast<char *>(malloc(STACK));
	getcontext(&t->context);
	t->context.uc_stack.ss_sp = t->stack;
	t->context.uc_stack.ss_size = STACK;
	t->context.uc_link = &scheduler;
	makecontext(&t->context, run_thread, 0);
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
