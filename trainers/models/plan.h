/* plan.h: how the files of a net make its plans: operations first, then, when
 * the arenas are there, memory. */
#ifndef TRAINERS_PLAN_H
#define TRAINERS_PLAN_H

#include "trainers/models/net.h"

/* The layer, from 0, whose output comes into layer i, or is added there; -1:
 * the model's input; -2: nothing is added. */
int plan_from(const struct model_spec *spec, int i);
int plan_add(const struct model_spec *spec, int i);

/* The operations; those of `like` (NULL: there are none yet) have the same
 * parameters. */
int plan_make(struct plan *p, struct net *net, const struct plan *like, int n,
	      enum net_mode mode, struct err *e);
/* Memory for activations and their gradients, and all of it bound. */
int plan_bind(struct plan *p, struct err *e);
/* Frees all but p; also after an error. */
void plan_release(struct plan *p);

#endif
