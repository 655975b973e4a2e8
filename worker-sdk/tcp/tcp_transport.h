/* tcp_transport.h: tcp's row. A path's endpoints are a struct ddp__tcp for
 * collectives and a struct ddp__tcp_p2p for messages. */
#ifndef SDK_TCP_TRANSPORT_H
#define SDK_TCP_TRANSPORT_H

#include "worker-sdk/tcp/tcp_p2p.h"
#include "worker-sdk/tcp/tcp_steps.h"

extern const struct ddp__transport ddp__tcp_transport;

#endif
