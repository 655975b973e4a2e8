/* transpose.cu: converts between [n][c][places] f32 and nhwc with zero-padded
 * channels. Each thread handles 16 bytes of channels of one place. */
#include "trainers/cuda/device.cuh"

struct spot {
	size_t sample, place, channel;
};

template <typename T>
static __device__ struct spot transpose_spot(const struct kernel_transpose &t,
					     size_t i)
{
	size_t vectors = (size_t)t.channels / pack<T>::N;
	struct spot s;

	s.channel = i % vectors * pack<T>::N;
	s.place = i / vectors % t.places;
	s.sample = i / vectors / t.places;
	return s;
}

template <typename T>
static __global__ void transpose_to_nhwc(struct kernel_transpose t,
					 size_t vectors, const float *from,
					 void *to)
{
	for (size_t i = thread_at(); i < vectors; i += thread_count()) {
		struct spot s = transpose_spot<T>(t, i);
		float v[pack<T>::N];

		for (int k = 0; k < pack<T>::N; k++)
			v[k] = s.channel + k < (size_t)t.c
				       ? from[(s.sample * t.c + s.channel + k) *
						      t.places + s.place]
				       : 0;
		pack<T>::store(v, to, i);
	}
}

template <typename T>
static __global__ void transpose_from_nhwc(struct kernel_transpose t,
					   size_t vectors, const void *from,
					   float *to)
{
	for (size_t i = thread_at(); i < vectors; i += thread_count()) {
		struct spot s = transpose_spot<T>(t, i);
		float v[pack<T>::N];

		pack<T>::load(v, from, i);
		for (int k = 0; k < pack<T>::N; k++)
			if (s.channel + k < (size_t)t.c)
				to[(s.sample * t.c + s.channel + k) * t.places +
				   s.place] = v[k];
	}
}

static size_t transpose_vectors(const struct kernel_transpose *t)
{
	return (size_t)t->n * t->places * (t->channels / kernel_lanes(t->type));
}

int kernel_to_nhwc(kernel_stream s, const struct kernel_transpose *t,
		   const float *from, void *to)
{
	size_t n = transpose_vectors(t);

	LAUNCH_TYPED(t->type, transpose_to_nhwc, blocks_for(n), BLOCK, s, *t, n,
		     from, to);
	return LAUNCHED();
}

int kernel_from_nhwc(kernel_stream s, const struct kernel_transpose *t,
		     const void *from, float *to)
{
	size_t n = transpose_vectors(t);

	LAUNCH_TYPED(t->type, transpose_from_nhwc, blocks_for(n), BLOCK, s, *t,
		     n, from, to);
	return LAUNCHED();
}
