# fp16.bats: --precision fp16 and its loss scale, by the CPU, which rounds where a GPU
# stores fp16.
# covers: trainers/ops trainers/train

bats_require_minimum_version 1.5.0
load ../lib
load losses

setup() {
	lib_setup
	mkdir data
	t_idx data 640 100
}

@test "the MNIST trainers, whose layers stay fp32, have the losses of fp32" {
	local m
	for m in mlp ae; do
		expect 0 mnist_$m --data data --epochs 3 --log-dir $m.32
		expect 0 job 2 mnist_$m --data data --epochs 3 --log-dir $m.16 --precision fp16
		near $m.16 $m.32 1e-4
		[ "$(scales $m.16 | tail -n 1 | cut -d ' ' -f 2-)" = '65536 0' ]
	done
}

# At a scale of 1024 no step is skipped, so that both use the same batches.
@test "a ResNet reaches the loss of fp32" {
	local common='--steps 40 --batch-size 32 --stem cifar --lr 0.003'
	expect 0 resnet8 1 $common --log-dir 32
	expect 0 resnet8 1 $common --log-dir 16 --precision fp16 --loss-scale 1024
	has "$out" 'cpu, 1 thread, fp32 rounded to fp16'
	has "$out" 'ms a step.*, loss scale 1024\)'
	[ "$(scales 16 | tail -n 1)" = '40 1024 0' ]
	near 16 32 0.02 4
	# what rounds differently drifts apart, but learns as much
	paste -d ' ' <(losses 32 | tail -n 20) <(losses 16 | tail -n 20) |
		awk '{ a += $2; b += $4 } END { print a / NR, b / NR
			exit !(a / NR < 1.3 && b / a < 1.07 && b / a > 0.93 && a != b) }'
}

# The first scale that does not overflow is known from a run that starts too high.
@test "an overflow skips one step and halves the scale, on all ranks" {
	local last
	expect 0 resnet8 2 --steps 16 --precision fp16 --loss-scale 1048576 --log-dir high
	last=$(scales high | tail -n 1 | cut -d ' ' -f 2)
	[ "$(scales high | tail -n 1)" = "16 $last $(awk "BEGIN { print log(1048576 / $last) / log(2) }")" ]
	expect 0 resnet8 2 --steps 4 --precision fp16 --loss-scale $((2 * last)) \
		--log-dir one --check-every 1 --checkpoint one.ckpt
	[ "$(scales one | awk '{ print $2, $3 }' | uniq | tr '\n' ,)" = "$last 1," ]
	[ "$(grep -c 'fp16: skipped 1 step, the last of them step 1: the gradients were not finite; the loss scale is now '$last'$' <<<"$out")" = 1 ]
	# the step after it starts from the same weights
	[ "$(losses one | wc -l)" = 4 ]
}

@test "a run that is stopped after a skipped step resumes bit for bit, with its scale" {
	local common='--precision fp16 --loss-scale 65536'
	expect 0 resnet8 2 $common --steps 8 --log-dir one --checkpoint one.ckpt
	expect 0 resnet8 2 $common --steps 3 --log-dir two --checkpoint two.ckpt
	expect 0 resnet8 2 --precision fp16 --steps 8 --log-dir two --checkpoint two.ckpt --resume
	[ "$(scales one | tail -n 1 | cut -d ' ' -f 3)" -gt 0 ]
	run ! grep 'what changes' <<<"$out"
	cmp <(scales one) <(scales two)
	cmp <(losses one) <(losses two)
	cmp one.ckpt two.ckpt
}

@test "a run may change from fp32 to fp16 and back" {
	expect 0 resnet8 1 --steps 2 --checkpoint c --log-dir log
	expect 0 resnet8 1 --steps 4 --checkpoint c --log-dir log --resume --precision fp16 --loss-scale 512
	has "$out" 'what changes: .*--precision fp16 instead of fp32'
	[ "$(scales log | tail -n 1)" = '4 512 0' ]
	expect 0 resnet8 1 --steps 6 --checkpoint c --log-dir log --resume
	has "$out" 'what changes: .*--precision fp32 instead of fp16'
	[ "$(losses log | wc -l)" = 6 ]
}

@test "the scale doubles after 2,000 steps" {
	expect 0 mnist_mlp --data data --batch-size 4 --steps 2001 --precision fp16 \
		--loss-scale 256 --log-dir log --eval-every 0
	[ "$(scales log | grep '^1999 ')" = '1999 256 0' ]
	[ "$(scales log | grep '^2000 ')" = '2000 512 0' ]
}

@test "a loss that is not a number ends the run, after the scale fell" {
	expect 1 job 2 resnet --synthetic --image-size 8 --batch-size 8 --lr 1e6 \
		--precision fp16 --loss-scale 4 --steps 40 --log-dir log
	has "$err" 'step [0-9]+: the loss scale of --precision fp16 fell to 0\.5, because the gradients of [0-9]+ steps in a row were not finite: training has diverged, first in the (weights or the output of layer|gradient of) [^ ]+; use --precision bf16 or fp32, or a --lr smaller than 1e\+06$'
	[ "$(grep -c '^\[[01]\] .*the loss scale of' <<<"$err")" = 1 ]
	[ "$(scales log | tail -n 1 | cut -d ' ' -f 2)" = 1 ]
}

@test "--check-every takes no skipped step for an error" {
	expect 0 resnet8 3 --batch-size 9 --steps 6 --precision fp16 --loss-scale 1048576 \
		--check-every 1 --log-dir log
	[ "$(scales log | tail -n 1 | cut -d ' ' -f 3)" -gt 1 ]
}
