/* recorder.h: this process's part of the flight recorder
 * (base/flight_recorder.h): finds it, and looks into those of the ranks beside
 * it. */
#ifndef SDK_RECORDER_H
#define SDK_RECORDER_H

#include "base/flight_recorder.h"
#include "worker-sdk/core/env.h"

/* The part that DDP_RECORDER names, emptied. Where there is none or it cannot
 * be reached (another container), a file of our own like an agent's, of which
 * *fd stays open, so that `ddprun dump` finds it; else *fd is -1. Never an
 * error: NULL if DDP_RECORDER is "off", or there is no memory. */
struct flight *ddp__recorder_open(const struct ddp__env *env, const char *host,
				  int *fd);
void ddp__recorder_close(struct flight *f, int fd);

/* "last seen entering barrier #1531" of a rank of the world that the same agent
 * started; "" if nothing is known. Into out[FLIGHT_TEXT_MAX]; returns out. */
char *ddp__recorder_seen(uint32_t rank, char *out);

#endif
