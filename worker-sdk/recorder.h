/* recorder.h: this process's part of the flight recorder (base/flight.h): finds
 * it, and looks into those of the ranks beside it. */
#ifndef SDK_RECORDER_H
#define SDK_RECORDER_H

#include "base/flight.h"

/* The part that DDP_RECORDER names, emptied; memory of our own where there is
 * none or it cannot be reached (another container): never an error. NULL if
 * DDP_RECORDER is "off", or there is no memory. */
struct flight *ddp__recorder_open(uint32_t rank, uint32_t world_size);
void ddp__recorder_close(struct flight *f);

/* "last seen entering barrier #1531" of a rank of the world that the same agent
 * started; "" if nothing is known. Into out[FLIGHT_TEXT_MAX]; returns out. */
char *ddp__recorder_seen(uint32_t rank, char *out);

#endif
