# network_hosts.bats: the network between two hosts fails in several ways while ranks
# wait for each other: the timeout's error says how, by the kernel's own figures.
# covers: worker-sdk/tcp
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 2
	hosts_real
}

# start_ranks MS: two ranks that call all_reduce for ever, with that timeout. The lease is
# longer: the agents do not find out first.
start_ranks() {
	local h
	for h in h1 h2; do
		start_on $h on_$h ddprun --nnodes 2 --nproc-per-node 1 \
			--rdzv-endpoint "${at[h1]}:29400" \
			--heartbeat-timeout 60 c_fault on 0 "$1"
	done
}

job() {
	start_ranks 3000
	await "$T/on_h1.out" 'rank 0 goes on' 20
	await "$T/on_h2.out" 'rank 1 goes on' 20
}

# says H R ERE: rank R on H fails by a timeout, here or there, for that reason.
says() {
	await "$T/on_$1.out" "rank $2: -20006 in .*: all_reduce #.*no data (from|read by) rank . on h. for [45]\\.[0-9] s: $3" 60
}

# That part of the packets of the workers' connections does not reach h1 and h2. (A
# kernel notices what it drops on the way out.)
lose() {
	local h
	for h in h1 h2; do
		in_net $h iptables -I INPUT -p tcp '!' --tcp-flags SYN SYN \
			-m multiport '!' --ports 29400 -m statistic --mode random \
			--probability "$1" -j DROP ||
			skip "this kernel has no random match"
	done
}

end_job() {
	finish on_h1 -
	finish on_h2 -
}

ends='\(10\.78\.0\.[12]:[0-9]+ -> 10\.78\.0\.[12]:[0-9]+\): [0-9]+ bytes are not acknowledged after [0-9]+ retransmissions'

@test "a cut cable is recognized as a black hole on both sides" {
	job
	cable_cut h2
	says h1 0 "rank 0 on h1 -> rank 1 on h2 $ends, and no packet comes back: "
	says h2 1 "rank 1 on h2 -> rank 0 on h1 $ends, and no packet comes back: "
	cable_heal h2
	end_job
}

# congestion NAME: the hosts' congestion control. BBR may send everything that is stuck
# again, reno only the first segment.
congestion() {
	local h
	for h in h1 h2; do
		in_net $h sysctl -qw net.ipv4.tcp_congestion_control=$1 ||
			skip "no TCP congestion control $1 in this kernel"
	done
}

# h2 gets a shorter MTU than h1 believes; full packets of h1 are dropped on the way.
# (What the kernel has not cut yet would pass.)
mtu_differs() {
	congestion $1
	in_net h1 ip link set eth0 gso_max_segs 1
	job
	in_net h2 ip link set eth0 mtu 1000
	says h1 0 "rank 0 on h1 -> rank 1 on h2 $ends, while short packets pass: something between the hosts drops packets of 1500 bytes"
	says h2 1 "rank 0 on h1 -> rank 1 on h2 $ends, while short packets pass: "
	end_job
}

@test "an MTU that differs is recognized by the short packets that pass" {
	mtu_differs reno
}

@test "an MTU that differs is recognized where BBR controls congestion" {
	mtu_differs bbr
}

# resent H: the segments that H has sent again (RFC 4022)
resent() {
	in_net "$1" awk '/^Tcp: [0-9]/ { print $13 }' /proc/net/snmp
}

@test "a network that loses packets is called lossy" {
	local h
	command -v iptables >/dev/null || skip "no iptables here"
	# each packet is one segment: of a few large ones, perhaps none would be lost
	for h in h1 h2; do
		in_net $h ip link set eth0 gso_max_segs 1
	done
	lose 0.05
	job
	for h in h1 h2; do
		until [ "$(resent $h)" -ge 40 ]; do
			read -rt 0.05 _ <> <(:) || true
		done
	done
	lose 0.5
	end_job
	# one rank's timeout may be the other's lost connection
	cat on_h1.out on_h2.out | grep -- ': -20006 in ' >timeouts
	while read -r line; do
		[[ $line =~ 'all_reduce #'.*'no data '(from|read by)' rank '.' on h'.' for '[45]\.[0-9]' s: rank '.' on h'.' -> rank '.' on h'.' ('.*'): the network loses packets: '[0-9]+' of '[0-9]+' segments were sent again' ]]
	done <timeouts
}

@test "a late rank is distinguished from a network that fails" {
	job
	host exec "${host_pid[h2]}" bash -c 'kill -STOP $(pgrep -x c_fault)'
	says h1 0 'it, or a rank that it waits for, has not arrived; 10.* -> 10.*: the network works'
	end_job
}

@test "a rank that cannot connect to another host is named while it tries" {
	in_net h1 iptables -A INPUT -s "${addr[h2]}" -p tcp \
		-m multiport '!' --ports 29400 -j DROP ||
		skip "this kernel has no multiport match"
	export DDP_TEST_WATCH_MS=2000
	start_ranks 60000
	await "$T/on_h1.err" '^ddprun: no progress for .* in ddp_init, and no rank is missing; rank 1 on h2 is connecting to 10\.78\.0\.1:[0-9]+ without an answer: does a firewall drop it, or does the process that listens there accept no connections\?$' 60
	await "$T/on_h2.err" '; rank 1 on h2 is connecting to 10\.78\.0\.1:[0-9]+ without an answer' 60
	start_on h2 dump ddprun dump --here --no-stacks
	finish dump
	has "$out" '^  in ddp_init for .*, connecting to 10\.78\.0\.1:[0-9]+ without an answer$'
	signal on_h1 KILL
	end_job
}

@test "a rank whose long packets are lost is named while it resends them" {
	in_net h2 iptables -A INPUT -p tcp -m length --length 1001: -j DROP ||
		skip "this kernel has no length match"
	export DDP_TEST_WATCH_MS=4000
	start_ranks 60000
	await "$T/on_h1.err" '^ddprun: no progress for .*, and no rank is missing; rank 0 on h1 is resending [0-9]+ bytes to 10\.78\.0\.2:[0-9]+ without an answer \([3-9] times\): does the network drop packets, or only those larger than its MTU\?$' 60
	start_on h1 dump ddprun dump --here --no-stacks
	finish dump
	has "$out" '^  in all_reduce .*, resending [0-9]+ bytes to 10\.78\.0\.2:[0-9]+ without an answer \([0-9]+ times\)$'
	signal on_h1 KILL
	end_job
}
