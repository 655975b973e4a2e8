/* gpu_list.h: CUDA_VISIBLE_DEVICES as a list, and a worker's share of it. Pure;
 * does not check that the devices exist. */
#ifndef LAUNCHER_GPU_LIST_H
#define LAUNCHER_GPU_LIST_H

#include <stddef.h>
#include <stdint.h>

/* The number of entries of a list such as "0,GPU-8932f937,2"; 0 for "". */
uint32_t gpu_list_count(const char *list);

/* Bytes for any share of n entries, with its NUL. list NULL: 0,1,2 and so on */
size_t gpu_list_room(const char *list, uint32_t n);

/* Writes the entries first to first+n-1 to out, or fewer if the list ends. */
void gpu_list_share(const char *list, uint32_t first, uint32_t n, char *out);

#endif
