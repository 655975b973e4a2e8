# covers: worker-sdk/core worker-sdk/comm launcher/watch rendezvous/stall
bats_require_minimum_version 1.5.0
load ../lib

# Ranks that wait for each other in different communicators get an error that names
# both, long before the timeout, and never if all of them can still arrive.

deadlock() { # HOSTS N MODE [thread]
	DDP_TEST_HOSTS=$1 DDP_TIMEOUT=60 expect 0 \
		ddprun --standalone --nproc-per-node "$2" c_deadlock "${@:3}"
	[ "$(grep -c ': ok$' <<<"$out")" = "$2" ]
}

@test "ranks that use two groups in different order get an error that names them" {
	local mode
	for mode in order requests; do
		deadlock 1 3 $mode
		deadlock 1 2 $mode thread
	done
}

@test "ranks of several hosts that use two groups in different order are named" {
	local hosts
	for hosts in 2 3i 3; do
		deadlock $hosts 3 order
		deadlock $hosts 3 requests thread
	done
}

@test "three ranks that wait for each other in a cycle are named" {
	deadlock 1 3 three
	deadlock 2 3 three
	deadlock 3 3 three thread
}

@test "ranks that lead their hosts report the calls that their hosts' ranks are blocked in" {
	deadlock 2 4 relay
	deadlock 2i 4 relay thread
}

@test "a rank that omits a reducer's step, or its sync, is named" {
	deadlock 1 3 steps
	deadlock 1 2 sync thread
	deadlock 3i 3 steps thread
	deadlock 2 2 sync
}

@test "a rank that makes a group without the others is named" {
	deadlock 1 3 meeting
	deadlock 2 3 meeting
}

@test "a root that does not arrive is named" {
	deadlock 1 3 root
	deadlock 2 3 root
}

@test "a rank that has begun its call in advance is not accused" {
	deadlock 1 3 begun
	deadlock 2 3 begun
	deadlock 3 3 begun thread
}

@test "ranks that receive from each other until the timeout do not accuse each other of hanging" {
	DDP_TIMEOUT=2 expect 1 ddprun --standalone --nproc-per-node 2 c_cycle
	has "$err" '^ddprun: job .* failed: rank [01] .* exited with code 1: recv #1 .* has not sent it for [0-9.]+ s; last seen entering recv #1 '
}
