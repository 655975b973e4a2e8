# covers: launcher/ssh
load ../lib
load netns
load sshd

# ddprun -H: one command on one host runs a job on several over ssh.

waiter='echo "worker $RANK on $(hostname) pid $$"; exec tail -f /dev/null'

setup() {
	lib_setup
}

# The lines of $out or $err, in an order that does not depend on time.
sorted() {
	sort <<<"$1"
}

@test "ranks follow the order of -H, and each host has its own number of workers" {
	sshd_up 2
	over_ssh job -H h2:1,h1:2 \
		sh -c 'echo "$RANK of $WORLD_SIZE, node $GROUP_RANK: $(hostname) $MASTER_ADDR"'
	finish job
	[ "$(sorted "$out")" = '[0] 0 of 3, node 0: h2 10.78.0.2
[1] 1 of 3, node 1: h1 10.78.0.2
[2] 2 of 3, node 1: h1 10.78.0.2' ]
	[ -z "$err" ]
	nothing_left
}

@test "mpirun's options place the workers on hosts and set their variables there" {
	sshd_up 2
	over_ssh job -hosts h2,h1 -n 3 -genv A 'b c' -x D=5 -l \
		sh -c 'echo "$RANK of $WORLD_SIZE on $(hostname): $A $D"'
	finish job
	[ "$(sorted "$out")" = '[0] 0 of 3 on h2: b c 5
[1] 1 of 3 on h2: b c 5
[2] 2 of 3 on h1: b c 5' ]
	[ -z "$err" ]
	# under mpiexec's name: the list is that of the folder where it was started
	ddprun install-mpiexec bin >/dev/null
	mkdir sub
	printf 'h2 slots=1\nh1 slots=4\n' >list
	start_on h1 job bin/mpiexec --ssh-args "$SSH_ARGS" -wdir sub -f list -n 3 --mpi none \
		sh -c 'echo "$RANK on $(hostname) in ${PWD##*/}: $*"' sh -- x
	finish job
	[ "$(sorted "$out")" = '0 on h2 in sub: -- x
1 on h1 in sub: -- x
2 on h1 in sub: -- x' ]
	[ -z "$err" ]
	nothing_left
}

@test "several programs run as roles of one world on two hosts" {
	sshd_up 2
	local who='echo "$RANK/$WORLD_SIZE $ROLE_NAME $ROLE_RANK/$ROLE_WORLD_SIZE on $(hostname)"'
	over_ssh job -H h2:1,h1:3 -n 1 --role learner sh -c "$who" : \
		-n 3 -x A=b --role actor sh -c "$who; echo \$A"
	finish job
	[ "$(sorted "$out")" = '[0] 0/4 learner 0/1 on h2
[1] 1/4 actor 0/3 on h1
[1] b
[2] 2/4 actor 1/3 on h1
[2] b
[3] 3/4 actor 2/3 on h1
[3] b' ]
	[ -z "$err" ]
	# a role on both hosts, and its failure
	over_ssh job -H h2:2,h1:2 -n 1 true : -n 3 --role actor \
		sh -c '[ $ROLE_RANK != 2 ] || exit 7; exec tail -f /dev/null'
	finish job 7
	has "$err" 'rank 3 \(local rank 1\) on h1, .*exited with code 7'
	has "$err" 'actor'
	[ "$(grep -c 'first failure' <<<"$err")" = 1 ]
	nothing_left
}

@test "a trainer over two hosts ends as on one host, and stdout and stderr stay separate" {
	sshd_up 2
	export OMP_NUM_THREADS=1
	mkdir data
	t_idx data 1280 640
	args=(mnist_mlp --data "$T/data" --epochs 1)
	expect 0 ddprun --standalone --nproc-per-node 2 "${args[@]}"
	want=$(grep -oE 'test accuracy .*' <<<"$out" | tail -n 1)
	[ -n "$want" ]
	over_ssh job -H h1:1,h2:1 "${args[@]}"
	finish job
	has "$out" "$want"
	over_ssh job -H h1:1,h2:1 sh -c 'echo "out $RANK"; echo "err $RANK" >&2'
	finish job
	[ "$(sorted "$out")" = $'[0] out 0\n[1] out 1' ]
	[ "$(sorted "$err")" = $'[0] err 0\n[1] err 1' ]
}

@test "a worker's failure on another host sets the exit code, prints one page and leaves nothing" {
	sshd_up 2
	over_ssh job -H h1:1,h2:2 sh -c '[ $RANK = 2 ] && {
		echo "last words" >&2; exit 7; }; exec tail -f /dev/null'
	finish job 7
	has "$err" 'rank +2 of 3 \(local rank 1\)'
	has "$err" 'node +1, host h2'
	has "$err" 'last words'
	[ "$(grep -c 'first failure' <<<"$err")" = 1 ]
	nothing_left
}

@test "Ctrl-C ends the job on all hosts" {
	sshd_up 2
	over_ssh job -H h1:1,h2:1 sh -c "$waiter"
	await "$T/job.out" 'worker 0'
	await "$T/job.out" 'worker 1'
	signal job INT
	finish job 130
	has "$err" 'got SIGINT: ending the job on 2 hosts'
	nothing_left
}

@test "SIGTERM reaches the workers of all hosts as SIGTERM" {
	sshd_up 2
	over_ssh job -H h1:1,h2:1 bash -c 'trap "echo told \$RANK; exit 0" TERM
		echo ready $RANK; '"$IDLE"
	await "$T/job.out" 'ready 0'
	await "$T/job.out" 'ready 1'
	signal job TERM
	finish job 143
	has "$out" 'told 0'
	has "$out" 'told 1'
	nothing_left
}

@test "kill -9 of the local ddprun ends the job on all hosts" {
	sshd_up 2
	start_on h1 job sh -c 'echo "head $$"; exec "$@"' sh \
		ddprun --ssh-args "$SSH_ARGS" -H h1:1,h2:1 sh -c "$waiter"
	await "$T/job.out" 'worker 0'
	await "$T/job.out" 'worker 1'
	await "$T/job.out" 'head [0-9]+'
	start_on h1 killer kill -9 "${line#head }"
	finish killer
	finish job 137
	nothing_left 20
}

@test "a killed ssh is a lost host, which ends the job everywhere and is named" {
	sshd_up 2
	over_ssh job -H h1:1,h2:1 sh -c "$waiter"
	await "$T/job.out" 'worker 0'
	await "$T/job.out" 'worker 1'
	kill_ssh_to h2
	finish job 69
	has "$err" 'host h2: ssh was killed by SIGKILL; ending the job'
	has "$err" "job '.*' ended: node 1 \\(h2\\) left: the ssh that started it has ended\$"
	nothing_left 20
}

@test "the job names a host whose network is cut, and ends on the others" {
	sshd_up 2
	over_ssh job --heartbeat-timeout 2 -H h1:1,h2:1 sh -c "$waiter"
	await "$T/job.out" 'worker 0'
	await "$T/job.out" 'worker 1'
	cable_cut h2
	finish job 69
	has "$err" 'h2'
	# both sides notice, without hearing of each other
	nothing_left 30
}
