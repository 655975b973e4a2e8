/* environ.c: the programs' own environ, for `make wheel`. Debian's libuv reads
 * it as a variable of the program, so the linker copies it out of libc. libc
 * writes to __environ, another name of the same variable, but zig's stub of
 * libc has a variable for each name: the copy of one would stay NULL. */
#include <unistd.h>

char **__environ;
extern __typeof__(__environ) environ __attribute__((alias("__environ")));
extern __typeof__(__environ) _environ __attribute__((alias("__environ")));
