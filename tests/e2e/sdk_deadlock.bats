bats_require_minimum_version 1.5.0
load ../lib

# Ranks that wait for each other in different communicators: an error that names
# both, long before the timeout, and never where all of them can still come.

deadlock() { # N MODE [thread]
	DDP_TIMEOUT=60 expect 0 ddprun --standalone --nproc-per-node "$1" \
		c_deadlock "${@:2}"
	[ "$(grep -c ': ok$' <<<"$out")" = "$1" ]
}

@test "ranks that take two groups in different order are told so" {
	local mode
	for mode in order requests; do
		deadlock 3 $mode
		deadlock 2 $mode thread
	done
}

@test "so are three that wait for each other in a circle" {
	deadlock 3 three
	deadlock 3 three thread
}

@test "a rank that makes a reducer's step less, or without sync, is named" {
	deadlock 3 steps
	deadlock 2 sync thread
}

@test "so is one that is alone in making a group" {
	deadlock 3 meeting
}

@test "so is a root that does not come" {
	deadlock 3 root
}

@test "a rank that has begun its call in advance is not accused" {
	deadlock 3 begun
	deadlock 3 begun thread
}
