# checkpoints.bats: resumed runs: bit by bit, from the newest intact file, in another
# world, after ddprun restarted them; and how many files are kept.
# covers: worker-sdk/api trainers/train

bats_require_minimum_version 1.5.0
load ../lib
load losses

setup() {
	lib_setup
	mkdir data
	t_idx data 640 100
}

rates() {
	sed -n 's/^{"step":\([0-9]*\),.*"lr":\([^,}]*\),.*}$/\1 \2/p' "$1/metrics.jsonl"
}

@test "a ResNet on two ranks that is stopped within an epoch resumes bit for bit" {
	local common='--synthetic --image-size 8 --batch-size 8 --lr 0.01'
	expect 0 job 2 resnet $common --steps 3 --log-dir one --checkpoint one.ckpt
	expect 0 job 2 resnet $common --steps 1 --log-dir two --checkpoint two.ckpt
	expect 0 job 2 resnet $common --steps 3 --log-dir two --checkpoint two.ckpt --resume
	has "$out" 'resuming from two.ckpt after epoch 0 and 8 samples, step 1'
	run ! grep 'what changes' <<<"$out"
	cmp <(losses one) <(losses two)
	cmp one.ckpt two.ckpt
	[ "$(losses two | wc -l)" = 3 ]
}

@test "--resume with other ranks or options prints what changes, and the losses agree" {
	expect 0 job 2 mnist_mlp --data data --epochs 4 --log-dir one
	expect 0 job 2 mnist_mlp --data data --epochs 2 --log-dir two --checkpoint two.ckpt
	expect 0 job 4 mnist_mlp --data data --epochs 4 --log-dir two --checkpoint two.ckpt --resume
	has "$out" 'what changes: 4 ranks instead of 2 \(sums are rounded differently\); 16 samples per rank at once instead of 32'
	near two one 1e-4
	expect 0 mnist_mlp --data data --epochs 5 --batch-size 32 --lr 0.01 \
		--checkpoint two.ckpt --resume
	has "$out" 'what changes: 1 rank instead of 4 .*; --batch-size 32 instead of 64 .*; --lr 0.01 instead of 0.001'
	has "$out" 'epoch 5/5'
}

@test "--keep keeps the last checkpoints, and --resume auto uses the newest intact one" {
	local i
	expect 0 mnist_mlp --data data --epochs 5 --checkpoint k --keep 3
	[ "$(ls k*)" = $'k\nk.1\nk.2' ]
	expect 0 mnist_mlp --data data --epochs 3 --checkpoint three
	# k.2 equals the result of three epochs, except for their duration
	expect 0 mnist_mlp --data data --epochs 5 --resume k.2
	has "$out" 'resuming from k.2 after epoch 3, step 30'
	truncate -s -100 k
	expect 0 mnist_mlp --data data --epochs 5 --checkpoint k --keep 3 --resume auto
	has "$err" 'warning: .*k.*(truncated|ends)'
	has "$out" 'resuming from k.1 after epoch 4'
	[ "$(ls k*)" = $'k\nk.1\nk.2' ]
	for i in k k.1 k.2; do
		truncate -s 100 $i
	done
	expect 1 mnist_mlp --data data --checkpoint k --resume auto
	has "$err" 'no checkpoint k is intact'
	expect 1 mnist_mlp --data data --resume nowhere
	has "$err" 'there is no checkpoint nowhere'
}

@test "a new run sets an older run's checkpoint aside" {
	expect 0 mnist_mlp --data data --epochs 1 --checkpoint c
	cp c old
	expect 0 mnist_mlp --data data --epochs 2 --checkpoint c
	has "$out" 'renamed the checkpoint c of another run to c.before'
	cmp old c.before
	run ! cmp -s old c
}

@test "training that ddprun restarts resumes from its last checkpoint" {
	expect 0 mnist_mlp --data data --epochs 6 --log-dir one
	# an older run's file must not be taken for this job's
	expect 0 mnist_mlp --data data --epochs 1 --seed 7 --checkpoint c
	# dies once, in its third epoch
	cat >flaky.sh <<'SH'
if [ ! -e died ]; then
	: >died
	mnist_mlp --data data --epochs 2 --log-dir two --checkpoint c || exit 9
	exit 3
fi
exec mnist_mlp --data data --epochs 6 --log-dir two --checkpoint c
SH
	expect 0 "$DDPRUN" --standalone --max-restarts 1 --nproc-per-node 1 sh flaky.sh
	has "$out" 'resuming from c after epoch 2, step 20'
	cmp <(losses one) <(losses two)
}

@test "accumulated micro-batches give the losses of the whole batch" {
	expect 0 mnist_mlp --data data --epochs 3 --log-dir one
	expect 0 mnist_mlp --data data --epochs 3 --log-dir four --accumulate 4
	near four one 1e-4
	# 640 = 8 x 72 + 64: the last micro-batch is smaller than the others
	expect 0 job 2 mnist_mlp --data data --epochs 3 --batch-size 72 --log-dir a
	expect 0 job 2 mnist_mlp --data data --epochs 3 --batch-size 72 \
		--accumulate 3 --log-dir b
	near b a 1e-4
	expect 2 mnist_mlp --data data --batch-size 64 --accumulate 3
	has "$err" "accumulate 3 cannot split a rank's 64 samples .*multiple of 3"
}

@test "rates follow the schedule, and are logged" {
	expect 0 mnist_mlp --data data --epochs 2 --schedule cosine --warmup-epochs 0.5 \
		--lr 0.1 --log-dir log
	# 20 steps, 5 of warm-up from 1 %
	[ "$(rates log | sed -n 1p)" = "1 0.001" ]
	[ "$(rates log | sed -n 6p)" = "6 0.1" ]
	rates log | awk '$2 > 0.1 || $2 <= 0 { bad = 1 }
		NR > 6 && $2 >= last { bad = 1 }
		{ last = $2 } END { exit bad || NR != 20 }'
	expect 0 job 2 mnist_mlp --data data --epochs 1 --lr-scale linear --log-dir two
	[ "$(rates two | sed -n 1p)" = "1 0.002" ]
}

@test "--steps ends a run, --eval-every skips tests, --log-every skips lines" {
	expect 0 mnist_mlp --data data --steps 25 --eval-every 2 --log-dir log --log-every 10
	has "$out" '^epoch 1/3: .*, no test'
	has "$out" '^epoch 2/3: .*, test accuracy'
	has "$out" '^epoch 3/3: .*, test accuracy'
	[ "$(losses log | cut -d' ' -f1 | tr '\n' ' ')" = "10 20 " ]
	[ "$(grep -c test_loss log/metrics.jsonl)" = 2 ]
}

@test "a data set smaller than a batch is used as one batch" {
	t_idx data 20 10
	expect 0 mnist_mlp --data data --epochs 2 --log-dir one
	has "$out" 'has only 20 samples, fewer than a batch'
	[ "$(losses one | wc -l)" = 2 ]
	expect 0 job 2 mnist_mlp --data data --epochs 2 --log-dir two
	near two one 1e-4
}

@test "a ResNet with sync-bn has the same losses on 1, 2 and 4 ranks" {
	local common='--synthetic --image-size 8 --batch-size 16 --steps 2 --lr 0.001' n
	expect 0 resnet $common --log-dir 1
	has "$out" '^[1-9][0-9,]* images/s \([1-9][0-9,]* a rank\), [0-9]{1,6}\.[0-9]{2} ms a step$'
	for n in 2 4; do
		expect 0 job $n resnet $common --sync-bn --log-dir $n
		near $n 1 1e-4
	done
	# without it each rank normalises by its own samples
	expect 0 job 2 resnet $common --log-dir not
	run ! near not 1 1e-2
}

@test "config.json records what was run" {
	DDP_TOKEN=hush NCCL_DEBUG=WARN expect 0 job 2 mnist_mlp --data data --epochs 1 \
		--log-dir log --checkpoint c
	grep -q '"world_size":.*"2"' log/config.json
	grep -q '"NCCL_DEBUG":.*"WARN"' log/config.json
	grep -q '"model":.*"mnist_mlp 784-50-10"' log/config.json
	run ! grep hush log/config.json
	expect 0 mnist_mlp --data data --epochs 2 --log-dir log --checkpoint c --resume
	[ -f log/config.from_10.json ]
}

@test "--save-images writes a picture after each test" {
	expect 0 mnist_ae --data data --epochs 1 --save-images x.png
	[ "$(head -c 4 x.png | tail -c 3)" = PNG ]
	cp x.png before.png
	expect 0 job 2 mnist_ae --data data --epochs 2 --save-images x.png
	run ! cmp -s x.png before.png
	expect 1 mnist_ae --data data --save-images nowhere/x.png
	has "$err" 'save-images: cannot write nowhere/x.png: No such file'
	run ! grep epoch <<<"$out"
}

@test "--check-every names a rank whose parameters or gradients are wrong" {
	# rank 2 learns at another rate
	local other='[ $RANK = 2 ] && set -- "$@" --lr 0.2; exec "$@"'
	expect 1 ddprun --standalone --nproc-per-node 3 sh -c "$other" - \
		mnist_mlp --data data --batch-size 60 --epochs 1 --lr 0.1 --check-every 4
	has "$err" 'step 4: the parameters of layer .+ are not the same on all ranks: '
	has "$err" 'the data of rank 2 on [^ ]+ differs from that of the other 2 ranks'
	# its parameters are too large at once, and so are its gradients
	other=${other/0.2/1e6}
	expect 1 ddprun --standalone --nproc-per-node 3 sh -c "$other" - \
		mnist_mlp --data data --batch-size 60 --epochs 1 --optimizer sgd --lr 0.1 --check-every 1000
	has "$err" 'step [0-9]+: ddp_reducer_finish: the gradient of parameter [0-9]+ has values up to [0-9.e+]+ on rank 2 on '
	# of two ranks only NaN and infinity are found: its parameters overflow
	expect 1 ddprun --standalone --nproc-per-node 2 sh -c "${other/RANK = 2/RANK = 1}" - \
		mnist_mlp --data data --batch-size 60 --epochs 1 --optimizer sgd --lr 0.1 --check-every 1000
	has "$err" 'step [0-9]+: ddp_reducer_finish: the gradient of parameter [0-9]+ is not finite on rank 1 on '
	expect 0 ddprun --standalone --nproc-per-node 3 \
		mnist_mlp --data data --batch-size 60 --epochs 1 --check-every 1
}
