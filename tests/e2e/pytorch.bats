# Unmodified PyTorch scripts under ddprun, where PyTorch is installed:
# DDP_TEST_PYTHON names a python that has it (default: python3, /usr/bin/python3).
load ../lib

setup() {
	lib_setup
	torch_or_skip
}

script=$BATS_TEST_DIRNAME/../programs/ddp_gloo.py

@test "a DDP script on gloo, --standalone" {
	expect 0 ddprun --standalone --nproc-per-node 2 "$script" snapshot 3
	has "$out" '^\[0\] start: rank 0 of 2 at epoch 0 '
	has "$out" '^\[0\] epoch 3: '
	has "$out" '^\[0\] rank 0 of 2: ok$'
	has "$out" '^\[1\] rank 1 of 2: ok$'
}

@test "torchrun's own questions are answered: is it elastic, which run" {
	cat >ask.py <<-'EOF2'
		import os
		import torch.distributed as dist
		print(dist.is_torchelastic_launched(),
		      os.environ["TORCHELASTIC_RUN_ID"],
		      os.environ["TORCHELASTIC_RESTART_COUNT"],
		      os.environ["TORCHELASTIC_MAX_RESTARTS"])
	EOF2
	expect 0 ddprun --rdzv-id me --max-restarts 3 ask.py
	[ "$out" = '[0] True me 0 3' ]
}

@test "a worker is killed: all start again, from the snapshot" {
	local pid_of_1
	start job ddprun --standalone --nproc-per-node 2 --max-restarts 1 \
		"$script" "$T/snapshot" 2 "$T/stop"
	await job.out '^\[1\] start: rank 1 of 2 at epoch 0 '
	pid_of_1=${line##* }
	await job.out '^\[0\] epoch 2: '
	kill -KILL "$pid_of_1"
	await job.err 'restarting \(1 of 1\): rank 1 .*SIGKILL'
	await job.out '^\[1\] start: rank 1 of 2 at epoch ([2-9]|[1-9][0-9]+) '
	: >stop
	finish job 0
	has "$out" '^\[1\] rank 1 of 2: ok$'
}
