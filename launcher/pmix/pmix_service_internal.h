/* pmix_service_internal.h: what the two files of a round's PMIx share:
 * pmix_service.c (the helper and fences) and pmix_modex.c (letters). */
#ifndef LAUNCHER_PMIX_SERVICE_INTERNAL_H
#define LAUNCHER_PMIX_SERVICE_INTERNAL_H

#include "launcher/pmix/pmix_service.h"

/* pmix_service.c */
void pmix_service_fail(struct pmix_service *s, const struct err *why);
void pmix_service_send(struct pmix_service *s, uint8_t type, uint32_t id,
		       int32_t code, struct slice data);
/* One of s->open_parts. */
void pmix_service_part_closed(struct pmix_service *s);

/* pmix_modex.c */
int pmix_modex_start(struct pmix_service *s,
		     const struct round_client_self *self, struct err *e);
void pmix_modex_close(struct pmix_service *s);
void pmix_modex_release(struct pmix_service *s);
/* WANT and DATA from the helper. */
void pmix_modex_want(struct pmix_service *s, const struct pmix_frame *f);
void pmix_modex_found(struct pmix_service *s, const struct pmix_frame *f);
/* The rank has ended without MPI_Init: its data never comes. */
void pmix_modex_give_up(struct pmix_service *s, uint32_t rank);

#endif
