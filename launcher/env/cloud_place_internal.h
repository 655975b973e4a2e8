/* cloud_place_internal.h: shared by cloud_place.c, whose rows read variables,
 * and cloud_spec.c, whose rows read JSON. */
#ifndef LAUNCHER_CLOUD_PLACE_INTERNAL_H
#define LAUNCHER_CLOUD_PLACE_INTERNAL_H

#include "launcher/env/cloud_place.h"

/* A variable's value; NULL if it is not set or empty. */
const char *cloud_place_get(const struct cloud_view *v, const char *name);

/* Sets first and port from HOST or HOST:PORT; ERR_USAGE names the variable. */
int cloud_place_set_first(struct cloud_place *p, const char *name,
			  const char *text, struct err *e);

/* Rows: 1, 0 or ERR_USAGE, as cloud_place_read. */
int cloud_spec_sagemaker(struct cloud_place *p, const struct cloud_view *v,
			 struct err *e);
int cloud_spec_vertex(struct cloud_place *p, const struct cloud_view *v,
		      struct err *e);
int cloud_spec_tensorflow(struct cloud_place *p, const struct cloud_view *v,
			  struct err *e);

#endif
