# The server sends a large world's gathered values once, and the ranks relay them to
# each other (protocol.txt, SHARE). This works for any number of nodes, whichever
# relay dies, lies or falls silent. Here on loopback with few ranks, for which
# DDP_TEST_SHARE enables it.
# covers: rendezvous/store worker-sdk/kv
load ../lib
load ../backend

# server [OPTION...]: a ddprdzv of our own; $at is its endpoint.
server() {
	start server ddprdzv --listen "${at:-127.0.0.1:0}" --metrics-listen 0 "$@"
	await "$T/server.err" 'health and metrics at http://127.0.0.1:([0-9]+)/'
	metrics=$(grep -oE 'http://127.0.0.1:[0-9]+' <<<"$line" | grep -oE '[0-9]+$')
	await "$T/server.err" 'listening on'
	at=${line##* }
}

# job NODES NPROC CMD...: they all end well, and each of the ranks says ok.
job() {
	local n=$1 nproc=$2 i
	shift 2
	for i in $(seq "$n"); do
		start "node$i" ddprun --nnodes "$n" --nproc-per-node "$nproc" \
			--rdzv-endpoint "$at" "$@"
	done
	for i in $(seq "$n"); do
		finish "node$i"
		[ "$(grep -c ': ok$' <<<"$out")" = "$nproc" ]
	done
}

# asked TYPE N: the server was asked that N times so far.
asked() {
	exec 5<>"/dev/tcp/127.0.0.1/$metrics"
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&5
	has "$(cat <&5)" "^ddprdzv_requests_total\{type=\"$1\"\} $2"$'\r?$'
	exec 5>&-
}

@test "the ranks of 1, 2, 3 and 7 nodes relay the list to each other" {
	server
	job 1 3 c_share
	job 2 2 c_share
	job 3 1 c_share
	asked share 10
	job 7 3 c_share
	asked share 31
	asked shared_list 0
}

@test "libddp's ranks meet by relay, and the ranks of a small world by gather" {
	server
	DDP_TEST_SHARE=1 job 3 2 c_collectives 1000
	asked gather 0
	asked shared_list 0
	job 2 2 c_collectives 1000
	asked gather 8
}

@test "a world of 512 ranks on two nodes relays automatically" {
	local i
	[ -z "${SAN:-}" ] || skip "512 processes with a sanitizer's memory each"
	server
	for i in 1 2; do
		start "node$i" ddprun --nnodes 2 --nproc-per-node 256 \
			--rdzv-endpoint "$at" c_init cpu
	done
	for i in 1 2; do
		finish "node$i"
		[ "$(grep -c 'rank [0-9]* of 512, .* backend cpu' <<<"$out")" = 256 ]
	done
	asked gather 0
	asked share 1024 # where they are, and that they share memory
	asked shared_list 0
}

# bats test_tags=etcd
@test "a world of 512 ranks relays if the first node has the server" {
	meets "127.0.0.1:$(w_port free)"
	at=$meet
	export DDP_TEST_SHARE=1
	job 3 2 c_collectives 3
}

@test "a rank that gets wrong bytes, or none, from its relay asks the server" {
	server
	job 3 2 c_share lies 0
	# the three that it sends to, and those to which these had passed the first part
	asked shared_list '[3-5]'
	job 7 2 c_share lies 2
	asked shared_list '([6-9]|10)'
	job 7 2 c_share short 2
	job 7 2 c_share refuses 2
	asked shared_list '1[2-8]'
}

@test "a rank that gets a list not sealed with the token asks the server" {
	server
	job 3 2 c_share garbles 0
	asked shared_list '[3-5]'
}

@test "the death of a rank that relays the list affects no other rank" {
	server
	for i in 1 2 3; do
		start "node$i" ddprun --nnodes 3 --nproc-per-node 2 \
			--rdzv-endpoint "$at" c_share dies 0
	done
	for i in 1 2 3; do
		finish "node$i"
		cat "$T/node$i.out"
	done >all
	[ "$(grep -c ': ok$' all)" = 5 ]
	has "$(<all)" 'rank 0: dies'
}

@test "clients with wrong or missing hellos get no reply and block no other client" {
	server
	job 2 2 c_share strange 2
	asked shared_list 0
}

# It waits three seconds for a silent rank; the server dies within them.
@test "a rank whose relay is silent asks the server, or the next one, by its journal" {
	server --journal "$T/journal"
	start job ddprun --nproc-per-node 3 --rdzv-endpoint "$at" c_share silent 0
	await job.out 'rank 0: silent'
	# not before they had to ask it
	await job.out 'rank 1: told'
	await job.out 'rank 2: told'
	signal server KILL
	finish server -
	server --journal "$T/journal"
	finish job
	[ "$(grep -c ': ok$' <<<"$out")" = 3 ]
	asked shared_list 2
}

@test "ranks that wait while the server dies get their result" {
	mkfifo go
	server --journal "$T/journal"
	export T DDP_TEST_SHARE=1
	start job ddprun --nproc-per-node 3 --rdzv-endpoint "$at" bash -c \
		'echo here; [ $RANK != 1 ] || read -r _ <"$T/go"
		exec c_collectives 3'
	await job.out '\[0\] here'
	await job.out '\[1\] here'
	signal server KILL
	finish server -
	server --journal "$T/journal"
	exec 9<>go
	echo go >&9
	finish job
	exec 9>&-
	[ "$(grep -c ': ok$' <<<"$out")" = 3 ]
}

@test "a rank that ends before it has arrived is named" {
	DDP_TEST_SHARE=1 expect 0 ddprun --standalone --nproc-per-node 3 sh -c \
		'[ $RANK = 1 ] || c_init || true'
	[ "$(grep -c -- '-20004: rank 1 .*exited with code 0 before it reached .ddp/0/init.' <<<"$out")" = 2 ]
}
