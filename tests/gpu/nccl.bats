# covers: worker-sdk/nccl
bats_require_minimum_version 1.5.0
load ../lib

# libddp on GPUs; ranks share a GPU if there are too few. `make check-gpu` runs this.

setup() {
	lib_setup
	PATH=$O/gpu:$PATH
	export DDP_BACKEND=nccl DDP_TIMEOUT=120
	gpus=$(gpu_check count) || skip "no GPU: $gpus"
}

ranks() { # STATUS N CMD...
	local status=$1 n=$2
	shift 2
	unset DDP_NCCL_SHARE_GPU
	[ "$n" -le "$gpus" ] || export DDP_NCCL_SHARE_GPU=1
	DEADLINE=${DEADLINE:-240} expect "$status" bash -c 'trap "" TERM
		exec "$@"' bash ddprun --standalone --nproc-per-node "$n" "$@"
}

ranks_ok() { # N CMD...
	ranks 0 "$@"
	[ "$(grep -c ': ok$' <<<"$out")" = "$1" ]
}

@test "without a launcher everything works" {
	local what
	expect 0 gpu_collectives
	for what in messages async groups stream reducer host own; do
		expect 0 gpu_check $what
		has "$out" '^rank 0 of 1: ok$'
	done
}

@test "every collective, type, operation and count works on 2 ranks" {
	ranks_ok 2 gpu_collectives
}

@test "every collective and type works on 4 ranks" {
	ranks_ok 4 gpu_collectives few
}

@test "counts that do not match are named before NCCL sees them" {
	local call
	for call in all_gather_v reduce_scatter_v all_to_all_v; do
		ranks 0 2 gpu_collectives differ $call
		[ "$(grep -cE "rank [01]: -20001 $call #1 .*rank [01] on .* (passed|expects|sends) 9[ :]" <<<"$out")" = 2 ]
	done
}

@test "messages arrive in all orders, and around a collective" {
	ranks_ok 2 gpu_check messages
	ranks_ok 3 gpu_check messages
}

@test "asynchronous calls work" {
	ranks_ok 2 gpu_check async
	ranks_ok 4 gpu_check async
}

@test "groups, groups of groups, and a group of one work" {
	ranks_ok 2 gpu_check groups
	ranks_ok 4 gpu_check groups
}

@test "calls keep the order of a stream that the program made" {
	ranks_ok 2 gpu_check stream
}

@test "gradients are averaged in buckets" {
	ranks_ok 2 gpu_check reducer
	ranks_ok 4 gpu_check reducer
}

@test "gradients are sent as bf16, and the program registers its own memory" {
	ranks_ok 2 gpu_faults compressed
	ranks_ok 4 gpu_faults compressed
	ranks_ok 2 gpu_faults registered
	DDP_NCCL_BLOCKING=1 ranks_ok 2 gpu_faults registered
}

@test "host memory works on a communicator of GPUs, and mixtures are refused" {
	ranks_ok 2 gpu_check host
}

@test "the program's own NCCL calls get a communicator and an id" {
	ranks_ok 2 gpu_check own
	ranks_ok 3 env DDP_NCCL_BLOCKING=1 gpu_check own
	[ -z "${SAN:-}" ] || return 0 # nvcc's program is built without
	expect 0 nccl_allreduce
	has "$out" '^rank 0 of 1: 1, expected 1$'
}

@test "blocking NCCL gives the same results" {
	DDP_NCCL_BLOCKING=1 ranks_ok 2 gpu_collectives few
	DDP_NCCL_BLOCKING=1 ranks_ok 2 gpu_check async
}

@test "after ddp_abort the process joins again" {
	ranks_ok 2 gpu_check again
	ranks_ok 3 gpu_check again
}

@test "when a rank is killed, the others end with an error that names it" {
	ranks 137 3 gpu_check kill 1
	has "$out" '^\[[02]\] rank [02]: -2000[3467]: .*rank 1'
}

@test "a missing rank is named at the deadline" {
	[ "$gpus" -ge 3 ] || export DDP_NCCL_SHARE_GPU=1
	# the rank at its deadline ends the job, and so the remaining rank
	expect 79 ddprun --standalone --nproc-per-node 3 gpu_check stall 1 20000
	has "$out" 'rank [02]: -20006: all_reduce #[0-9]+ \(f32 x 1048576, sum\): not done after [0-9.]+ s: rank 1 on .* has not arrived'
}

@test "two ranks on one GPU are refused, with a remedy" {
	[ "$gpus" = 1 ] || skip "there is a GPU for each"
	unset DDP_NCCL_SHARE_GPU
	expect 1 ddprun --standalone --nproc-per-node 2 gpu_check async
	has "$err" 'have the same GPU .* DDP_NCCL_SHARE_GPU=1'
	DDP_BACKEND=auto expect 0 ddprun --standalone --nproc-per-node 2 c_nccl init
	has "$out" '\[0\] backend cpu: backend auto: cpu, because .* the same GPU'
}

@test "an NCCL that crashes in its abort is not aborted, and the error reports that" {
	local version
	version=$(gpu_check version)
	case $version in
	2280[3-8]) ;;
	*) skip "NCCL $version can abort" ;;
	esac
	ranks 137 2 gpu_check kill 1
	has "$out" 'crashes in ncclCommAbort'
}
