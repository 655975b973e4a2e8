bats_require_minimum_version 1.5.0
load ../lib

# Ranks that wait for each other in different communicators: an error that names
# both, long before the timeout, and never where all of them can still come.

deadlock() { # HOSTS N MODE [thread]
	DDP_TEST_HOSTS=$1 DDP_TIMEOUT=60 expect 0 \
		ddprun --standalone --nproc-per-node "$2" c_deadlock "${@:3}"
	[ "$(grep -c ': ok$' <<<"$out")" = "$2" ]
}

@test "ranks that take two groups in different order are told so" {
	local mode
	for mode in order requests; do
		deadlock 1 3 $mode
		deadlock 1 2 $mode thread
	done
}

@test "so are ranks of several hosts" {
	local hosts
	for hosts in 2 3i 3; do
		deadlock $hosts 3 order
		deadlock $hosts 3 requests thread
	done
}

@test "so are three that wait for each other in a circle" {
	deadlock 1 3 three
	deadlock 2 3 three
	deadlock 3 3 three thread
}

@test "ranks that lead their hosts pass on what others are blocked in" {
	deadlock 2 4 relay
	deadlock 2i 4 relay thread
}

@test "a rank that makes a reducer's step less, or without sync, is named" {
	deadlock 1 3 steps
	deadlock 1 2 sync thread
	deadlock 3i 3 steps thread
	deadlock 2 2 sync
}

@test "so is one that is alone in making a group" {
	deadlock 1 3 meeting
	deadlock 2 3 meeting
}

@test "so is a root that does not come" {
	deadlock 1 3 root
	deadlock 2 3 root
}

@test "a rank that has begun its call in advance is not accused" {
	deadlock 1 3 begun
	deadlock 2 3 begun
	deadlock 3 3 begun thread
}
