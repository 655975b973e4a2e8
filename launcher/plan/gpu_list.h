/* gpu_list.h: CUDA_VISIBLE_DEVICES as a list, and a worker's share of it. Pure;
 * whether the devices are there is not asked. */
#ifndef LAUNCHER_GPU_LIST_H
#define LAUNCHER_GPU_LIST_H

#include <stddef.h>
#include <stdint.h>

/* How many entries "0,GPU-8932f937,2" has; "" has none. */
uint32_t gpu_list_count(const char *list);

/* Room for any share of n entries, with its NUL. list NULL: 0,1,2 and so on */
size_t gpu_list_room(const char *list, uint32_t n);

/* Entries first .. first+n-1 into out, as far as there are. */
void gpu_list_share(const char *list, uint32_t first, uint32_t n, char *out);

#endif
