/* on_host_graph.h: the descriptors of cuDNN's graph API, for on_host_graph.cc,
 * which plans, and on_host_run.cc, which computes. */
#ifndef TESTS_ON_HOST_GRAPH_H
#define TESTS_ON_HOST_GRAPH_H

#include <string.h>

#include <map>
#include <vector>

#include "tests/unit/trainers/cuda/on_host_dnn.h"

struct descriptor {
	cudnnBackendDescriptorType_t type;
	bool finalized;
	std::map<int, std::vector<char>> attribute;
};

static inline descriptor *of(cudnnBackendDescriptor_t d)
{
	return (descriptor *)d;
}

template <typename T>
static inline size_t values(const descriptor *d, int name)
{
	auto at = d->attribute.find(name);

	return at == d->attribute.end() ? 0 : at->second.size() / sizeof(T);
}

template <typename T>
static inline T value(const descriptor *d, int name, size_t i = 0)
{
	T v = T();

	if (i < values<T>(d, name))
		memcpy(&v, d->attribute.at(name).data() + i * sizeof(v),
		       sizeof(v));
	return v;
}

static inline descriptor *child(const descriptor *d, int name, size_t i = 0)
{
	return of(value<cudnnBackendDescriptor_t>(d, name, i));
}

/* Can this graph be computed? Those that cuDNN cannot are refused: another
 * layout, another order of operations, a fusion of other types than fp16.
 * ON_HOST_FUSE=BITS: only these fusions: 1 sums of a convolution's y, 2 the
 * same with the normalization of x, 4 that in the gradient by the weights, 8
 * the gradient by x with that of the normalization. */
bool on_host_can_run(const descriptor *graph);

/* All tensors of the graph that are in memory are in the variant pack. */
bool on_host_has_memory(const descriptor *graph, const descriptor *pack);

/* Computes the graph in the memory of the pack. right false: its results are
 * NaN. */
void on_host_run(const descriptor *graph, const descriptor *pack, bool right);

/* Do the factors of the graph's convolution have 16 bits? */
bool on_host_is_narrow(const descriptor *graph);

#endif
