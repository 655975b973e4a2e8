# covers: worker-sdk/comm worker-sdk/tcp worker-sdk/algorithms
load ../lib
load ranks

# The results of libddp's collectives between hosts, and where ranks of one host use TCP.

@test "every collective works between hosts, and over shared memory and TCP at once" {
	local hosts
	for hosts in 2 3 7; do
		DDP_TEST_HOSTS=$hosts ranks_ok 3 c_collectives 1000
		DDP_TEST_HOSTS=$hosts ranks_ok 7 c_collectives 3
	done
	DDP_TEST_HOSTS=2 ranks_ok 4 c_collectives
}

@test "every collective works when the hosts' ranks interleave" {
	DDP_TEST_HOSTS=2i ranks_ok 5 c_collectives 1000
	DDP_TEST_HOSTS=3i ranks_ok 7 c_collectives 3
}

@test "ranks that cannot share memory use TCP" {
	DDP_TEST_SHM=fail ranks_ok 3 c_collectives 1000
	# one host of two cannot
	ranks_ok 4 sh -c 'export DDP_TEST_HOSTS=2
		[ $RANK -lt 3 ] || export DDP_TEST_SHM=fail
		exec c_collectives 1000'
}

@test "without room for shared memory, ranks use TCP, and can report why" {
	ranks_ok 2 sh -c 'ulimit -f 1000; exec c_collectives 40000'
	expect 0 ddprun --standalone --nproc-per-node 2 \
		sh -c 'ulimit -f 1000; exec c_init'
	[ "$(grep -c 'warning: the ranks of .* use TCP among each other, because shared memory failed: cannot create shared memory of .*: File too large$' <<<"$out")" = 2 ]
}
