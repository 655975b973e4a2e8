bats_require_minimum_version 1.5.0
load ../lib

# Collectives and messages that are under way together: in all forms, in groups,
# with a progress thread, in one host and between hosts.

ranks_ok() { # N CMD...: N ranks on this machine all print ok
	local n=$1
	shift
	expect 0 ddprun --standalone --nproc-per-node "$n" "$@"
	[ "$(grep -c ': ok$' <<<"$out")" = "$n" ]
}

@test "messages between all ranks, among collectives" {
	local hosts
	ranks_ok 1 c_messages groups
	for hosts in 1 2 3i; do
		DDP_TEST_HOSTS=$hosts ranks_ok 2 c_messages groups
		DDP_TEST_HOSTS=$hosts ranks_ok 5 c_messages thread groups
	done
}

@test "collectives in groups, and in groups of groups" {
	ranks_ok 1 c_collectives 3 groups
	ranks_ok 4 c_collectives 1000 groups
	DDP_TEST_HOSTS=2 ranks_ok 5 c_collectives 3 groups
	DDP_TEST_HOSTS=3i ranks_ok 5 c_collectives 3 groups
}

@test "collectives with a progress thread" {
	ranks_ok 2 c_collectives 1000 thread
	DDP_TEST_HOSTS=2 ranks_ok 3 c_collectives 3 thread groups
}
