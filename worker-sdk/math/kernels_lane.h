/* kernels_lane.h: the loops over arrays of one type. kernels_isa.h includes it
 * once for each, after it defined
 *   LANE        the type; it may be unaligned and alias any other
 *   WRAP        the type it adds in: unsigned for integers, which wraps
 *   QUOTIENT    a type in which LANE / int, cut off, is exact
 *   IS_NAN(x)   whether it is no number
 *   IS_REAL     if it is not an integer
 *   LANE_(verb) the function's name, such as reduce_f32 */

static inline ALWAYS LANE LANE_(one)(enum ddp_op op, LANE x, LANE y)
{
	/* The first of two NaNs is the result. A plain addition would return
	 * the NaN of its first operand, and the compiler may swap the
	 * operands. */
	LANE z = IS_NAN(x) ? x : y;

	switch (op) {
	case DDP_MIN:
		return x < y || IS_NAN(x) ? x : y; /* y wins if it is NaN */
	case DDP_MAX:
		return x > y || IS_NAN(x) ? x : y;
	case DDP_PROD:
		return (LANE)((WRAP)x * (WRAP)z);
	default:
		return (LANE)((WRAP)x + (WRAP)z);
	}
}

/* Callers pass constants for op and n, so that one loop remains. */
static inline ALWAYS void LANE_(loop)(LANE *d, const void *const *src, int n,
				      size_t count, enum ddp_op op)
{
	const LANE *a = src[0], *b = src[1];
	const LANE *c = n > 2 ? src[2] : b, *e = n > 3 ? src[3] : b;

	LANES_APART
	for (size_t i = 0; i < count; i++) {
		LANE x = LANE_(one)(op, a[i], b[i]);

		if (n > 2)
			x = LANE_(one)(op, x, c[i]);
		if (n > 3)
			x = LANE_(one)(op, x, e[i]);
		d[i] = x;
	}
}

static inline ALWAYS void LANE_(fan)(LANE *d, const void *const *src, int n,
				     size_t count, enum ddp_op op)
{
	if (n == 2)
		LANE_(loop)(d, src, 2, count, op);
	else if (n == 3)
		LANE_(loop)(d, src, 3, count, op);
	else
		LANE_(loop)(d, src, 4, count, op);
}

static void LANE_(reduce)(void *dst, const void *const *src, int n,
			  size_t count, enum ddp_op op)
{
	switch (op) {
	case DDP_MIN:
		LANE_(fan)(dst, src, n, count, DDP_MIN);
		break;
	case DDP_MAX:
		LANE_(fan)(dst, src, n, count, DDP_MAX);
		break;
	case DDP_PROD:
		LANE_(fan)(dst, src, n, count, DDP_PROD);
		break;
	default:
		LANE_(fan)(dst, src, n, count, DDP_SUM);
		break;
	}
}

#ifdef IS_REAL
static inline ALWAYS void LANE_(mean)(LANE *d, const void *const *src, int n,
				      size_t count, QUOTIENT part)
{
	const LANE *a = src[0], *b = src[1];
	const LANE *c = n > 2 ? src[2] : b, *e = n > 3 ? src[3] : b;

	LANES_APART
	for (size_t i = 0; i < count; i++) {
		LANE x = LANE_(one)(DDP_SUM, a[i], b[i]);

		if (n > 2)
			x = LANE_(one)(DDP_SUM, x, c[i]);
		if (n > 3)
			x = LANE_(one)(DDP_SUM, x, e[i]);
		d[i] = x * part;
	}
}

static void LANE_(average)(void *dst, const void *const *src, int n,
			    size_t count, int by)
{
	const QUOTIENT part = (QUOTIENT)1 / (QUOTIENT)by;

	if (n == 2)
		LANE_(mean)(dst, src, 2, count, part);
	else if (n == 3)
		LANE_(mean)(dst, src, 3, count, part);
	else
		LANE_(mean)(dst, src, 4, count, part);
}
#endif

/* x / 2^k is exactly x * 2^-k, and multiplying is many times faster; an integer
 * type cannot hold 2^-k. */
static void LANE_(divide)(void *buf, size_t count, int by)
{
	const QUOTIENT part = (QUOTIENT)1 / (QUOTIENT)by;
	LANE *d = buf;

	if ((by & (by - 1)) == 0 && part != 0)
		for (size_t i = 0; i < count; i++)
			d[i] = (LANE)((QUOTIENT)d[i] * part);
	else
		for (size_t i = 0; i < count; i++)
			d[i] = (LANE)((QUOTIENT)d[i] / (QUOTIENT)by);
}

#undef LANE
#undef WRAP
#undef QUOTIENT
#undef IS_NAN
#undef IS_REAL
#undef LANE_
