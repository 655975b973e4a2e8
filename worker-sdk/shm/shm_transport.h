/* shm_transport.h: shm's row. Both endpoints of a path are one struct
 * ddp__shm. */
#ifndef SDK_SHM_TRANSPORT_H
#define SDK_SHM_TRANSPORT_H

#include "worker-sdk/algorithms/transport.h"
#include "worker-sdk/shm/shm_collective.h"
#include "worker-sdk/shm/shm_p2p.h"

extern const struct ddp__transport ddp__shm_transport;

#endif
