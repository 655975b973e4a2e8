# covers: trainers/cuda trainers/ops
bats_require_minimum_version 1.5.0
load ../lib

# --device cuda and its library. If CUDA's headers are installed, the whole twin also
# runs without a GPU: its kernels on the host, the calls of CUDA, cuDNN and cuBLAS as
# plain loops (tests/unit/trainers/cuda).

setup() {
	lib_setup
	# all tests here share the generated digits
	export DDP_CACHE=$BATS_FILE_TMPDIR/cache
	unset DDP_DATA DDP_CUDA_OPS
}

host_twin() {
	[ -f "$O/tests/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	export DDP_CUDA_OPS=$O/tests/libddp_cuda_ops.so
}

same() { # PART: what gpu_ops compares
	expect 0 "$O/gpu/gpu_ops" cuda "$1"
	has "$out" '^ok$'
}

@test "a missing library prints one line, and auto uses the CPU" {
	DDP_CUDA_OPS=/nowhere.so expect 2 mnist_mlp --device cuda
	has "$err" 'no CUDA operations: /nowhere.so'
	has "$err" 'use --device cpu'
	[ "$(wc -l <<<"$err")" = 1 ]
	DDP_CUDA_OPS=/nowhere.so expect 0 mnist_mlp --device auto --steps 3
	has "$out$err" ', cpu, '
}

@test "another library under the same name is refused" {
	DDP_CUDA_OPS=$O/libddp.so expect 2 mnist_mlp --device cuda
	has "$err" 'is not of this build; build both again'
}

@test "a missing driver prints one line, and auto uses the CPU" {
	[ -f "$O/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	[ ! -e /dev/nvidiactl ] || skip "there is a driver"
	expect 2 mnist_mlp --device cuda
	has "$err" 'no GPU: this host has no NVIDIA driver'
	[ "$(wc -l <<<"$err")" = 1 ]
	expect 0 mnist_mlp --device auto --steps 3
	has "$out$err" ', cpu, '
}

@test "the library exports its one entry point and nothing else" {
	[ -f "$O/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	[ -z "${SAN:-}" ] || skip "sanitizers show names of their own"
	expect 0 nm -D --defined-only "$O/libddp_cuda_ops.so"
	[ "$(awk '{print $3}' <<<"$out")" = ddp_cuda_ops ]
}

@test "the CUDA code built for the host computes linear layers, losses, updates, recorded steps" {
	host_twin
	same 'linear, '
	same 'mean of squares'
}

@test "the CUDA code built for the host computes convolutions, f32 and bf16" {
	host_twin
	same 'conv, odd'
}

@test "the CUDA code built for the host computes batch normalisation and additions" {
	host_twin
	same 'norm, add'
}

@test "the CUDA code built for the host computes max-pooling" {
	host_twin
	same 'max pool'
}

@test "more ranks than GPUs are refused before training, unless they may share" {
	host_twin
	local job="$DDPRUN --standalone --nproc-per-node 2 mnist_mlp --device cuda --backend cpu --data data --steps 2"
	mkdir data
	t_idx data 100 10
	expect 2 $job
	has "$err" '^\[1\] mnist_mlp: rank 1: ranks 0 and 1 of a host would share GPU 0: it has 1 for its ranks; start fewer workers a node, or give --oversubscribe-gpu$'
	[ "$(grep -c '^\[[01]\] .*would share' <<<"$err")" = 1 ]
	run ! grep 'step\|epoch' <<<"$out"
	expect 0 $job --oversubscribe-gpu
	has "$out" '2 ranks x batch 32, CUDA on the host'
	ON_HOST_GPUS=2 expect 0 $job
}

@test "an error about GPU memory names the request, the free memory and a remedy" {
	host_twin
	mkdir data
	t_idx data 100 10
	export ON_HOST_MIB=8
	expect 1 mnist_ae --device cuda --data data --steps 1 --batch-size 4096 \
		--checkpoint c
	has "$err" '^mnist_ae: .*the GPU has no memory for [0-9]+ MiB more: [0-7] of its 8 MiB are free; use a smaller --batch-size$'
	[ "$(wc -l <<<"$err")" = 1 ]
	run ! grep epoch <<<"$out"
}

@test "--conv direct is refused on a GPU" {
	host_twin
	expect 2 resnet --device cuda --synthetic --steps 1 --conv direct
	has "$err" '^resnet: --conv direct only applies to CPUs: .*--device cpu'
}
