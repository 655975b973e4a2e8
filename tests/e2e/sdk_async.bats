# covers: worker-sdk/api worker-sdk/comm
bats_require_minimum_version 1.5.0
load ../lib
load ranks

# Collectives and messages that are pending at the same time: in all forms, in groups,
# with a progress thread, within a host and between hosts.

@test "messages between all ranks arrive while collectives run" {
	local hosts
	ranks_ok 1 c_messages groups
	for hosts in 1 2 3i; do
		DDP_TEST_HOSTS=$hosts ranks_ok 2 c_messages groups
		DDP_TEST_HOSTS=$hosts ranks_ok 5 c_messages thread groups
	done
}

@test "collectives work in groups, and in groups of groups" {
	ranks_ok 1 c_collectives 3 groups
	ranks_ok 4 c_collectives 1000 groups
	DDP_TEST_HOSTS=2 ranks_ok 5 c_collectives 3 groups
	DDP_TEST_HOSTS=3i ranks_ok 5 c_collectives 3 groups
}

@test "collectives work with a progress thread" {
	ranks_ok 2 c_collectives 1000 thread
	DDP_TEST_HOSTS=2 ranks_ok 3 c_collectives 3 thread groups
}

@test "several threads in the store each get their own answers" {
	ranks_ok 2 c_store threads
}

# NAME N MODE CULPRIT FORM [TIMEOUT_MS]: begins it
begin_fault() {
	start "$1" "${deaf[@]}" \
		ddprun --standalone --nproc-per-node "$2" \
		c_fault "$3" "$4" "${6:-0}" "$5"
}

# N MODE CULPRIT FORM [TIMEOUT_MS [STATUS]]
fault() {
	begin_fault fault "${@:1:5}"
	end_fault fault "${6:-137}"
}

@test "a progress thread finds out why a rank is gone while its program is in the store" {
	local r
	fault 3 kill 1 store
	for r in 0 2; do
		has "${said[$r]}" "rank $r: -20004 in .* ms: all_reduce #3 .*: rank 1 on .* is gone: rank 1 .* was killed by signal 9 \(SIGKILL\)"
	done
}

@test "a rank killed while others have operations pending is named" {
	local form hosts r
	for form in async thread; do
		for hosts in 1 2; do
			DDP_TEST_HOSTS=$hosts fault 4 kill 3 $form
			for r in 0 1 2; do
				has "${said[$r]}" "rank $r: -20004 in .* ms: all_reduce #3 .*: .*rank 3 .* was killed by signal 9 \(SIGKILL\)"
			done
		done
	done
}

@test "a rank killed before its first call is named, even without a timeout" {
	local form r
	for form in '' thread; do
		fault 3 kill-first 1 "$form" -1
		for r in 0 2; do
			has "${said[$r]}" "rank $r: -20004 in .* ms: all_reduce #1 .*: .*rank 1 .* was killed by signal 9 \(SIGKILL\)"
		done
	done
}

@test "a rank that is stopped while others have operations pending is named" {
	local r
	begin_fault one 3 stop 1 async 2000
	DDP_TEST_HOSTS=2 begin_fault two 4 stop 3 thread 2000
	end_fault one 79
	for r in 0 2; do
		has "${said[$r]}" "rank $r: -20006 in .* ms: all_reduce #3 .*: rank 1 on .* has not arrived for [0-9.]+ s"
	done
	end_fault two 79
	for r in 0 1 2; do
		has "${said[$r]}" "rank $r: -20006 in .* ms: all_reduce #3 .*: rank 3 on .* has not arrived for [0-9.]+ s"
	done
}

@test "pending operations that do not match are named on all ranks" {
	local form mode r
	declare -A called=(
		[differ]='broadcast #3 \(i64 x 7, root 0\)'
		[differ-type]='all_reduce #3 \(i32 x 40000, sum\)'
		[differ-count]='all_reduce #3 \(f32 x 39999, avg\)'
	)
	for mode in "${!called[@]}"; do
		for form in async thread; do
			fault 3 $mode 2 $form 0 1
			for r in 0 1 2; do
				has "${said[$r]}" "rank $r: -20001 .* called all_reduce #3 \(f32 x 40000, avg\)"
				has "${said[$r]}" "rank 2 on .* called ${called[$mode]}"
			done
		done
	done
}
