# No silent waits: the server tells every agent and worker that waits for more than a
# second what it waits for, and the error of its timeout names the same.
# covers: rendezvous/query rendezvous/round launcher/membership
load ../lib

# server [OPTION...]: a ddprdzv of our own; $at is its endpoint.
server() {
	start server ddprdzv --listen 127.0.0.1:0 --heartbeat-timeout 60 "$@"
	await "$T/server.err" 'listening on'
	at=${line##* }
}

# node NAME NPROC NNODES [NODE_RANK [RESTARTS [MODE]]]: an agent of job j, which
# joins at once, or (MODE hello) on request; say NAME LINE tells it what
# to do, its output is $T/NAME.out.
node() {
	mkfifo "$T/$1.in"
	start "$1" bash -c 'exec rdzv_client "$@" <>"$0"' "$T/$1.in" \
		"${6:-agent}" "$at" j "$2" "$1" "$3" "${4:--1}" "${5:-0}"
}

# (opened for both, which never waits for a reader that may have left)
say() {
	echo "$2" 1<>"$T/$1.in"
}

worker() {
	local round=$1 rank=$2
	shift 2
	rdzv_client do "$at" j "$round" "$rank" "$@"
}

@test "after a second an agent learns which nodes are missing" {
	server
	node h1 1 2
	await h1.out '^WAITING 1[0-9]{3} ms for 1 of 2 nodes$'
	node n07 1 2 -1 0 hello
	await h1.out '^WAITING [1-9][0-9]{3} ms for 1 of 2 nodes: n07 \(agent connected, has not joined\)$'
	say n07 join
	await h1.out '^START'
}

@test "missing nodes that requested a rank are named by that rank" {
	server
	node h1 1 3 1
	await h1.out '^WAITING [0-9]+ ms for 2 of 3 nodes: node 0 \(not connected\), node 2 \(not connected\)$'
}

@test "while a round ends, a wait names the nodes whose workers are stopping" {
	server
	node h1 1 2 0 1
	await h1.out '^STATE 1'
	node h2 1 2 1 1
	await h2.out '^START round 0'
	say h1 'exit 0 3'
	await h1.out '^END round 0 verdict 2'
	say h1 join
	await h1.out '^WAITING [0-9]+ ms for 1 of 2 nodes: node 1 \(h2, stopping its workers, or in its --restart-backoff, for [12] s\)$'
	await h1.out '^WAITING [0-9]+ ms for 1 of 2 nodes: node 1 \(h2, stopping its workers, or in its --restart-backoff, for [2-5] s\)$'
	say h2 join
	await h1.out '^START round 1'
	[ "$(grep -c '^WAITING' h2.out)" = 0 ]
}

@test "ddprun reports what it waits for, and so does its timeout's error" {
	start job ddprun --nnodes 3 --node-rank 0 --rdzv-endpoint "127.0.0.1:$(w_port free)" \
		--rdzv-timeout 2.5 true
	finish job -
	has "$err" '^ddprun: waiting [12] s at 127\.0\.0\.1:[0-9]+ for 2 of 3 nodes \(job .none.\): node 1 \(not connected\), node 2 \(not connected\); start the others with '
	has "$err" "^ddprun: error: gave up after 2.5 s: only 1 of 3 nodes joined at .*; waited for 2 of 3 nodes: node 1 \(not connected\), node 2 \(not connected\); start them all"
	[ "$status" != 0 ]
}

@test "nodes that wait for each other in two jobs learn of the other --rdzv-id" {
	local hint='waits at this server as well, with 1 of 2 nodes \(.*\): does one --rdzv-id have a typo\?'
	at=127.0.0.1:$(w_port free)
	start a ddprun --nnodes 2 --rdzv-endpoint "$at" --rdzv-id run7 true
	await a.err 'waiting [0-9]+ s at .* for 1 of 2 nodes'
	start b ddprun --nnodes 2 --rdzv-endpoint "$at" --rdzv-id run8 true
	await a.err "^ddprun: waiting .* for 1 of 2 nodes \(job 'run7'\): job 'run8' $hint; start the other with "
	await b.err "^ddprun: waiting .* for 1 of 2 nodes \(job 'run8'\): job 'run7' $hint; start the other with "
	expect 0 ddprun status --rdzv-endpoint "$at" --job run7
	has "$out" "job 'run8' $hint"
	signal b TERM
	finish b -
	# a job that began waits for no other node
	start c ddprun --nnodes 2 --rdzv-endpoint "$at" --rdzv-id run7 true
	finish c
	finish a
	# jobs that differ in their nodes are not taken for one
	at=127.0.0.1:$(w_port free)
	start d ddprun --nnodes 2 --rdzv-endpoint "$at" --rdzv-id run7 true
	await d.err 'waiting [0-9]+ s at .* for 1 of 2 nodes'
	start e ddprun --nnodes 3 --rdzv-endpoint "$at" --rdzv-id run8 true
	await e.err 'waiting [0-9]+ s at .* for 2 of 3 nodes'
	lacks "$(cat d.err e.err)" 'typo'
	signal e TERM
	finish e -
	signal d TERM
	finish d -
}

@test "ddprun reports that it waits for another node, whose worker ignores SIGTERM" {
	local ep
	ep=127.0.0.1:$(w_port free)
	mkfifo go
	start a ddprun --nnodes 2 --node-rank 0 --max-restarts 1 \
		--rdzv-endpoint "$ep" sh -c \
		'[ $TORCHELASTIC_RESTART_COUNT = 1 ] || { read -r _ <go; exit 3; }'
	start b ddprun --nnodes 2 --node-rank 1 --max-restarts 1 \
		--shutdown-timeout 3 --rdzv-endpoint "$ep" \
		"${deaf[@]}" sh -c '[ $TORCHELASTIC_RESTART_COUNT = 1 ] ||
			{ echo here; exec tail -f /dev/null; }'
	await b.out here
	echo >go
	await a.err '^ddprun: waiting [12] s at .* for 1 of 2 nodes to come back \(job .none.\): node 1 \(.*, stopping its workers, or in its --restart-backoff, for [12] s\)$'
	finish a
	finish b
}

@test "a node whose workers have ended names the nodes that still run" {
	local ep
	ep=127.0.0.1:$(w_port free)
	mkfifo go
	start a ddprun --nnodes 2 --node-rank 0 --rdzv-endpoint "$ep" true
	start b ddprun --nnodes 2 --node-rank 1 --rdzv-endpoint "$ep" \
		sh -c 'read -r _ <go'
	await a.err "^ddprun: waiting [12] s for 1 of 2 ranks to end: rank 1 \([^,]*, (starts|sleeps|waits for [^:]*|not connected)\) \(job .none.\)$"
	echo >go
	finish a
	finish b
	[ "$(grep -c waiting b.err)" = 0 ]
}

@test "a rank whose program failed while its shell still waits is named with the error" {
	local ep
	ep=127.0.0.1:$(w_port free)
	start a ddprun --nnodes 2 --node-rank 0 --rdzv-endpoint "$ep" true
	start b ddprun --nnodes 2 --node-rank 1 --rdzv-endpoint "$ep" sh -c '
		python3 -c "raise ValueError(\"bad shard 21\")" &
		tail -f /dev/null &
		wait'
	await a.err '^ddprun: waiting [0-9]+ s for 1 of 2 ranks to end: rank 1 \([^,]*, waits for .* \(its stderr ends with: ValueError: bad shard 21 .*\)\) \(job .none.\)$'
	signal b TERM
	finish a -
	finish b -
}

# $output as on an idle machine; a busy server answers later than after 0.1 s.
in_time() {
	echo "${output/waited 0.[1-9] s/waited 0.1 s}"
}

@test "a worker's timeout names the missing rank, where it is, and what it does" {
	server
	node h1 3 1
	await h1.out '^START'
	start one rdzv_client do "$at" j 0 1 set one 1 wait 60000 never
	worker 0 0 wait 60000 one
	say h1 'exit 2 0'
	run worker 0 0 gather g 3 100 x
	[ "$status" = 1 ]
	[[ $output == "error: rank 2 (local rank 2) on h1, pid 4711, exited with code 0 before it reached 'g'" ]]
	# rank 1's wait is on its way once its key is set: it may take a moment
	for _ in {1..50}; do
		run worker 0 0 barrier b 3 100
		[[ $output != *"(h1, connected), "* ]] || continue
		break
	done
	echo "$output"
	[[ $(in_time) == "error: waited 0.1 s for 2 of 3 ranks at barrier 'b': rank 1 (h1, connected, is itself waiting for key 'never'), rank 2 (h1, exited with code 0)" ]]
	# the ranks of a partial barrier are unknown
	run worker 0 0 barrier b 2 100
	[[ $(in_time) == "error: waited 0.1 s for 1 of 2 ranks at barrier 'b'" ]]
	run worker 0 0 fate 1 100
	[[ $(in_time) == "error: waited 0.1 s for 1 of 1 ranks to end: rank 1 (h1, connected, is itself waiting for key 'never')" ]]
	run worker 0 0 wait 100 never
	[[ $(in_time) == "error: waited 0.1 s for 1 of 1 key that nobody has set: 'never'" ]]
}

@test "a worker whose server dies reports what it had waited for" {
	server
	node h1 2 1
	await h1.out '^START'
	start w rdzv_client do "$at" j 0 0 set here 1 gather g 2 60000 x
	worker 0 1 wait 60000 here
	# the agent gets no line now: its worker waits, and so does this one
	start clock rdzv_client do "$at" j 0 1 wait 2200 never
	finish clock 1
	signal server KILL
	finish server 137
	finish w 1
	has "$out" "^error: rendezvous server .*; this call waited [12] s for 1 of 2 ranks at gather 'g': rank 1 \(h1, (not )?connected.*\)$"
	finish h1 -
}

@test "ddp_init's timeout names the rank that never came" {
	DDP_TIMEOUT=2 expect 1 ddprun --standalone --nproc-per-node 2 sh -c \
		'[ $RANK = 0 ] && exec c_init cpu; exec tail -f /dev/null'
	has "$out" "waited 2.[0-9] s for 1 of 2 ranks at gather '.*': rank 1 \(.*, not connected\)"
}

# Their protocol has no message for it; importing PyTorch takes more than a second.
@test "the ddprun of PyTorch's waiting clients reports what they wait for" {
	mkfifo go over
	export T
	start job ddprun --rdzv-id j --rdzv-endpoint 127.0.0.1:29519 \
		--heartbeat-timeout 0.5 --nproc-per-node 2 bash -c '
		[ $RANK = 1 ] || { w_knock wait ready "$T/over"; exec w_knock wait ready; }
		read -r _ <"$T/go"; w_knock set ready yes'
	await job.err '^ddprun: waiting [12] s for 1 of 1 key that nobody has set: .ready. \(rank 0, pid [0-9]+, in PyTorch.s store\) \(job .j.\)$'
	expect 0 ddprun status --job j
	has "$out" "^  waiting [1-9][0-9]* s for 1 of 1 key that nobody has set: 'ready' \(in PyTorch's store\)$"
	# a worker that gives up reports it once more
	: >over
	await job.out 'gave up'
	echo go >go
	finish job
	has "$out" '\[0\] ready is there'
	# at 1 s, 2 s, ... and when it was given up
	[ "$(grep -c waiting job.err)" -ge 2 ]
}

# Its child is found below it; its orphan belongs to no rank.
@test "waits in PyTorch's store name the rank, a rank's child, or an orphan's node" {
	mkfifo go end
	export T
	start job ddprun --standalone --heartbeat-timeout 0.5 \
		--nproc-per-node 2 bash -c '
		if [ $RANK = 0 ]; then
			while read -r key; do w_knock set $key yes; done <"$T/go"
			exit
		fi
		w_knock wait child &
		echo "child $!"
		wait
		(bash -c "w_knock wait orphan; echo >end" &)
		read -r _ <end
		echo "self $$"
		exec w_knock wait itself'
	exec 9>go
	await job.out '^\[1\] child [0-9]+$'
	await job.err ": 'child' \(rank 1, pid ${line##* }, in PyTorch's store\) \("
	echo child >&9
	await job.err ": 'orphan' \(a worker of this node, in PyTorch's store\) \("
	echo orphan >&9
	await job.out '^\[1\] self [0-9]+$'
	await job.err ": 'itself' \(rank 1, pid ${line##* }, in PyTorch's store\) \("
	echo itself >&9
	exec 9>&-
	finish job
}
