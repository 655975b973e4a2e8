# NCCL's and gloo's variables: --nccl-debug and --net-interface. tests/gpu has NCCL
# itself.
# covers: launcher/plan
load ../lib

# The variables of worker 1, without its prefix, sorted.
told() { # OPTION...
	expect 0 ddprun --nproc-per-node 2 --log-line-prefix-template '' \
		--local-ranks-filter 1 "$@" \
		sh -c 'env | grep -E "^(NCCL|GLOO)_" | sort'
}

@test "without these options the environment of NCCL and gloo is unchanged" {
	told
	[ -z "$out" ]
	NCCL_DEBUG=WARN NCCL_SOCKET_IFNAME=ib0 told
	[ "$out" = $'NCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=ib0' ]
}

@test "--nccl-debug writes to the console, or to a file for each worker" {
	local file
	told --nccl-debug info
	[ "$out" = NCCL_DEBUG=INFO ]
	told --nccl-debug WARN --log-dir logs%p
	file=$(echo logs%p/*/attempt_0/1)
	[ -d "$file" ]
	# NCCL would fill in %p
	[ "$out" = "NCCL_DEBUG=WARN
NCCL_DEBUG_FILE=$T/${file//%/%%}/nccl.log" ] || [ "$out" = "NCCL_DEBUG=WARN
NCCL_DEBUG_FILE=${file//%/%%}/nccl.log" ]
	told --nccl-debug WARN --log-dir /dev/null
	[ "$out" = NCCL_DEBUG=WARN ]
	# another attempt, another file
	expect 1 ddprun --max-restarts 1 --nccl-debug WARN --log-dir again \
		sh -c 'echo "$NCCL_DEBUG_FILE"; exit 1'
	has "$out" '/attempt_0/0/nccl.log$'
	has "$out" '/attempt_1/0/nccl.log$'
}

@test "--nccl-debug keeps the subsystems, and what the user has set" {
	export NCCL_DEBUG=VERSION NCCL_DEBUG_SUBSYS=ALL NCCL_DEBUG_FILE=mine
	told --nccl-debug INFO:^init,Net --log-dir logs
	[ "$out" = $'NCCL_DEBUG=INFO\nNCCL_DEBUG_FILE=mine\nNCCL_DEBUG_SUBSYS=^INIT,NET' ]
	told --nccl-debug TRACE
	[ "$out" = $'NCCL_DEBUG=TRACE\nNCCL_DEBUG_FILE=mine\nNCCL_DEBUG_SUBSYS=ALL' ]
	unset NCCL_DEBUG_SUBSYS NCCL_DEBUG_FILE
	PET_NCCL_DEBUG=ABORT told
	[ "$out" = NCCL_DEBUG=ABORT ]
}

@test "--nccl-debug refuses words that NCCL does not know" {
	local word
	for word in debug '' INFO, :INIT; do
		expect 2 ddprun --nccl-debug "$word" true
		has "$err" "^ddprun: error: --nccl-debug '$word': '[A-Z,]*' is not an NCCL level; use VERSION, WARN, INFO, ABORT, TRACE\$"
	done
	for word in INFO: INFO:NETS INFO:INIT,,NET INFO:^; do
		expect 2 ddprun --nccl-debug "$word" true
		has "$err" "is not an NCCL subsystem; use INIT, COLL, .*; set newer ones in NCCL_DEBUG_SUBSYS"
	done
	expect 2 ddprun --nccl-debug "INFO:$(printf '%0300d' 0)" true
	has "$err" 'is too long; give LEVEL or LEVEL:SUBSYSTEM'
}

@test "--net-interface takes a name, and refuses an unknown one" {
	told --net-interface lo
	[ "$out" = $'GLOO_SOCKET_IFNAME=lo\nNCCL_SOCKET_IFNAME==lo' ]
	NCCL_SOCKET_IFNAME=ib told --net-interface lo
	[ "$out" = $'GLOO_SOCKET_IFNAME=lo\nNCCL_SOCKET_IFNAME=ib' ]
	# there are no other nodes
	told --net-interface auto
	[ -z "$out" ]
	expect 2 ddprun --net-interface nic9 true
	has "$err" "^ddprun: error: --net-interface 'nic9': this host has no such interface; it has .*lo.*; or give auto"
}
