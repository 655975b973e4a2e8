/* digits.c: the strokes of each digit, and drawing them with a shaky hand. */
#include "trainers/data/digits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/data/data_files.h"

/* ---- How digits are written ----
 * In a box of 1 x 1, x to the right, y down. Angles in degrees, clockwise from
 * the right, since y points down. */

enum { STROKES_MAX = 5 };

struct stroke {
	enum { NONE, LINE, ARC } kind;
	float a, b, c, d; /* LINE: from a,b to c,d. ARC: centre a,b radii c,d */
	float from, to;   /* ARC: degrees */
};

#define L(x0, y0, x1, y1) {LINE, x0, y0, x1, y1, 0, 0}
#define A(x, y, rx, ry, from, to) {ARC, x, y, rx, ry, from, to}

struct glyph {
	int label;
	struct stroke strokes[STROKES_MAX];
};

static const struct glyph glyphs[] = {
	{0, {A(.5f, .5f, .28f, .42f, 0, 360)}},
	{0, {A(.5f, .5f, .2f, .4f, -80, 270)}},
	{0, {A(.5f, .5f, .34f, .36f, -60, 300)}},
	{1, {L(.5f, .08f, .5f, .92f)}},
	{1, {L(.5f, .08f, .5f, .92f), L(.5f, .08f, .34f, .27f)}},
	{1, {L(.5f, .08f, .5f, .92f), L(.5f, .08f, .34f, .24f),
	     L(.3f, .92f, .7f, .92f)}},
	{2, {A(.5f, .33f, .25f, .24f, 190, 390), L(.71f, .45f, .24f, .9f),
	     L(.24f, .9f, .78f, .9f)}},
	{2, {A(.48f, .32f, .27f, .22f, 200, 400), L(.69f, .46f, .3f, .83f),
	     A(.3f, .82f, .1f, .08f, 90, 400), L(.3f, .84f, .8f, .88f)}},
	{3, {A(.46f, .3f, .24f, .21f, 200, 450),
	     A(.46f, .7f, .27f, .22f, -90, 160)}},
	{3, {L(.24f, .1f, .72f, .1f), L(.72f, .1f, .44f, .42f),
	     A(.44f, .66f, .28f, .25f, -90, 150)}},
	{4, {L(.6f, .08f, .22f, .62f), L(.22f, .62f, .8f, .62f),
	     L(.62f, .3f, .62f, .92f)}},
	{4, {L(.3f, .1f, .26f, .5f), L(.26f, .5f, .74f, .5f),
	     L(.72f, .1f, .68f, .92f)}},
	{4, {L(.62f, .08f, .22f, .58f), L(.22f, .58f, .8f, .6f),
	     L(.62f, .08f, .6f, .92f)}},
	{5, {L(.74f, .1f, .32f, .1f), L(.32f, .1f, .28f, .46f),
	     A(.46f, .66f, .28f, .25f, -130, 140)}},
	{5, {L(.72f, .14f, .36f, .1f), L(.36f, .1f, .34f, .42f),
	     A(.42f, .64f, .26f, .24f, -110, 120)}},
	{6, {A(.64f, .54f, .38f, .46f, 165, 275),
	     A(.5f, .69f, .23f, .22f, 0, 360)}},
	{6, {L(.6f, .08f, .3f, .62f), A(.5f, .7f, .22f, .2f, -30, 330)}},
	{7, {L(.22f, .1f, .76f, .1f), L(.76f, .1f, .42f, .92f)}},
	{7, {L(.22f, .12f, .76f, .1f), L(.76f, .1f, .4f, .92f),
	     L(.36f, .5f, .72f, .5f)}},
	{7, {L(.24f, .1f, .24f, .22f), L(.24f, .1f, .74f, .12f),
	     A(.86f, .86f, .42f, .74f, 180, 255)}},
	{8, {A(.5f, .3f, .2f, .2f, 0, 360), A(.5f, .7f, .25f, .21f, 0, 360)}},
	{8, {A(.52f, .28f, .22f, .19f, 90, 400), L(.68f, .4f, .34f, .58f),
	     A(.48f, .7f, .22f, .21f, -130, 200), L(.3f, .63f, .66f, .4f)}},
	{9, {A(.48f, .32f, .22f, .23f, 0, 360), L(.7f, .32f, .64f, .92f)}},
	{9, {A(.48f, .3f, .23f, .21f, -20, 340),
	     A(.4f, .48f, .3f, .44f, -25, 110)}},
};

enum { GLYPHS = sizeof(glyphs) / sizeof(glyphs[0]) };

/* ---- Chance: splitmix64 ---- */

static uint64_t digits_random(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static float digits_uniform(uint64_t *s, float from, float to)
{
	return from + (to - from) * (float)(digits_random(s) >> 40) * 0x1p-24f;
}

/* Roughly normal, within 3 deviations: the sum of three uniforms. */
static float digits_jitter(uint64_t *s, float deviation)
{
	return deviation *
	       (digits_uniform(s, -1, 1) + digits_uniform(s, -1, 1) +
		digits_uniform(s, -1, 1));
}

/* ---- The hand ---- */

struct hand {
	uint64_t chance;
	float xx, xy, yx, yy, x0, y0; /* box to pixels */
	float radius;                 /* radius of the pen, in pixels */
	float away[DATASET_PIXELS];   /* squared distance to the stroke */
};

enum { FAR_AWAY = 10000, ARC_PARTS = 14 };

static void digits_hand_init(struct hand *h, uint64_t seed, uint32_t index)
{
	float turn, slant, wide, high, c, s;

	h->chance = seed * 0x2545f4914f6cdd1du + index;
	digits_random(&h->chance);
	turn = digits_jitter(&h->chance, .16f);
	slant = digits_jitter(&h->chance, .16f);
	wide = digits_uniform(&h->chance, 14, 24);
	high = digits_uniform(&h->chance, 16, 24);
	c = cosf(turn);
	s = sinf(turn);
	h->xx = wide * c;
	h->xy = high * (slant * c - s);
	h->yx = wide * s;
	h->yy = high * (slant * s + c);
	h->x0 = 13.5f + digits_jitter(&h->chance, 1.1f);
	h->y0 = 13.5f + digits_jitter(&h->chance, 1.1f);
	h->radius = digits_uniform(&h->chance, .5f, 1.7f);
	for (int i = 0; i < DATASET_PIXELS; i++)
		h->away[i] = FAR_AWAY;
}

static int digits_clamp(float v)
{
	return v < 0 ? 0 : v > DATASET_SIDE - 1 ? DATASET_SIDE - 1 : (int)v;
}

/* Draws a straight piece, in pixels: updates the distance of each pixel near
 * it. */
static void digits_draw_segment(struct hand *h, float ax, float ay, float bx,
				float by)
{
	float reach = h->radius + 1.5f, dx = bx - ax, dy = by - ay;
	float length = dx * dx + dy * dy;
	float inverse = length > 1e-6f ? 1 / length : 0;
	int left = digits_clamp(fminf(ax, bx) - reach);
	int right = digits_clamp(fmaxf(ax, bx) + reach + 1);
	int top = digits_clamp(fminf(ay, by) - reach);
	int bottom = digits_clamp(fmaxf(ay, by) + reach + 1);

	for (int y = top; y <= bottom; y++)
		for (int x = left; x <= right; x++) {
			float px = (float)x - ax, py = (float)y - ay;
			float t = (px * dx + py * dy) * inverse;
			float *away = &h->away[y * DATASET_SIDE + x];
			float d;

			t = t < 0 ? 0 : t > 1 ? 1 : t;
			px -= t * dx;
			py -= t * dy;
			d = px * px + py * py;
			*away = d < *away ? d : *away;
		}
}

static void digits_draw_box(struct hand *h, float ax, float ay, float bx,
			    float by)
{
	ax -= .5f;
	ay -= .5f;
	bx -= .5f;
	by -= .5f;
	digits_draw_segment(h, h->x0 + h->xx * ax + h->xy * ay,
			    h->y0 + h->yx * ax + h->yy * ay,
			    h->x0 + h->xx * bx + h->xy * by,
			    h->y0 + h->yx * bx + h->yy * by);
}

static void digits_draw_stroke(struct hand *h, const struct stroke *k)
{
	const float degree = 3.14159265f / 180;
	uint64_t *s = &h->chance;
	float a = k->a + digits_jitter(s, .028f),
	      b = k->b + digits_jitter(s, .028f);
	float c = k->c + digits_jitter(s, .028f),
	      d = k->d + digits_jitter(s, .028f);
	float from, step, x, y;

	if (k->kind == LINE) {
		digits_draw_box(h, a, b, c, d);
		return;
	}
	from = (k->from + digits_jitter(s, 9)) * degree;
	step = (k->to + digits_jitter(s, 9)) * degree;
	step = (step - from) / ARC_PARTS;
	x = a + c * cosf(from);
	y = b + d * sinf(from);
	for (int i = 1; i <= ARC_PARTS; i++) {
		float angle = from + step * (float)i;
		float nx = a + c * cosf(angle), ny = b + d * sinf(angle);

		digits_draw_box(h, x, y, nx, ny);
		x = nx;
		y = ny;
	}
}

/* Adds slips of the pen, ink that fails in one place, and grainy paper. */
static void digits_add_noise(struct hand *h, uint8_t *pixels)
{
	uint64_t *s = &h->chance;

	if (digits_uniform(s, 0, 1) < .3f) {
		int x = (int)digits_uniform(s, 2, 22),
		    y = (int)digits_uniform(s, 2, 22);

		for (int i = 0; i < 4; i++)
			memset(pixels + (y + i) * DATASET_SIDE + x, 0, 4);
	}
	if (digits_uniform(s, 0, 1) < .25f)
		for (int i = 0; i < 40; i++)
			pixels[digits_random(s) % DATASET_PIXELS] =
				(uint8_t)digits_random(s);
}

int digits_draw(uint64_t seed, uint32_t index, uint8_t *pixels)
{
	struct hand h;
	const struct glyph *g;
	float ink, label;

	digits_hand_init(&h, seed, index);
	/* every digit is equally frequent, whatever its number of glyphs */
	label = digits_uniform(&h.chance, 0, DATASET_CLASSES);
	do
		g = &glyphs[digits_random(&h.chance) % GLYPHS];
	while (g->label != (int)label);
	for (int i = 0; i < STROKES_MAX && g->strokes[i].kind; i++)
		digits_draw_stroke(&h, &g->strokes[i]);
	if (digits_uniform(&h.chance, 0, 1) < .3f) {
		float x = digits_uniform(&h.chance, 2, 25);
		float y = digits_uniform(&h.chance, 2, 25);

		digits_draw_segment(&h, x, y, x + digits_jitter(&h.chance, 4),
				    y + digits_jitter(&h.chance, 4));
	}
	ink = digits_uniform(&h.chance, 150, 255);
	for (int i = 0; i < DATASET_PIXELS; i++) {
		float v = h.radius + .5f - sqrtf(h.away[i]);

		v = v < 0 ? 0 : v > 1 ? 1 : v;
		pixels[i] = (uint8_t)(v * ink);
	}
	digits_add_noise(&h, pixels);
	return g->label;
}

int digits_make(uint32_t train, uint32_t test, struct payload *p,
		struct err *e)
{
	struct dataset_room room;
	int r = dataset_alloc(p, &mnist_shape, train, test, &room, e);

	if (r < 0)
		return r;
	for (int k = 0; k < 2; k++) {
		uint8_t *pixels = room.pixels[k];

		for (uint32_t i = 0; i < (k ? test : train); i++) {
			room.labels[k][i] = (uint8_t)digits_draw(
				(uint64_t)k + 1, i, pixels);
			pixels += DATASET_PIXELS;
		}
	}
	r = dataset_add_lists(p, e);
	if (r < 0) {
		free(p->data);
		p->data = NULL;
	}
	return r;
}
