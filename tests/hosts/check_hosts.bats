# check_hosts.bats: ddprun check over several hosts: what it says of hosts that are
# fit, and of those that are not, and how long it takes.
# covers: worker-sdk/check launcher/config/check_command.c
load ../lib
load netns

setup() {
	lib_setup
}

# check_on N [OPTION...]: runs it on the first N hosts at once, and waits for the end
# on each. $status and $out are those of h1.
check_on() {
	local i n=$1
	shift
	for ((i = 1; i <= n; i++)); do
		start_on h$i on_h$i ddprun check "$@" --nnodes "$n" \
			--rdzv-endpoint "${at[h1]}:29400" \
			--preflight-json result.json
	done
	for ((i = n; i >= 1; i--)); do
		finish on_h$i -
	done
}

# The value of a Python expression on the results.
result() {
	python3 -c "import json, sys
d = json.load(open('result.json'))
print($1)"
}

@test "ddprun check of three hosts measures each pair once, and finds them fit" {
	hosts_up 3
	hosts_real # else any node may be the first, which prints
	check_on 3
	has "$out" '^quick check of 3 nodes: '
	has "$out" '^  connections +all$'
	has "$out" '^  pairs +3 of 3 measured: [0-9]+ us, [0-9]+ MB/s'
	has "$out" '^3 of 3 nodes are fit'
	[ "$status" = 0 ]
	[ "$(result 'len([l for l in d["links"] if "rtt_us" in l])')" = 3 ]
	[ "$(result 'all(l["error"] is None for l in d["links"])')" = True ]
	[ "$(result 'sorted(n["node_rank"] for n in d["nodes"])')" = '[0, 1, 2]' ]
	nothing_left
}

@test "a firewall between workers is named, with both hosts, and one host is not fit" {
	hosts_up 3
	hosts_real
	in_net h3 iptables -A INPUT -p tcp -m multiport '!' --ports 29400 -j DROP ||
		skip "this kernel has no multiport match"
	check_on 3
	[ "$status" = 1 ]
	has "$out" '^X +node 2 \(h3\): h3 cannot connect to h[12] at .*: no answer .*; the same with 1 other node$'
	has "$out" '^2 of 3 nodes are fit'
	has "$err" 'rank 2 .* on h3, .*: this node \(h3\) is not fit'
}

@test "a full /dev/shm, a folder that cannot be written and a site's check are named" {
	hosts_up 2
	hosts_real
	host exec "${host_pid[h2]}" mount -o remount,size=1m /dev/shm
	cat >site <<-'END'
		#!/bin/sh
		[ "$(hostname)" = h1 ] || { echo "no licence on $(hostname)"; exit 3; }
	END
	chmod +x site
	check_on 2 --preflight-command ./site --preflight-folders "$T,/no/such"
	[ "$status" = 1 ]
	has "$out" '^X +node 1 \(h2\): /dev/shm has only 1\.0 MiB'
	has "$out" "^X +node 1 \\(h2\\): './site' exited with code 3: no licence on h2"
	has "$out" '^X +node 0 \(h1\): /no/such: cannot create a file there: No such file'
	has "$out" '^0 of 2 nodes are fit'
}

@test "a slow link is marked among the pairs" {
	hosts_up 4
	hosts_real
	in_net h4 tc qdisc add dev eth0 root tbf rate 3mbit burst 32kb latency 500ms ||
		skip "this kernel shapes no traffic"
	check_on 4
	has "$out" '^!     node 3 \(h4\): network speed here is less than half of other nodes'
	has "$out" '^4 of 4 nodes are fit, [1-9]'
	[ "$status" = 0 ]
}

@test "16 hosts are checked, and each part's time is printed" {
	hosts_up 16
	hosts_real
	check_on 16
	has "$out" '^  pairs +120 of 120 measured'
	has "$out" '^  took [0-9.]+ s: node [0-9.]+, meeting [0-9.]+, connections [0-9.]+, pairs [0-9.]+, all_reduce [0-9.]+$'
	[ "$status" = 0 ]
	echo "# $(grep "^  took" <<<"$out")" >&3
	check_on 16 full
	has "$out" '^full check of 16 nodes'
	has "$out" '^  pairs +120 of 120 measured'
	[ "$status" = 0 ]
	echo "# $(grep "^  took" <<<"$out")" >&3
}
