# covers: trainers/cuda
bats_require_minimum_version 1.5.0
load ../lib

# What the compiler shows of how the trainers' kernels use a GPU, without one.

setup() {
	lib_setup
	cuda=${CUDA:-/usr/local/cuda}
	[ -x "$cuda/bin/nvcc" ] && [ -x "$cuda/bin/ptxas" ] || skip "no nvcc in $cuda"
	"$cuda/bin/nvcc" --list-gpu-arch | grep -q compute_100 || skip "this nvcc is too old for sm_100"
}

@test "the kernels keep an A100's, an H200's and a B200's memory busy" {
	cd "$BATS_TEST_DIRNAME/../.."
	run python3 tests/gpu/kernels.py "$cuda"
	echo "$output"
	[ "$status" = 0 ]
	has "$output" '^[1-9][0-9]* kernels, 0 short$'
}

@test "a kernel that waits for each load is reported" {
	cat >slow.cu <<-'END'
	static __global__ void arena_widen(size_t n, const float *x, float *y)
	{
		for (size_t i = threadIdx.x; i < n; i += blockDim.x)
			y[i] = x[i] + 1;
	}
	void (*slow)(size_t, const float *, float *) = arena_widen;
	END
	run python3 "$BATS_TEST_DIRNAME/../gpu/kernels.py" "$cuda" slow.cu
	[ "$status" = 1 ]
	has "$output" 'arena_widen .*needs [0-9]+ KiB in flight'
}
