# covers: rendezvous/torch launcher/membership rendezvous/vouching
load ../lib
load netns

# An unmodified PyTorch DDP script on two hosts.

script=$BATS_TEST_DIRNAME/../programs/workers/ddp_gloo.py

setup() {
	lib_setup
	torch_or_skip
	hosts_up 2
	hosts_real # gloo finds its peers by the host's name
	job=(ddprun --rdzv-endpoint h1:29400 --nproc-per-node 2)
}

@test "a DDP script runs on gloo over two hosts" {
	start_on h1 on_h1 "${job[@]}" --nnodes 2 "$script" "$T/snapshot" 2
	start_on h2 on_h2 "${job[@]}" --nnodes 2 "$script" "$T/snapshot" 2
	finish on_h1
	has "$out" '^\[0\] rank 0 of 4: ok$'
	has "$out" '^\[1\] rank 1 of 4: ok$'
	finish on_h2
	has "$out" '^\[2\] rank 2 of 4: ok$'
	has "$out" '^\[3\] rank 3 of 4: ok$'
}

# on_both NAME OPTIONS...: gpt.py with a rank on each host; its losses are in NAME.losses
on_both() {
	local name=$1
	shift
	start_on h1 on_h1 "${job[@]}" --nproc-per-node 1 --nnodes 2 --node-rank 0 "$@"
	start_on h2 on_h2 "${job[@]}" --nproc-per-node 1 --nnodes 2 --node-rank 1 "$@"
	finish on_h2
	finish on_h1
	lacks "$err" 'without a fork'
	sed -n 's/^\[0\] \(loss .*\)/\1/p' <<<"$out" >"$name.losses"
	[ "$(wc -l <"$name.losses")" = 4 ]
}

# one rank on a host would use several threads, and add in another order
@test "a GPT has the same losses on two hosts as on one, also with --preload" {
	local gpt=$BATS_TEST_DIRNAME/../programs/clients/gpt.py
	export OMP_NUM_THREADS=1
	on_both two "$gpt" "$T/two" 4
	on_both forked --preload torch "$gpt" "$T/forked" 4
	expect 0 ddprun --standalone --nproc-per-node 2 "$gpt" "$T/one" 4
	sed -n 's/^\[0\] \(loss .*\)/\1/p' <<<"$out" >one.losses
	cmp two.losses one.losses
	cmp forked.losses one.losses
}

@test "when a worker of one host is killed, both hosts restart and continue" {
	# one worker on h1: each takes seconds of CPU to import PyTorch
	start_on h1 on_h1 "${job[@]}" --nproc-per-node 1 --nnodes 2 \
		--node-rank 0 --max-restarts 1 "$script" "$T/snapshot" 2 "$T/stop"
	start_on h2 on_h2 "${job[@]}" --nnodes 2 --max-restarts 1 "$script" \
		"$T/snapshot" 2 "$T/stop"
	await on_h1.out '^\[0\] epoch 1: '
	# the host has process numbers of its own
	await on_h2.out '^\[2\] start: rank 2 of 3 at epoch 0 '
	nsenter --pid="/proc/${host_pid[h2]}/ns/pid_for_children" \
		--mount="/proc/${host_pid[h2]}/ns/mnt" \
		bash -c "kill -KILL ${line##* }"
	await on_h1.err 'restarting \(1 of 1\): rank 2 .* on h2.*SIGKILL'
	await on_h2.out '^\[2\] start: rank 2 of 3 at epoch [1-9]'
	: >stop
	finish on_h1
	has "$out" '^\[0\] rank 0 of 3: ok$'
	finish on_h2
	has "$out" '^\[1\] rank 1 of 3: ok$'
	has "$out" '^\[2\] rank 2 of 3: ok$'
}

@test "an elastic job trains on from one node to two and back" {
	# here as well
	local elastic=(--nproc-per-node 1 --nnodes 1:2
		--rdzv-conf last_call_timeout=0.1
		"$script" "$T/snapshot" 2 "$T/stop")
	start_on h1 on_h1 "${job[@]}" "${elastic[@]}"
	await on_h1.out '^\[0\] start: rank 0 of 1 at epoch 0 '
	await on_h1.out '^\[0\] epoch 1: '
	start_on h2 on_h2 "${job[@]}" "${elastic[@]}"
	await on_h1.err 'regrouping: '
	await on_h1.out '^\[0\] start: rank 0 of 2 at epoch [1-9]'
	await on_h2.out '^\[1\] start: rank 1 of 2 at epoch [1-9]'
	# it leaves, and the others continue
	signal on_h2 TERM
	finish on_h2 143
	await on_h1.out '^\[0\] start: rank 0 of 1 at epoch [1-9]'
	: >stop
	finish on_h1
	has "$out" '^\[0\] rank 0 of 1: ok$'
	[ "$(grep -c regrouping <<<"$err")" = 2 ]
}
