# covers: launcher/failure
load ../lib

# The file in which Kubernetes looks for a container's last words; hosts/kubernetes.bats
# has pods.

setup() {
	lib_setup
	echo 'of an earlier container' >log
	export DDP_TERMINATION_LOG=$T/log
}

@test "the termination log gets the first line of the failure page, and only that" {
	expect 3 ddprun --standalone --nproc-per-node 2 \
		sh -c '[ $RANK = 0 ] && exit 3; exec tail -f /dev/null'
	[ "$(cat log)" = "$(grep -m 1 ' failed: rank 0 ' <<<"$err")" ]
}

@test "the termination log gets an error that is found before the start" {
	expect 2 ddprun --nproc-per-node none true
	has "$(cat log)" "^--nproc-per-node 'none': "
}

@test "a job that succeeds, and a ddprun in a worker, leave the termination log" {
	expect 0 ddprun --standalone sh -c 'ddprun --standalone false || true'
	[ "$(cat log)" = 'of an earlier container' ]
}

@test "a termination log that is missing or not a regular file is left unchanged" {
	rm log
	expect 1 ddprun --standalone false
	[ ! -e log ]
	has "$err" "warning: cannot write the failure to DDP_TERMINATION_LOG, .*: No such file"
	mkfifo log
	expect 1 ddprun --standalone false
	has "$err" "cannot write the failure to DDP_TERMINATION_LOG"
	echo precious >file
	rm log
	ln -s file log
	expect 1 ddprun --standalone false
	[ "$(cat file)" = precious ]
}
