# door_hosts.bats: who stands at ddprdzv's door over IPv6, where one host has as
# many addresses as it likes.

bats_require_minimum_version 1.5.0
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 1
	hosts_real
}

@test "of an IPv6 network 256 may say nothing, whatever addresses they have" {
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
