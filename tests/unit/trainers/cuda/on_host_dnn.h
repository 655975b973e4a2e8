/* on_host_dnn.h: shared by the stand-ins for CUDA and cuDNN. */
#ifndef TESTS_ON_HOST_DNN_H
#define TESTS_ON_HOST_DNN_H

#include <cudnn.h>
#include <stddef.h>

#include <functional>
#include <vector>

struct cudnnTensorStruct {
	cudnnDataType_t type;
	int n, c, h, w;
};
struct cudnnFilterStruct {
	cudnnDataType_t type;
	int k, c, h, w;
};
struct cudnnConvolutionStruct {
	int pad, stride;
};

/* The shape of a convolution; everything is nhwc and krsc. */
struct shape {
	cudnnTensorStruct x, y;
	cudnnFilterStruct w;
	cudnnConvolutionStruct c;
};

enum way { FORWARD, BY_X, BY_WEIGHT };

/* a and b are the inputs in the order x, w, y; the result is the third. */
std::vector<float> on_host_products(const shape &s, enum way way,
				    std::vector<float> a, std::vector<float> b);

/* Values in memory, of a type that may have 16 bits. */
std::vector<float> on_host_load(const void *p, size_t n, cudnnDataType_t t);
void on_host_store(void *p, const std::vector<float> &v, cudnnDataType_t t);
std::vector<float> on_host_rounded(const std::vector<float> &v,
				   cudnnDataType_t t);

/* Runs the work, or keeps it for the graph that is being recorded. */
void on_host_enqueue(const std::function<void()> &work);
bool on_host_is_recording(void);

/* Microseconds of work on the stream so far, by what each call pretends to
 * take. */
extern double on_host_clock;

/* A number from the environment. */
int on_host_setting(const char *name, int otherwise);

#endif
