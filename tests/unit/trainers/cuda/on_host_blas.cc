/* on_host_blas.cc: cuBLASLt's products as plain loops, beside
 * on_host_cuda.cc. */
#include <cublasLt.h>
#include <string.h>

#include <functional>

extern bool (*on_host_keep)(const std::function<void()> &work);
int on_host_setting(const char *name, int otherwise);

struct matrix {
	uint64_t rows, columns;
	int64_t step;
};

struct product {
	int32_t turn_a, turn_b;
	cublasLtEpilogue_t epilogue;
	const float *bias;
};

static const matrix *of(cublasLtMatrixLayout_t l)
{
	return (const matrix *)l;
}

static float value(const float *p, const matrix &m, int turned, size_t row,
		   size_t column)
{
	return turned ? p[column + row * (size_t)m.step]
		      : p[row + column * (size_t)m.step];
}

static void multiply(const product &p, const matrix &a, const float *pa,
		     const matrix &b, const float *pb, const matrix &c,
		     float *pc)
{
	size_t depth = p.turn_a ? a.rows : a.columns;
	bool bias = p.epilogue != CUBLASLT_EPILOGUE_DEFAULT;

	for (size_t j = 0; j < c.columns; j++)
		for (size_t i = 0; i < c.rows; i++) {
			float sum = bias ? p.bias[i] : 0;

			for (size_t k = 0; k < depth; k++)
				sum += value(pa, a, p.turn_a, i, k) *
				       value(pb, b, p.turn_b, k, j);
			if (p.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
				sum = sum < 0 ? 0 : sum;
			pc[i + j * (size_t)c.step] = sum;
		}
}

/* Whether the shapes of a call match each other. */
static bool fits(const product &p, const matrix &a, const matrix &b,
		 const matrix &c)
{
	uint64_t m = p.turn_a ? a.columns : a.rows;
	uint64_t depth = p.turn_a ? a.rows : a.columns;
	uint64_t n = p.turn_b ? b.rows : b.columns;

	return m == c.rows && n == c.columns &&
	       depth == (p.turn_b ? b.columns : b.rows) &&
	       a.step >= (int64_t)a.rows && b.step >= (int64_t)b.rows &&
	       c.step >= (int64_t)c.rows;
}

extern "C" {

size_t cublasLtGetVersion(void)
{
	return (size_t)on_host_setting("ON_HOST_CUBLAS", CUBLAS_VERSION);
}

const char *cublasLtGetStatusString(cublasStatus_t s)
{
	return s ? "an error of the test's" : "none";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
	*h = (cublasLtHandle_t) new int;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
	delete (int *)h;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d,
					cublasComputeType_t compute,
					cudaDataType_t type)
{
	*d = (cublasLtMatmulDesc_t) new product();
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
	delete (product *)d;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(
	cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a,
	const void *v, size_t size)
{
	product *p = (product *)d;

	if (a == CUBLASLT_MATMUL_DESC_TRANSA)
		p->turn_a = *(const int32_t *)v == CUBLAS_OP_T;
	else if (a == CUBLASLT_MATMUL_DESC_TRANSB)
		p->turn_b = *(const int32_t *)v == CUBLAS_OP_T;
	else if (a == CUBLASLT_MATMUL_DESC_EPILOGUE)
		p->epilogue = *(const cublasLtEpilogue_t *)v;
	else if (a == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
		p->bias = *(const float *const *)v;
	else
		return CUBLAS_STATUS_INVALID_VALUE;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l,
					  cudaDataType type, uint64_t rows,
					  uint64_t columns, int64_t step)
{
	*l = (cublasLtMatrixLayout_t) new matrix{rows, columns, step};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
	delete (matrix *)l;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
	*p = (cublasLtMatmulPreference_t) new int;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
	delete (int *)p;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
	cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t a,
	const void *v, size_t size)
{
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
	cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
	cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
	cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t p, int most,
	cublasLtMatmulHeuristicResult_t *found, int *n)
{
	*n = fits(*(product *)d, *of(a), *of(b), *of(out));
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
			      const void *alpha, const void *pa,
			      cublasLtMatrixLayout_t a, const void *pb,
			      cublasLtMatrixLayout_t b, const void *beta,
			      const void *pc, cublasLtMatrixLayout_t c,
			      void *out, cublasLtMatrixLayout_t l,
			      const cublasLtMatmulAlgo_t *algorithm,
			      void *room, size_t size, cudaStream_t s)
{
	product p = *(product *)d;
	matrix ma = *of(a), mb = *of(b), mc = *of(l);
	std::function<void()> work = [=]() {
		multiply(p, ma, (const float *)pa, mb, (const float *)pb, mc,
			 (float *)out);
	};

	if (!on_host_keep || !on_host_keep(work))
		work();
	return CUBLAS_STATUS_SUCCESS;
}

} /* extern "C" */
