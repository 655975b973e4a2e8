# reset_hosts.bats: the connection of one live ddprun to the server is reset, as by a
# firewall that loses its state: the ddprun reconnects, or is lost for that reason.
# covers: rendezvous/recovery launcher/membership
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 2
	hosts_real
	mkfifo go1 go2
	worker="echo up \$RANK of \$WORLD_SIZE pid \$PPID
		read -r _ <$T/go\$((GROUP_RANK + 1)); echo down \$RANK"
	start_on h1 server ddprdzv --listen "${addr[h1]}:29400"
	await server.err 'listening on'
}

# What h2 has with the server; what the kernel cannot reset is not tested.
reset_h2() {
	in_net h2 ss -K -H -t -n state established dport = :29400 >reset.txt
	[ -s reset.txt ] || skip "this kernel resets no connection for ss -K"
}

job() {
	start_on "$1" "on_$1" ddprun --rdzv-endpoint "${addr[h1]}:29400" \
		--heartbeat-timeout 60 "${@:2}" bash -c "$worker"
}

# agent H: its ddprun's pid, as its worker says
stop_agent() {
	await "on_$1.out" 'up . of 2 pid'
	agent=${line##* }
	host exec "${host_pid[$1]}" kill -STOP "$agent"
}

continue_agent() {
	host exec "${host_pid[$1]}" kill -CONT "$agent"
}

@test "a job does not notice a reset of one ddprun's connection to the server" {
	job h1 --nnodes 2
	job h2 --nnodes 2
	await on_h1.out 'up . of 2'
	await on_h2.out 'up . of 2'
	reset_h2
	await on_h2.err 'rendezvous server at .* is back after'
	echo >go1 &
	echo >go2 &
	finish on_h1 0
	lacks "$err" 'lost'
	finish on_h2 0
	has "$out" 'down'
	lacks "$err" 'error|regroup'
}

@test "a ddprun that does not reconnect after a reset is lost, and named" {
	job h1 --nnodes 2 --node-rank 0
	job h2 --nnodes 2 --node-rank 1
	stop_agent h2
	reset_h2
	finish on_h1 69
	has "$err" 'node 1 \(h2\) was lost: its connection broke \(connection reset by peer\), and it did not come back within 3 s'
	continue_agent h2
	finish on_h2 69
	has "$err" 'was lost .*: the connection broke \(.*\); the job has ended meanwhile: node 1 \(h2\) was lost: its connection broke'
	lacks "$err" 'journal'
}

@test "an elastic job readmits a ddprun that reconnects late after a reset" {
	job h1 --nnodes 1:2 --node-rank 0
	job h2 --nnodes 1:2 --node-rank 1
	stop_agent h2
	reset_h2
	await on_h1.err 'regrouping: node 1 \(h2\) was lost: its connection broke'
	await on_h1.out 'up 0 of 1'
	continue_agent h2
	await on_h2.err 'regrouping: .* counted this node as lost: its connection broke'
	await on_h1.err 'regrouping: h2 joined'
	echo >go1 &
	echo >go2 &
	finish on_h1 0
	finish on_h2 0
	has "$out" 'down 1'
}
