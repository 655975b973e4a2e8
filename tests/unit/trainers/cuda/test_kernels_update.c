/* test_kernels_update.c: the CUDA twin's updates, with and without a loss
 * scaler, run on the host, against the CPU twin. */
#include "tests/unit/run_case.h"
#include "tests/unit/trainers/cuda/cpu_twin.h"

enum { ARENA = 4099 }; /* no multiple of any vector's size */

struct arenas {
	float *grad, *param, *m, *v;
};

static struct arenas arenas_new(const struct arenas *like)
{
	struct arenas a = {floats(ARENA), floats(ARENA), floats(ARENA),
			   floats(ARENA)};

	for (int i = 0; i < ARENA; i++)
		a.v[i] = fabsf(a.v[i]);
	if (like) {
		memcpy(a.grad, like->grad, ARENA * sizeof(float));
		memcpy(a.param, like->param, ARENA * sizeof(float));
		memcpy(a.m, like->m, ARENA * sizeof(float));
		memcpy(a.v, like->v, ARENA * sizeof(float));
	}
	return a;
}

static void arenas_free(struct arenas *a)
{
	free(a->grad);
	free(a->param);
	free(a->m);
	free(a->v);
}

static struct kernel_update kernel_of(const struct update *u,
				      const struct arenas *a)
{
	const struct optimizer *o = &u->how;

	return (struct kernel_update){
		.adam = o->kind == OPTIMIZER_ADAM, .nesterov = o->nesterov,
		.beta1 = o->beta1, .beta2 = o->beta2, .eps = (float)o->eps,
		.momentum = (float)o->momentum,
		.decay = (float)o->weight_decay, .scale = u->scale,
		.count = ARENA, .grad = a->grad, .param = a->param,
		.moment = {a->m, a->v}, .scaler = u->scaler};
}

/* The update of a kernel on one set of arenas, the CPU twin's on the other. */
static void update_both(const struct step_args *n,
			const struct kernel_update *k, const struct update *u)
{
	kernel_set_step(NULL, &state, n->step, 0, n->lr);
	kernel_update(NULL, &state, k);
	ops_cpu.set_step(cpu, n);
	ops_cpu.update(cpu, u);
}

static void check_same(const struct arenas *a, const struct arenas *b)
{
	for (int i = 0; i < ARENA; i++) {
		near((double)a->param[i], (double)b->param[i], 0,
		     "a parameter");
		near((double)a->m[i], (double)b->m[i], 0, "a moment");
		near((double)a->v[i], (double)b->v[i], 0, "the other moment");
	}
}

START_TEST(updates_match_the_cpus)
{
	static const struct optimizer optimizers[] = {
		{OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
		{OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8,
		 .weight_decay = 0.1},
		{OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-5},
		{OPTIMIZER_SGD, .momentum = 0.9, .nesterov = 1,
		 .weight_decay = 5e-4}};
	struct arenas a = arenas_new(NULL), b = arenas_new(&a);
	uint16_t *narrow = room(ARENA * 2), *want = room(ARENA * 2);
	struct step_args n = {.lr = 0.05};
	struct update u = {
		.how = optimizers[_i], .count = ARENA, .grad = b.grad,
		.scale = _i & 1 ? 0.25f : 1, .param = b.param,
		.moment = {b.m, b.v}};
	struct kernel_update k = kernel_of(&u, &a);

	k.type = _i & 1 ? KERNEL_F16 : KERNEL_BF16;
	k.narrow = narrow;
	for (n.step = 1; n.step <= 3; n.step++)
		update_both(&n, &k, &u);
	check_same(&a, &b);
	kernel_narrow(NULL, k.type, ARENA, a.param, want);
	ck_assert_mem_eq(narrow, want, ARENA * 2);
	free(narrow);
	free(want);
	arenas_free(&a);
	arenas_free(&b);
}
END_TEST

START_TEST(no_update_follows_a_loss_that_is_not_a_number)
{
	struct arenas a = arenas_new(NULL), b = arenas_new(&a);
	struct update u = {.how = {OPTIMIZER_SGD, .momentum = 0.9}, .scale = 1};
	struct kernel_update k = kernel_of(&u, &a);
	float loss = NAN;

	k.loss = &loss;
	kernel_set_step(NULL, &state, 41, 0, 0.1);
	kernel_update(NULL, &state, &k);
	ck_assert_uint_eq(state.halted, 41);
	loss = 1; /* once halted, it stays halted */
	kernel_set_step(NULL, &state, 42, 0, 0.1);
	kernel_update(NULL, &state, &k);
	ck_assert_uint_eq(state.halted, 41);
	ck_assert_mem_eq(a.param, b.param, ARENA * sizeof(float));
	ck_assert_mem_eq(a.m, b.m, ARENA * sizeof(float));
	state.halted = 0;
	kernel_update(NULL, &state, &k);
	ck_assert_mem_ne(a.param, b.param, ARENA * sizeof(float));
	arenas_free(&a);
	arenas_free(&b);
}
END_TEST

/* The same steps on both: some are skipped, by a gradient anywhere or by the
 * loss, and at last the scale is too small. */
START_TEST(updates_with_a_scaler_match_the_cpus)
{
	static const int bad[] = {-1, 0, ARENA - 1, -1, 2050, -2, -1};
	struct arenas a = arenas_new(NULL), b = arenas_new(&a);
	struct loss_scaler s[2] = {loss_scaler_new(16), loss_scaler_new(16)};
	struct step_args n = {.lr = 0.05};
	float loss = 1;
	struct update u = {
		.how = {_i ? OPTIMIZER_ADAM : OPTIMIZER_SGD, .beta1 = 0.9,
			.beta2 = 0.999, .eps = 1e-8, .momentum = 0.9},
		.count = ARENA, .grad = b.grad, .scale = 1, .param = b.param,
		.moment = {b.m, b.v}, .loss = &loss, .scaler = &s[1]};
	struct kernel_update k = kernel_of(&u, &a);

	k.loss = &loss;
	k.scaler = &s[0];
	for (n.step = 1; n.step <= 9; n.step++) {
		int at = n.step <= 7 ? bad[n.step - 1] : 1;
		float was = at >= 0 ? a.grad[at] : 0;

		if (at >= 0)
			a.grad[at] = b.grad[at] = n.step & 1 ? NAN : -INFINITY;
		loss = at == -2 ? NAN : 1;
		update_both(&n, &k, &u);
		if (at >= 0)
			a.grad[at] = b.grad[at] = was;
		ck_assert_mem_eq(&s[0], &s[1], sizeof(s[0]));
		ck_assert_uint_eq(state.halted, ops_cpu.halted(cpu));
	}
	ck_assert_uint_eq(state.halted, 8); /* 16 / 2^5 at step 8 */
	ck_assert(s[0].scale == .5f);
	ck_assert_uint_eq(s[0].last_at, 1);
	check_same(&a, &b);
	arenas_free(&a);
	arenas_free(&b);
}
END_TEST

START_TEST(a_scaled_update_is_the_unscaled_one)
{
	struct arenas a = arenas_new(NULL), b = arenas_new(&a);
	struct loss_scaler s = loss_scaler_new(LOSS_SCALE_FIRST);
	struct update u = {.how = {OPTIMIZER_SGD, .momentum = 0.9}, .scale = 1};
	struct kernel_update k = kernel_of(&u, &a), plain = kernel_of(&u, &b);

	for (int i = 0; i < ARENA; i++)
		a.grad[i] *= LOSS_SCALE_FIRST;
	k.scaler = &s;
	kernel_set_step(NULL, &state, 1, 0, 0.1);
	kernel_update(NULL, &state, &k);
	kernel_update(NULL, &state, &plain);
	ck_assert_mem_eq(a.param, b.param, ARENA * sizeof(float));
	ck_assert_mem_eq(a.m, b.m, ARENA * sizeof(float));
	ck_assert_uint_eq(s.good, 1);
	arenas_free(&a);
	arenas_free(&b);
}
END_TEST

int main(void)
{
	TCase *t = cpu_twin_case();

	tcase_add_loop_test(t, updates_match_the_cpus, 0, 4);
	tcase_add_test(t, no_update_follows_a_loss_that_is_not_a_number);
	tcase_add_loop_test(t, updates_with_a_scaler_match_the_cpus, 0, 2);
	tcase_add_test(t, a_scaled_update_is_the_unscaled_one);
	return run_case(t);
}
