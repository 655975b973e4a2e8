/* gpu.h: how many NVIDIA GPUs this host's workers may use, and on which NUMA
 * nodes. Loads NVML at run time; a host without it has no GPUs. */
#ifndef LAUNCHER_GPU_H
#define LAUNCHER_GPU_H

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

#endif
