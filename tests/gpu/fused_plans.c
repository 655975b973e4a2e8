/* fused_plans.c: fused_plans DEVICE.json... fp16|bf16...: which fusions of a
 * convolution with its batch normalizations cuDNN plans for a GPU that is only
 * described, for every convolution of ResNet-18 to 152; no driver is needed.
 * Each would save a training step a pass over memory. For each device, type and
 * fusion it prints the shapes without a deterministic plan, and why; then how
 * many have one, and the engines. Exits with 77 if this cuDNN takes no
 * description. */
#include <stdbool.h>

#include "base/file.h"
#include "tests/gpu/conv_shapes.h"

enum { JSON_MAX = 8192, PARTS_MAX = 48, OPS_MAX = 8, ENGINES_MAX = 16 };

typedef cudnnBackendDescriptor_t desc;

/* An operation graph that is being built. The first error stays in rc, and all
 * later calls do nothing. */
struct graph {
	desc part[PARTS_MAX], op[OPS_MAX];
	int parts, ops;
	int64_t tensors;
	cudnnDataType_t type; /* of x, w and y */
	cudnnStatus_t rc;
};

static desc graph_part(struct graph *g, cudnnBackendDescriptorType_t type)
{
	desc d = NULL;

	if (!g->rc && g->parts == PARTS_MAX)
		g->rc = CUDNN_STATUS_ALLOC_FAILED;
	if (!g->rc)
		g->rc = cudnnBackendCreateDescriptor(type, &d);
	if (!g->rc)
		g->part[g->parts++] = d;
	return d;
}

static void graph_set(struct graph *g, desc d, cudnnBackendAttributeName_t name,
		      cudnnBackendAttributeType_t type, int64_t count,
		      const void *values)
{
	if (!g->rc)
		g->rc = cudnnBackendSetAttribute(d, name, type, count, values);
}

static void graph_set_desc(struct graph *g, desc d,
			   cudnnBackendAttributeName_t name, desc value)
{
	graph_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void graph_set_f32(struct graph *g, desc d,
			  cudnnBackendAttributeName_t name)
{
	cudnnDataType_t type = CUDNN_DATA_FLOAT;

	graph_set(g, d, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

static void graph_finalize(struct graph *g, desc d)
{
	if (!g->rc)
		g->rc = cudnnBackendFinalize(d);
}

static void graph_add(struct graph *g, desc op)
{
	graph_finalize(g, op);
	if (!g->rc && g->ops == OPS_MAX)
		g->rc = CUDNN_STATUS_ALLOC_FAILED;
	if (!g->rc)
		g->op[g->ops++] = op;
}

static void graph_release(struct graph *g)
{
	while (g->parts > 0)
		cudnnBackendDestroyDescriptor(g->part[--g->parts]);
}

/* ---- Tensors, nhwc ---- */

enum place { REAL, VIRTUAL }; /* in memory, or between two operations */

static desc graph_tensor(struct graph *g, cudnnDataType_t type,
			 enum place place, int n, int c, int h, int w)
{
	int64_t dims[] = {n, c, h, w}, id = ++g->tensors, align = 16;
	int64_t strides[] = {(int64_t)h * w * c, 1, (int64_t)w * c, c};
	bool is_virtual = place == VIRTUAL;
	desc d = graph_part(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

	graph_set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
		  &type);
	graph_set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4,
		  dims);
	graph_set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4,
		  strides);
	graph_set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
	graph_set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
		  &align);
	graph_set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
		  &is_virtual);
	graph_finalize(g, d);
	return d;
}

/* x, or what has its shape. */
static desc graph_x(struct graph *g, const struct conv_shape *s,
		    cudnnDataType_t type, enum place place)
{
	return graph_tensor(g, type, place, s->n, s->c, s->h, s->w);
}

static desc graph_y(struct graph *g, const struct conv_shape *s)
{
	return graph_tensor(g, g->type, REAL, s->n, s->k, s->out_h, s->out_w);
}

static desc graph_w(struct graph *g, const struct conv_shape *s)
{
	return graph_tensor(g, g->type, REAL, s->k, s->c, s->kernel,
			    s->kernel);
}

/* A value of each channel. */
static desc graph_channels(struct graph *g, cudnnDataType_t type, int c)
{
	return graph_tensor(g, type, REAL, 1, c, 1, 1);
}

/* ---- Operations ---- */

static desc graph_window(struct graph *g, const struct conv_shape *s)
{
	int64_t pad[] = {s->pad, s->pad}, dilation[] = {1, 1}, dims = 2;
	int64_t stride[] = {s->stride, s->stride};
	cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
	desc d = graph_part(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

	graph_set(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64,
		  1, &dims);
	graph_set_f32(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
	graph_set(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
		  CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
	graph_set(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64,
		  2, pad);
	graph_set(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64,
		  2, pad);
	graph_set(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2,
		  dilation);
	graph_set(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
		  CUDNN_TYPE_INT64, 2, stride);
	graph_finalize(g, d);
	return d;
}

static void graph_conv(struct graph *g, const struct conv_shape *s,
		       enum conv_pass pass, desc x, desc w, desc y)
{
	static const struct {
		cudnnBackendDescriptorType_t type;
		cudnnBackendAttributeName_t alpha, beta, conv, x, w, y;
	} names[CONV_PASSES] = {
		{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
		{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
		{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
		 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};
	desc window = graph_window(g, s);
	desc op = graph_part(g, names[pass].type);
	float one = 1, zero = 0;

	graph_set_desc(g, op, names[pass].conv, window);
	graph_set_desc(g, op, names[pass].x, x);
	graph_set_desc(g, op, names[pass].w, w);
	graph_set_desc(g, op, names[pass].y, y);
	graph_set(g, op, names[pass].alpha, CUDNN_TYPE_FLOAT, 1, &one);
	graph_set(g, op, names[pass].beta, CUDNN_TYPE_FLOAT, 1, &zero);
	graph_add(g, op);
}

static desc graph_pointwise(struct graph *g, cudnnPointwiseMode_t mode)
{
	desc how = graph_part(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op;

	graph_set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
		  1, &mode);
	graph_set_f32(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC);
	graph_finalize(g, how);
	op = graph_part(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
		       how);
	return op;
}

/* y = mode(x, b); b NULL: mode(x). y is virtual. */
static desc graph_apply(struct graph *g, const struct conv_shape *s,
			cudnnPointwiseMode_t mode, desc x, desc b,
			cudnnDataType_t type)
{
	desc op = graph_pointwise(g, mode);
	desc y = graph_x(g, s, type, VIRTUAL);

	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
	if (b)
		graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
	graph_add(g, op);
	return y;
}

/* relu(x * scale + bias): the batch normalization before the convolution. */
static desc graph_prologue(struct graph *g, const struct conv_shape *s,
			   cudnnDataType_t type)
{
	desc x = graph_x(g, s, g->type, REAL);
	desc scale = graph_channels(g, g->type, s->c);
	desc bias = graph_channels(g, g->type, s->c);

	x = graph_apply(g, s, CUDNN_POINTWISE_MUL, x, scale, type);
	x = graph_apply(g, s, CUDNN_POINTWISE_ADD, x, bias, type);
	return graph_apply(g, s, CUDNN_POINTWISE_RELU_FWD, x, NULL, type);
}

/* The sums of y and of its squares, for the batch normalization after. */
static void graph_stats(struct graph *g, const struct conv_shape *s, desc y)
{
	desc sum = graph_channels(g, CUDNN_DATA_FLOAT, s->k);
	desc squares = graph_channels(g, CUDNN_DATA_FLOAT, s->k);
	cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
	desc op = graph_part(g, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);

	graph_set(g, op, CUDNN_ATTR_OPERATION_GENSTATS_MODE,
		  CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
	graph_set_f32(g, op, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
	graph_add(g, op);
}

/* ---- The fusions ---- */

static void fuse_stats(struct graph *g, const struct conv_shape *s)
{
	desc x = graph_x(g, s, g->type, REAL), w = graph_w(g, s);
	desc y = graph_y(g, s);

	graph_conv(g, s, CONV_FORWARD, x, w, y);
	graph_stats(g, s, y);
}

static void fuse_prologue_stats(struct graph *g, const struct conv_shape *s)
{
	desc x = graph_prologue(g, s, CUDNN_DATA_FLOAT), w = graph_w(g, s);
	desc y = graph_y(g, s);

	graph_conv(g, s, CONV_FORWARD, x, w, y);
	graph_stats(g, s, y);
}

static void fuse_prologue_by_weight(struct graph *g,
				    const struct conv_shape *s)
{
	desc x = graph_prologue(g, s, g->type), w = graph_w(g, s);

	graph_conv(g, s, CONV_BY_WEIGHT, x, w, graph_y(g, s));
}

/* dz = dx where the ReLU passed. */
static desc graph_relu_back(struct graph *g, const struct conv_shape *s,
			    desc dx, desc before)
{
	desc op = graph_pointwise(g, CUDNN_POINTWISE_RELU_BWD);
	desc dz = graph_x(g, s, g->type, REAL);

	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dx);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, before);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dz);
	graph_add(g, op);
	return dz;
}

/* The sums that the batch normalization's gradients need. */
static void graph_norm_back(struct graph *g, const struct conv_shape *s,
			    desc dz, desc x, desc mean, desc inv, desc scale)
{
	static const cudnnBackendAttributeName_t sums[] = {
		CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC,
		CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC,
		CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC,
		CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC,
		CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS};
	desc op = graph_part(g,
			     CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR);

	graph_set_f32(g, op, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC,
		       mean);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC,
		       inv);
	graph_set_desc(g, op,
		       CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC,
		       scale);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, x);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, dz);
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
		graph_set_desc(g, op, sums[i],
			       graph_channels(g, CUDNN_DATA_FLOAT, s->c));
	graph_add(g, op);
}

static void fuse_by_x_norm(struct graph *g, const struct conv_shape *s)
{
	cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
	desc w = graph_w(g, s), dy = graph_y(g, s);
	desc dx = graph_x(g, s, f32, VIRTUAL), x = graph_x(g, s, g->type, REAL);
	desc mean = graph_channels(g, f32, s->c);
	desc inv = graph_channels(g, f32, s->c);
	desc scale = graph_channels(g, f32, s->c);
	desc bias = graph_channels(g, f32, s->c), z;

	graph_conv(g, s, CONV_BY_X, dx, w, dy);
	z = graph_apply(g, s, CUDNN_POINTWISE_SUB, x, mean, f32);
	z = graph_apply(g, s, CUDNN_POINTWISE_MUL, z, inv, f32);
	z = graph_apply(g, s, CUDNN_POINTWISE_MUL, z, scale, f32);
	z = graph_apply(g, s, CUDNN_POINTWISE_ADD, z, bias, f32);
	z = graph_relu_back(g, s, dx, z);
	graph_norm_back(g, s, z, x, mean, inv, scale);
}

static const struct fusion {
	const char *name;
	int first; /* also possible for a network's first convolution */
	void (*build)(struct graph *g, const struct conv_shape *s);
} fusions[] = {
	{"forward + statistics", 1, fuse_stats},
	{"scale, bias, ReLU + forward + statistics", 0, fuse_prologue_stats},
	{"scale, bias, ReLU + by_weight", 0, fuse_prologue_by_weight},
	{"by_x + dReLU + sums of dBN", 0, fuse_by_x_norm},
};

/* ---- Planning ---- */

struct found {
	int shapes, planned;
	size_t room; /* the largest workspace */
	char engine[ENGINES_MAX][16];
	int count[ENGINES_MAX];
};

static void found_add(struct found *t, const char *name, size_t room)
{
	int i = 0, length = (int)strcspn(name, " ");
	char engine[16];

	snprintf(engine, sizeof(engine), "%.*s", length, name);
	while (t->count[i] && strcmp(t->engine[i], engine) != 0 &&
	       i < ENGINES_MAX - 1)
		i++;
	memcpy(t->engine[i], engine, sizeof(engine));
	t->count[i]++;
	t->planned++;
	t->room = room > t->room ? room : t->room;
}

static cudnnStatus_t graph_plan(struct graph *g, const struct conv_target *t,
				const struct conv_shape *s,
				struct conv_plan **out)
{
	desc d = graph_part(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);

	*out = NULL;
	graph_set(g, d, CUDNN_ATTR_OPERATIONGRAPH_OPS,
		  CUDNN_TYPE_BACKEND_DESCRIPTOR, g->ops, g->op);
	graph_finalize(g, d);
	return g->rc ? g->rc : conv_plan_open_graph(t, s, d, out);
}

static const char *const verdicts[CONV_VERDICTS] = {
	"taken", "not deterministic", "too coarse", "compiled at run time",
	"too much workspace", "refused"};

/* Adds to found; prints a shape without a plan. */
static void fusion_plan(const struct fusion *f, const struct conv_target *t,
			const struct conv_shape *s, cudnnDataType_t type,
			struct found *found)
{
	int verdict[CONV_VERDICTS] = {0}, count = 0;
	struct graph g = {.type = type};
	struct conv_plan *p;

	f->build(&g, s);
	g.rc = graph_plan(&g, t, s, &p);
	if (!g.rc)
		count = conv_plan_count(p);
	found->shapes++;
	for (int i = 0; i < count && !verdict[CONV_TAKEN]; i++) {
		verdict[conv_plan_take(p, i, (size_t)1 << 30)]++;
		if (verdict[CONV_TAKEN])
			found_add(found, conv_plan_name(p, i),
				  conv_plan_room(p));
	}
	if (!verdict[CONV_TAKEN]) {
		printf("none: %s: %d x %d @ %d, %d of %d x %d / %d: %s",
		       f->name, s->n, s->c, s->h, s->k, s->kernel, s->kernel,
		       s->stride, g.rc ? cudnnGetErrorString(g.rc) : "");
		for (int v = 1; v < CONV_VERDICTS; v++)
			if (verdict[v])
				printf(" %d %s", verdict[v], verdicts[v]);
		printf("%s\n", g.rc || count ? "" : "no engine");
	}
	conv_plan_close(p);
	graph_release(&g);
}

static void fusion_plan_all(const struct fusion *f,
			    const struct conv_target *t, const struct list *l,
			    cudnnDataType_t type)
{
	struct found found = {0};

	for (int i = 0; i < l->count; i++)
		if (f->first || !l->first[i])
			fusion_plan(f, t, &l->shape[i], type, &found);
	printf("%s: %d of %d shapes, workspace up to %.1f MiB,", f->name,
	       found.planned, found.shapes, (double)found.room / (1 << 20));
	for (int i = 0; i < ENGINES_MAX && found.count[i]; i++)
		printf(" %s x %d", found.engine[i], found.count[i]);
	printf("\n");
}

/* An exit status. */
static int fuse_device(const char *path, cudnnDataType_t type)
{
	struct conv_target t = {0};
	struct list list = {0};
	char json[JSON_MAX];
	cudnnStatus_t rc;

	if (file_read_text(path, json, sizeof(json)) <= 0) {
		fprintf(stderr, "cannot read %s\n", path);
		return 2;
	}
	rc = conv_target_describe(&t, json);
	if (rc) {
		printf("cuDNN %zu does not take %s: %s\n", cudnnGetVersion(),
		       path, cudnnGetErrorString(rc));
		conv_target_release(&t);
		return cudnnGetVersion() < 90800 ? 77 : 2;
	}
	/* both types have 16 bits, and the same padding */
	list_add_all(&list, PRECISION_BF16, 0);
	for (size_t i = 0; i < sizeof(fusions) / sizeof(*fusions); i++)
		fusion_plan_all(&fusions[i], &t, &list, type);
	conv_target_release(&t);
	return 0;
}

int main(int argc, char **argv)
{
	int devices = 1, worst = 0;

	while (devices < argc && is_device(argv[devices]))
		devices++;
	for (int i = devices; i < argc; i++)
		if (strcmp(argv[i], "fp16") && strcmp(argv[i], "bf16"))
			devices = argc;
	if (devices == 1 || devices == argc) {
		fprintf(stderr, "usage: fused_plans DEVICE.json... "
			"fp16|bf16...\n");
		return 2;
	}
	keep_compiler();
	for (int d = 1; d < devices; d++)
		for (int i = devices; i < argc; i++) {
			int fp16 = strcmp(argv[i], "fp16") == 0, rc;

			printf("# %s %s\n", argv[d], argv[i]);
			rc = fuse_device(argv[d], fp16 ? CUDNN_DATA_HALF :
							CUDNN_DATA_BFLOAT16);
			worst = rc > worst ? rc : worst;
		}
	return worst;
}
