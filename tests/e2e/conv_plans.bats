# covers: trainers/cuda
bats_require_minimum_version 1.5.0
load ../lib

# cuDNN plans the trainers' convolutions for GPUs that are only described
# (tests/gpu/devices), without a GPU and a driver.

setup() {
	lib_setup
	# cuDNN's heuristics and cuBLASLt lose memory in each query
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
}

plans() { # DEVICE: every convolution has a plan at each precision
	[ -x "$O/gpu/conv_plans" ] || skip "built without cuDNN"
	local device=$BATS_TEST_DIRNAME/../gpu/devices/$1.json precision
	for precision in bf16 tf32 fp32; do
		start $precision "$O/gpu/conv_plans" "$device" $precision
	done
	for precision in bf16 tf32 fp32; do
		finish $precision -
		[ "$status" != 77 ] || skip "$out"
		[ "$status" = 0 ]
		has "$out" '^# 58 shapes, 172 passes, 0 without a plan'
	done
	# tensor cores, which only tf32 may use for f32, are cuDNN's first choice
	[ "$(grep -v '^#' tf32.out | grep -vc 'too coarse')" -ge 172 ]
	has "$out" 'too coarse'
}

@test "every ResNet convolution has a deterministic plan on an A100" {
	plans a100
}

@test "every ResNet convolution has a deterministic plan on an H100" {
	plans h100
}

@test "every ResNet convolution has a deterministic plan on an H200" {
	plans h200
}

@test "every ResNet convolution has a deterministic plan on a B200" {
	plans b200
}

@test "a shape that cuDNN refuses is reported" {
	[ -x "$O/gpu/conv_plans" ] || skip "built without cuDNN"
	start plans "$O/gpu/conv_plans" "$BATS_TEST_DIRNAME/../gpu/devices/a100.json" bf16 -1
	finish plans -
	[ "$status" != 77 ] || skip "$out"
	[ "$status" = 1 ]
	has "$out" '^forward .* -1 x .*cuDNN: CUDNN_STATUS_BAD_PARAM$'
	has "$out" '^# 58 shapes, 172 passes, 172 without a plan'
}
