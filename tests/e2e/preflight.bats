# preflight.bats: --preflight: the nodes are checked before the program starts.
# covers: worker-sdk/check launcher/plan launcher/agent launcher/config
load ../lib

@test "--preflight checks the node once, then all workers run the program" {
	expect 0 ddprun --preflight --standalone --nproc-per-node 3 \
		sh -c 'echo "rank $RANK has $1"; exit 0' sh 'two  words'
	[ "$(grep -c 'rank . has two  words' <<<"$out")" = 3 ]
	[ "$(grep -c 'ddprun-check: 1 of 1 node is fit, .* (quick, ' <<<"$err")" = 1 ]
	lacks "$out" 'check of'
	nothing_left
}

@test "a program is not started on a node that is not fit, and the job ends with 78" {
	expect 78 ddprun --preflight --preflight-folders /no/such --standalone \
		--nproc-per-node 2 --max-restarts 3 sh -c 'echo started'
	has "$err" '^ddprun: error: this node \(.*\) is not fit: /no/such: cannot create a file there: .*; leaving the job'
	lacks "$out" started
	lacks "$err" restarting
	nothing_left
}

@test "only the first attempt is checked, and 78 may be the program's own code" {
	expect 78 ddprun --preflight --standalone --max-restarts 1 \
		sh -c 'echo "attempt $TORCHELASTIC_RESTART_COUNT"; exit 78'
	has "$out" 'attempt 0'
	has "$out" 'attempt 1'
	[ "$(grep -c 'node is fit' <<<"$err")" = 1 ]
	# the check's lines on its stderr are no reason
	has "$err" 'failed: rank 0 .* exited with code 78$'
	lacks "$err" 'exited with code 78: '
}

@test "a checked program has its wrapper, its name and libddp's world" {
	expect 0 ddprun --preflight --standalone --nproc-per-node 2 c_sums
	[ "$(grep -c 'all right' <<<"$out")" = 2 ]
	expect 0 ddprun --preflight=quick --standalone --nproc-per-node 2 \
		--wrap 'env WRAPPED=yes' sh -c 'echo "$WRAPPED"'
	[ "$(grep -c yes <<<"$out")" = 2 ]
}

@test "--preflight is in --dry-run, and a wrong value is refused" {
	expect 0 ddprun --preflight full --dry-run --standalone true
	has "$out" 'ddprun-check --full --folders \. -- /.*/true'
	expect 2 ddprun --preflight=slow --standalone true
	has "$err" "--preflight 'slow': give quick or full"
	expect 127 ddprun --preflight --standalone /no/such/program
}
