/* process_memory.h: reads another process's memory, and finds the symbols of
 * the programs and libraries that are loaded there. Opens none of their files:
 * these may be in another container, replaced, or on a server that hangs. */
#ifndef LAUNCHER_PROCESS_MEMORY_H
#define LAUNCHER_PROCESS_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* 0, or -errno: -EPERM, -ESRCH, -EFAULT. */
int process_memory_read(pid_t pid, uint64_t at, void *to, size_t size);

/* Called for each file that is mapped from its beginning and may be an ELF
 * module; path is as in /proc/PID/maps. Returns 1 to go on. */
typedef int process_memory_on_module(void *arg, uint64_t at, const char *path);

/* 0, or -errno of /proc/PID/maps. */
int process_memory_each_module(pid_t pid, process_memory_on_module *on_module,
			       void *arg);

/* The address of a symbol that the module at `at` exports; 0: none. */
uint64_t process_memory_symbol(pid_t pid, uint64_t at, const char *name);

#endif
