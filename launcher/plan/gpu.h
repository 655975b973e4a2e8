/* gpu.h: how many NVIDIA GPUs this host's workers may use, and where they are.
 * NVML is looked up at run time; a host without it has none. */
#ifndef LAUNCHER_GPU_H
#define LAUNCHER_GPU_H

enum { GPU_MAX = 256 }; /* so many are looked at */

/* The GPUs that CUDA would show, of this many, under this CUDA_VISIBLE_DEVICES
 * (NULL: not set). Pure: CUDA stops at the first entry that names no device. */
int gpu_visible(int devices, const char *visible);

/* 0 and up; *why (static text) says why there is none. */
int gpu_count(const char **why);

/* How many CUDA would show, at most GPU_MAX, and the NUMA node of each in that
 * order; -1 where the system does not tell. */
int gpu_nodes(int nodes[GPU_MAX]);

#endif
