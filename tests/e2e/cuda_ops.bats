bats_require_minimum_version 1.5.0
load ../lib

# --device cuda and the library behind it. Where CUDA's headers are, the whole
# twin also runs without a GPU: its kernels on the host, CUDA's, cuDNN's and
# cuBLAS' calls as plain loops (tests/unit/on_host*.cc).

setup() {
	lib_setup
	unset DDP_DATA DDP_CUDA_OPS
}

host_twin() {
	[ -f "$O/tests/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	export DDP_CUDA_OPS=$O/tests/libddp_cuda_ops.so OMP_NUM_THREADS=1
}

same() { # PART: what gpu_ops compares
	expect 0 "$O/gpu/gpu_ops" cuda "$1"
	has "$out" '^ok$'
}

@test "the library is missing: said in one line, auto takes the cpu" {
	DDP_CUDA_OPS=/nowhere.so expect 2 mnist_mlp --device cuda
	has "$err" 'no CUDA operations: /nowhere.so'
	has "$err" 'use --device cpu'
	[ "$(wc -l <<<"$err")" = 1 ]
	DDP_CUDA_OPS=/nowhere.so expect 0 mnist_mlp --device auto --steps 3
	has "$out$err" ', cpu, '
}

@test "another library in its place is refused" {
	DDP_CUDA_OPS=$O/libddp.so expect 2 mnist_mlp --device cuda
	has "$err" 'is not of this build; build both again'
}

@test "no driver: said in one line, auto takes the cpu" {
	[ -f "$O/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	[ ! -e /dev/nvidiactl ] || skip "there is a driver"
	expect 2 mnist_mlp --device cuda
	has "$err" 'no GPU: this host has no NVIDIA driver'
	[ "$(wc -l <<<"$err")" = 1 ]
	expect 0 mnist_mlp --device auto --steps 3
	has "$out$err" ', cpu, '
}

@test "the library shows its one entrance and nothing else" {
	[ -f "$O/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	[ -z "${SAN:-}" ] || skip "sanitizers show names of their own"
	expect 0 nm -D --defined-only "$O/libddp_cuda_ops.so"
	[ "$(awk '{print $3}' <<<"$out")" = ddp_cuda_ops ]
}

@test "the twin on the host: linear layers, losses, updates, recorded steps" {
	host_twin
	same 'linear, '
	same 'mean of squares'
}

@test "the twin on the host: convolutions, f32 and bf16" {
	host_twin
	same 'conv, odd'
}

@test "the twin on the host: batch normalisation and what is added" {
	host_twin
	same 'norm, add'
}

@test "the twin on the host: max-pooling" {
	host_twin
	same 'max pool'
}
