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

# N MODE CULPRIT FORM [TIMEOUT_MS [STATUS]]: the others' lines, in ${said[rank]}
declare -A said
fault() {
	local r
	# the workers start deaf to SIGTERM, as ddprun does
	expect "${6:-137}" bash -c 'trap "" TERM; exec "$@"' bash \
		ddprun --standalone --nproc-per-node "$1" --shutdown-timeout 1 \
		c_fault "$2" "$3" "${5:-0}" "$4"
	for ((r = 0; r < $1; r++)); do
		said[$r]=$(grep -E "^\[$r\] rank $r: " <<<"$out" || true)
	done
}

@test "a progress thread finds out why a rank is gone while its program is in the store" {
	local r
	fault 3 kill 1 store
	for r in 0 2; do
		has "${said[$r]}" "rank $r: -20004 in .* ms: all_reduce #3 .*: rank 1 on .* is gone: rank 1 .* was killed by signal 9 \(SIGKILL\)"
	done
}
