# covers: trainers/cuda trainers/ops
bats_require_minimum_version 1.5.0
load ../lib

# The trainers on a GPU: the twin's operations against the CPU's, whole runs on one,
# two and four ranks, which share a GPU if there are too few.

setup() {
	lib_setup
	PATH=$O/gpu:$PATH
	export DDP_TIMEOUT=120 DEADLINE=600
	gpus=$(gpu_check count) || skip "no GPU: $gpus"
}

# The last loss of a trainer's output.
last_loss() {
	grep -oE 'loss [0-9.]+' <<<"$out$err" | tail -n 1 | cut -d ' ' -f 2
}

near() { # A B PART: |A - B| is at most this part of B
	awk -v a="$1" -v b="$2" -v p="$3" 'BEGIN {
		d = a > b ? a - b : b - a
		if (a == "" || b == "" || d > p * b) exit 1
	}' || {
		echo "$1 is not $2"
		return 1
	}
}

ranks() { # N CMD...
	local n=$1
	shift
	[ "$n" -le "$gpus" ] || export DDP_NCCL_SHARE_GPU=1
	expect 0 ddprun --standalone --nproc-per-node "$n" "$@" \
		--oversubscribe-gpu
}

@test "convolutions and normalisation match the formulas in f64 of rounded inputs" {
	expect 0 gpu_reference cuda
	echo "$out" >&3
	has "$out" '^ok$'
}

@test "each operation and whole ResNets match the CPU, plain and recorded" {
	expect 0 gpu_ops cuda
	echo "$out" >&3
	has "$out" '^ok$'
}

@test "fused convolutions match the CPU's recipe, and the chain that they replace" {
	local how
	for how in fused chain; do
		expect 0 gpu_ops cuda 'norm, ' $how
		echo "$out" >&3
		has "$out" '^ok$'
	done
}

@test "the classifier's losses match the CPU's" {
	local cpu
	expect 0 mnist_mlp --device cpu --epochs 1
	cpu=$(last_loss)
	expect 0 mnist_mlp --device cuda --epochs 1
	near "$(last_loss)" "$cpu" 0.002
}

@test "two and four ranks give the losses of one" {
	local one n
	expect 0 mnist_mlp --device cuda --steps 40
	one=$(last_loss)
	for n in 2 4; do
		ranks $n mnist_mlp --device cuda --steps 40
		near "$(last_loss)" "$one" 0.002
	done
}

@test "a ResNet with synchronised batch normalisation gives the losses of one rank" {
	local one n
	set -- resnet --arch resnet18 --stem cifar --synthetic --image-size 32 \
		--batch-size 64 --steps 8 --lr 0.02 --no-augment --device cuda
	expect 0 "$@"
	one=$(last_loss)
	for n in 2 4; do
		ranks $n "$@" --sync-bn
		near "$(last_loss)" "$one" 0.01
	done
}

@test "more ranks than GPUs are refused" {
	expect 2 ddprun --standalone --nproc-per-node $((gpus + 1)) \
		mnist_mlp --device cuda --epochs 1
	has "$err" 'oversubscribe-gpu'
}

@test "an out-of-memory error of a GPU suggests a smaller batch" {
	# more than 192 GB, in tensors of less than cuDNN's 2^31 values
	expect - resnet --arch resnet152 --synthetic --image-size 512 \
		--batch-size 500 --steps 1 --device cuda --precision bf16
	[ "$status" != 0 ]
	has "$err" 'the GPU has no memory .*batch-size'
}
