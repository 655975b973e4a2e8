# covers: trainers/toy_mp.c
bats_require_minimum_version 1.5.0
load ../lib

# toy_mp: two halves of a model on two devices, with any number of ranks.

setup() {
	lib_setup
	mkdir data
	t_idx data 2000 100
}

job() { # N OPTION...
	local n=$1
	shift
	"$DDPRUN" --standalone --nproc-per-node "$n" toy_mp --device cpu \
		--data data "$@"
}

losses() {
	sed -n 's/^{"step":\([0-9]*\),.*"loss":\([^,}]*\)}$/\1 \2/p' "$1/metrics.jsonl"
}

# near A B: 15 losses of two runs, at most 1e-4 apart
near() {
	paste -d ' ' <(losses "$1") <(losses "$2") | awk '
		{ d = ($2 - $4) / $4; if (d < 0) d = -d; if (!(d <= m)) m = d
		  if ($1 != $3) bad = 1 }
		END { print NR " losses, at most " m " apart"
		      exit !(NR == 15 && !bad && m <= 1e-4) }'
}

@test "1, 2 and 4 ranks have the same losses, with any number of micro-batches" {
	local n
	expect 0 toy_mp --device cpu --data data --epochs 1 --log-dir one
	for n in 2 4; do
		expect 0 job $n --epochs 1 --log-dir $n
		near $n one
		[ "$(grep -c 'epoch 1/1: loss' <<<"$out")" = 1 ]
	done
	expect 0 toy_mp --device cpu --data data --epochs 1 --micro-batches 1 \
		--log-dir whole
	near whole one
	expect 0 job 2 --epochs 1 --micro-batches 16 --log-dir many
	near many one
	expect 0 job 2 --epochs 1 --log-dir again
	cmp <(losses 2) <(losses again)
}

# Two threads on two cores hand 3,000 micro-batches to each other: that none
# meets the other at work would be one after the other.
@test "both devices work at once, except with whole batches" {
	local met
	expect 0 toy_mp --device cpu --data data --epochs 25 --micro-batches 8
	has "$out" '^toy_mp: head of 266,752 parameters on cpu.*, tail of 68,362 on cpu'
	met=$(sed -n 's/.*busy in \([0-9]*\) of 120 .*/\1/p' <<<"$out" |
		awk '{ n += $1 } END { print n + 0 }')
	[ "$(grep -c '^epoch' <<<"$out")" -ge 25 ]
	[ "$met" -gt 0 ]
	expect 0 toy_mp --device cpu --data data --epochs 3 --micro-batches 1
	[ "$(grep -c 'busy in 0 of 15 micro-batches$' <<<"$out")" = 3 ]
}

@test "both devices are on cores that the rank may use" {
	expect 0 taskset -c 0 toy_mp --device cpu --data data --epochs 1
	has "$out" ', core 0, tail of .*, core 0; 1 rank '
}

@test "toy_mp's loss falls" {
	expect 0 job 2 --epochs 10 --lr 0.1
	tail -n 1 <<<"$out" |
		awk '{ sub(/.*loss /, ""); exit !($0 + 0 < 0.7) }'
}

@test "--gpus-per-proc shows each process its two GPUs" {
	CUDA_VISIBLE_DEVICES=4,5,6,7 expect 0 ddprun --standalone \
		--nproc-per-node 2 --gpus-per-proc 2 \
		sh -c 'echo $CUDA_VISIBLE_DEVICES; exec "$@"' sh \
		toy_mp --device cpu --data data --epochs 1
	has "$out" '^\[0\] 4,5$'
	has "$out" '^\[1\] 6,7$'
	has "$out" '^\[0\] epoch 1/1: loss '
}

@test "impossible options are errors of one sentence" {
	expect 2 toy_mp --data data --batch-size 100 --micro-batches 3
	has "$err" '^toy_mp: --batch-size 100 cannot be split evenly into 3 micro-batches on each of 1 rank; give a multiple of 3$'
	expect 2 job 3
	[ "$(grep -c '^\[[0-9]\] toy_mp: .*cannot be split evenly into 4 micro-batches on each of 3 ranks; give a multiple of 12$' <<<"$err")" = 1 ]
	expect 2 toy_mp --data data --batch-size 4000
	has "$err" '^toy_mp: --batch-size 4000 is more than the data set.s 2000 samples'
	expect 2 toy_mp --data data --micro-batches 0
	has "$err" '^toy_mp: --micro-batches: 0'
	expect 2 toy_mp --data data --checkpoint x
	has "$err" "^toy_mp: .*--checkpoint"
	expect 2 toy_mp --device tpu
	has "$err" "^toy_mp: .*tpu"
	expect 1 toy_mp --data nowhere
	has "$err" '^toy_mp: .*nowhere'
	expect 1 job 2 --lr 1e6 --data data
	[ "$(grep -c '^\[[0-9]\] toy_mp: .*the loss is .* at step' <<<"$err")" = 1 ]
}
