# half_open_hosts.bats: the host of a worker or a PyTorch client is cut off without
# notice while it waits at the server: the server still ends the connection.
# covers: rendezvous/net rendezvous/torch
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 2
	hosts_real
}

@test "a worker that waits on a host that is cut off is removed from its barrier" {
	export DDP_LOG=debug
	start_on h1 server ddprdzv --listen 0.0.0.0:29400 \
		--heartbeat-timeout 1 --silent-timeout 2
	await "$T/server.err" 'listening on'
	start_on h1 job ddprun --rdzv-endpoint h1:29400 --rdzv-id j \
		--nproc-per-node 2 --heartbeat-timeout 2 \
		sh -c 'echo "worker $RANK"; exec tail -f /dev/null'
	await "$T/job.out" 'worker 1'
	start_on h2 far rdzv_client do h1:29400 j 0 1 add here 1 \
		barrier b 2 600000
	start_on h1 near rdzv_client do h1:29400 j 0 0 wait 60000 here
	finish near
	cable_cut h2
	await "$T/server.err" 'lost a connection of rank 1: its connection broke' 30
	start_on h1 near rdzv_client do h1:29400 j 0 0 barrier b 2 0
	finish near 1
	has "$out" "1 of 2 ranks at barrier 'b': rank 1 \\(.*not connected\\)"
}

# Its agent lives, and answers no tool: the dump would wait for ten minutes.
@test "a waiting tool on a host that is cut off is disconnected" {
	command -v curl >/dev/null || skip "no curl here"
	start_on h1 server ddprdzv --listen 0.0.0.0:29400 --metrics-listen 29401 \
		--heartbeat-timeout 3 --silent-timeout 3
	await "$T/server.err" 'listening on'
	mkfifo in
	start_on h1 agent bash -c 'exec rdzv_client agent h1:29400 j 1 a 1 -1 0 \
		<>in'
	await "$T/agent.out" '^START'
	# its pings are the clock
	tools='until [ "$(curl -s http://127.0.0.1:29401/metrics |
		grep "role=\"tool\"")" = "ddprdzv_connections{role=\"tool\"} $0" ]
		do echo ping 1<>in; done'
	start_on h2 far ddprun dump --rdzv-endpoint h1:29400 --job j --timeout 600
	start_on h1 count bash -c "$tools" 1
	finish count
	cable_cut h2
	start_on h1 count bash -c "$tools" 0
	DEADLINE=30 finish count
	echo ping 1<>in
	[ "$(grep -c '^END' agent.out)" = 0 ]
}

# It is not a member, and no agent vouches for it: only its connection holds it.
@test "a waiting PyTorch client on a host that is cut off is disconnected" {
	local port
	printf '#!/bin/sh\nexec ddprdzv "$@" --silent-timeout 2\n' >server
	chmod +x server
	mkfifo go
	DDP_SERVER=$T/server start_on h1 job ddprun --rdzv-endpoint h1:29400 \
		--rdzv-id j --store-open --heartbeat-timeout 2 \
		bash -c 'echo "at $MASTER_PORT"; read -r _ <go; w_knock ping'
	await "$T/job.out" '^\[0\] at [0-9]+$'
	port=${line##* }
	start_on h2 far w_knock AT h1 "$port" wait never
	start_on h1 asks bash -c 'until ddprun status --job j |
		grep "nobody has set: .never. (in PyTorch"; do sleep 0.1; done'
	finish asks
	cable_cut h2
	start_on h1 asks bash -c 'while ddprun status --job j |
		grep "nobody has set: .never. (in PyTorch"; do sleep 0.1; done'
	DEADLINE=30 finish asks
	echo >go
	finish job
	has "$out" '^\[0\] answered$'
}
