# A relay between the nodes and their server passes the proof on, and reads and
# changes what follows (docs/protocol-records.txt): it can read nothing, and tampering
# is detected and named. It runs as another user if possible.
# covers: rendezvous/auth rendezvous/net
bats_require_minimum_version 1.5.0
load ../lib

setup() {
	lib_setup
	export DDP_TOKEN=a-token-of-this-test-alone
	start server ddprdzv --listen 127.0.0.1:0 --heartbeat-timeout 60
	await "$T/server.err" 'listening on'
	server=${line##* }
}

# relay [ACT WAY N [always]]: a relay before the server, at $at; what it sees is in
# $T/seen
relay() {
	local as=()
	[ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null ||
		as=(env PATH=/usr/sbin:/usr/bin:/sbin:/bin setpriv
			--reuid 65534 --regid 65534 --clear-groups)
	start relay "${as[@]}" python3 /dev/fd/8 "$server" 9 "$@" \
		8<"$lib_tests/programs/peers/rdzv_relay.py" 9>"$T/seen"
	await "$T/relay.out" '^at '
	at=${line#at }
}

# a job of one node and N ranks, whose agent calls the server itself
agent() {
	start agent bash -c 'exec rdzv_client agent "$@" <> <(:)' - \
		"$server" j "$1" h1 1 -1 0
	await "$T/agent.out" '^START'
}

end() {
	signal relay KILL
	finish relay 137
	signal agent KILL
	finish agent 137
}

@test "a relay that passes the proof on cannot read what a worker stores" {
	agent 1
	relay
	expect 0 rdzv_client do "$at" j 0 0 set the-key the-secret-value \
		get the-key big bulk 100000
	[ "$out" = "1 'the-secret-value'"$'\n'same ]
	grep -q DDPR seen
	[ "$(wc -c <seen)" -gt 200000 ]
	run ! grep -qa -e the-secret-value -e the-key seen
	end
}

# With the same keys the same requests would be the same bytes on the wire.
@test "each connection has its own keys, also to a server with its predecessor's journal" {
	local n common='
import sys
def ciphertext(name, step):
    with open(name, "rb") as f:
        text = f.read()[4096:]
    assert len(text) > 90000
    return {text[i:i + 16] for i in range(0, len(text) - 16, step)}
a, b = sys.argv[1:]
print(len(ciphertext(a, 1) & ciphertext(b, 16)))
'
	signal server TERM
	finish server
	start server ddprdzv --listen "$server" --journal journal --heartbeat-timeout 60
	await server.err 'listening on'
	agent 1
	for n in 1 2 3; do
		if [ $n = 3 ]; then
			signal server KILL
			finish server 137
			start server ddprdzv --listen "$server" --journal journal \
				--heartbeat-timeout 60
			await server.err 'listening on'
		fi
		relay
		expect 0 rdzv_client do "$at" j 0 0 big bulk 100000
		signal relay KILL
		finish relay 137
		mv seen seen.$n
	done
	[ "$(python3 -c "$common" seen.1 seen.1)" -gt 5000 ]
	[ "$(python3 -c "$common" seen.1 seen.2)" = 0 ]
	[ "$(python3 -c "$common" seen.2 seen.3)" = 0 ]
	finish agent -
}

@test "a relay that passes the proof on cannot read anything that follows" {
	relay
	start a ddprun --nnodes 2 --rdzv-endpoint "$at" --local-addr 127.0.0.7 \
		true
	start b ddprun --nnodes 2 --rdzv-endpoint "$at" true
	finish a
	finish b
	grep -q DDPR seen
	run ! grep -qa -e '127\.0\.0\.[17]' -e 'exited with code' seen
	signal relay KILL
	finish relay 137
}

# found ACT WAY N WORDS: a worker's request is answered in spite of it
found() {
	relay "$1" "$2" "$3"
	DDP_RECONNECT_TIMEOUT=20000 expect 0 rdzv_client do "$at" j 0 0 \
		add "$1-$2" 1 add "$1-$2" 1 add "$1-$2" 1
	[ "$out" = $'1\n2\n3' ]
	has "$(<relay.out)" "^did $1 $2"
	signal relay KILL
	finish relay 137
}

@test "tampering with a worker's requests is detected, named, and changes nothing" {
	agent 1
	local act n=0
	for act in flip plain; do
		found $act up 1
	done
	# a replayed record is detected at the next one, a late one at once
	found replay up 1
	found truncate up 1
	[ "$(grep -c 'record 1 does not authenticate' server.err)" -ge 1 ]
	has "$(<server.err)" "^ddprdzv: warning: 127.0.0.1:[0-9]+ \(rank 0, job 'j'\): the connection was tampered with: record 1 does not authenticate; something on the path changes, repeats or drops data"
	signal agent KILL
	finish agent 137
}

@test "tampering with the replies is detected, and changes nothing" {
	agent 1
	local act
	for act in flip replay plain truncate; do
		found $act down 1
	done
	signal agent KILL
	finish agent 137
}

@test "if tampering never ends, the worker reports it and does not wait forever" {
	agent 1
	relay flip down 0 always
	DDP_RECONNECT_TIMEOUT=1500 expect 1 rdzv_client do "$at" j 0 0 \
		set k v get k
	has "$out" "^error: rendezvous server $at: the connection was tampered with: record 0 does not authenticate; .*each connection since then broke before it answered"
	signal relay KILL
	finish relay 137
	relay flip up 0 always
	DDP_RECONNECT_TIMEOUT=1500 expect 1 rdzv_client do "$at" j 0 0 \
		set k v get k
	has "$out" "^error: rendezvous server $at: it closed the connection"
	end
}

# node NAME AT: one of two ddpruns whose worker waits to be ended
node() {
	start "$1" ddprun --nnodes 2 --rdzv-endpoint "$2" \
		sh -c 'read -r _ <>"$1"' sh "$T/never"
}

@test "a job whose agent's records are changed ends, with the reason on both nodes" {
	local act way
	mkfifo never
	for act in flip:up flip:down drop:up drop:down replay:up reorder:down; do
		way=${act#*:}
		relay "${act%:*}" "$way" 3
		node a "$at"
		node b "$server"
		await "$T/relay.out" '^did'
		finish a -
		a_err=$err
		finish b -
		has "$a_err" 'ddprun: (error|warning): .*rendezvous server'
		has "$err" '^ddprun: job .none. failed: node [01] .* was lost: '
		[ "$way" = down ] || has "$err" \
			'was lost: the connection was tampered with: record [34] does not authenticate'
		[ "$way" = up ] || has "$a_err" \
			"rendezvous server $at: the connection was tampered with: record [34] does not authenticate"
		signal relay KILL
		finish relay 137
	done
}

@test "a client and a server of different versions name both, and what to install" {
	exec 5<>"/dev/tcp/${server%:*}/${server##*:}"
	printf 'DDPR\x03\0\0\0' >&5
	await "$T/server.err" 'version 3'
	# the older client gets the greeting, which names the version, and then the end
	[ "$(head -c 5 <&5 | od -An -tx1)" = ' 44 44 50 52 0b' ]
	cat <&5 >rest
	[ "$(wc -c <rest)" = 51 ]
	exec 5>&-
	has "$line" "^ddprdzv: warning: 127.0.0.1:[0-9]+: it speaks version 3 of the protocol, but this ddprdzv version 11: install ddprun [0-9.]+ there"
	start other python3 -c '
import socket
l = socket.create_server(("127.0.0.1", 0))
print("at 127.0.0.1:%d" % l.getsockname()[1], flush=True)
while True:
	s = l.accept()[0]
	s.sendall(b"DDPR\14\2\0\0" + bytes(48))
	print("heard", s.makefile("rb").read(), flush=True)'
	await "$T/other.out" '^at '
	at=${line#at }
	expect 1 rdzv_client do "$at" j 0 0 get k
	has "$out" "^error: rendezvous server $at: it speaks version 12 of the protocol, but this program \(ddprun [0-9.]+\) speaks version 11; install the same ddprun on all nodes"
	await "$T/other.out" "^heard b'DDPR.x0b.x00.x00.x00'"
	expect 76 ddprun --nnodes 2 --rdzv-endpoint "$at" true
	has "$err" "it speaks version 12 of the protocol, but this program \(ddprun [0-9.]+\) speaks version 11; install the same ddprun on all nodes"
	signal other KILL
	finish other 137
}
