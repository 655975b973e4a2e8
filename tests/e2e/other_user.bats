# Another user of the host tries everything that is visible to all (other_user.py).
# Needs a second user and a separate network, hence root.
# covers: rendezvous/auth rendezvous/admission launcher/failure worker-sdk/shm worker-sdk/tcp
load ../lib

# stranger: what user 65534 finds; in $out
stranger() {
	expect 0 env PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		nsenter --net="/proc/${pid[job]}/ns/net" setpriv --reuid 65534 --regid 65534 \
		--clear-groups python3 /dev/fd/8 "$(id -u)" 8<"$lib_tests/e2e/other_user.py"
}

needs_another_user() {
	[ "$(id -u)" = 0 ] || skip 'another user can be had by root only'
	unshare --net true 2>/dev/null || skip 'no networks of their own here'
}

@test "the kernel's list of a job's sockets is not enough to join its data plane" {
	needs_another_user
	mkfifo go
	DDP_TEST_HOSTS=2 start job unshare --net sh -c 'ip link set lo up &&
		exec ddprun --standalone --nproc-per-node 4 c_late_message "$1"' \
		sh "$T/go"
	await job.out waiting
	# until the rank that is about to wait listens, and has time to answer
	until stranger && grep -qE '^port [0-9]+ answers ddpp2p_3$' <<<"$out"; do
		lacks "$out" 'took|can be'
	done
	# the bells' names were found as well
	has "$out" '^[1-9][0-9]* ports, [1-9][0-9]* names$'
	lacks "$out" 'took'
	lacks "$out" 'can be'
	echo >go
	finish job
	has "$out" 'got 42$'
}
