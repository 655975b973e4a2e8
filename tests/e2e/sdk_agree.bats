# covers: worker-sdk/comm worker-sdk/core
bats_require_minimum_version 1.5.0
load ../lib

# What ranks do together: one for all (ddp_once), one stop for all, parameters from
# one rank, statistics of all.

job() { # N CMD...
	local n=$1
	shift
	expect 0 ddprun --standalone --nproc-per-node "$n" "$@"
}

# every one of $1 ranks printed a line that ends so
all_say() {
	[ "$(grep -c "^\[[0-9]*\] rank [0-9]*: $2\$" <<<"$out")" = "$1" ] && return
	echo "not $1 lines like '$2' in: $out"
	return 1
}

@test "rank 0 runs a ddp_once, and the others get its result and return value" {
	job 4 c_together once job file
	[ "$(<file)" = 0 ]
	all_say 4 'got 40, sees 1'
	expect 0 c_together once host alone
	[ "$out" = "rank 0: got 40, sees 1" ]
}

@test "the lowest rank of each host runs a ddp_once per host, for the ranks there" {
	export DDP_TEST_HOSTS=2
	job 4 c_together once host file
	[ "$(sort file | tr '\n' ' ')" = "0 2 " ]
	has "$out" '^\[1\] rank 1: got 40, sees 2$'
	has "$out" '^\[3\] rank 3: got 42, sees 2$'
	export DDP_TEST_HOSTS=2i
	job 4 c_together once host interleaved
	[ "$(sort interleaved | tr '\n' ' ')" = "0 1 " ]
	has "$out" '^\[3\] rank 3: got 41, sees 2$'
}

@test "all ranks get the error of a failed ddp_once, with rank, host and reason" {
	local host
	host=$(hostname)
	job 3 c_together fail job 0
	has "$out" '^\[0\] rank 0: -20: metrics: cannot create the folder /dev/null/x'
	has "$out" "^\[2\] rank 2: -20: rank 0 on $host: metrics: cannot create the folder /dev/null/x"
	export DDP_TEST_HOSTS=2i
	job 4 c_together fail host 1
	has "$out" '^\[1\] rank 1: -5: ddp_once: the function returned -5$'
	has "$out" "^\[0\] rank 0: -5: rank 1 on $host: ddp_once: the function returned -5"
	all_say 4 '-5: .*'
	job 4 c_together fail host 3 # does not run it
	all_say 4 '0: '
}

@test "during a ddp_once no timeout runs, not even of pending operations" {
	local name
	start one ddprun --standalone --nproc-per-node 2 c_together long 2500
	DDP_TEST_HOSTS=2 start two \
		ddprun --standalone --nproc-per-node 2 c_together long 2500
	for name in one two; do
		finish $name
		all_say 2 ok
	done
}

@test "the death of the rank that runs a ddp_once is detected" {
	expect 137 "${deaf[@]}" \
		ddprun --standalone --nproc-per-node 3 c_together dies
	has "$out" '^\[1\] rank 1: .*rank 0 on .*SIGKILL'
	has "$out" '^\[2\] rank 2: .*rank 0 on .*SIGKILL'
}

@test "a stop that one rank's signal handler requests reaches all ranks, at one step" {
	local n
	for n in 1 2 4; do
		job $n c_together stop $((n - 1))
		all_say $n '1 at step 7, then 1'
	done
	DDP_TEST_HOSTS=2 job 3 c_together stop 2
	all_say 3 '1 at step 7, then 1'
	job 2 c_together stop -1
	all_say 2 '0 at step 100, then 0'
}

@test "a stop that the agent requests in one rank's flight recorder reaches all ranks" {
	job 3 c_together told 1
	all_say 3 '1 at step 7, then 1'
}

@test "ddp_broadcast_spans works from any root, and batch statistics from all ranks" {
	local n
	for n in 1 2 3 4; do
		job $n c_together values
		all_say $n ok
	done
	DDP_TEST_HOSTS=2 job 4 c_together values
	all_say 4 ok
	DDP_TEST_SHM=fail job 2 c_together values
	all_say 2 ok
}

@test "spans that differ from the root's are refused, even if their sum is the same" {
	job 3 c_together differ
	[ "$(grep -c ': ok' <<<"$out")" = 3 ]
	has "$out" 'rank 2: ok; ddp_broadcast_spans: one of the spans 0 to 1 differs in count or type between rank 0, the root, and rank 2: '
	DDP_TEST_HOSTS=2 job 2 c_together differ
	[ "$(grep -c ': ok' <<<"$out")" = 2 ]
}

@test "calls that differ are reported by name, such as ddp_should_stop and ddp_once" {
	local call hosts
	for call in should_stop once sync_batch_norm check_replicas; do
		for hosts in 1 2; do
			DDP_TEST_HOSTS=$hosts job 2 c_together named $call
			[ "$(grep -c ': ok' <<<"$out")" = 2 ]
		done
	done
}
