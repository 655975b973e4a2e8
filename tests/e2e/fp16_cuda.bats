# fp16_cuda.bats: --precision fp16 by the CUDA twin, without a GPU: its kernels on the
# host.
# covers: trainers/cuda trainers/train

bats_require_minimum_version 1.5.0
load ../lib
load losses

setup() {
	lib_setup
	[ -f "$O/tests/libddp_cuda_ops.so" ] || skip "no CUDA and cuDNN here"
	export DDP_CUDA_OPS=$O/tests/libddp_cuda_ops.so DDP_CUDNN_SEARCH=0
}

# From the third step on it is a recorded one.
@test "the CUDA twin skips the CPU's steps, in recorded steps, on two ranks, when resumed" {
	local common='--precision fp16 --batch-size 4 --lr 0.003' cuda='--device cuda --log-every 1'
	expect 0 resnet8 1 $common --steps 6 --device cpu --log-dir cpu
	expect 0 resnet8 1 $common --steps 6 $cuda --log-dir cuda --checkpoint one.ckpt
	has "$out" 'CUDA on the host, fp16$'
	cmp <(scales cpu) <(scales cuda)
	[ "$(scales cuda | tail -n 1 | cut -d ' ' -f 3)" -gt 1 ]
	near cuda cpu 0.02
	# the loss and the scale are only read where they are wanted
	expect 0 resnet8 1 $common --steps 3 --device cuda --log-every 3 --log-dir two --checkpoint two.ckpt
	has "$out" 'fp16: skipped [23] steps, the last of them step [23]: '
	[ "$(scales two | wc -l)" = 1 ]
	expect 0 resnet8 1 $common --steps 6 $cuda --log-dir two --checkpoint two.ckpt --resume
	cmp one.ckpt two.ckpt
	expect 0 resnet8 2 $common --steps 4 --device cpu --log-dir cpu2
	expect 0 resnet8 2 $common --steps 4 $cuda --backend cpu --oversubscribe-gpu --log-dir cuda2
	cmp <(scales cpu2) <(scales cuda2)
}

@test "the CUDA twin ends a run whose loss is not a number" {
	expect 1 resnet --synthetic --image-size 8 --batch-size 4 --lr 1e6 --device cuda \
		--precision fp16 --loss-scale 2 --steps 60 --log-every 20
	has "$err" '^resnet: step [0-9]+: the loss scale of --precision fp16 fell to 0\.5, because the gradients of [0-9]+ steps in a row were not finite: '
	[ "$(wc -l <<<"$err")" = 1 ]
}
