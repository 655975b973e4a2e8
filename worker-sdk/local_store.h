/* local_store.h: the store of a world of one that has no server: the same
 * operations on a list in this process. Pure; nobody waits in it. */
#ifndef SDK_LOCAL_STORE_H
#define SDK_LOCAL_STORE_H

#include "base/buf.h"
#include "base/error.h"

struct ddp__local_store;

struct ddp__local_store *ddp__local_store_new(void); /* NULL: no memory */
void ddp__local_store_free(struct ddp__local_store *s);

int ddp__local_store_set(struct ddp__local_store *s, struct slice key,
			 struct slice value, struct err *e);
/* 1 and *value, valid until the key changes; 0: not there. */
int ddp__local_store_get(struct ddp__local_store *s, struct slice key,
			 struct slice *value);
int ddp__local_store_append(struct ddp__local_store *s, struct slice key,
			    struct slice value, struct err *e);
/* 1 if it was there. */
int ddp__local_store_delete(struct ddp__local_store *s, struct slice key);

#endif
