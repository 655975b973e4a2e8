# covers: trainers/cuda
# covers: worker-sdk/nccl/nccl_bf16.c
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
	# what has not changed since the last run, of any build, is not compiled again
	run python3 tests/gpu/kernels.py --cache build/kernels "$cuda"
	echo "$output"
	[ "$status" = 0 ]
	has "$output" '^[1-9][0-9]* kernels, 0 short$'
	# every file is there, and each kernel on each GPU
	local kernel
	for kernel in take take_part cross_entropy norm_apply pool_max transpose_to_nhwc mask_and_sum update_pass; do
		[ "$(grep -cE "^(A100|H200|B200) $kernel[ <]" <<<"$output")" -ge 3 ] || { echo "$kernel"; false; }
	done
}

# The text that libddp has for the driver: each string of the source is a line.
@test "libddp's own kernels are PTX that each GPU takes" {
	local arch from=$BATS_TEST_DIRNAME/../../worker-sdk/nccl/nccl_bf16.c
	printf '#define main ignored\n#include "%s"\n#undef main\nint main(void) { puts(ptx); }\n' "$from" >print.c
	cc -std=c11 -D_GNU_SOURCE -I"$BATS_TEST_DIRNAME/../.." -O1 -ffunction-sections \
		-Wl,--gc-sections -o print print.c
	./print >kernels.ptx
	for arch in 80 90 100; do
		run "$cuda/bin/ptxas" -v -arch=sm_$arch -o kernels.cubin kernels.ptx
		echo "$output"
		[ "$status" = 0 ]
		[ "$(grep -c "Compiling entry function 'ddp_\(to\|from\)_bf16'" <<<"$output")" = 2 ]
		[ "$(grep -c ' 0 bytes spill stores' <<<"$output")" = 2 ]
	done
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

@test "a kernel that spills registers is reported" {
	cat >spills.cu <<-'END'
	static __global__ void __launch_bounds__(1024, 2)
	many(const float *x, float *y)
	{
		float v[96];
	#pragma unroll
		for (int i = 0; i < 96; i++)
			v[i] = x[i * 4096 + threadIdx.x];
		__syncthreads();
	#pragma unroll
		for (int i = 0; i < 96; i++)
			y[i * 4096 + threadIdx.x] = v[i] * v[95 - i] + v[(i * 7) % 96];
	}
	void (*run)(const float *, float *) = many;
	END
	run python3 "$BATS_TEST_DIRNAME/../gpu/kernels.py" "$cuda" spills.cu
	[ "$status" = 1 ]
	has "$output" '^H200 many .*: spills [1-9][0-9]* bytes'
}

@test "a kernel that keeps an array in local memory is reported" {
	cat >array.cu <<-'END'
	static __global__ void chosen(const int *at, float *y)
	{
		float v[16];
		for (int i = 0; i < 16; i++)
			v[at[i] & 15] = y[i];
		y[threadIdx.x] = v[at[threadIdx.x] & 15];
	}
	void (*run)(const int *, float *) = chosen;
	END
	run python3 "$BATS_TEST_DIRNAME/../gpu/kernels.py" "$cuda" array.cu
	[ "$status" = 1 ]
	has "$output" '^B200 chosen .*: keeps [1-9][0-9]* bytes in local memory'
}

@test "a kernel whose blocks leave a multiprocessor empty is reported" {
	cat >large.cu <<-'END'
	static __global__ void __launch_bounds__(64) wide(float *y)
	{
		__shared__ float all[12000];
		all[threadIdx.x] = y[threadIdx.x];
		__syncthreads();
		y[threadIdx.x] = all[63 - threadIdx.x];
	}
	void (*run)(float *) = wide;
	END
	run python3 "$BATS_TEST_DIRNAME/../gpu/kernels.py" "$cuda" large.cu
	[ "$status" = 1 ]
	has "$output" '^A100 wide .*: 512 threads do not fit'
}

@test "the compiler's results are kept until a source changes" {
	printf '%s\n' 'static __global__ void same(float *y) { y[threadIdx.x] = 1; }' \
		'void (*run)(float *) = same;' >same.cu
	expect 0 python3 "$BATS_TEST_DIRNAME/../gpu/kernels.py" --cache kept "$cuda" same.cu
	local first=$out
	[ "$(ls kept | wc -l)" = 3 ]
	# nothing compiles without ptxas
	mkdir -p none/bin
	ln -s "$cuda/bin/nvcc" none/bin/nvcc
	expect 0 python3 "$BATS_TEST_DIRNAME/../gpu/kernels.py" --cache kept none same.cu
	[ "$out" = "$first" ]
	echo >>same.cu
	expect 1 python3 "$BATS_TEST_DIRNAME/../gpu/kernels.py" --cache kept none same.cu
}
