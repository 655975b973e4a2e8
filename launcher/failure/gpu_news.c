/* gpu_news.c: copies of the server's notices. */
#include "launcher/failure/report.h"

#include <string.h>

#include "launcher/gpu/gpu_findings.h"

enum { NEWS_BYTES_MAX = 8 << 10 };

void gpu_news_add(struct gpu_news *all, const struct wire_gpu_news *news)
{
	struct gpu_news_item *item = &all->list[all->n];
	struct wire_frame f;

	if (all->n == GPU_NEWS_MAX)
		return;
	item->bytes = (struct buf)BUF_INIT(NEWS_BYTES_MAX);
	wire_put_gpu_news(&item->bytes, WIRE_GPU_NEWS, WIRE_NOTICE, 0, news);
	if (!item->bytes.failed &&
	    wire_cut(SLICE(item->bytes.data, item->bytes.len), WIRE_BODY_MAX,
		     &f, NULL) > 0 &&
	    wire_get_gpu_news(&f, &item->as, NULL) == 0)
		all->n++;
	else
		buf_release(&item->bytes);
}

void gpu_news_reset(struct gpu_news *all)
{
	for (uint32_t i = 0; i < all->n; i++)
		buf_release(&all->list[i].bytes);
	all->n = 0;
}

void gpu_news_put(struct buf *out, const struct gpu_news *all,
		  struct slice known,
		  void (*put)(struct buf *out, const char *label,
			      struct slice text))
{
	const char *label = "GPUs";

	for (uint32_t i = 0; all && i < all->n; i++) {
		const struct wire_gpu_news *m = &all->list[i].as;
		struct buf line = BUF_INIT(NEWS_BYTES_MAX);

		if (memmem(known.data, known.len, m->text.data, m->text.len))
			continue;
		buf_printf(&line, "node %u (%.*s): %.*s", m->node_rank,
			   SLICE_FMT(m->host), SLICE_FMT(m->text));
		if (!line.failed)
			put(out, label, SLICE(line.data, line.len));
		buf_release(&line);
		label = "";
	}
}

void gpu_news_put_json(const struct json *j, cJSON *to,
		       const struct gpu_news *all)
{
	cJSON *list = j->add_array(to, "gpus");

	for (uint32_t i = 0; all && i < all->n; i++) {
		const struct wire_gpu_news *m = &all->list[i].as;
		cJSON *item = j->object();

		j->add_number(item, "node_rank", m->node_rank);
		json_add_text(j, item, "host", m->host);
		j->add_number(item, "index", m->index);
		json_add_text_or_null(j, item, "uuid", m->uuid);
		if (m->xid)
			j->add_number(item, "xid", m->xid);
		else
			j->add_null(item, "xid");
		j->add_string(item, "severity",
			      gpu_severity_name(m->severity));
		json_add_text(j, item, "text", m->text);
		json_add_text(j, item, "action", m->action);
		j->append(list, item);
	}
}
