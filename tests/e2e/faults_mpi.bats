# faults_mpi.bats: the faults of faults.bats in a node that serves PMI-1 or PMIx.
# covers: tests/faults launcher/agent launcher/pmi launcher/pmix

load ../lib
load ../openmpi
load faults

@test "no rank waits forever if any answer over PMI_FD fails" {
	needs_plain_build
	inject FOR=agent CALL="write read" JOB=mpi JOBS=2
}

@test "the loss of any message to or from the process that serves PMIx causes no hang" {
	needs_plain_build
	openmpi_or_skip
	inject FOR=agent CALL="write read shutdown" JOB=pmix JOBS=2
}

@test "a node without memory to serve PMIx reports that, and ends what it started" {
	needs_plain_build
	openmpi_or_skip
	inject FOR=agent CALL="malloc malloc-all" JOB=pmix JOBS=2 LOG="$T/runs"
	has "$(cat runs)" 'could not start its workers: MPI.s map of nodes: out of memory'
	lacks "$(cat runs)" 'is malformed|processes that the workers left behind'
}

@test "a node that serves PMI and gets no more memory ends its job" {
	needs_plain_build
	# near the allocation with which the first exchange begins; `make faults` tries all
	local at
	for at in 71 72 73; do
		inject FOR=far-agent CALL=malloc-all JOB=mpi-hosts AT=$at
	done
}
