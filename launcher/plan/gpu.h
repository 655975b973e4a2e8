/* gpu.h: how many NVIDIA GPUs this host's workers may use, on which NUMA nodes
 * they are, and a worker's share of them. Loads NVML at run time; a host
 * without it has no GPUs. */
#ifndef LAUNCHER_GPU_H
#define LAUNCHER_GPU_H

#include <stddef.h>
#include <stdint.h>

enum { GPU_MAX = 256 }; /* further GPUs are ignored */

/* How many of this many devices CUDA shows under this CUDA_VISIBLE_DEVICES
 * (NULL: not set). Like CUDA it stops at the first entry that names no device,
 * and a repeated entry hides all of them (torch/cuda/__init__.py,
 * _parse_visible_devices). Pure: whether a UUID's device exists is unknown. */
int gpu_visible(int devices, const char *visible);

/* The number of GPUs; if 0, *why is the reason, a static text. */
int gpu_count(const char **why);

/* Returns how many GPUs CUDA shows, at most GPU_MAX, and writes their NUMA
 * nodes in CUDA's order; -1 if the system does not report one. */
int gpu_nodes(int nodes[GPU_MAX]);

/* ---- CUDA_VISIBLE_DEVICES as a list ----
 *
 * CUDA_VISIBLE_DEVICES as a list, and a worker's share of it. Pure; does not
 * check that the devices exist. */

/* The number of entries of a list such as "0,GPU-8932f937,2"; 0 for "". */
uint32_t gpu_list_count(const char *list);

/* Bytes for any share of n entries, with its NUL. list NULL: 0,1,2 and so on */
size_t gpu_list_room(const char *list, uint32_t n);

/* Writes the entries first to first+n-1 to out, or fewer if the list ends. */
void gpu_list_share(const char *list, uint32_t first, uint32_t n, char *out);

#endif
