/* plan_cache.h: remembers, in memory and in a file, which engine computes each
 * convolution fastest. Pure of cuDNN: keys and engines are texts. The host's
 * processes share a file for each kind of GPU and version of cuDNN, and agree
 * on what the first of them wrote. */
#ifndef TRAINERS_CUDA_PLAN_CACHE_H
#define TRAINERS_CUDA_PLAN_CACHE_H

#include <stddef.h>

enum { PLAN_KEY_MAX = 96, PLAN_ENGINE_MAX = 160 };

struct plan_cache;

/* A file in `folder` (NULL: memory only), which is made when it is first
 * written; `device` and `version` identify it. note is called with one line for
 * the user (NULL: nobody reads them) if the file is damaged, belongs to another
 * user, or cannot be written. A damaged file is replaced; another user's file,
 * or a file that others can write to, is neither read nor written. These are
 * not errors. NULL: no memory. */
struct plan_cache *plan_cache_new(const char *folder, const char *device,
				  size_t version,
				  void (*note)(const char *line));
void plan_cache_free(struct plan_cache *c);

/* The engine for key, or NULL. Valid until the next plan_cache_add. */
const char *plan_cache_find(const struct plan_cache *c, const char *key);

/* Remembers that `engine` is the fastest for key, how many us it takes, and
 * returns the engine to use: if another process has meanwhile written one for
 * this key, that one. `again` replaces it instead. Texts are printable ASCII
 * without tabs, shorter than the limits above. */
const char *plan_cache_add(struct plan_cache *c, const char *key,
			   const char *engine, double microseconds, int again);

#endif
