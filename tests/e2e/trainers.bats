# trainers.bats: mnist_mlp and mnist_ae: results, resumed runs, shared data, and clear
# errors.
# covers: trainers/train trainers/models trainers/data trainers/report

bats_require_minimum_version 1.5.0
load ../lib

setup() {
	lib_setup
	mkdir data
	t_idx data 2000 501
}

# ddprun of N workers
job() {
	local n=$1
	shift
	"$DDPRUN" --standalone --nproc-per-node "$n" "$@"
}

losses() {
	sed -n 's/^{"step":\([0-9]*\),.*"loss":\([^,}]*\)}$/\1 \2/p' "$1/metrics.jsonl"
}

# near A B LIMIT [N]: the (first N) losses of two runs, at most LIMIT apart
near() {
	local n=${4:-1000000}
	paste -d ' ' <(losses "$1" | head -n "$n") <(losses "$2" | head -n "$n") |
		awk -v limit="$3" '
		{ d = ($2 - $4) / $4; if (d < 0) d = -d; if (!(d <= m)) m = d
		  if ($1 != $3) bad = 1 }
		END { print NR " losses, at most " m " apart"
		      exit !(NR && !bad && m <= limit) }'
}

# same_labels FILE N: one digit is all that the file's images are
same_labels() {
	local name=data/$1 count
	count=$(($(stat -c %s "$name") - 8))
	{
		head -c 8 "$name"
		head -c $count /dev/zero | tr '\0' "\\00$2"
	} >labels
	mv labels "$name"
}

# ---- Results

@test "the classifier learns, and its last line is the accuracy" {
	expect 0 mnist_mlp --data data --epochs 4
	[[ $(tail -n 1 <<<"$out") =~ ^test\ accuracy\ ([0-9]+)\.[0-9]{2}\ %$ ]]
	[ "${BASH_REMATCH[1]}" -ge 90 ]
	has "$out" '^4 epochs in [0-9.]+ s$'
	has "$out" '^epoch 4/4: loss [0-9.]+, [0-9.]+ s, [0-9,]+ samples/s, test accuracy'
	[ -z "$err" ]
}

@test "the auto-encoder learns, and its last line is the loss" {
	expect 0 mnist_ae --data data --epochs 4 --log-dir log
	[[ $(tail -n 1 <<<"$out") =~ ^test\ loss\ 0\.[0-9]{5}$ ]]
	losses log | awk 'NR == 1 { first = $2 } { last = $2 }
		END { exit !(last < first / 1.5) }'
}

@test "the same seed gives the same run, another seed another one" {
	expect 0 mnist_mlp --data data --epochs 1 --log-dir a
	expect 0 mnist_mlp --data data --epochs 1 --log-dir b
	expect 0 mnist_mlp --data data --epochs 1 --log-dir c --seed 1
	cmp <(losses a) <(losses b)
	run ! cmp -s <(losses a) <(losses c)
}

@test "1, 2 and 4 ranks with one global batch have the same losses" {
	local m n
	for m in mlp ae; do
		expect 0 mnist_$m --data data --epochs 2 --log-dir $m.1
		for n in 2 4; do
			expect 0 job $n mnist_$m --data data --epochs 2 --log-dir $m.$n
			near $m.$n $m.1 1e-4
		done
	done
}

@test "every test sample counts once, whatever the number of ranks" {
	# 501 samples are no multiple of 4; no training: the same weights
	local one
	expect 0 mnist_mlp --data data --epochs 0
	one=$(tail -n 1 <<<"$out")
	expect 0 job 4 mnist_mlp --data data --epochs 0
	grep -qF "$one" <<<"$out"
}

@test "only rank 0 prints and writes, and its first line shows where it computes" {
	expect 0 env OMP_NUM_THREADS=2 taskset -c 0 mnist_mlp --data data --epochs 0
	has "$out" '1 rank x batch 64, cpu, 2 threads, on core 0$'
	expect 0 job 2 mnist_mlp --data data --epochs 1 --log-dir log
	has "$out" '2 ranks x batch 32, cpu, 1 thread, rank 0 on cores? [0-9]'
	[ "$(grep -c 'epoch 1/1' <<<"$out")" = 1 ]
	[ "$(grep -c 'test accuracy [0-9.]* %' <<<"$out")" = 2 ]
	[ "$(losses log | wc -l)" = 32 ]
	[ "$(grep -c '"seconds"' log/metrics.jsonl)" = 1 ]
}

@test "an accuracy of 0 is logged like any other" {
	same_labels train-labels-idx1-ubyte 0
	same_labels t10k-labels-idx1-ubyte 1
	expect 0 mnist_mlp --data data --epochs 1 --log-dir log
	has "$out" '^test accuracy 0\.00 %$'
	grep -q '"test_accuracy":0[,}]' log/metrics.jsonl
	grep -qa 'accuracy/test' log/events.out.tfevents.*
}

@test "without data the trainer draws its own digits, and says so" {
	expect 0 mnist_mlp --epochs 1 --batch-size 256
	has "$out" '^no MNIST at hand .*training on digits drawn by this program$'
	has "$out" '60,000 \+ 10,000 images'
	expect 0 mnist_mlp --epochs 0
	[ -f "$DDP_CACHE/digits.ddpcache" ]
}

@test "progress is plain lines in a pipe, and one updated line on a terminal" {
	expect 0 mnist_mlp --data data --epochs 2
	run ! grep -q $'\r' <<<"$out"
	DDP_TERMINAL=80x24 expect 0 mnist_mlp --data data --epochs 2
	grep -q $'eta [0-9:]* *\r' <<<"$out"
	has "$out" '^test accuracy [0-9.]+ %$'
	expect 0 script -qefc "mnist_mlp --data data --epochs 2" /dev/null
	grep -q $'epoch 1/2 step [0-9]*/32 loss [0-9.]* [0-9,]* samples/s eta' <<<"$out"
}

# ---- Real MNIST, decoded once for these tests

@test "losses follow PyTorch's curves on 1, 2 and 4 ranks" {
	[ -n "${DDP_TEST_DATA:-}" ] && [ -n "${DDP_TEST_REFERENCE:-}" ] ||
		skip "DDP_TEST_DATA and DDP_TEST_REFERENCE are not set"
	local m n DDP_CACHE=$BATS_FILE_TMPDIR/cache
	for m in mlp ae; do
		mkdir ref.$m
		awk '!/^#/ { print "{\"step\":" $1 + 1 ",\"epoch\":1,\"loss\":" $2 "}" }' \
			"$DDP_TEST_REFERENCE/mnist_$m.losses.txt" >ref.$m/metrics.jsonl
		for n in 1 2 4; do
			expect 0 job $n mnist_$m --data "$DDP_TEST_DATA" \
				$([ $n = 1 ] && echo --epochs 1 || echo --steps 100) \
				--init-from "$DDP_TEST_REFERENCE/mnist_$m.init.f32" \
				--log-dir $m.$n
			near $m.$n ref.$m "$([ $n = 1 ] && echo 1e-5 || echo 1e-4)" 100
		done
		# Where another order of additions moves one unit across ReLU's
		# corner, Adam makes a step of it: with AVX2 at step 322 of the
		# auto-encoder. One instruction set does not, on any CPU.
		near $m.1 ref.$m "$(grep -qw avx512f /proc/cpuinfo &&
			echo 1e-3 || echo 1e-2)"
		DNNL_MAX_CPU_ISA=SSE41 expect 0 job 1 mnist_$m \
			--data "$DDP_TEST_DATA" --epochs 1 --log-dir $m.sse \
			--init-from "$DDP_TEST_REFERENCE/mnist_$m.init.f32"
		near $m.sse ref.$m 1e-3
	done
}

@test "five epochs on MNIST reach the published accuracy" {
	[ -n "${DDP_TEST_DATA:-}" ] || skip "DDP_TEST_DATA is not set"
	local s DDP_CACHE=$BATS_FILE_TMPDIR/cache
	for s in 0 1 2; do
		expect 0 mnist_mlp --data "$DDP_TEST_DATA" --seed $s --eval-every 0
		tail -n 1 <<<"$out" >>all
	done
	# the least of the three; the median of five is printed by make bench
	awk '{ print; if ($3 < 96) bad = 1 } END { exit bad }' all
}

# ---- Resuming

@test "two epochs and two more equal four, bit for bit" {
	local m
	for m in mlp ae; do
		expect 0 mnist_$m --data data --epochs 4 --log-dir one --checkpoint one.ckpt
		expect 0 mnist_$m --data data --epochs 2 --log-dir two --checkpoint two.ckpt
		expect 0 mnist_$m --data data --epochs 4 --log-dir two --checkpoint two.ckpt --resume
		has "$out" 'resuming from two.ckpt after epoch 2'
		cmp <(losses one) <(losses two)
		cmp one.ckpt two.ckpt
		rm -rf one two one.ckpt two.ckpt
	done
}

@test "two workers also resume exactly" {
	expect 0 job 2 mnist_mlp --data data --epochs 4 --log-dir one
	expect 0 job 2 mnist_mlp --data data --epochs 2 --log-dir two --checkpoint two.ckpt
	expect 0 job 2 mnist_mlp --data data --epochs 4 --log-dir two --checkpoint two.ckpt --resume
	cmp <(losses one) <(losses two)
}

@test "no layer of a ResNet is computed by oneDNN's reference code" {
	[ "$(uname -m)" = x86_64 ] || skip "oneDNN has fast code for x86-64"
	for stem in cifar torchvision; do
		for isa in AVX2 DEFAULT; do
			expect 0 env ONEDNN_VERBOSE=1 ONEDNN_MAX_CPU_ISA=$isa resnet \
				--device cpu --arch resnet18 --stem $stem --synthetic \
				--batch-size 2 --steps 1
			has "$out" ',exec,cpu,convolution,.*,backward_weights,'
			lacks "$out" ',exec,cpu,[a-z]*,ref'
		done
	done
}

@test "a run killed in the middle of an epoch resumes from the last complete one" {
	local line
	expect 0 mnist_mlp --data data --epochs 60 --log-dir one
	# metrics.jsonl is a pipe here, so the run cannot outrun its reader by
	# more than the pipe holds: it is killed between steps 960 and 1400 or
	# so of 1920 by the time it is read.
	mkdir two
	mkfifo two/metrics.jsonl
	# The reader stays until the run is dead: without one it would die of
	# SIGPIPE before the kill.
	exec 6<>two/metrics.jsonl
	start killed mnist_mlp --data data --epochs 60 --log-dir two --checkpoint two.ckpt
	while read -r -t 60 -u 6 line; do
		case $line in '{"step":300,'*) break ;; esac
	done
	[[ $line = '{"step":300,'* ]]
	signal killed KILL
	finish killed 137
	exec 6>&-
	[ -f two.ckpt ]
	rm two/metrics.jsonl
	expect 0 mnist_mlp --data data --epochs 60 --log-dir two --checkpoint two.ckpt --resume
	has "$out" 'resuming from two.ckpt after epoch [1-9]'
	[ "$(losses two | wc -l)" -ge 32 ]
	# every remaining step equals that of the uninterrupted run
	losses two | grep -vxFf <(losses one) && false
	[ "$(losses two | tail -n 1)" = "$(losses one | tail -n 1)" ]
}

@test "lines that a dead run logged after its last checkpoint are not logged twice" {
	expect 0 mnist_mlp --data data --epochs 2 --log-dir log --checkpoint ckpt
	cp log/metrics.jsonl whole
	echo '{"step":65,"epoch":3,"loss":0.5}' >>log/metrics.jsonl
	printf '{"step":66,"epo' >>log/metrics.jsonl
	expect 0 mnist_mlp --data data --epochs 3 --log-dir log --checkpoint ckpt --resume
	cmp whole <(head -n "$(wc -l <whole)" log/metrics.jsonl)
	[ "$(losses log | wc -l)" = 96 ]
	[ "$(losses log | cut -d' ' -f1 | sort -n | uniq -d)" = "" ]
}

@test "--resume without a file starts anew, and says so" {
	expect 0 mnist_mlp --data data --epochs 1 --checkpoint new.ckpt --resume
	has "$out" 'no checkpoint new.ckpt yet: starting from scratch'
	[ -f new.ckpt ]
}

@test "a finished run that is resumed only tests" {
	local last
	expect 0 mnist_mlp --data data --epochs 2 --checkpoint ckpt
	last=$(tail -n 1 <<<"$out")
	expect 0 mnist_mlp --data data --epochs 2 --checkpoint ckpt --resume
	[ "$(tail -n 1 <<<"$out")" = "$last" ]
	has "$out" '^0 epochs'
}

# ---- Data shared by a host

@test "ten runs at once on an empty cache all succeed" {
	local i
	for i in 0 1 2 3 4 5 6 7 8 9; do
		start run$i mnist_mlp --data data --epochs 0
	done
	for i in 0 1 2 3 4 5 6 7 8 9; do
		finish run$i
		[ -z "$err" ]
	done
	[ "$(ls "$DDP_CACHE" | grep -c 'ddpcache$')" = 1 ]
	[ "$(ls "$DDP_CACHE" | wc -l)" = 2 ]
}

@test "a damaged cache is rebuilt, with a warning" {
	local file before
	expect 0 mnist_mlp --data data --epochs 1
	before=$out
	file=$(echo "$DDP_CACHE"/mnist-*.ddpcache)
	printf X | dd of="$file" bs=1 seek=100000 conv=notrunc status=none
	expect 0 mnist_mlp --data data --epochs 1
	[ "$(tail -n 1 <<<"$out")" = "$(tail -n 1 <<<"$before")" ]
	has "$err" 'mnist-.*ddpcache was damaged; it is made again$'
	[ "$(wc -l <<<"$err")" = 1 ]
	truncate -s 9000 "$file"
	says 0 'was damaged' mnist_mlp --data data --epochs 0
	expect 0 mnist_mlp --data data --epochs 1
	[ -z "$err" ]
}

@test "other files in the same folder are read again" {
	expect 0 mnist_mlp --data data --epochs 0
	t_idx data 300 100
	expect 0 mnist_mlp --data data --epochs 0
	has "$out" '300 \+ 100 images'
}

@test "a cache that cannot be written is a warning, also on two workers" {
	DDP_CACHE=/dev/null/x expect 0 mnist_mlp --data data --epochs 1
	has "$err" 'warning: decoded data cannot be kept in /dev/null/x: '
	DDP_CACHE=/dev/null/x expect 0 job 2 mnist_mlp --data data --epochs 1
	[ "$(grep -c 'cannot be kept' <<<"$err$out")" = 1 ]
	env -u DDP_CACHE -u XDG_CACHE_HOME -u HOME mnist_mlp --data data --epochs 1
}

# ---- errors

# says STATUS ERE COMMAND...: one line on stderr, like ERE
says() {
	local want=$1 pattern=$2
	shift 2
	expect "$want" "$@"
	has "$err" "$pattern"
	[ "$(wc -l <<<"$err")" = 1 ]
}

@test "wrong options are named, with a remedy" {
	says 2 'unknown option.*--epochs' mnist_mlp --epoch-s 3
	says 2 'epochs.*abc' mnist_mlp --epochs abc
	says 2 'batch-size.*0' mnist_mlp --batch-size 0
	says 2 'lr.*-1' mnist_mlp --lr -1
	says 2 'unexpected (word|argument) .extra.' mnist_mlp extra
	says 2 'use --device cpu' mnist_mlp --device cuda
	says 2 'tpu' mnist_mlp --device tpu
	says 2 '--resume needs --checkpoint' mnist_mlp --resume
	expect 0 mnist_mlp --help
	has "$out" '--batch-size'
	expect 0 mnist_ae --version
	has "$out" '^mnist_ae .*[0-9]+\.[0-9]+\.[0-9]+$'
}

@test "a batch that cannot be split evenly is refused" {
	expect 2 job 3 mnist_mlp --data data
	has "$out$err" 'batch-size 64 cannot be split evenly over 3 ranks'
	[ "$(grep -c 'mnist_mlp: rank.*cannot be split' <<<"$err$out")" -ge 1 ]
}

@test "missing or invalid data is named" {
	says 1 'no data folder nowhere' mnist_mlp --data nowhere
	DDP_DATA=nowhere says 1 'no data folder nowhere' mnist_mlp
	mkdir empty
	says 1 'empty has no train-images-idx3-ubyte' mnist_mlp --data empty
	truncate -s 100000 data/train-images-idx3-ubyte
	says 1 'data/train-images-idx3-ubyte is truncated' mnist_mlp --data data
	t_idx data 20 10
	printf '\0\0\010\005' | dd of=data/t10k-labels-idx1-ubyte conv=notrunc status=none
	says 1 't10k-labels-idx1-ubyte is no idx file' mnist_mlp --data data
	t_idx data 20 10
	gzip data/train-labels-idx1-ubyte
	truncate -s -4 data/train-labels-idx1-ubyte.gz
	says 1 'train-labels-idx1-ubyte.gz is truncated' mnist_mlp --data data
}

@test "invalid data ends a job with one message, and its exit code" {
	truncate -s 100000 data/train-images-idx3-ubyte
	expect 1 job 4 mnist_mlp --data data
	has "$out$err" 'rank 0: .*train-images-idx3-ubyte is truncated'
	run ! grep -E 'rank [123]: .*truncated' <<<"$out$err"
}

@test "initial weights of another size are refused" {
	head -c 1000 /dev/zero >weights
	says 1 'weights has 1000 bytes.*159040 bytes' mnist_mlp --data data --init-from weights
	says 1 'cannot read the initial weights nowhere' mnist_mlp --data data --init-from nowhere
}

@test "a loss that is not a number ends the run" {
	says 1 'the loss is .*try a --lr smaller' mnist_ae --data data --lr 1e6 --epochs 20
}

@test "a checkpoint that cannot be written is an error before training" {
	says 1 'checkpoint: cannot write nowhere/ckpt: No such file' \
		mnist_mlp --data data --checkpoint nowhere/ckpt
	run ! grep epoch <<<"$out"
	says 1 'cannot write data: Is a directory' mnist_mlp --data data --checkpoint data
	mkfifo pipe
	says 1 'cannot write pipe: it is a device, a pipe or a socket' \
		mnist_mlp --data data --checkpoint pipe
	[ -p pipe ]
}

@test "invalid checkpoints are refused, with the reason" {
	expect 0 mnist_mlp --data data --epochs 1 --checkpoint mlp.ckpt
	expect 0 mnist_ae --data data --epochs 1 --checkpoint ae.ckpt
	says 1 'ae.ckpt.*mnist_ae 784-128-128-128-784.*mnist_mlp 784-50-10' \
		mnist_mlp --data data --checkpoint ae.ckpt --resume
	cp mlp.ckpt bad.ckpt
	truncate -s -1000 bad.ckpt
	says 1 'bad.ckpt' mnist_mlp --data data --checkpoint bad.ckpt --resume
	has "$err" 'truncated|ends'
	cp mlp.ckpt bad.ckpt
	printf X | dd of=bad.ckpt bs=1 seek=200000 conv=notrunc status=none
	says 1 'bad.ckpt.*(damaged|checksum)' mnist_mlp --data data --checkpoint bad.ckpt --resume
	cp mlp.ckpt bad.ckpt
	printf '\377' | dd of=bad.ckpt bs=1 seek=8 conv=notrunc status=none
	says 1 'bad.ckpt.*(version|newer)' mnist_mlp --data data --checkpoint bad.ckpt --resume
	says 2 'of a run with --seed 0, this one has 1;' \
		mnist_mlp --data data --checkpoint mlp.ckpt --resume --seed 1
}

@test "a log folder that cannot be created is named" {
	says 1 'log-dir /dev/null/x' mnist_mlp --data data --log-dir /dev/null/x
	expect 0 mnist_mlp --data data --epochs 0 --log-dir deep/er
	[ -f deep/er/metrics.jsonl ]
}

@test "a job names the worker that was killed" {
	start job job 2 sh -c 'echo $$ >rank$RANK; exec mnist_mlp --data data --epochs 100000'
	await "$T/job.out" 'epoch 2/'
	kill -KILL "$(<rank1)"
	finish job 137
	has "$out$err" 'SIGKILL'
}
