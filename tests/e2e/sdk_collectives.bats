# covers: worker-sdk/comm worker-sdk/shm worker-sdk/algorithms
load ../lib
load ranks

# The results of libddp's collectives on one host; sdk_collectives_tcp.bats has those over
# TCP.

@test "small broadcasts are correct if some ranks block and others do not" {
	local n
	for n in 1 2 3; do
		expect 0 ddprun --standalone --nproc-per-node "$n" c_broadcast_ways
		[ "$out" = '[0] right' ]
	done
	DDP_TEST_HOSTS=2 expect 0 ddprun --standalone --nproc-per-node 4 c_broadcast_ways
	[ "$out" = '[0] right' ]
}

@test "every collective, type, operation and count works on one host" {
	local n
	ranks_ok 2 c_collectives
	for n in 1 3 4 7; do
		ranks_ok $n c_collectives 1000
	done
}

@test "a rank whose data or gradient is wrong is named on all ranks" {
	local n
	for n in 1 2 3 5 6 7; do
		ranks_ok "$n" c_wrong_numbers
	done
	DDP_TEST_HOSTS=2 ranks_ok 5 c_wrong_numbers
	# a step that a rank left before its end fails on the others
	expect 0 ddprun --standalone --nproc-per-node 3 c_wrong_numbers leave
}

@test "halves of any size are averaged as exactly as ddp.h says, and none overflows" {
	local hosts
	ranks_ok 4 c_halves
	for hosts in 2 2i 3 5 7; do
		DDP_TEST_HOSTS=$hosts ranks_ok 7 c_halves
	done
}

@test "two agents of one machine share its memory" {
	local job="ddprun --nnodes 2 --nproc-per-node 2 --rdzv-endpoint"
	local port
	port=$(w_port free)
	start one $job localhost:$port c_init
	start two $job localhost:$port c_init
	finish one
	has "$out" 'rank [0-3] of 4, local [01] of 2, node [01] of 2, .* leader 0$'
	[ "$(grep -c 'leader 0$' <<<"$out")" = 2 ]
	finish two
	[ "$(grep -c 'leader 0$' <<<"$out")" = 2 ]
	start one $job localhost:$port c_collectives 40000
	start two $job localhost:$port c_collectives 40000
	finish one
	[ "$(grep -c ': ok$' <<<"$out")" = 2 ]
	finish two
	[ "$(grep -c ': ok$' <<<"$out")" = 2 ]
}
