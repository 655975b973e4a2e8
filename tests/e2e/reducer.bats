# covers: worker-sdk/api
bats_require_minimum_version 1.5.0
load ../lib

# The reducer: averaged gradients are those of one process with the whole batch,
# whatever the buckets, the order in which gradients are ready, and the transport.

agrees() { # N ARGS...
	local n=$1
	shift
	expect 0 ddprun --standalone --nproc-per-node "$n" c_reducer all "$@"
	[ "$(grep -c ': ok$' <<<"$out")" = "$n" ]
}

# WHAT ERE: rank 1 differs in WHAT, and all print ERE
disagree() {
	expect 0 ddprun --standalone --nproc-per-node 3 c_reducer "$1"
	[ "$(grep -cE -e "$2" <<<"$out")" = "${3:-3}" ] && return
	echo "not ${3:-3} lines like '$2'"
	return 1
}

@test "gradients of 1 to 4 ranks equal those of one process" {
	local n
	expect 0 c_reducer all
	for n in 1 2 3 4; do
		agrees $n
	done
}

@test "gradients are the same over shared memory and TCP at once" {
	export DDP_TEST_HOSTS=2
	agrees 2
	agrees 4
	DDP_TEST_HOSTS=3i agrees 4
}

@test "gradients are the same with a progress thread" {
	agrees 1 progress
	agrees 3 progress
	DDP_TEST_HOSTS=2 agrees 4 progress
}

@test "a rank that dies in a step is an error on the others, not a hang" {
	local mode
	for mode in '' progress; do
		expect 137 "${deaf[@]}" ddprun \
			--standalone --nproc-per-node 3 c_reducer dies $mode
		has "$out" '^\[0\] rank 0: .*rank 1 on .*SIGKILL'
		has "$out" '^\[2\] rank 2: .*rank 1 on .*SIGKILL'
	done
}

@test "ranks with different reducers learn what differs, and where" {
	local host
	host=$(hostname)
	disagree n "rank [0-2]: -20001: ddp_reducer_new: parameters: 6 on rank 0 on $host, 5 on rank 1 on $host; all"
	disagree count 'elements of parameter 4: 500 on rank 0 .*, 501 on rank 1 '
	disagree type 'type: 1 on rank 0 .*, 0 on rank 1 '
	disagree bucket 'bytes of bucket: 1048576 on rank 0 .*, 1000 on rank 1 '
	disagree unused 'find_unused: 0 on rank 0 .*, 1 on rank 1 '
	disagree hook 'hook: 0 on rank 0 .*, 1 on rank 1 '
	disagree null 'ddp_reducer_new failed on rank 1 on .*bad argument' 2
	has "$out" 'rank 1: -20001: ddp_reducer_new: grads is NULL'
}

# Averages of 1 to 4 ranks' small integers are exact but for thirds.
@test "gradients in separate buffers are averaged as those in one arena" {
	local n
	expect 0 c_reducer_spans
	for n in 1 2 4; do
		expect 0 ddprun --standalone --nproc-per-node $n c_reducer_spans
		[ "$(grep -c ': ok$' <<<"$out")" = $n ]
	done
	expect 0 ddprun --standalone --nproc-per-node 2 c_reducer_spans progress
	DDP_TEST_HOSTS=2 expect 0 ddprun --standalone --nproc-per-node 4 \
		c_reducer_spans
	[ "$(grep -c ': ok$' <<<"$out")" = 4 ]
	expect 0 ddprun --standalone --nproc-per-node 2 c_reducer_spans differs
	[ "$(grep -cE 'in spans: 1 on rank 0 .*, 0 on rank 1 ' <<<"$out")" = 2 ]
}

@test "a program's collectives are never reordered with the reducer's" {
	local hosts n
	for n in 1 2; do
		expect 0 ddprun --standalone --nproc-per-node $n c_reducer_order
		[ "$(grep -c ': ok$' <<<"$out")" = $n ]
	done
	DDP_TEST_HOSTS=3i expect 0 \
		ddprun --standalone --nproc-per-node 4 c_reducer_order
	for hosts in '' 2; do
		DDP_TEST_HOSTS=$hosts expect 0 ddprun --standalone \
			--nproc-per-node 3 c_reducer_order progress
	done
}
