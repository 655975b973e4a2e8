# covers: worker-sdk/comm worker-sdk/shm worker-sdk/core/call.c worker-sdk/nccl
bats_require_minimum_version 1.5.0
load ../lib
load ranks

# The collectives with a count for each rank: their results, and the errors of
# ranks whose counts do not match.

calls='all_gather_v reduce_scatter_v all_to_all_v'

# N ARGS...: c_counts on N ranks of which one makes a mistake; its output in $out
mistaken() {
	local n=$1
	shift
	expect 0 ddprun --standalone --nproc-per-node "$n" c_counts "$@"
}

@test "calls with counts work alone and on the ranks of one host" {
	expect 0 c_counts
	[ "$out" = "rank 0 of 1: ok" ]
	local n
	for n in 2 3 5; do
		ranks_ok $n c_counts
	done
	ranks_ok 3 c_counts thread
}

@test "calls with counts work between hosts, also if their ranks interleave" {
	DDP_TEST_HOSTS=2 ranks_ok 4 c_counts
	DDP_TEST_HOSTS=2i ranks_ok 5 c_counts thread
	DDP_TEST_HOSTS=3 ranks_ok 7 c_counts
	DDP_TEST_SHM=fail ranks_ok 3 c_counts
}

@test "wrong arguments are refused, and the communicator still works" {
	expect 0 c_counts arguments
	ranks_ok 2 c_counts arguments
	DDP_TEST_HOSTS=2 ranks_ok 3 c_counts arguments
}

# $out: each of 4 ranks has an error that names both ranks and both counts.
all_name() { # ERE
	[ "$(grep -cE "^\[[0-3]\] rank [0-3]: -20001 .*$1" <<<"$out")" = 4 ]
}

# One count is 8 in place of 7; then two differ, and their sum does not.
counts_do_not_match() {
	local call
	for call in all_gather_v reduce_scatter_v; do
		mistaken 4 differ $call
		all_name "$call #1 \(f32[^)]*\): rank [0-3] on .* passed [78] for counts\[3\], but rank [0-3] on .* passed [78]: all ranks must pass the same counts$"
		has "$out" 'passed 8 for .* passed 7:|passed 7 for .* passed 8:'
		mistaken 4 differ $call 2
		all_name "$call #1 \(f32[^)]*\): rank [0-3] on .* passed [24] for counts\[0\], but rank [0-3] on .* passed [24]: all ranks must pass the same counts$"
	done
	mistaken 4 differ all_to_all_v
	all_name 'all_to_all_v #1 \(f32\): rank 1 on .* sends 9 elements to rank 3 on .*, but that rank expects 8: '
	mistaken 4 differ all_to_all_v 2
	all_name 'all_to_all_v #1 \(f32\): rank 1 on .* sends (10|3) elements to rank [03] on .*, but that rank expects (8|5): '
}

@test "counts that do not match on one host: all ranks name two ranks and their counts" {
	counts_do_not_match
}

@test "counts that do not match on two hosts: all ranks name two ranks and their counts" {
	DDP_TEST_HOSTS=2 counts_do_not_match
	DDP_TEST_HOSTS=2i counts_do_not_match
}

@test "counts that do not match between ranks without shared memory are named" {
	DDP_TEST_SHM=fail counts_do_not_match
}

@test "other ranks name a rank that was killed before its call with counts" {
	local call hosts
	for hosts in 1 2; do
		for call in $calls; do
			DDP_TEST_HOSTS=$hosts start job "${deaf[@]}" ddprun \
				--standalone --nproc-per-node 3 c_counts die $call
			finish job 137
			has "$out" "^\[[02]\] rank [02]: -20004 $call #2 \(f32.*rank 1 .* was killed by signal 9 \(SIGKILL\)"
			has "$out" "$call #[12] \(f32"
		done
	done
}

# NCCL would hang, or write past a buffer. tests/gpu/standin is CUDA and NCCL here.
@test "counts that do not match are named before NCCL sees them" {
	local call
	export PATH=$O/standin:$PATH DDP_BACKEND=nccl DDP_TIMEOUT=60
	for call in $calls; do
		expect 0 ddprun --standalone --nproc-per-node 2 \
			gpu_collectives differ $call
		[ "$(grep -cE "rank [01]: -2000[17] .*$call #1 .*rank [01] on .* (passed|expects|sends) 9[ :]" <<<"$out")" = 2 ]
	done
}
