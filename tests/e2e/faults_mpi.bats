# faults_mpi.bats: the faults of faults.bats in a node that serves PMI-1 or PMIx.
# covers: tests/faults launcher/agent launcher/pmi launcher/pmix

load ../lib
load ../openmpi

@test "each answer over PMI_FD may fail, and no rank waits for it for ever" {
	[ -z "${SAN:-}" ] || skip "a sanitizer's own calls would be counted"
	run env -u TEST_COOKIE FOR=agent CALL="write read" JOB=mpi JOBS=2 \
		"$lib_tests/faults/run"
	echo "$output"
	[ "$status" = 0 ]
}

@test "each message to the process that serves PMIx, and from it, may be lost" {
	[ -z "${SAN:-}" ] || skip "a sanitizer's own calls would be counted"
	openmpi_or_skip
	run env -u TEST_COOKIE FOR=agent CALL="write read shutdown" JOB=pmix JOBS=2 \
		"$lib_tests/faults/run"
	echo "$output"
	[ "$status" = 0 ]
}

@test "a node without memory to serve PMIx reports that, and ends what it started" {
	[ -z "${SAN:-}" ] || skip "a sanitizer's own calls would be counted"
	openmpi_or_skip
	run env -u TEST_COOKIE FOR=agent CALL="malloc malloc-all" JOB=pmix JOBS=2 \
		LOG="$T/runs" "$lib_tests/faults/run"
	echo "$output"
	[ "$status" = 0 ]
	has "$(cat runs)" 'could not start its workers: MPI.s map of nodes: out of memory'
	lacks "$(cat runs)" 'is malformed|processes that the workers left behind'
}

@test "a node that serves PMI and gets no more memory ends its job" {
	[ -z "${SAN:-}" ] || skip "a sanitizer's own calls would be counted"
	# near the allocation with which the first exchange begins; `make faults` tries all
	local at
	for at in 71 72 73; do
		run env -u TEST_COOKIE FOR=far-agent CALL=malloc-all JOB=mpi-hosts \
			AT=$at "$lib_tests/faults/run"
		echo "$output"
		[ "$status" = 0 ]
	done
}
