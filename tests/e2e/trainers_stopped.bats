# trainers_stopped.bats: a run that gets a stop signal saves its state and exits with
# the right code; errors during training are reported and, if possible, survived.
# covers: trainers/train launcher/agent

bats_require_minimum_version 1.5.0
load ../lib

setup() {
	lib_setup
	mkdir data
	t_idx data 2000 501
}

losses() {
	sed -n 's/^{"step":\([0-9]*\),.*"loss":\([^,}]*\)}$/\1 \2/p' "$1/metrics.jsonl"
}

# held DIR: metrics.jsonl of a run is a pipe, so that the run can be no further
# ahead of its reader than a pipe holds; fd 6 is it
held() {
	mkdir "$1"
	mkfifo "$1/metrics.jsonl"
	exec 6<>"$1/metrics.jsonl"
}

# read_to STEP FILE: the lines up to that step into FILE
read_to() {
	local text
	while read -r -t 60 -u 6 text; do
		printf '%s\n' "$text" >>"$2"
		case $text in "{\"step\":$1,"*) return ;; esac
	done
	return 1
}

@test "SIGTERM within an epoch saves the state, exits with 143, and resumes exactly" {
	local common='--data data --epochs 10 --eval-every 0'
	t_idx data 20000 100
	expect 0 mnist_mlp $common --log-dir one --checkpoint one.ckpt
	held two
	start run mnist_mlp $common --log-dir two --checkpoint two.ckpt
	# 3130 steps; a pipe holds some 1,200 lines, and the run asks whether to
	# stop at least each 1,000 steps
	read_to 300 seen
	signal run TERM
	cat <&6 >>seen 3>&- 4>&- 6>&- &
	reader=$!
	finish run 143
	kill $reader
	wait $reader || true
	exec 6>&-
	has "$out" '^stopped on request after step [0-9]+; --resume continues from two.ckpt$'
	[ -z "$err" ]
	rm two/metrics.jsonl
	expect 0 mnist_mlp $common --log-dir two --checkpoint two.ckpt --resume
	has "$out" 'resuming from two.ckpt after epoch [0-9]+( and [0-9]+ samples)?, step [0-9]+'
	# the rest are the last steps of the uninterrupted run, and its end
	[ "$(losses two | wc -l)" -ge 100 ]
	cmp <(losses one | tail -n "$(losses two | wc -l)") <(losses two)
	cmp one.ckpt two.ckpt
}

@test "SIGTERM to ddprun, or to one rank, stops all at one step with 143" {
	local common='--data data --epochs 100000 --checkpoint c.ckpt' to
	for to in ddprun rank1; do
		start job "$DDPRUN" --standalone --nproc-per-node 2 \
			sh -c "echo \$\$ >rank\$RANK; exec mnist_mlp $common --resume"
		await "$T/job.out" '^\[0\] epoch [0-9]+/'
		if [ $to = ddprun ]; then
			signal job TERM
		else
			kill -TERM "$(<rank1)"
		fi
		finish job 143
		has "$out" 'stopped on request after step'
		[ -f c.ckpt ]
	done
	has "$out" 'resuming from c.ckpt after epoch'
}

@test "without a checkpoint SIGTERM ends a run at once" {
	start run mnist_mlp --data data --epochs 100000
	await "$T/run.out" '^epoch 1/'
	signal run TERM
	finish run 143
	run ! grep 'asked to stop' <<<"$out"
}

@test "with a full disk under a checkpoint, training continues and the old one stays" {
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	mkdir small
	cat >full.sh <<'SH'
mount -t tmpfs -o size=1100k none small || exit 77
mnist_mlp --data data --epochs 1 --checkpoint small/ckpt >/dev/null || exit 78
cp small/ckpt before
head -c 10m /dev/zero >small/fill 2>/dev/null
for keep in 1 3; do
	mnist_mlp --data data --epochs 3 --checkpoint small/ckpt --keep $keep \
		--resume --log-dir log.$keep
	status=$?
	cmp before small/ckpt || exit 79
	[ "$(ls small | wc -l)" = 2 ] || exit 80
done
rm small/fill
mnist_mlp --data data --epochs 3 --checkpoint small/ckpt --resume >/dev/null || exit 81
cmp before small/ckpt && exit 82
exit $status
SH
	expect - unshare -m sh full.sh
	[ "$status" != 77 ] || skip "no tmpfs here"
	# both epochs were trained, twice, and the end says what is not there
	[ "$status" = 1 ]
	[ "$(grep -c '^epoch 3/3: ' <<<"$out")" = 2 ]
	[ "$(grep -c 'warning: .*small/ckpt.*No space left.*; training continues' <<<"$err")" = 4 ]
	[ "$(grep -c 'the last state is not in small/ckpt' <<<"$err")" = 2 ]
	cmp <(losses log.1) <(losses log.3)
}

@test "a full disk under the log prints a warning at most once per epoch" {
	[ -w /dev/full ] || skip "no /dev/full here"
	mkdir log
	ln -s /dev/full log/metrics.jsonl
	expect 0 mnist_mlp --data data --epochs 2 --log-dir log
	has "$out" '^epoch 2/2: '
	has "$err" 'warning: --log-dir: cannot write log/metrics.jsonl: No space left'
	[ "$(wc -l <<<"$err")" -le 3 ]
}

@test "one rank reports a loss that is not a number, with the step and the first layer" {
	local n
	# weights of 784-50-10, all 0.01; one of the second layer is NaN
	head -c 159040 /dev/zero | sed 's/\x0\x0\x0\x0/\x0a\xd7\x23\x3c/g' >weights
	printf '\0\0\300\177' |
		dd of=weights bs=4 seek=$((784 * 50 + 50 + 7)) conv=notrunc status=none
	for n in 1 2; do
		expect 1 "$DDPRUN" --standalone --nproc-per-node $n \
			mnist_mlp --data data --init-from weights
		has "$out$err" 'mnist_mlp: .*the loss is -?nan at step 1: training has diverged, first in the weights or the output of layer 2; try a --lr smaller than 0.001'
		run ! grep -E 'rank 1: .*diverged' <<<"$out$err"
	done
	# the weights of the first layer overflow for image 1 only, which is the first or
	# the second micro-batch
	python3 - <<-'EOF'
		import struct
		images = struct.pack(">4i", 0x803, 2, 28, 28) + bytes(784) + b"\xff" * 784
		for part in "train", "t10k":
		    with open(f"data/{part}-images-idx3-ubyte", "wb") as f:
		        f.write(images)
		    with open(f"data/{part}-labels-idx1-ubyte", "wb") as f:
		        f.write(struct.pack(">2i", 0x801, 2) + b"\1\2")
		with open("weights", "wb") as f:
		    f.write(struct.pack("f", 3e38) * (784 * 50) + struct.pack("f", .01) * 560)
	EOF
	for n in 1 2 3 4 5; do
		expect 1 mnist_mlp --data data --init-from weights --seed $n \
			--batch-size 2 --accumulate 2
		has "$err" 'at step 1: training has diverged, first in the weights or the output of layer 0;'
	done
	mkdir more
	t_idx more 2000 501
	# a rate that is far too high overflows the loss
	expect 1 mnist_ae --data more --lr 1e6 --epochs 20
	has "$err" 'the loss is (inf|-?nan) at step [2-9]: training has diverged, (first in the weights|in the loss itself)'
}

@test "a GPU that is requested but absent is an error before anything starts" {
	DDP_CUDA_OPS=$T/none.so expect 2 mnist_mlp --data data --device cuda
	has "$err" '^mnist_mlp: .*(cuda|CUDA)'
	[ -z "$out" ]
	# auto takes the cpu
	DDP_CUDA_OPS=$T/none.so expect 0 mnist_mlp --data data --epochs 0
	has "$out" 'cpu, 1 thread'
}
