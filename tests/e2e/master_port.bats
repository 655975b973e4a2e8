# With --master-port, as with torchrun's static backend, the nodes meet where PyTorch's
# store is: MASTER_PORT. The first byte of a connection tells the protocols apart.
# covers: rendezvous/daemon rendezvous/torch rendezvous/vouching launcher/membership
load ../lib

setup() {
	lib_setup
	port=$(w_port free)
	PATH=$PATH:$O/examples
	# evaluated by a worker
	export UNTIL_GO='until [ -e go ]; do read -rt 0.1 -u 8 _ || true; done 8<> <(:)'
}

@test "--master-port is MASTER_PORT, where PyTorch's clients and the nodes connect" {
	local n
	# on one host, node 0 has the port, even if it starts last
	for n in 1 0; do
		start "node$n" ddprun --nnodes 2 --node-rank $n --nproc-per-node 2 \
			--master-addr 127.0.0.1 --master-port "$port" \
			bash -c 'echo $MASTER_ADDR:$MASTER_PORT $TORCHELASTIC_USE_AGENT_STORE $(w_knock ping)'
		[ $n = 0 ] || await node1.err 'connection refused.*has that address and --node-rank 0$'
	done
	for n in 0 1; do
		finish "node$n"
		[ "$(sort <<<"$out")" = "[$((2 * n))] 127.0.0.1:$port True answered
[$((2 * n + 1))] 127.0.0.1:$port True answered" ]
	done
}

@test "libddp's workers and ddprun's tools also connect at that port" {
	start job ddprun --nproc-per-node 2 --master-port "$port" \
		bash -c 'fit_line >fit; w_knock set key value; eval "$UNTIL_GO"'
	await job.out 'sent'
	await job.out 'sent' 60 2
	expect 0 ddprun status --rdzv-endpoint "127.0.0.1:$port"
	has "$out" 'rank'
	touch go
	finish job
}

@test "each attempt has an empty store at the same port" {
	expect 3 ddprun --max-restarts 1 --master-port "$port" bash -c '
		echo $MASTER_PORT; w_knock add key 1; exit 3'
	[ "$(sort <<<"$out")" = "[0] $port
[0] $port
[0] key is 1
[0] key is 1" ]
}

@test "another user's client gets no answer at that port, whatever it sends" {
	local fd greeting='' other=(setpriv --reuid 65534 --clear-groups)
	[ "$(id -u)" = 0 ] || skip "only root can be another user"
	install -m 755 "$O/tests/w_knock" "$T/knock"
	let_others_in
	start job ddprun --master-port "$port" bash -c 'w_knock set key value; eval "$UNTIL_GO"'
	await job.out 'sent'
	[ "$("${other[@]}" "$T/knock" AT 127.0.0.1 "$port" ping)" = closed ]
	await job.err "closed a connection to PyTorch's store from 127.0.0.1"
	# a client that says nothing gets nothing
	exec {fd}<>"/dev/tcp/127.0.0.1/$port"
	read -rt 1 -N 1 -u "$fd" greeting || true
	[ -z "$greeting" ]
	exec {fd}>&-
	touch go
	finish job
}

@test "a server that is restarted serves both protocols at that port" {
	start job ddprun --master-port "$port" bash -c 'w_knock set key value
		eval "$UNTIL_GO"; w_knock get key'
	await job.out 'sent'
	kill -KILL "$(pgrep -P "${pid[job]}" -x ddprdzv)"
	await job.err 'restarted it'
	touch go
	finish job
	has "$out" '^\[0\] key is value$'
}

@test "the store has its own port under c10d, and with an endpoint" {
	expect 0 ddprun --rdzv-backend c10d --master-port "$port" \
		bash -c 'echo $MASTER_PORT $(w_knock ping)'
	lacks "$out" "^\[0\] $port "
	has "$out" ' answered$'
	expect 0 ddprun --rdzv-endpoint "127.0.0.1:$port" \
		bash -c 'echo $MASTER_PORT $(w_knock ping)'
	lacks "$out" "^\[0\] $port "
	has "$out" ' answered$'
}
