# reboot_hosts.bats: a host loses its power and is up again before its lease ends: it
# resets its peers' connections, and does not know the job.
# covers: rendezvous/recovery launcher/membership
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 2
	hosts_real
}

# The same host again: its name, its cable, its address, and no process.
reboot_h2() {
	local mac
	mac=$(in_net h2 ip -o link show eth0 | grep -oP 'ether \K[0-9a-f:]+')
	cable_cut h2
	kill -KILL "${host_pid[h2]}"
	finish on_h2 -
	finish h2 -
	in_net switch ip link del to_h2 2>/dev/null || true
	host_start h2
	host_pid[h2]=$line
	in_net switch ip link add to_h2 type veth peer name eth0 \
		address "$mac" netns "$line"
	in_net switch ip link set to_h2 master bridge up
	in_net h2 ip addr add "${addr[h2]}/24" dev eth0
	in_net h2 ip link set eth0 up
}

job() { # HOST RANK
	start_on "$1" "on_$1" ddprun --nnodes 2 --node-rank "$2" \
		--rdzv-endpoint "${at[h1]}:29400" --heartbeat-timeout 20 \
		--shutdown-timeout 1 bash -c 'echo "pid $$"; exec c_fault on 0'
}

# Rank 0 is stopped meanwhile: it sends the next bytes when h2 is there again,
# and has the reset at once. The server knows only when the lease is over, or
# its own bytes are answered by a reset: beyond the 10 s after which a client
# has no answer any more.
@test "a host that reboots within the heartbeat timeout is named, not the rank that missed it" {
	local worker
	job h1 0
	job h2 1
	await on_h1.out 'pid [0-9]+$'
	worker=${line##* }
	await on_h1.out 'rank 0 goes on'
	await on_h2.out 'rank 1 goes on'
	host exec "${host_pid[h1]}" kill -STOP "$worker"
	reboot_h2
	host exec "${host_pid[h1]}" kill -CONT "$worker"
	DEADLINE=60 finish on_h1 69
	has "$out" 'rank 0: .*: rank 1 on h2 (closed|reset) .*'
	has "$err" 'failed: node 1 \(h2\) was lost'
	lacks "$err" 'failed: rank 0'
}

# Rank 0 has published its address; rank 1 finds nobody there, before the server knows
# more than that h2's ddprun is silent.
@test "a host that reboots while ranks connect in ddp_init is named, not the rank that cannot reach it" {
	local host report
	mkfifo go
	for host in 'h1 1' 'h2 0'; do
		start_on "${host% *}" "on_${host% *}" ddprun --nnodes 2 \
			--node-rank "${host#* }" --rdzv-endpoint "${at[h1]}:29400" \
			--heartbeat-timeout 20 --shutdown-timeout 1 --log-dir logs \
			bash -c '[ $RANK = 0 ] || read -r _ <go; echo "up $RANK"
			exec c_fault on 0'
	done
	await on_h2.out 'up 0'
	# its ddprun's connection, and that with which it waits for rank 1's address
	start_on h2 waits bash -c \
		'until ss -Htn state established | wc -l | grep -qx 2; do :; done'
	finish waits
	reboot_h2
	echo >go
	DEADLINE=60 finish on_h1 69
	has "$out" 'rank 1: .*: rank 1 on h1 cannot reach rank 0 on h2 .* refused'
	has "$err" 'failed: node 0 \(h2\) was lost'
	lacks "$err" 'failed: rank 1'
	report=$(cat logs/*/attempt_0/report.json)
	has "$report" '"text":.*"node 0 \(h2\) was lost'
	has "$report" '"first_failure":.*null'
}
