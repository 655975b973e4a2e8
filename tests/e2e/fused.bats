# fused.bats: --fuse, convolutions that compute what they can of the batch
# normalizations around them, without a GPU: the trainers' CUDA code on the host, with a
# cuDNN that runs the operation graphs as plain loops (tests/unit/trainers/cuda). That
# the real cuDNN plans these graphs is conv_plans.bats's.
# covers: trainers/cuda trainers/ops trainers/models

bats_require_minimum_version 1.5.0
load ../lib
load losses

setup() {
	lib_setup
	[ -f "$O/tests/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	export DDP_CUDA_OPS=$O/tests/libddp_cuda_ops.so
	export DDP_CACHE=$T/cache DDP_CUDNN_SEARCH=0
}

all='forward\+sums|norm\+forward\+sums|norm\+by_weight|by_x\+norm'

ops() { # HOW: outputs, gradients and running statistics of blocks of a ResNet
	expect 0 "$O/gpu/gpu_ops" cuda 'norm, ' "$1"
	has "$out" '^ok$'
}

resnet18() { # ARGUMENT...: two steps; the second has the first one's update
	expect 0 resnet --synthetic --image-size 16 --stem cifar --batch-size 4 --lr 0.001 \
		--precision fp16 --loss-scale 64 --log-every 1 --steps 2 "$@"
}

@test "fused convolutions and normalizations have the results of the CPU, which rounds alike" {
	ops fused
	lacks "$out" 'plans no graph'
	[ "$(grep -c ' fp16 fused' <<<"$out")" = 6 ]
}

@test "fused convolutions and normalizations have the gradients of the chain, not its bits" {
	ops chain
	lacks "$out" 'plans no graph'
	run ! grep -E ' chain( sync)? 0\.00e' <<<"$out"
	expect 0 "$O/gpu/gpu_ops" cpu 'norm, odd' chain
	has "$out" 'odd channels .* chain [1-9]'
}

@test "each fusion works without the others, and is reported where cuDNN has none" {
	local bits name=(0 forward+sums norm+forward+sums 3 norm+by_weight 5 6 7 by_x+norm)
	# without one of them; and what a B200 has
	for bits in 14 13 11 7 12; do
		ON_HOST_FUSE=$bits ops chain
		[ $bits = 12 ] || has "$out" "^note: layer [0-9]: --fuse: cuDNN [0-9]+ plans no graph '${name[15 - bits]//+/\\+}' here: such layers are computed one after the other"
	done
}

@test "without plans, or without a graph API, --fuse changes no bit" {
	resnet18 --device cuda --log-dir chain --checkpoint chain.ckpt
	ON_HOST_FUSE=0 resnet18 --device cuda --log-dir none --checkpoint none.ckpt --fuse
	[ "$(grep -cE "^resnet: warning: layer .*: --fuse: cuDNN [0-9]+ plans no graph '($all)' here" <<<"$err")" = 3 ]
	cmp <(losses chain) <(losses none)
	ON_HOST_GRAPH=0 resnet18 --device cuda --log-dir legacy --fuse
	cmp <(losses chain) <(losses legacy)
}

@test "a ResNet trains with --fuse as without it, on GPUs and CPUs" {
	local where
	resnet18 --device cuda --log-dir chain
	resnet18 --device cuda --log-dir cuda --fuse --checkpoint cuda.ckpt
	has "$out" 'CUDA on the host, fp16, fused$'
	lacks "$out$err" 'plans no graph'
	resnet18 --device cpu --log-dir cpu --fuse
	has "$out" 'rounded to fp16 as by --fuse'
	for where in chain cpu; do
		near cuda $where 0.003
		run ! cmp -s <(losses cuda) <(losses $where)
	done
	resnet18 --device cuda --steps 3 --checkpoint cuda.ckpt --resume
	has "$out" 'what changes: CUDA on the host, fp16 instead of CUDA on the host, fp16, fused'
}

@test "the fastest plans of fused convolutions are kept" {
	unset DDP_CUDNN_SEARCH
	ops fused
	cut -f 1,2 cache/conv-*.plans | sed -n 's/^fp16 \([^ ]*+[^ ]*\) .*\t/\1 /p' | sort -u >plans
	[ "$(<plans)" = "$(printf '%s eng8 2=80\n' by_x+norm forward+sums norm+by_weight norm+forward+sums)" ]
}

@test "--fuse is refused where nothing can be fused" {
	expect 2 resnet --synthetic --precision bf16 --fuse
	has "$err" '--fuse needs --precision fp16: cuDNN has such kernels for no other type'
	expect 2 mnist_mlp --precision fp16 --fuse
	has "$err" '--fuse.*has no convolutions'
}
