/* gpu_helper.h: `ddprun --gpu-helper`, a child of an agent: asks NVML for the
 * state of the GPUs and for Xids, and writes lines (gpu_record.h) to its
 * stdout, a pipe to the agent. A process, because a thread that hangs in the
 * driver would keep the agent from exiting, and a crash would end it. It dies
 * with the agent. */
#ifndef LAUNCHER_GPU_HELPER_H
#define LAUNCHER_GPU_HELPER_H

#include <stdint.h>

/* Not an option for users. */
#define GPU_HELPER_COMMAND "--gpu-helper"

int gpu_helper_main(void);

#endif
