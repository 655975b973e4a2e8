/* recorder.h: this process's part of the flight recorder
 * (base/flight_recorder.h), and the parts of other ranks of its agent. */
#ifndef SDK_RECORDER_H
#define SDK_RECORDER_H

#include "base/flight_recorder.h"
#include "worker-sdk/core/env.h"

/* Opens the part that DDP_RECORDER names and empties it; *fd is -1. If there is
 * none, or it cannot be reached (another container), makes a file like an
 * agent's and keeps it open as *fd, so that `ddprun dump` finds it. Never
 * fails: NULL if DDP_RECORDER is "off" or memory is short. */
struct flight *ddp__recorder_open(const struct ddp__env *env, const char *host,
				  int *fd);
void ddp__recorder_close(struct flight *f, int fd);

/* Writes "last seen entering barrier #1531" for a world rank of the same agent,
 * or "" if unknown, to out[FLIGHT_TEXT_MAX]; returns out. */
char *ddp__recorder_seen(uint32_t rank, char *out);

#endif
