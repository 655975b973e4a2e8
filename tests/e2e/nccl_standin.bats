# covers: worker-sdk/nccl
bats_require_minimum_version 1.5.0
load ../lib

# The tests of libddp's nccl backend on stand-ins for CUDA and NCCL, which need no GPU:
# tests/gpu/standin. tests/gpu/nccl.bats has the same programs on real ones.

setup() {
	lib_setup
	PATH=$O/standin:$PATH
	export DDP_BACKEND=nccl DDP_TIMEOUT=60 DEADLINE=60
	export STANDIN_LOG=$T/nccl.log
}

ranks() { # STATUS N CMD...
	local status=$1 n=$2
	shift 2
	expect "$status" "${deaf[@]}" \
		ddprun --standalone --nproc-per-node "$n" "$@"
}

ranks_ok() { # N CMD...
	ranks 0 "$@"
	[ "$(grep -c ': ok$' <<<"$out")" = "$1" ]
}

calls() { # ERE: how many calls of NCCL match
	grep -cE " ($1)\$" "$T/nccl.log" || true
}

@test "every collective, type, operation and count works on 2 ranks" {
	ranks_ok 2 gpu_collectives
}

@test "every collective and type works on 4 ranks" {
	ranks_ok 4 gpu_collectives few
}

@test "messages arrive in all orders, and around a collective" {
	ranks_ok 2 gpu_check messages
	ranks_ok 3 gpu_check messages 5000
}

@test "asynchronous forms work" {
	ranks_ok 2 gpu_check async
}

# NCCL returns ncclSuccess while it splits, and stores the communicator later.
# NCCL's manual: a split with work under way may deadlock; the stand-in's does.
@test "calls keep the order of a stream of the program's" {
	ranks_ok 2 gpu_check stream
}

@test "gradients are averaged in buckets" {
	ranks_ok 2 gpu_check reducer
	ranks_ok 4 gpu_check reducer
}

@test "host memory works on a communicator of GPUs, and mixtures are refused" {
	ranks_ok 2 gpu_check host
}

@test "the program's own NCCL calls get a communicator and an id" {
	ranks_ok 2 gpu_check own
	DDP_NCCL_BLOCKING=1 ranks_ok 3 gpu_check own
}

# A blocking ncclSend waits for the receiver when it is the first one.
# Over a network NCCL reports a lost peer at once, and never says which. Between GPUs
# that share memory it does not notice.
@test "a missing rank is named at the deadline" {
	# the rank at its deadline ends the job, and so the remaining rank
	expect 3 ddprun --standalone --nproc-per-node 3 gpu_check stall 1 2000
	has "$out" 'rank [02]: -20006: all_reduce #[0-9]+ \(f32 x 1048576, sum\): not done after [0-9.]+ s: rank 1 on .* has not come'
}

# ncclCommAbort waits for the device, on which the other communicators' kernels spin.
@test "two ranks on one GPU are refused, with a remedy" {
	export STANDIN_GPUS=1
	expect 1 ddprun --standalone --nproc-per-node 2 gpu_check async
	has "$err" 'have the same GPU .* DDP_NCCL_SHARE_GPU=1'
}

@test "NCCL's own refusal of a shared GPU is explained" {
	# as one host to NCCL, whatever libddp says
	export STANDIN_GPUS=1 DDP_NCCL_SHARE_GPU=1 NCCL_HOSTID=one
	expect 1 ddprun --standalone --nproc-per-node 2 gpu_check async
	has "$err" 'NCCL wants a GPU of its own for each rank'
}
