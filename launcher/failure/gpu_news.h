/* gpu_news.h: what happened to GPUs in this round, on any node: lines of the
 * failure page, and a list in report.json. */
#ifndef LAUNCHER_GPU_NEWS_H
#define LAUNCHER_GPU_NEWS_H

#include "base/json.h"
#include "rendezvous/wire.h"

enum { GPU_NEWS_MAX = 32 }; /* further ones are dropped */

struct gpu_news_item {
	struct wire_gpu_news as; /* the slices point into bytes */
	struct buf bytes;
};

struct gpu_news {
	struct gpu_news_item list[GPU_NEWS_MAX];
	uint32_t n;
};

/* Copies it. Without memory it is left out. */
void gpu_news_add(struct gpu_news *all, const struct wire_gpu_news *news);
/* Forgets all, and frees the memory. */
void gpu_news_reset(struct gpu_news *all);
/* Appends the text of each, but not those that `known` contains, with the
 * label before the first: "|  GPUs         node 1 (h2): GPU 3: ...". */
void gpu_news_put(struct buf *out, const struct gpu_news *all,
		  struct slice known,
		  void (*put)(struct buf *out, const char *label,
			      struct slice text));
/* Adds "gpus". all may be NULL. */
void gpu_news_put_json(const struct json *j, cJSON *to,
		       const struct gpu_news *all);

#endif
