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

@test "without a launcher everything works" {
	local what
	expect 0 gpu_collectives few
	for what in messages async groups stream reducer host own busy; do
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

@test "messages arrive in all orders, and around a collective" {
	ranks_ok 2 gpu_check messages
	ranks_ok 3 gpu_check messages 5000
}

@test "a wait that is too short for a message changes nothing" {
	ranks_ok 2 gpu_faults late
	STANDIN_NCCL=22304 ranks_ok 2 gpu_faults late
}

@test "wrong messages of a rank to itself are refused" {
	expect 0 gpu_faults myself
	has "$out" '^rank 0 of 1: ok$'
	ranks_ok 2 gpu_faults myself
}

@test "asynchronous forms work" {
	ranks_ok 2 gpu_check async
}

# NCCL returns ncclSuccess while it splits, and stores the communicator later.
@test "groups, groups of groups, and a group of one work" {
	ranks_ok 2 gpu_check groups
	ranks_ok 4 gpu_check groups
}

# NCCL's manual: a split with work under way may deadlock; the stand-in's does.
@test "a group is made behind collectives that are queued in a stream" {
	ranks_ok 2 gpu_check busy
}

@test "calls keep the order of a stream of the program's" {
	ranks_ok 2 gpu_check stream
}

@test "gradients are averaged in buckets" {
	ranks_ok 2 gpu_check reducer
	ranks_ok 4 gpu_check reducer
	[ "$(calls 'registered for NVLink')" = 0 ]
}

# Within a host NCCL registers memory of ncclMemAlloc only; before 2.19 there is none.
@test "gradients lie in memory that NCCL registers for NVLink" {
	ranks_ok 2 gpu_check memory
	[ "$(calls ncclMemFree)" = 2 ]
	[ "$(calls 'registered for NVLink')" = 2 ]
	LD_LIBRARY_PATH=$O/standin/old STANDIN_NCCL=21801 \
		ranks_ok 2 gpu_check memory
	[ "$(calls ncclMemAlloc)" = 2 ]
}

@test "a program registers its own memory, again after an abort" {
	ranks_ok 2 gpu_faults registered
	# each rank makes eight registrations; the abort ends two of them
	[ "$(calls ncclCommRegister)" = 16 ]
	[ "$(calls ncclCommDeregister)" = 12 ]
	DDP_NCCL_BLOCKING=1 ranks_ok 3 gpu_faults registered
	: >"$T/nccl.log"
	LD_LIBRARY_PATH=$O/standin/old STANDIN_NCCL=21801 \
		ranks_ok 2 gpu_faults registered
	[ "$(calls ncclCommRegister)" = 0 ]
	STANDIN_FAIL=ncclCommRegister:1 expect 1 gpu_faults registered
	has "$err" 'nccl_register: -20003: ddp_nccl_register of [0-9]+ bytes: NCCL: '
}

@test "gradients on a GPU are sent as bf16" {
	ranks_ok 2 gpu_faults compressed
	expect 0 gpu_faults compressed
	DDP_NCCL_BLOCKING=1 ranks_ok 4 gpu_faults compressed
	local call
	for call in cuModuleLoadData:1 cuModuleGetFunction:{1,2}; do
		STANDIN_FAIL=$call ranks 1 2 gpu_faults compressed
		has "$err" "reducer_new: -20003: a reducer with bf16: ${call%:*} failed with CUDA's error 1"
	done
	for call in 1 2 9; do
		STANDIN_FAIL=cuLaunchKernel:$call ranks 1 2 gpu_faults compressed
		has "$err" "reducer_(ready|finish): -20003: a reducer with bf16: cuLaunchKernel failed with CUDA's error 1"
	done
}

@test "host memory works on a communicator of GPUs, and mixtures are refused" {
	ranks_ok 2 gpu_check host
}

@test "the program's own NCCL calls get a communicator and an id" {
	ranks_ok 2 gpu_check own
	DDP_NCCL_BLOCKING=1 ranks_ok 3 gpu_check own
}

@test "blocking NCCL gives the same results, without threads" {
	export DDP_NCCL_BLOCKING=1
	ranks_ok 2 gpu_collectives few
	ranks_ok 2 gpu_check async
	ranks_ok 2 gpu_check groups
	[ "$(calls thread)" = 0 ]
}

# A blocking ncclSend waits for the receiver when it is the first one.
@test "blocking NCCL does not make messages block" {
	DDP_NCCL_BLOCKING=1 ranks_ok 2 gpu_check messages 5000
	DDP_NCCL_BLOCKING=1 ranks_ok 3 gpu_check messages 5000
}

@test "ranks share a GPU" {
	STANDIN_GPUS=1 DDP_NCCL_SHARE_GPU=1 ranks_ok 2 gpu_check groups
	STANDIN_GPUS=1 STANDIN_NCCL=23003 DDP_NCCL_SHARE_GPU=1 \
		ranks_ok 2 gpu_check async
}

@test "after ddp_abort the process joins again" {
	ranks_ok 2 gpu_check again
	ranks_ok 3 gpu_check again
}

# Over a network NCCL reports a lost peer at once, and never says which. Between GPUs
# that share memory it does not notice.
@test "when a rank is killed, the others end with an error that names it" {
	local transport
	for transport in net p2p; do
		STANDIN_TRANSPORT=$transport ranks 137 3 gpu_check kill 1
		has "$out" '^\[[02]\] rank [02]: -2000[3467]: .*rank 1 .*on .*signal 9'
	done
}

@test "a missing rank is named at the deadline" {
	# the job's failure is the rank that hangs, not the one at its deadline
	expect 79 ddprun --standalone --nproc-per-node 3 gpu_check stall 1 2000
	has "$err" '^ddprun: job .* failed: rank 1 .*, hangs: it waits for a signal, last in all_reduce #5 '
	has "$out" 'rank [02]: -20006: all_reduce #[0-9]+ \(f32 x 1048576, sum\): not done after [0-9.]+ s: rank 1 on .* has not arrived'
}

# ncclCommAbort waits for the device, on which the other communicators' kernels spin.
@test "a failure ends the work of all communicators" {
	expect 79 ddprun --standalone --nproc-per-node 2 gpu_faults spin 1 2000
	has "$out" 'rank 0: -20006: all_reduce #[0-9]+ .*: rank 1 on .* has not arrived'
	has "$out" 'rank 0: group: -20006: '
	has "$out" 'rank 0: left'
	# before 2.22 an abort does not wait for the end of its group
	STANDIN_NCCL=21805 expect 79 ddprun --standalone --nproc-per-node 2 \
		gpu_faults spin 1 1500
	has "$out" 'rank 0: left'
}

@test "ranks that make different calls name each other's call at the deadline" {
	ranks 3 2 gpu_faults stray 1 1500
	# the first one to fail ends the job
	has "$out" '(rank 0: -20006: all_reduce #3 .* s: rank 1 on .* is in broadcast #3 |rank 1: -20006: broadcast #3 .* s: rank 0 on .* is in all_reduce #3 )'
}

@test "a wait for the program's stream has a deadline, and names the missing rank" {
	expect - ddprun --standalone --nproc-per-node 3 gpu_faults queued 1 2000
	[ "$status" != 0 ]
	has "$out" 'rank [02]: -20006: ddp_wait_event: not done after [0-9.]+ s: rank 1 on .* has not arrived'
	has "$out" 'rank [02]: again: -20006: ddp_wait_event: not done after'
}

@test "dump shows a wait for the program's stream, and the rank that it waits for" {
	start job ddprun --standalone --nproc-per-node 3 gpu_faults queued 1 60000
	until ddprun dump --agent "${pid[job]}" --no-stacks >dump 2>&1 &&
		[ "$(grep -c '^  in wait_event for .*; missing: rank 1$' dump)" = 2 ]; do
		kill -0 "${pid[job]}" || { cat dump && return 1; }
	done
	has "$(<dump)" '^  last calls:$'
	has "$(<dump)" 'under way  wait_event$'
	signal job TERM
	finish job -
	nothing_left
}

# A split gathers through host memory, where calls have other numbers.
@test "a rank that is late for a split is not taken for one in another call" {
	# 79 if the launcher has noticed the hang, else rank 0's own
	expect - ddprun --standalone --nproc-per-node 2 gpu_faults numbers 1 1500
	has "$out" 'rank 0: -20006: comm_split #[0-9]+.*: rank 1 on .* has not arrived for '
}

@test "a single queue for all streams is a warning" {
	CUDA_DEVICE_MAX_CONNECTIONS=1 ranks_ok 2 gpu_faults all
	has "$out" 'rank 0: warning: CUDA_DEVICE_MAX_CONNECTIONS is 1: '
	CUDA_DEVICE_MAX_CONNECTIONS=8 ranks_ok 2 gpu_faults all
	lacks "$out" warning
}

@test "GPUs of several kinds are a warning that names two ranks" {
	local mixed='[ $RANK != 2 ] || export STANDIN_KIND="NVIDIA A100-SXM4-40GB"
		exec gpu_faults all'
	expect 0 ddprun --standalone --nproc-per-node 4 sh -c "$mixed"
	local name='on [^ ,]*'
	[ "$(grep -cE "rank . *: warning: the GPUs are of several kinds: rank 0 $name has an NVIDIA Stand-in, rank 2 $name an NVIDIA A100-SXM4-40GB; each collective waits for the slowest: give all ranks GPUs of one kind$" <<<"$out")" = 4 ]
	CUDA_DEVICE_MAX_CONNECTIONS=1 expect 0 ddprun --standalone --nproc-per-node 4 sh -c "$mixed"
	has "$out" 'rank 0: warning: the GPUs are of several kinds: .* of one kind; CUDA_DEVICE_MAX_CONNECTIONS is 1: '
	STANDIN_KIND=same ranks_ok 2 gpu_faults all
	lacks "$out" warning
}

@test "different releases of NCCL are refused" {
	expect 1 ddprun --standalone --nproc-per-node 2 \
		sh -c '[ $RANK = 0 ] || export STANDIN_NCCL=22304
			exec gpu_check async'
	has "$err" 'rank 1 on .* has NCCL 22304, but rank 0 on .* has NCCL 22809: give all the same version'
}

@test "ddp_finalize returns although a rank's work never ends" {
	local version
	ranks_ok 2 gpu_faults leave
	# before 2.27.3 a message waits in a thread, which has to end itself
	for version in 21805 22602; do
		STANDIN_NCCL=$version ranks_ok 2 gpu_faults leave
	done
}

# Before 2.27.3 a thread that makes a second non-blocking call overwrites its first one.
@test "messages wait for their other rank on NCCL before 2.27.3" {
	local version
	for version in 21805 22602; do
		STANDIN_NCCL=$version ranks_ok 2 gpu_check messages 5000
		STANDIN_NCCL=$version ranks_ok 3 gpu_check messages 5000
	done
}

@test "NCCL from 2.18 to 2.30 works" {
	local version
	for version in 21805 22005 22304 22703 23003; do
		STANDIN_NCCL=$version ranks_ok 2 gpu_check groups
	done
	# 2.18 has no ncclCommRegister
	LD_LIBRARY_PATH=$O/standin/old STANDIN_NCCL=21801 \
		ranks_ok 2 gpu_check reducer
	[ "$(calls ncclCommRegister)" = 0 ]
	STANDIN_NCCL=22005 ranks_ok 2 gpu_check reducer
	[ "$(calls ncclCommRegister)" -gt 0 ]
}

@test "an NCCL that crashes in its abort is not aborted, and the error reports that" {
	local version
	export STANDIN_NCCL=22807
	ranks 137 2 gpu_check kill 1
	has "$out" 'crashes in ncclCommAbort'
	ranks_ok 2 gpu_check messages 5000
	[ "$(calls ncclCommAbort)" = 0 ]
	STANDIN_NCCL=22809 ranks_ok 2 gpu_check messages 5000
	[ "$(calls ncclCommAbort)" -gt 0 ]
}

@test "two ranks on one GPU are refused, with a remedy" {
	export STANDIN_GPUS=1
	expect 1 ddprun --standalone --nproc-per-node 2 gpu_check async
	has "$err" 'have the same GPU .* DDP_NCCL_SHARE_GPU=1'
}

@test "NCCL's own refusal of a shared GPU is explained" {
	# as one host to NCCL, whatever libddp says
	export STANDIN_GPUS=1 DDP_NCCL_SHARE_GPU=1 NCCL_HOSTID=one
	expect 1 ddprun --standalone --nproc-per-node 2 gpu_check async
	has "$err" 'NCCL needs a separate GPU for each rank'
}

@test "each call of CUDA or NCCL that fails is an error, without a crash or a hang" {
	local name
	ranks_ok 2 gpu_faults all
	for name in cudaGetDeviceCount:1 cudaSetDevice:1 cudaDeviceGetPCIBusId:1 \
		cudaStreamCreateWithPriority:{1,2,3} cudaStreamWaitEvent:{1,9} \
		cudaEventCreateWithFlags:{1,2,3} cudaEventRecord:{1,2,3} \
		cudaEventQuery:1 cudaMalloc:{1,2} cudaMemcpyAsync:3 \
		cudaMallocAsync:1 ncclMemAlloc:1 ncclCommRegister:1 ncclGetUniqueId:{1,2} \
		ncclGroupStart:{1,2,3,4} ncclCommInitRankConfig:2 ncclGetAsyncError:9 ncclCommSplit:1; do
		echo "== $name"
		DEADLINE=20 ranks 1 2 sh -c "[ \$RANK = 1 ] || export STANDIN_FAIL=$name
			exec gpu_faults all"
		has "$err" 'rank [01] of [02]: [a-z_ ]+: -200'
	done
}

@test "an id that NCCL does not give is an error of the call" {
	STANDIN_FAIL=ncclGetUniqueId:2 expect 1 gpu_check own
	has "$err" 'unique_id: -20003: ddp_nccl_unique_id: rank 0: ncclGetUniqueId: NCCL: '
	ranks_ok 2 gpu_faults ended
}

# It is only faster.
@test "gradients whose memory NCCL does not register are reduced" {
	STANDIN_FAIL=ncclCommRegister:1 ranks_ok 2 gpu_check memory
}

@test "ddp_finalize returns although NCCL's own end fails" {
	STANDIN_FAIL=ncclCommFinalize:1 ranks_ok 2 gpu_faults idle
	DDP_NCCL_BLOCKING=1 STANDIN_FAIL=ncclGetAsyncError:1 \
		ranks_ok 2 gpu_faults idle
	DDP_NCCL_BLOCKING=1 STANDIN_FAIL=ncclCommDestroy:1 \
		ranks_ok 2 gpu_faults idle
}

@test "three of the missing ranks are named, and the others are counted" {
	expect 79 ddprun --standalone --nproc-per-node 5 gpu_faults crowd 2 1500
	has "$out" 'rank 2: -20006: all_reduce #3 .*: rank 0 on .* has not arrived.*, rank 1 on .* has not arrived.*, rank 3 on .* has not arrived.* and 1 more ranks$'
}
