# Connections to ddprdzv without a proof: how many are admitted, from how many
# addresses, and that others are served meanwhile.
# covers: rendezvous/admission rendezvous/net
bats_require_minimum_version 1.5.0
load ../lib

# server LISTEN [OPTION...]
server() {
	start server ddprdzv --listen "$1" --heartbeat-timeout 60 \
		--hello-timeout 600 "${@:2}"
	await "$T/server.err" 'listening on'
	at=${line##* }
}

# crowd NAME FROM*N...: silent connections
crowd() {
	start "$1" rdzv_peer crowd "$at" "${@:2}"
	await "$T/$1.out" '^open'
}

# An agent joins and leaves.
somebody() {
	expect 0 ddprun --nnodes 1:2 --last-call-timeout 0 \
		--rdzv-endpoint "$at" sh -c 'echo in'
	[ "$out" = '[0] in' ]
}

@test "256 silent connections from one host keep no other client out" {
	server 127.0.0.1:0
	crowd many '127.0.0.2*150' '127.0.0.3*150'
	# there is room for them at first, as there is for a host's workers
	somebody
	run ! grep closed many.out
	await many.out '^closed 127.0.0.2, 106 left$'
	somebody
	[ "$(grep -c closed many.out)" = 44 ]
}

@test "thousands of connections that one host opens at once delay others only briefly" {
	local i crowd
	server 127.0.0.1:0
	for crowd in '127.0.0.2*3000' '127.0.0.2+1500' \
		"$(printf '127.0.2.%d*30 ' {1..100})"; do
		crowd many $crowd
		somebody
		# there was half a second of them before it, which had been ten
		run ! grep -E 'waiting [48] s' program.err
		run ! grep -e ^error many.out
		signal many KILL
		finish many 137
	done
}

@test "over IPv6, proofs, refusals and the limit work as over IPv4" {
	server '[::1]:0'
	has "$at" '^\[::1\]:[0-9]+$'
	somebody
	DDP_TOKEN=a-token-of-somebody-else expect 77 ddprun --nnodes 2 \
		--rdzv-endpoint "$at" true
	has "$err" "rendezvous server ${at//[\[\]]/.}: it rejected our secret \(from DDP_TOKEN on"
	await server.err "^ddprdzv: warning: refused \[::1\]:[0-9]+ \(claims host $(hostname), job 'none'\): it does not have this job's secret$"
	crowd many '::1*300'
	somebody
	await many.out '^closed ::1, 256 left$'
	somebody
	[ "$(grep -c closed many.out)" = 44 ]
}
