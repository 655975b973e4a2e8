# covers: worker-sdk/api worker-sdk/comm
bats_require_minimum_version 1.5.0
load ../lib

# libddp used wrongly, and after a failure: a clear error, no leak, no hang.

misuse() { # N MODE [thread]
	expect 0 ddprun --standalone --nproc-per-node "$1" c_misuse "${@:2}"
	[ "$(grep -c ': ok$' <<<"$out")" = "$1" ]
}

@test "wrong arguments are named before anything starts" {
	misuse 1 arguments
	misuse 2 arguments
}

@test "ddp_wait_all returns the first of several errors" {
	misuse 1 first-error
	misuse 2 first-error
}

@test "small broadcasts that ranks missed, or made with two roots, are detected" {
	local hosts mode
	for mode in missed missed_many roots; do
		for hosts in 1 2 3i; do
			DDP_TEST_HOSTS=$hosts misuse 3 $mode
		done
	done
}

@test "ranks that wait for each other in calls with different roots get an error" {
	local hosts kind
	export DDP_TIMEOUT=20
	for kind in gather reduce scatter broadcast; do
		for hosts in 1 2 3i 3; do
			DDP_TEST_HOSTS=$hosts misuse 3 roots_$kind
		done
		DDP_TEST_HOSTS=3 misuse 3 roots_$kind thread
	done
}

@test "a call on a freed communicator is an error" {
	misuse 2 freed
}

@test "a forked child that makes a call gets an error that it is no rank" {
	misuse 2 fork
	misuse 2 fork thread
	DDP_TEST_HOSTS=2 misuse 2 fork thread
}

@test "a second thread in one world gets an error that names the first" {
	misuse 2 threads
}

@test "after ddp_abort all requests end, and the process joins again" {
	misuse 3 abort
	misuse 3 abort thread
	DDP_TEST_HOSTS=2 misuse 3 abort thread
}

@test "requests outlive the group that they were made in" {
	misuse 2 orphans
	misuse 3 orphans thread
	DDP_TEST_HOSTS=2 misuse 2 orphans thread
}

@test "a rank may finalize with requests that it never waited for" {
	misuse 2 leave
	DDP_TEST_HOSTS=2 misuse 2 leave thread
}

@test "a wait that times out leaves its operation pending" {
	misuse 2 late
	DDP_TEST_HOSTS=2 misuse 2 late thread
}

@test "a progress thread uses no CPU while it waits" {
	misuse 2 quiet
	DDP_TEST_HOSTS=2 misuse 2 quiet
}

@test "200 ranks finish a barrier" {
	[ -z "${SAN:-}" ] || skip "it would take minutes"
	expect 0 ddprun --standalone --nproc-per-node 200 c_misuse freed
	[ "$(grep -c ': ok$' <<<"$out")" = 200 ]
}

@test "counts of elements beyond 32 bits work" {
	[ -z "${SAN:-}" ] || skip "it would take minutes"
	misuse 2 big
	DDP_TEST_HOSTS=2 misuse 2 big
}
