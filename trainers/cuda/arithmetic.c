/* arithmetic.c: losses, and operations on whole arenas. */
#include <stddef.h>

#include "trainers/cuda/cuda.h"

_Static_assert(sizeof(struct tally) == sizeof(struct kernel_tally) &&
	       offsetof(struct tally, correct) ==
		       offsetof(struct kernel_tally, correct) &&
	       offsetof(struct tally, count) ==
		       offsetof(struct kernel_tally, count),
	       "a tally is what the kernels take it for");
_Static_assert((int)KERNEL_F32 == (int)TENSOR_F32 &&
	       (int)KERNEL_BF16 == (int)TENSOR_BF16 &&
	       (int)KERNEL_F16 == (int)TENSOR_F16,
	       "types have the same numbers in kernels");

enum kernel_type cuda_kernel_type(enum tensor_type type)
{
	return (enum kernel_type)type;
}

/* ---- Losses ---- */

static struct kernel_loss arithmetic_loss_args(const struct cuda_device *d,
				    const struct loss_spec *s,
				    const struct tensor *y, float *loss,
				    struct tally *t, struct tensor *dy)
{
	return (struct kernel_loss){
		.n = y->n, .c = y->c * y->h * y->w, .smoothing = s->smoothing,
		.scale = s->scale, .y = y->data, .dy = dy ? dy->data : NULL,
		.loss = loss, .tally = (struct kernel_tally *)t,
		.room = d->room, .scaler = s->scaler,
	};
}

void cuda_cross_entropy(struct device *base, const struct loss_spec *s,
			const struct tensor *y, const uint32_t *labels,
			float *loss, struct tally *t, struct tensor *dy)
{
	struct cuda_device *d = cuda_of(base);
	struct kernel_loss l = arithmetic_loss_args(d, s, y, loss, t, dy);

	l.labels = labels;
	cuda_note(d, kernel_cross_entropy(d->stream, &l), "cross-entropy");
}

void cuda_mse(struct device *base, const struct loss_spec *s,
	      const struct tensor *y, const struct tensor *target, float *loss,
	      struct tally *t, struct tensor *dy)
{
	struct cuda_device *d = cuda_of(base);
	struct kernel_loss l = arithmetic_loss_args(d, s, y, loss, t, dy);

	l.target = target->data;
	cuda_note(d, kernel_mse(d->stream, &l), "mean of squares");
}

/* ---- Arenas ---- */

void cuda_add(struct device *d, size_t count, const float *x, float *y)
{
	cuda_note(cuda_of(d), kernel_add(cuda_of(d)->stream, count, x, y),
		  "a sum");
}

void cuda_scale(struct device *d, size_t count, float by, float *y)
{
	cuda_note(cuda_of(d), kernel_scale(cuda_of(d)->stream, count, by, y),
		  "scaling");
}

void cuda_update(struct device *base, const struct update *u)
{
	struct cuda_device *d = cuda_of(base);
	const struct optimizer *o = &u->how;
	struct kernel_update k = {
		.adam = o->kind == OPTIMIZER_ADAM, .nesterov = o->nesterov,
		.beta1 = o->beta1, .beta2 = o->beta2, .eps = (float)o->eps,
		.momentum = (float)o->momentum,
		.decay = (float)o->weight_decay, .scale = u->scale,
		.count = u->count, .grad = u->grad, .loss = u->loss,
		.param = u->param, .moment = {u->moment[0], u->moment[1]},
		.narrow = cuda_narrow_of(d, u->param),
		.type = cuda_kernel_type(d->base.type), .scaler = u->scaler,
	};

	cuda_note(d, kernel_update(d->stream, d->state, &k), "the update");
}

uint64_t cuda_halted(struct device *base)
{
	struct cuda_device *d = cuda_of(base);
	struct kernel_state state = {0};

	cuda_get(base, &state, d->state, sizeof(state));
	return state.halted;
}

static int arithmetic_is_finite(struct cuda_device *d, enum kernel_type type,
				size_t count, const void *x)
{
	struct kernel_state state = {0};

	cuda_note(d, kernel_finite(d->stream, d->state, type, count, x),
		  "checking for values that are not finite");
	cuda_get(&d->base, &state, d->state, sizeof(state));
	return !state.not_finite;
}

int cuda_tensor_finite(struct device *d, const struct tensor *t)
{
	return arithmetic_is_finite(cuda_of(d), cuda_kernel_type(t->type),
				    layout_count(t), t->data);
}

int cuda_finite(struct device *d, size_t count, const float *x)
{
	return arithmetic_is_finite(cuda_of(d), KERNEL_F32, count, x);
}
