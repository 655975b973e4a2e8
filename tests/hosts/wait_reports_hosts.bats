# covers: rendezvous/query rendezvous/admission launcher/membership
bats_require_minimum_version 1.5.0
load ../lib
load netns

# A rank that waits for a rank on another host learns which host that is.

setup() {
	lib_setup
	hosts_up 2
	endpoint=${at[h1]}:29400
	job=(ddprun --nnodes 2 --rdzv-endpoint "$endpoint" --shutdown-timeout 1)
}

@test "a waiting rank, and status, name the host of the missing rank" {
	hosts_real
	start_on h1 on_h1 env DDP_TIMEOUT=3 "${job[@]}" --node-rank 0 c_init cpu
	start_on h2 on_h2 "${job[@]}" --node-rank 1 sh -c \
		'echo here; exec tail -f /dev/null'
	await on_h2.out here
	start_on h1 asks bash -c 'until ddprun status | grep "waiting [1-9]"
		do sleep 0.1; done; ddprun status'
	finish asks
	has "$out" "^  waiting [1-3] s for 1 of 2 ranks at gather '.*': rank 1 \(h2, not connected\)$"
	has "$out" '^  2 of 2 nodes, 2 workers \(1 connected, 0 ended\)'
	has "$out" '^  node 0  h1  h1  runs  ranks 0 to 0: 1 connected, 0 ended'
	has "$out" '^  node 1  h2  10.78.0.2  runs  ranks 1 to 1: 0 connected, 0 ended'
	finish on_h1 1
	has "$out" "waited 3.[0-9] s for 1 of 2 ranks at gather '.*': rank 1 \(h2, not connected\)"
	finish on_h2 1
}

@test "the ddprun of a host names a rank that waits in PyTorch's store" {
	hosts_real
	mkfifo go
	start_on h1 on_h1 "${job[@]}" --node-rank 0 --heartbeat-timeout 0.5 \
		bash -c 'read -r _ <go; w_knock set ready yes'
	start_on h2 on_h2 "${job[@]}" --node-rank 1 --heartbeat-timeout 0.5 \
		--nproc-per-node 2 bash -c '
		[ $RANK = 2 ] || exit 0
		echo "pid $$"; exec w_knock wait ready'
	await on_h2.out '^\[2\] pid [0-9]+$'
	await on_h2.err "^ddprun: waiting [12] s for 1 of 1 key that nobody has set: 'ready' \(rank 2, pid ${line##* }, in PyTorch's store\) \(job 'none'\)$"
	echo go >go
	finish on_h1
	finish on_h2
	run ! grep "PyTorch's store" on_h1.err
}

# refused WARNING ARGS...: h1 waits for another node, and h2 is refused with ARGS.
refused() {
	start_on h1 on_h1 ddprun --nnodes 2 --node-rank 0 \
		--rdzv-endpoint "${at[h1]}:29400" true
	await on_h1.err 'waiting .* for 1 of 2 nodes'
	start_on h2 on_h2 ddprun --rdzv-endpoint "${at[h1]}:29400" "${@:2}" true
	finish on_h2 -
	[ "$status" != 0 ]
	await on_h1.err "warning: ${addr[h2]}:[0-9]+ \\(host h2, job 'none'\\): it may not join: $1"
	start_on h2 on_h2 ddprun --rdzv-endpoint "${at[h1]}:29400" --nnodes 2 true
	finish on_h2
	finish on_h1
}

@test "the terminal of a node that waits says that another has a different --nnodes" {
	hosts_real
	refused 'h2 has --nnodes 3, but h1 has 2 in job .*: give both the same value' --nnodes 3
}

@test "the terminal of a node that waits says that another wants its --node-rank" {
	hosts_real
	refused "--node-rank 0 of job 'none' at .* is taken by h1: give h2 another" \
		--nnodes 2 --node-rank 0
}
