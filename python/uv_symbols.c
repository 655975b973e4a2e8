/* uv_symbols.c: what Debian's libuv needs of libc and of GCC's runtime, and
 * zig's have not, for `make wheel`. */
#include <stdint.h>
#include <unistd.h>

/* libuv reads environ as a variable of the program, so the linker copies it out
 * of libc. libc writes to __environ, another name of the same variable, but
 * zig's stub of libc has a variable for each name: the copy of one would stay
 * NULL. */
char **__environ;
extern __typeof__(__environ) environ __attribute__((alias("__environ")));
extern __typeof__(__environ) _environ __attribute__((alias("__environ")));

#ifdef __aarch64__
/* GCC's __sync_val_compare_and_swap, out of line: a full barrier. */
uint32_t __aarch64_cas4_sync(uint32_t expected, uint32_t desired,
			     uint32_t *at);

uint32_t __aarch64_cas4_sync(uint32_t expected, uint32_t desired, uint32_t *at)
{
	__atomic_compare_exchange_n(at, &expected, desired, 0, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return expected;
}
#endif
