/* net_step.h: a step without what trainers do between its parts. */
#ifndef TEST_NET_STEP_H
#define TEST_NET_STEP_H

#include "trainers/models/net.h"

/* Loads n samples (from args.first on), then runs forward, loss (*net->loss and
 * the tally) and backward. */
static inline void net_step(struct plan *p, const struct loss_spec *loss)
{
	net_load_batch(p);
	net_forward(p);
	net_loss(p, loss);
	net_backward(p);
}

#endif
