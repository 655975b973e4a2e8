# Where servers listen: at the addresses that others use, at free ports, and never at
# all addresses of a host.
# covers: launcher/membership rendezvous/net base
bats_require_minimum_version 1.5.0
load ../lib

# listeners PID: the addresses at which that process listens, without ports
listeners() {
	ss -Hltnp | awk -v pid="pid=$1," \
		'index($0, pid) { sub(/:[0-9]+$/, "", $4); print $4 }' | sort -u
}

# The server's pid is its parent's other child.
server_of() {
	pgrep -P "$1" ddprdzv
}

@test "with port 0 the hosting node prints the port, and the others use it" {
	local at
	for at in 127.0.0.1:0 localhost:0 '[::1]:0'; do
		start a ddprun --nnodes 2 --node-rank 0 --rdzv-endpoint "$at" \
			sh -c 'w_knock ping; echo $DDP_RDZV_ENDPOINT'
		await a.err 'the nodes meet at .*; start the others with --rdzv-endpoint '
		start b ddprun --nnodes 2 --rdzv-endpoint "${line##* }" \
			sh -c 'w_knock ping; echo $DDP_RDZV_ENDPOINT'
		[ "${line##* }" != "$at" ]
		finish a
		has "$out" 'answered$'
		finish b
		has "$out" 'answered$'
		run ! grep -e ':0$' <<<"$out"
	done
	# and waits for the second node
	start a ddprun --nnodes 2 --rdzv-endpoint 127.0.0.1:0 true
	await a.err 'waiting .* --rdzv-endpoint HOST:[1-9][0-9]+$'
	signal a TERM
	finish a 143
}

@test "port 0 with one node prints no line" {
	expect 0 ddprun --rdzv-endpoint localhost:0 sh -c 'echo $MASTER_ADDR'
	[ "$out" = '[0] 127.0.0.1' ]
	[ -z "$err" ]
	expect 0 ddprun --master-addr 127.0.0.1 --master-port 0 w_knock ping
	[ "$out" = '[0] answered' ]
}

@test "a port that is bound but not listening is an error at once" {
	start holder python3 -c 'import socket, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(1000)'
	await holder.out .
	expect 71 ddprun --nnodes 2 --rdzv-endpoint "127.0.0.1:$line" true
	has "$err" "^ddprun: error: rendezvous server 127.0.0.1:$line: the port is in use on this host \\(.*\\), but no process listens on it; .*; choose another port with --rdzv-endpoint HOST:PORT$"
}

@test "port 0 on another host is an error with a remedy" {
	expect 2 ddprun --nnodes 2 --rdzv-endpoint 192.0.2.1:0 true
	[ "$err" = "ddprun: error: the rendezvous 192.0.2.1:0 has port 0, which means any free port of that host: start ddprun there first, then here with the port that it prints" ]
}

@test "ddprdzv prints the port that it got for port 0, the same at all addresses of a name" {
	local port
	grep -qs . /proc/net/if_inet6 || skip "no IPv6 here"
	unshare -m mount --bind /etc/hosts /etc/hosts 2>where ||
		skip "no mounts here"
	printf '%s both\n' 127.0.0.1 ::1 >hosts
	start server unshare -m sh -c 'mount --bind "$1" /etc/hosts &&
		exec ddprdzv --listen both:0' sh "$T/hosts"
	await server.err 'listening on 127\.0\.0\.1:[1-9][0-9]+$'
	port=${line##*:}
	await server.err "listening on \[::1\]:$port\$"
	expect 0 ddprun --rdzv-endpoint "localhost:$port" sh -c 'echo $DDP_RDZV_ENDPOINT'
	[ "$out" = "[0] 127.0.0.1:$port" ]
	signal server TERM
	finish server
}

@test "over ssh the endpoint is on the first host, and an error says how to set it" {
	local args
	for args in '--rdzv-endpoint h1:0' '--rdzv-endpoint h1:29400'; do
		expect 2 ddprun -H h1,h2 $args true
		[ "$err" = "ddprun: error: -H (--hostfile) with --rdzv-endpoint: the hosts meet on the first one, at a free port; leave it out, or give the address to listen on with --master-addr" ]
	done
}

@test "the server of a job of one node only listens on loopback" {
	local server
	mkfifo go
	start job ddprun sh -c 'echo here; read _ <go'
	await job.out here
	server=$(server_of "${pid[job]}")
	[ "$(listeners "$server")" = 127.0.0.1 ]
	echo >go
	finish job
}

@test "--interface selects an address by name, prefix or network" {
	local at
	for at in lo l 127.0.0.0/8; do
		expect 0 ddprun --interface $at sh -c 'echo $MASTER_ADDR'
		[ "$out" = '[0] 127.0.0.1' ]
	done
	expect 2 ddprun --interface none-such true
	has "$err" "^ddprun: error: --interface 'none-such': no interface of this host has this name, this prefix or this network; it has .*lo \\(127.0.0.1\\)"
	expect 2 ddprun --interface 198.51.100.0/24 true
	expect 2 ddprun --interface lo --local-addr 127.0.0.1 true
	has "$err" 'leave one of them out'
}
