# ddprdzv and agents that join and leave: last calls, spares, rounds that end because
# the nodes have changed, leases, and the reports of a worker's end.
# covers: rendezvous/round rendezvous/server
load ../lib

# server [OPTION...]: a ddprdzv of our own; $at is its endpoint.
server() {
	export DDP_LOG=debug
	start server ddprdzv --listen 127.0.0.1:0 --heartbeat-timeout 60 "$@"
	unset DDP_LOG
	await "$T/server.err" 'listening on'
	at=${line##* }
}

# node NAME NNODES [OPTION=VALUE...]: an agent of job j with one worker (or
# nproc) on a host of its own (or host); say NAME LINE tells it what to do, its
# output is $T/NAME.out.
node() {
	local name=$1 nnodes=$2 nproc=1 rank=-1 restarts=0 call=0 lease=0
	local role=default host=$1
	shift 2
	local "$@"
	mkfifo "$T/$name.in"
	start "$name" bash -c 'exec rdzv_client "$@" <>"$0"' "$T/$name.in" \
		agent "$at" j "$nproc" "$name" "$nnodes" "$rank" "$restarts" \
		"$call" "$lease" "$role" "$host"
}

# (opened for both, which never waits for a reader that may have left)
say() {
	echo "$2" 1<>"$T/$1.in"
}

@test "a job starts after the last call with its minimum of nodes, which are all notified" {
	server
	node h1 2:4 call=300
	await h1.out '^STATE 1 of 4'
	node h2 2:4 call=60000
	await h1.out '^STATE 2 of 4 last call ([1-9]|[1-9][0-9]|[12][0-9][0-9]|300)$'
	await h1.out '^START round 0 attempt 0 node [01] of 2 .* changes 0'
	await h2.out '^START round 0 attempt 0 node [01] of 2 .* changes 0'
}

@test "each count of the joined nodes is sent once, however fast nodes join" {
	local i
	server
	for ((i = 1; i <= 12; i++)); do
		node "h$i" 13
	done
	await h1.out '^STATE 12 of 13'
	node h13 13
	await h1.out '^START round 0 attempt 0 node [0-9]+ of 13 '
	[ "$(grep -c '^STATE 12 of 13' h1.out)" = 1 ]
}

@test "a job starts at once with its maximum of nodes, without a last call" {
	server
	node h1 1:2 call=600000
	node h2 1:2 call=600000
	await h1.out '^START round 0 attempt 0 node [01] of 2'
	await h2.out '^START round 0 attempt 0 node [01] of 2'
}

@test "a node joins a running job, and leaves it again" {
	server
	node h1 1:2
	await h1.out '^START round 0 attempt 0 node 0 of 1'
	node h2 1:2
	await h1.out '^END round 0 verdict 4 exit_code 0 .*: h2 joined$'
	await h2.out '^STATE 1 of 2 node 0 \(h1\)'
	say h1 join
	await h1.out '^START round 1 attempt 0 node 0 of 2 .* changes 1'
	await h2.out '^START round 1 attempt 0 node 1 of 2 .* changes 1'
	say h2 "leave 15"
	finish h2 143
	has "$out" '^END round 1 verdict 3 exit_code 143 .*: node 1 \(h2\) received SIGTERM$'
	await h1.out '^END round 1 verdict 4 .*: node 1 \(h2\) received SIGTERM$'
	say h1 join
	await h1.out '^START round 2 attempt 0 node 0 of 1 .* changes 2'
	say h1 "exit 0 0"
	finish h1
}

@test "a lost node that returns on its host gets its rank back" {
	server
	node h0 2:3 rank=0 call=60000
	node h1 2:3 host=big call=60000
	node h2 2:3 rank=2 call=60000
	await h0.out '^START .* node 0 of 3'
	await h1.out '^START .* node 1 of 3'
	await h2.out '^START .* node 2 of 3'
	signal h1 KILL
	finish h1 137
	await h0.out '^END round 0 verdict 4 exit_code 69 .*: node 1 \(big\) was lost: its connection '
	await h2.out '^END round 0 verdict 4'
	say h0 join
	say h2 join
	await h0.out '^START round 1 .* node 0 of 2 '
	await h2.out '^START round 1 .* node 1 of 2 '
	node h3 2:3 host=big
	await h0.out '^END round 1 verdict 4'
	await h2.out '^END round 1 verdict 4'
	say h0 join
	say h2 join
	await h0.out '^START round 2 .* node 0 of 3 '
	await h3.out '^START round 2 .* node 1 of 3 '
	await h2.out '^START round 2 .* node 2 of 3 '
}

@test "a round with too few nodes waits until more join" {
	server
	node h1 2:3
	node h2 2:3
	await h1.out '^START'
	await h2.out '^START'
	signal h2 KILL
	finish h2 137
	await h1.out '^END round 0 verdict 4'
	say h1 join
	await h1.out '^STATE 1 of 3 1 more'
	node h3 2:3
	await h1.out '^START round 1 attempt 0 node [01] of 2'
	await h3.out '^START round 1'
}

@test "the fifth agent for four nodes is a spare and takes over" {
	local i
	server
	for i in 1 2 3 4; do
		node "h$i" 4
	done
	for i in 1 2 3 4; do
		await "h$i.out" '^START round 0'
	done
	node h5 4
	await h5.out '^STATE 4 of 4 spare of 1$'
	node h6 4
	await h6.out '^STATE 4 of 4 spare of 2$'
	# they do not affect the others' workers
	run rdzv_client do "$at" j 0 3 add n 1
	[ "$output" = 1 ]
	signal h2 KILL
	finish h2 137
	for i in 1 3 4; do
		await "h$i.out" '^END round 0 verdict 4 .* was lost: .*; h5 takes its place$'
		say "h$i" join
	done
	for i in 1 3 4 5; do
		await "h$i.out" '^START round 1 attempt 0 node [0-3] of 4 .* changes 1'
	done
	# a spare gets no round's end, only the job's
	[ "$(grep -c ^END h5.out)" = 0 ]
	say h1 "failed 5"
	finish h6 5
	finish h5 5
}

@test "a spare may leave, and a spare that requests a taken rank is refused" {
	server
	node h1 1
	await h1.out '^START'
	node h2 1 rank=0
	finish h2 1
	has "$out" "^error: --node-rank 0 of job 'j' at $at is taken by h1: give h2 another"
	node h3 1
	await h3.out 'spare of 1'
	say h3 "leave 15"
	say h3 ping
	await h3.out '^PONG'
	signal h3 KILL
	finish h3 137
	say h1 "exit 0 0"
	finish h1
}

@test "a spare is notified if it joined while a round was about to begin" {
	server
	node h1 1 restarts=1
	await h1.out '^START'
	say h1 "exit 0 7"
	await h1.out '^END round 0 verdict 2'
	node h2 1 restarts=1
	say h1 join
	await h1.out '^START round 1'
	await h2.out 'spare of 1'
}

@test "a restart while nodes join and are lost counts once" {
	server
	node h1 2:3 restarts=2
	node h2 2:3 restarts=2
	await h1.out '^START'
	await h2.out '^START'
	say h1 "$(sed -nE 's/^START .* node ([01]) .*/exit \1 7/p' h1.out)"
	await h1.out '^END round 0 verdict 2 exit_code 7 left 1'
	await h2.out '^END round 0 verdict 2 exit_code 7 left 1'
	signal h2 KILL
	finish h2 137
	node h3 2:3 restarts=2
	await h3.out '^STATE'
	say h1 join
	await h1.out '^START round 1 attempt 1 node [01] of 2 .* changes 0'
	await h3.out '^START round 1 attempt 1 node [01] of 2 .* changes 0'
}

@test "roles have their own ranks and sizes" {
	server
	node h1 3 rank=0 nproc=2 role=actor
	node h2 3 rank=1 nproc=4 role=learner
	node h3 3 rank=2 nproc=3 role=actor
	await h1.out '^START .* node 0 .* base 0 world 9 .* role 0 of 5$'
	await h2.out '^START .* node 1 .* base 2 world 9 .* role 0 of 4$'
	await h3.out '^START .* node 2 .* base 6 world 9 .* role 2 of 5$'
}

@test "all details of a worker's end reach every node" {
	server
	node h1 2 rank=0
	node h2 2 rank=1
	await h1.out '^START'
	await h2.out '^START'
	node h3 2
	await h3.out 'spare of 1'
	say h2 "kill 1 9 the kernel ran out of memory"
	finish h2 137
	finish h1 137
	has "$out" '^END .* rank 1: rank 1 \(local rank 1\) on h2, pid 4711, was killed by signal 9 \(SIGKILL\): the kernel ran out of memory$'
	has "$out" "^WORKER core 1 rss 9140 tail 'last words' why 'the kernel ran out of memory' error '\{\}' log '/tmp/log'$"
	finish h3 137
	has "$out" '^WORKER core 1'
}

@test "an agent that cannot start its workers reports the exit code" {
	server
	node h1 1:2
	await h1.out '^START'
	say h1 "failed 127"
	finish h1 127
	has "$out" '^END .* verdict 1 exit_code 127 .*: node 0 \(h1\) could not start its workers: no such file'
}

@test "each agent has its own lease" {
	server
	node h1 1:2
	await h1.out '^START'
	# its own timeout of a second, not the server's of a minute
	node h2 1:2 lease=1000
	finish h2 1
	has "$out" '^error: this node was not heard from for 1.0 s; was it stopped'
	say h1 join
	await h1.out '^START round 1 .* node 0 of 1'
	node h3 1:2 lease=99
	finish h3 1
	has "$out" '^error: a heartbeat timeout of 0.099 s on h3: it must be from 0.1 s to a day'
}

@test "the next job with the same id continues the round numbers of a lost node" {
	server
	node h1 1:2
	await h1.out '^START round 0 attempt 0 node 0 of 1'
	signal h1 KILL
	finish h1 137
	await server.err 'was lost: its connection'
	node h2 1:2
	await h2.out '^START round 1 attempt 0 node 0 of 1'
}
