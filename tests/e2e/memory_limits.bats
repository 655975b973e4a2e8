# What clients can make a server hold is counted for their job, and for its
# tenant: a client over a limit learns which, and no other job notices.
# covers: rendezvous/server rendezvous/store rendezvous/net
load ../lib

setup() {
	lib_setup
	command -v python3 >where || skip "no python3 here"
	greedy=$(cd "$BATS_TEST_DIRNAME/../programs/peers" && pwd)/rdzv_greedy.py
}

server() {
	start server ddprdzv --listen 127.0.0.1:0 --heartbeat-timeout 60 \
		--metrics-listen 0 "$@"
	await "$T/server.err" ' listening on'
	at=${line##* }
	metrics=$(sed -n 's|.*metrics at \(http://.*\)/$|\1|p' server.err)
}

# counts LINE: waits until the metrics have it
counts() {
	until curl -s "$metrics/metrics" | grep -qxF "ddprdzv_$1"; do
		read -rt 0.05 _ <> <(:) || true
	done
}

# greedy WAY ERE: the error that its job gets, or FILE's line
greedy() {
	mkfifo to
	start greedy bash -c 'exec python3 "$@" <>"$0"' "$T/to" "$greedy" "$at" "$1"
	await "${3:-greedy.out}" "$2"
	[ -z "${3:-}" ] || echo 1<>to
	echo 1<>to
	await greedy.out '^modest$'
	signal greedy KILL
	finish greedy -
	rm to
	counts 'memory_bytes 0'
}

over='the rendezvous server holds [0-9]+ bytes for job '\''greedy'\'', and its limit is 4194304'
option='\(--max-memory of that ddprdzv\)'

@test "a job over its memory limit gets an error, and another job is served as usual" {
	server --auth none --max-memory 4194304 --max-bytes 1048576
	greedy parts "^$over $option: [0-9]+ of them are an incomplete request of this client, or replies that it has not read"
	greedy waits "^$over, too few for [0-9]+ more $option"
	greedy gathers "^$over, too few for [0-9]+ more $option"
	greedy answers "rank [0-7], job 'greedy'\): $over $option" server.err
	kill -0 "${pid[server]}"
}

# node NAME JOB: an agent
node() {
	mkfifo "$T/$1.in"
	start "$1" bash -c 'exec rdzv_client "$@" <>"$0"' "$T/$1.in" \
		agent "$at" "$2" 1 "$1" 1 -1 0
}

@test "a tenant has a limit of jobs and clients, and others have their own" {
	mkdir tokens
	echo 'the-token-of-alice-01' >tokens/alice
	echo 'the-token-of-robert-02' >tokens/bob
	chmod 600 tokens/*
	server --token-dir tokens --tenant-jobs 2 --tenant-connections 3
	export DDP_TOKEN=the-token-of-alice-01
	node a alice/x
	await a.out '^START'
	node b alice/y
	await b.out '^START'
	node c alice/z
	await c.out "^error: job 'alice/z' is refused at $at: tenant 'alice' has 2 jobs there, its limit \(--tenant-jobs of that ddprdzv\)$"
	finish c -
	counts 'connections{role="agent"} 2'
	start w rdzv_client do "$at" alice/x 0 0 set here 1 wait 60000 never
	counts 'connections{role="worker"} 1'
	run rdzv_client do "$at" alice/y 0 0 get k
	[ "$status" = 1 ]
	[[ $output == *"tenant 'alice' has 3 connections at $at, its limit (--tenant-connections of that ddprdzv)" ]]
	DDP_TOKEN=the-token-of-robert-02 node d bob/x
	await d.out '^START'
	[ "$(DDP_TOKEN=the-token-of-robert-02 rdzv_client do "$at" bob/x 0 0 set k v get k)" = "1 'v'" ]
}
