/* safetensors.c: writes the header as text, and reads it with cJSON. */
#include "trainers/models/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/file.h"

/* The file, little-endian: u64 bytes of the header that follows, the header in
 * JSON, the tensors' bytes. */
enum {
	LENGTH_BYTES = 8,
	HEADER_MAX = 100000000, /* as in the reference implementation */
	DIMENSIONS_MAX = 4,
};

static const char counter[] = ".num_batches_tracked";

int safetensors_is_name(const char *path)
{
	static const char end[] = ".safetensors";
	size_t n = strlen(path), m = sizeof(end) - 1;

	return n >= m && !strcmp(path + n - m, end);
}

/* ---- the net's tensors ---- */

/* Parameters, then running statistics. */
static int safetensors_count(const struct net *net)
{
	return net->param_count + net->buffer_count;
}

static const struct net_param *safetensors_at(const struct net *net, int i)
{
	return i < net->param_count ? &net->param[i]
				    : &net->buffer[i - net->param_count];
}

static size_t safetensors_values(const struct net *net)
{
	return net->parameter_count + net_buffer_count(net);
}

static int safetensors_dimensions(const struct net *net,
				  const struct net_param *p)
{
	int kind = net->spec->layers[p->layer].op.kind;

	if (kind == OP_CONV)
		return 4;
	return kind == OP_LINEAR && p->which == 0 ? 2 : 1;
}

static void safetensors_put_shape(struct buf *out, const struct net *net,
				  const struct net_param *p)
{
	buf_printf(out, "[");
	for (int i = 0; i < safetensors_dimensions(net, p); i++)
		buf_printf(out, "%s%d", i ? "," : "", p->shape[i]);
	buf_printf(out, "]");
}

/* ---- saving ---- */

/* Whether p is a batch normalisation's first buffer; *len: its layer's name. */
static int safetensors_is_normalised(const struct net_param *p, int *len)
{
	const char *dot = strrchr(p->name, '.');

	*len = dot ? (int)(dot - p->name) : 0;
	return dot && !strcmp(dot, ".running_mean");
}

/* Returns the number of counters. */
static int safetensors_put_header(struct buf *out, const struct net *net)
{
	char kind[MODEL_KIND_MAX];
	size_t at = 0;
	int counters = 0, len;

	buf_printf(out,
		   "{\"__metadata__\":{\"format\":\"pt\",\"model\":\"%s\"}",
		   model_kind(net->spec, kind));
	for (int i = 0; i < safetensors_count(net); i++) {
		const struct net_param *p = safetensors_at(net, i);
		size_t bytes = p->count * sizeof(float);

		buf_printf(out, ",\"%s\":{\"dtype\":\"F32\",\"shape\":",
			   p->name);
		safetensors_put_shape(out, net, p);
		buf_printf(out, ",\"data_offsets\":[%zu,%zu]}", at, at + bytes);
		at += bytes;
	}
	for (int i = 0; i < net->buffer_count; i++) {
		if (!safetensors_is_normalised(&net->buffer[i], &len))
			continue;
		buf_printf(out, ",\"%.*s%s\":{\"dtype\":\"I64\",\"shape\":[],"
			   "\"data_offsets\":[%zu,%zu]}", len,
			   net->buffer[i].name, counter, at,
			   at + sizeof(int64_t));
		at += sizeof(int64_t);
		counters++;
	}
	buf_printf(out, "}");
	/* readers map the file: the tensors begin at a multiple of 8 */
	while (!out->failed && out->len % 8)
		buf_printf(out, " ");
	return counters;
}

static int safetensors_write(const char *path, const struct buf *header,
			     const float *values, size_t n,
			     const int64_t *counters, int ncounters,
			     struct err *e)
{
	uint8_t length[LENGTH_BYTES];
	const struct iovec parts[] = {
		{length, sizeof(length)},
		{header->data, header->len},
		{(void *)values, n * sizeof(*values)},
		{(void *)counters, (size_t)ncounters * sizeof(*counters)},
	};
	int r;

	for (int i = 0; i < LENGTH_BYTES; i++)
		length[i] = (uint8_t)((uint64_t)header->len >> 8 * i);
	r = file_replace(path, parts, sizeof(parts) / sizeof(*parts));
	return r < 0 ? err_set(e, r, "cannot write the weights to %s: %s", path,
			       strerror(-r))
		     : 0;
}

int safetensors_save(const struct net *net, int64_t steps, const char *path,
		     struct err *e)
{
	size_t n = safetensors_values(net);
	struct buf header = BUF_INIT(HEADER_MAX);
	float *values = malloc(n * sizeof(*values));
	int ncounters = safetensors_put_header(&header, net), r;
	int64_t *counters = calloc((size_t)ncounters + 1, sizeof(*counters));

	if (!values || !counters || header.failed) {
		r = err_no_memory(e, "the weights for %s", path);
	} else {
		net_get(net, net->parameters, values);
		net_get_buffers(net, values + net->parameter_count);
		for (int i = 0; i < ncounters; i++)
			counters[i] = steps;
		r = safetensors_write(path, &header, values, n, counters,
				      ncounters, e);
	}
	buf_release(&header);
	free(counters);
	free(values);
	return r;
}

/* ---- loading ---- */

/* A file under way. */
struct safetensors {
	const char *path;
	const struct net *net;
	int fd;
	uint64_t data, end; /* where the tensors begin and end in the file */
	float *values;
	char *seen; /* for each tensor of the net */
};

static int safetensors_damaged(const struct safetensors *s, const char *why,
			       struct err *e)
{
	return err_set(e, ERR_DATA, "%s is damaged, or no safetensors file: %s",
		       s->path, why);
}

static float safetensors_from_f16(uint16_t h)
{
	int exponent = h >> 10 & 31, fraction = h & 1023;
	float v = exponent == 31 ? fraction ? NAN : INFINITY
		  : exponent ? ldexpf((float)(1024 + fraction), exponent - 25)
			     : ldexpf((float)fraction, -24);

	return h >> 15 ? -v : v;
}

/* Widens n values of 16 bits, which begin where the floats do. */
static void safetensors_widen(float *values, size_t n, int is_f16)
{
	const uint8_t *from = (const uint8_t *)values;

	while (n-- > 0) {
		uint16_t h = (uint16_t)(from[2 * n] | from[2 * n + 1] << 8);
		uint32_t word = (uint32_t)h << 16;

		if (is_f16)
			values[n] = safetensors_from_f16(h);
		else
			memcpy(&values[n], &word, sizeof(word));
	}
}

/* The place of a tensor of that name in the net, or -1. *at: in values. */
static int safetensors_find(const struct safetensors *s, const char *name,
			    size_t *at)
{
	*at = 0;
	for (int i = 0; i < safetensors_count(s->net); i++) {
		const struct net_param *p = safetensors_at(s->net, i);

		if (!strcmp(p->name, name))
			return i;
		*at += p->count;
	}
	return -1;
}

static int safetensors_is_integer(const cJSON *item)
{
	return item && item->valuedouble >= 0 &&
	       item->valuedouble <= (double)(1ull << 53) &&
	       item->valuedouble == floor(item->valuedouble);
}

/* Whether the shape in the file is the net's. */
static int safetensors_has_shape(const struct safetensors *s,
				 const struct net_param *p, const cJSON *shape)
{
	int n = safetensors_dimensions(s->net, p);
	const cJSON *item = shape ? shape->child : NULL;

	for (int i = 0; i < n; i++, item = item->next)
		if (!safetensors_is_integer(item) ||
		    item->valuedouble != p->shape[i])
			return 0;
	return !item;
}

static int safetensors_check_shape(const struct safetensors *s,
				   const struct net_param *p,
				   const cJSON *shape, struct err *e)
{
	struct buf ours = BUF_INIT(256);
	char kind[MODEL_KIND_MAX], *theirs;
	int r = 0;

	if (safetensors_has_shape(s, p, shape))
		return 0;
	theirs = shape ? cJSON_PrintUnformatted(shape) : NULL;
	safetensors_put_shape(&ours, s->net, p);
	r = err_set(e, ERR_DATA, "%s: %s has shape %s, but that of %s is "
		    "%.*s; give --init-from a file of this model", s->path,
		    p->name, theirs ? theirs : "unknown",
		    model_kind(s->net->spec, kind), (int)ours.len, ours.data);
	cJSON_free(theirs);
	buf_release(&ours);
	return r;
}

static const cJSON *safetensors_get(const cJSON *entry, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(entry, name);
}

/* Reads the tensor of p into values. */
static int safetensors_read(const struct safetensors *s,
			    const struct net_param *p, float *values,
			    const cJSON *entry, struct err *e)
{
	const cJSON *dtype = safetensors_get(entry, "dtype");
	const cJSON *range = safetensors_get(entry, "data_offsets");
	const cJSON *from = range ? range->child : NULL;
	const cJSON *to = from ? from->next : NULL;
	const char *type = dtype && cJSON_IsString(dtype) ? dtype->valuestring
							   : "";
	int is_f32 = !strcmp(type, "F32"), is_f16 = !strcmp(type, "F16");
	size_t bytes = p->count * (is_f32 ? 4 : 2);
	uint64_t at;
	int r;

	if (!is_f32 && !is_f16 && strcmp(type, "BF16") != 0)
		return err_set(e, ERR_DATA, "%s: %s is of type %s, not F32, F16"
			       " or BF16", s->path, p->name,
			       *type ? type : "unknown");
	r = safetensors_check_shape(s, p, safetensors_get(entry, "shape"), e);
	if (r < 0)
		return r;
	if (!safetensors_is_integer(from) || !safetensors_is_integer(to) ||
	    to->valuedouble - from->valuedouble != (double)bytes ||
	    to->valuedouble > (double)(s->end - s->data))
		return safetensors_damaged(s, p->name, e);
	at = s->data + (uint64_t)from->valuedouble;
	r = lseek(s->fd, (off_t)at, SEEK_SET) < 0 ? -errno : 0;
	r = r < 0 ? r : file_read_all(s->fd, values, bytes);
	if (r < 0)
		return err_set(e, r, "cannot read %s of %s: %s", p->name,
			       s->path, strerror(-r));
	if (!is_f32)
		safetensors_widen(values, p->count, is_f16);
	return 0;
}

static int safetensors_take(struct safetensors *s, const cJSON *entry,
			    struct err *e)
{
	const char *name = entry->string;
	size_t n = strlen(name), m = sizeof(counter) - 1, at;
	char kind[MODEL_KIND_MAX];
	int i;

	if (!strcmp(name, "__metadata__") ||
	    (n > m && !strcmp(name + n - m, counter)))
		return 0;
	i = safetensors_find(s, name, &at);
	if (i < 0)
		return err_set(e, ERR_DATA, "%s has a tensor %.100s, which %s "
			       "lacks; give --init-from a file of this model",
			       s->path, name, model_kind(s->net->spec, kind));
	if (s->seen[i]++)
		return safetensors_damaged(s, name, e);
	return safetensors_read(s, safetensors_at(s->net, i), s->values + at,
				entry, e);
}

static int safetensors_take_all(struct safetensors *s, const char *text,
				size_t len, struct err *e)
{
	cJSON *all = cJSON_ParseWithLength(text, len);
	char kind[MODEL_KIND_MAX];
	int r = 0;

	if (!all || !cJSON_IsObject(all))
		r = safetensors_damaged(s, "its header is not JSON", e);
	for (const cJSON *i = all && r == 0 ? all->child : NULL; i && r == 0;
	     i = i->next)
		r = safetensors_take(s, i, e);
	cJSON_Delete(all);
	for (int i = 0; r == 0 && i < safetensors_count(s->net); i++)
		if (!s->seen[i])
			r = err_set(e, ERR_DATA, "%s lacks %s of %s; give "
				    "--init-from a file of this model", s->path,
				    safetensors_at(s->net, i)->name,
				    model_kind(s->net->spec, kind));
	return r;
}

/* Opens the file and finds its parts. 0, or the error. */
static int safetensors_open(struct safetensors *s, struct err *e)
{
	uint8_t length[LENGTH_BYTES];
	struct stat st;
	uint64_t n = 0;

	s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return err_set(e, -errno, "cannot read the initial weights %s: "
			       "%s", s->path, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_size < LENGTH_BYTES ||
	    file_read_all(s->fd, length, sizeof(length)) < 0)
		return safetensors_damaged(s, "it has no header", e);
	for (int i = LENGTH_BYTES; i-- > 0;)
		n = n << 8 | length[i];
	s->end = (uint64_t)st.st_size;
	if (n > HEADER_MAX || n > s->end - LENGTH_BYTES)
		return safetensors_damaged(s, "it ends within its header", e);
	s->data = LENGTH_BYTES + n;
	return 0;
}

int safetensors_load(struct net *net, const char *path, struct err *e)
{
	struct safetensors s = {.path = path, .net = net, .fd = -1};
	int r = safetensors_open(&s, e);
	size_t len = (size_t)s.data - (r == 0 ? LENGTH_BYTES : 0);
	char *text = r == 0 ? malloc(len + 1) : NULL;

	if (r < 0)
		goto out;
	s.values = malloc(safetensors_values(net) * sizeof(*s.values));
	s.seen = calloc((size_t)safetensors_count(net) + 1, 1);
	if (!text || !s.values || !s.seen) {
		r = err_no_memory(e, "the weights of %s", path);
		goto out;
	}
	r = file_read_all(s.fd, text, len);
	if (r < 0) {
		err_set(e, r, "cannot read %s: %s", path, strerror(-r));
		goto out;
	}
	text[len] = 0;
	r = safetensors_take_all(&s, text, len, e);
	if (r == 0) {
		net_put(net, net->parameters, s.values);
		net_put_buffers(net, s.values + net->parameter_count);
	}
out:
	if (s.fd >= 0)
		close(s.fd);
	free(text);
	free(s.values);
	free(s.seen);
	return r;
}
