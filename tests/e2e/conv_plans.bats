# covers: trainers/cuda
bats_require_minimum_version 1.5.0
load ../lib

# cuDNN plans the trainers' convolutions for GPUs that are only described
# (tests/gpu/devices), without a GPU and a driver.

devices=$BATS_TEST_DIRNAME/../gpu/devices

# Each program plans for all in one process, because cuDNN is large. The tests read what
# they print.
setup_file() {
	[ -x "$O/gpu/conv_plans" ] || return 0
	# cuDNN's heuristics and cuBLASLt lose memory in each query
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	plan_all plans conv_plans bf16 fp16 tf32 fp32
	plan_all fused fused_plans bf16 fp16
}

plan_all() { # FILE PROGRAM PRECISION...: also to FILE.status; seconds of CPU to FILE.cpu
	local file=$BATS_FILE_TMPDIR/$1 program=$2 status=0 TIMEFORMAT='%U %S'
	shift 2
	{ time "$O/gpu/$program" "$devices"/{a100,h100,h200,b200}.json "$@" >"$file" 2>&1; } \
		2>"$file.cpu" || status=$?
	echo $status >"$file.status"
}

setup() {
	lib_setup
	[ -x "$O/gpu/conv_plans" ] || skip "built without cuDNN"
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
}

planned() { # FILE DEVICE PRECISION: what the program printed
	[ "$(<"$BATS_FILE_TMPDIR/$1.status")" != 77 ] || skip "$(<"$BATS_FILE_TMPDIR/$1")"
	[ "$(<"$BATS_FILE_TMPDIR/$1.status")" = 0 ]
	out=$(awk -v of="# $devices/$2.json $3" \
		'/^# .*json / {show = $0 == of} show' "$BATS_FILE_TMPDIR/$1")
}

plans() { # DEVICE: every convolution has a plan at each precision
	local precision
	for precision in bf16 fp16 tf32 fp32; do
		planned plans "$1" $precision
		has "$out" '^# 58 shapes, 172 passes, 0 without a plan'
		[ "$(grep -vc '^#' <<<"$out")" = 172 ]
		# tensor cores, which only tf32 may use for f32, are cuDNN's first choice
		[ $precision != tf32 ] || [ "$(grep -v '^#' <<<"$out" | grep -vc 'too coarse')" = 172 ]
	done
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
	start plans "$O/gpu/conv_plans" "$devices/a100.json" bf16 -1
	finish plans -
	[ "$status" != 77 ] || skip "$out"
	[ "$status" = 1 ]
	has "$out" '^forward .* -1 x .*cuDNN: CUDNN_STATUS_BAD_PARAM$'
	has "$out" '^# 58 shapes, 172 passes, 172 without a plan'
}

# A convolution with the batch normalizations around it, in one kernel. The numbers are
# cuDNN 9.19's; an update of cuDNN may change them; then docs/gpu-tests.md changes as well.
fusions() { # DEVICE TYPE STATS PROLOGUE BY_WEIGHT BY_X: shapes with a plan
	planned fused "$1" "$2"
	has "$out" "^forward \+ statistics: $3 of 58 shapes"
	has "$out" "^scale, bias, ReLU \+ forward \+ statistics: $4 of 56 shapes"
	has "$out" "^scale, bias, ReLU \+ by_weight: $5 of 56 shapes"
	has "$out" "^by_x \+ dReLU \+ sums of dBN: $6 of 56 shapes"
}

@test "on A100, H100 and H200 all fp16 convolutions but a stem can be fused" {
	local device
	for device in a100 h100 h200; do
		fusions $device fp16 57 56 56 56
		[ "$(grep ^none <<<"$out")" = "none: forward + statistics: 256 x 8 @ 224, 64 of 7 x 7 / 2: no engine" ]
	done
}

@test "on a B200 the fp16 statistics have no deterministic engine" {
	fusions b200 fp16 0 0 56 56
	has "$out" '^none: forward \+ statistics: .* 1 not deterministic$'
}

@test "no bf16 convolution can be fused" {
	local device
	for device in a100 h100 h200 b200; do
		fusions $device bf16 0 0 0 0
	done
}

# CPU time, to which other processes add little; 8 s here.
@test "planning for four GPUs takes less than 20 s of CPU" {
	[ -z "${SAN:-}" ] || skip "sanitizers take several times as long"
	cat "$BATS_FILE_TMPDIR"/{plans,fused}.cpu
	awk '{ all += $1 + $2 } END { exit !(NR == 2 && all > 0.5 && all < 20) }' \
		"$BATS_FILE_TMPDIR"/{plans,fused}.cpu
}
