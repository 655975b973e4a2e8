# admission_hosts.bats: connections to ddprdzv without a proof, from many hosts (h1 has
# all of their addresses), and over IPv6, where one host has any number of addresses.
# covers: rendezvous/admission rendezvous/net

bats_require_minimum_version 1.5.0
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 1
	hosts_real
}

# An agent joins from another address than theirs, and leaves.
somebody() {
	start_on h1 job ddprun --nnodes 1:2 --last-call-timeout 0 \
		--rdzv-endpoint 10.200.0.1:29400 sh -c 'echo in'
	finish job
	[ "$out" = '[0] in' ]
}

@test "an IPv6 network may have 256 silent connections, whatever their addresses" {
	local i
	for i in 1:1 1:2 1:3 2:1; do
		in_net h1 ip addr add "fd79:0:0:${i%:*}::${i#*:}/128" dev lo
	done
	start_on h1 server ddprdzv --listen '[fd79:0:0:1::1]:29400' \
		--hello-timeout 600
	await server.err 'listening on'
	start_on h1 many rdzv_peer crowd "${line##* }" 'fd79:0:0:1::2*150' \
		'fd79:0:0:2::1*40' 'fd79:0:0:1::3*150'
	await many.out '^open'
	await many.out '^closed fd79:0:0:1::2, 106 left$'
	start_on h1 job ddprun --nnodes 1:2 --last-call-timeout 0 \
		--rdzv-endpoint '[fd79:0:0:1::1]:29400' sh -c 'echo in'
	finish job
	[ "$out" = '[0] in' ]
	[ "$(grep -c closed many.out)" = 44 ]
}

@test "an address may have 256 silent connections, and causes no close of another's" {
	in_net h1 ip addr add 10.200.0.1/16 dev lo
	start_on h1 server ddprdzv --listen 10.200.0.1:29400 --hello-timeout 600
	await server.err 'listening on'
	start_on h1 many rdzv_peer crowd "${line##* }" '10.200.3.1*40' \
		'10.200.2.1*300'
	await many.out '^open'
	await many.out '^closed 10.200.2.1, 256 left$'
	somebody
	[ "$(grep -c closed many.out)" = 44 ]
}

@test "a server with too many connections admits new ones, and closes the oldest" {
	local i crowd=() mark
	in_net h1 ip addr add 10.200.0.1/16 dev lo
	for mark in '*' '+'; do
		start_on h1 server ddprdzv --listen 10.200.0.1:29400 \
			--hello-timeout 600
		await server.err 'listening on'
		crowd=()
		for i in {0..599}; do
			crowd+=("10.200.$((i / 200 + 1)).$((i % 200 + 1))${mark}1")
		done
		start_on h1 many rdzv_peer crowd 10.200.0.1:29400 "${crowd[@]}"
		await many.out '^open'
		somebody
		has "$(<many.out)" '^closed 10\.200\.1\.1, 0 left$'
		run ! grep -e '^closed 10\.200\.3\.' -e ^error many.out
		signal many KILL
		finish many 137
		signal server TERM
		finish server
	done
}
