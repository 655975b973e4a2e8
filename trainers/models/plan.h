/* plan.h: makes a net's plans: first the operations, then, once the arenas
 * exist, the memory. Private to this room. */
#ifndef TRAINERS_PLAN_H
#define TRAINERS_PLAN_H

#include "trainers/models/net.h"

/* Makes the operations. `like` is an earlier plan with the same parameters, or
 * NULL. */
int plan_make(struct plan *p, struct net *net, const struct plan *like, int n,
	      enum net_mode mode, struct err *e);
/* Allocates activations and their gradients, and binds the operations to all
 * memory. */
int plan_bind(struct plan *p, struct err *e);
/* Frees everything but p, also after an error. */
void plan_release(struct plan *p);

#endif
