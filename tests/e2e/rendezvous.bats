# ddprdzv alone, over real sockets: workers and agents that behave, vanish, fall
# silent or send nonsense, and the server's own end.
# covers: rendezvous/round rendezvous/server rendezvous/daemon rendezvous/net
# covers: rendezvous/admission
load ../lib

# server [OPTION...]: a ddprdzv of our own; $at is its endpoint.
server() {
	start server ddprdzv --listen 127.0.0.1:0 --heartbeat-timeout 60 "$@"
	await "$T/server.err" 'listening on'
	at=${line##* }
}

# node NAME NPROC NNODES [NODE_RANK [RESTARTS]]: an agent of job j; say NAME
# LINE tells it what to do, its output is $T/NAME.out.
node() {
	mkfifo "$T/$1.in"
	start "$1" bash -c 'exec rdzv_client "$@" <>"$0"' "$T/$1.in" \
		agent "$at" j "$2" "$1" "$3" "${4:--1}" "${5:-0}"
}

# (opened for both, which never waits for a reader that may have left)
say() {
	echo "$2" 1<>"$T/$1.in"
}

one_node() {
	node h1 "$1" 1 -1 "${2:-0}"
	await "$T/h1.out" '^START'
}

worker() {
	local round=$1 rank=$2
	shift 2
	rdzv_client do "$at" j "$round" "$rank" "$@"
}

# connect: a bare connection as descriptor 5. rest: what comes until it closes.
# connect: to fd 5. The server greets first; the rest stays unread.
connect() {
	local greeted
	exec 5<>"/dev/tcp/${at%:*}/${at##*:}"
	greeted=$(head -c 56 <&5 | od -An -v -tx1 -w100 | tr -d ' ')
	[ ${#greeted} = 112 ]
	[ "${greeted:0:16}" = $greeting ]
}

rest() {
	timeout 60 cat <&5 | od -An -v -tx1 -w100000 | tr -d ' '
	exec 5>&-
}

preface='DDPR\x0b\0\0\0'
greeting=444450520b020000

@test "requests of two workers share one store" {
	server
	one_node 2
	run worker 0 0 set k v get k get nope add n 5 add n -7 cas k v w \
		cas k x y append l ab append l cd delete k delete k \
		mset a 1 b 2 mget a c barrier solo 1 1000 wait 100 a
	[ "$status" = 0 ]
	[ "${lines[*]}" = "1 'v' 0 '' 5 -2 1 'w' 1 'w' 2 4 1 0 1 '1' 0 ''" ]
	run worker 0 1 get l get n
	[ "${lines[*]}" = "1 'abcd' 1 '-2'" ]
}

@test "a wait ends with the key, or its error names the missing key" {
	server
	one_node 2
	start waiter rdzv_client do "$at" j 0 1 set ready 1 wait 60000 later \
		get later
	worker 0 0 wait 60000 ready set later now
	finish waiter
	[ "$out" = "1 'now'" ]
	run worker 0 0 wait 50 never
	[ "$status" = 1 ]
	[[ $output == "error: waited "*" s for 1 of 1 key that nobody has set: 'never'" ]]
	run worker 0 0 wait 0 never
	[[ $output == "error: waited "*" s for 1 of 1 key that nobody has set: 'never'" ]]
	run worker 0 0 gather g 2 50 x
	[[ $output == "error: waited "*" s for 1 of 2 ranks at gather 'g': rank 1 (h1, not connected)" ]]
}

@test "a share works like a gather; if no rank relays it, the server sends all of it" {
	server
	one_node 3
	start g rdzv_client do "$at" j 0 1 gather g 3 60000 b whole 3
	start s rdzv_client do "$at" j 0 2 share g 3 60000 c whole 3
	run worker 0 0 share g 3 60000 a whole 3 set k v whole 3
	[ "$status" = 1 ]
	[ "${lines[0]}" = "a b c" ]
	[ "${lines[1]}" = "a b c" ]
	# only as long as it is the last that this worker did
	[[ ${lines[2]} == "error: rank 0 asks for the list of a SHARE, but its last request was not a SHARE" ]]
	finish s
	[ "$out" = $'a b c\na b c' ]
	finish g 1
	[[ $out == $'a b c\nerror: rank 1 asks for the list of a SHARE'* ]]
	run worker 0 0 share h 3 50 x
	[[ $output == "error: waited "*" s for 2 of 3 ranks at gather 'h': rank 1 (h1, not connected), rank 2 (h1, not connected)" ]]
	# a port, and no address
	run rdzv_client raw "$at" j 0 0 \
		3000000015000000020000000100000067030000000000000000000000419c1000000030313233343536373839616263646566000000000000000000
	[[ $output == *"SHARE: the offer to relay the list is incomplete"* ]]
}

@test "many workers at once are served" {
	server
	one_node 48
	local i
	for i in {0..47}; do
		start "w$i" rdzv_client do "$at" j 0 "$i" barrier b 48 60000 \
			many n 50 gather g 48 60000 "$i" barrier b 48 60000 get n
	done
	for i in {0..47}; do
		finish "w$i"
		[ "$(tail -n 1 <<<"$out")" = "1 '2400'" ]
		has "$out" "^$(echo {0..47})\$"
	done
}

@test "values up to 8 MiB are stored; one byte more closes the connection" {
	server
	one_node 1
	[ "$(worker 0 0 big k 8388608 big k 1000000 big k 0)" = \
		$'same\nsame\nsame' ]
	run worker 0 0 big k 8388609
	[ "$status" = 1 ]
	[[ $output == *"SET: field 'value' exceeds its limit"* ]]
}

@test "a set whose sender closes at once is applied" {
	server
	one_node 1
	local i
	for i in {1..20}; do
		rdzv_client drop "$at" j 0 0 "k$i" v
		[ "$(worker 0 0 wait 60000 "k$i" get "k$i")" = "1 'v'" ]
	done
}

@test "a worker that dies in a barrier is removed from it" {
	server
	one_node 3
	start dying rdzv_client do "$at" j 0 0 set here 1 barrier b 2 60000
	worker 0 1 wait 60000 here
	signal dying KILL
	finish dying 137
	# its place is free when its end is known: until then these are 2
	start first rdzv_client do "$at" j 0 1 barrier c 2 60000 barrier b 2 60000
	worker 0 2 barrier c 2 60000 barrier b 2 60000
	finish first
}

@test "a client that reads nothing is closed, and others are served" {
	server
	one_node 2
	worker 0 0 big k 8000000
	start flood rdzv_client flood "$at" j 0 1 k 40
	finish flood
	[ "$out" = closed ]
	[ "$(worker 0 0 add n 1)" = 1 ]
}

# Its time for an answer ends before the lease does.
@test "the reported fate of a rank with a silent agent is a lost node" {
	server
	node h1 1 2 0
	mkfifo h2.in
	start h2 bash -c 'exec rdzv_client "$@" <>h2.in' rdzv_client \
		agent "$at" j 1 h2 2 1 0 30000 1000
	await h1.out '^START'
	await h2.out '^START'
	start f rdzv_client do "$at" j 0 0 fate 1 1
	finish f -
	has "$out$err" 'node 1 \(h2\) was lost: not heard from for 1.0 s'
}

@test "a rank's exit fails the gather that misses it, becomes its fate, and ends the round" {
	local killed='rank 2 (local rank 2) on h1, pid 4711, was killed by signal 9 (SIGKILL)'
	server
	one_node 3
	start g rdzv_client do "$at" j 0 0 set g 1 gather all 3 60000 x
	start f rdzv_client do "$at" j 0 1 set f 1 fate 2 60000
	start p rdzv_client do "$at" j 0 1 set p 1 wait 60000 never
	worker 0 0 wait 60000 g wait 60000 f wait 60000 p
	say h1 "kill 2 9"
	finish g 1
	# without the rest where its gather comes after that
	[ "${out%" before it reached 'all'"}" = "error: $killed" ]
	finish f
	[ "$out" = "fate: $killed" ]
	finish p 1
	[ "$out" = "error: $killed" ]
	finish h1 137
	has "$out" '^END round 0 verdict 1 exit_code 137 left 0 rank 2: rank 2 '
}

@test "a rank that exits with 0 before a gather fails it for the waiting ranks" {
	server
	one_node 2
	start g rdzv_client do "$at" j 0 0 set g 1 gather all 2 60000 x
	worker 0 1 wait 60000 g
	say h1 "exit 1 0"
	finish g 1
	[ "${out%" before it reached 'all'"}" = "error: rank 1 (local rank 1) on h1, pid 4711, exited with code 0" ]
}

@test "a restart has its own keyspace, and no worker of the old round" {
	server
	one_node 2 1
	worker 0 0 set k old
	say h1 "exit 1 3"
	await "$T/h1.out" '^END round 0 verdict 2 exit_code 3 left 0'
	run worker 0 0 get k
	[[ $output == "error: round 0 of job 'j' is over: rank 1 "* ]]
	say h1 join
	await "$T/h1.out" '^START round 1 attempt 1'
	[ "$(worker 1 0 get k)" = "0 ''" ]
	run worker 0 0 get k
	[ "$status" = 1 ]
	say h1 "exit 1 0"
	say h1 "exit 0 0"
	finish h1 0
	has "$out" '^END round 1 verdict 0 .*: all 2 workers exited with code 0$'
}

@test "a worker that connects after its job learns how the job ended" {
	server
	one_node 2
	say h1 "exit 1 3"
	finish h1 3
	run worker 0 0 get k
	has "$output" "round 0 of job 'j' is over: rank 1 .* exited with code 3"
	run worker 1 0 get k
	has "$output" "round 1 of job 'j' is over: the job is no longer on this server"
}

@test "two nodes get ranks, and the loss of one ends the other" {
	server
	node h1 2 2
	await "$T/h1.out" '^STATE 1 of 2'
	node h2 3 2 0
	await "$T/h1.out" '^START round 0 attempt 0 node 1 of 2 base 3 world 5'
	await "$T/h2.out" '^START round 0 attempt 0 node 0 of 2 base 0 world 5'
	signal h2 KILL
	finish h2 137
	finish h1 69
	has "$out" 'rank -1: node 0 \(h2\) was lost: its connection '
}

@test "an exit that an agent reported before it closed counts, not the loss" {
	server
	local i
	for i in {1..10}; do
		node h1 1 2
		node h2 1 2 1
		await "$T/h1.out" '^START'
		await "$T/h2.out" '^START'
		say h2 "gone 1 11"
		finish h2
		finish h1 139
		has "$out" 'was killed by signal 11 \(SIGSEGV\)$'
		rm "$T"/h?.in
	done
}

@test "a node that stops on a signal ends the job for all" {
	server
	node h1 1 2
	node h2 1 2
	await "$T/h1.out" '^START'
	say h1 "leave 2"
	finish h1 130
	finish h2 130
	has "$out" 'verdict 3 .*: node [01] \(h1\) received SIGINT$'
}

@test "a node that leaves while the others gather frees its place" {
	server
	node h1 1 2 1
	await "$T/h1.out" '^STATE 1 of 2 node 0'
	signal h1 TERM
	finish h1 143
	node h2 1 2 1
	node h3 1 2 0
	await "$T/h2.out" '^START .* node 1 of 2'
	await "$T/h3.out" '^START .* node 0 of 2'
}

@test "a duplicate rank and a different size are refused" {
	server
	node h1 1 2 1
	await "$T/h1.out" '^STATE'
	node h2 1 2 1
	finish h2 1
	has "$out" "^error: --node-rank 1 of job 'j' at $at is taken by h1: give h2 another"
	node h3 1 3
	finish h3 1
	has "$out" "^error: h3 has --nnodes 3, but h1 has 2 in job 'j' at $at: "
}

@test "a job's id is free when it has ended" {
	server
	one_node 1
	say h1 "exit 0 0"
	finish h1
	rm "$T/h1.in"
	one_node 1
	has "$(<"$T/h1.out")" '^START round [01] attempt 0'
}

@test "a silent agent is lost, and a pinging agent is not" {
	# long enough for pings to be in time on a loaded machine
	start server ddprdzv --listen 127.0.0.1:0 --heartbeat-timeout 3
	await "$T/server.err" 'listening on'
	at=${line##* }
	node h1 1 2
	node h2 1 2
	await "$T/h1.out" '^START'
	SECONDS=0
	until grep -q ^END "$T/h1.out" || [ $SECONDS -gt 60 ]; do
		say h1 ping
	done
	finish h1 69
	has "$out" '^PONG'
	has "$out" 'node [01] \(h2\) was lost: not heard from for 3.0 s$'
	finish h2 1
	has "$out" '^error: this node was not heard from for 3.0 s; was it stopped, or was its network down'
}

@test "garbage and other protocols are closed without a reply" {
	server
	one_node 1
	local bytes
	for bytes in 'GET / HTTP/1.1\r\n\r\n' '\0\0\0\0' 'DDPX' \
		'DDPR\x01\0\0\0' 'DDPR\x03\0\0\0' 'DDPR\x0a\0\0\0' 'DDPR\x0b\0\0\1' '\xff'; do
		connect
		printf "$bytes" >&5
		[ -z "$(rest)" ]
	done
	[ "$(worker 0 0 add n 1)" = 1 ]
}

# error_of HEX: the server's error for a worker that sends these bytes
error_of() {
	local told
	! told=$(rdzv_client raw "$at" j 0 0 "$1")
	told=${told#sent$'\n'}
	[ "${told##*$'\n'}" = closed ]
	echo "${told%$'\n'closed}"
}

@test "invalid frames get an error, then a close" {
	server
	one_node 1
	[ "$(error_of 01000001)" = \
		'-20005: a frame has 16777217 bytes, but the limit is 16777216' ]
	[ "$(error_of 000000006300000000000000)" = \
		'-20005: there is no message type 99' ]
	[ "$(error_of 000000000a07000000000000)" = \
		'-20005: SET: kind 7 or the zero after it is invalid' ]
	[ "$(error_of 000000001e00000005000000)" = \
		'-20005: JOIN, kind 0, from a worker: not allowed' ]
	[ "$(error_of 020000000a000000010000000100)" = \
		'-20005: SET: the body is too short' ]
	[ "$(worker 0 0 add n 1)" = 1 ]
}

@test "a client that violates the protocol before its proof gets only the greeting" {
	server
	one_node 1
	local bytes
	# too long; no such type; kind; no HELLO; a torn one
	for bytes in '\x01\x10\0\0' '\0\0\0\0\x63\0\0\0\0\0\0\0' \
		'\0\0\0\0\x0a\x07\0\0\0\0\0\0' '\0\0\0\0\x0a\0\0\0\x05\0\0\0' \
		'\x02\0\0\0\x01\0\0\0\x01\0\0\0\x01\0'; do
		connect
		printf "$preface" >&5
		printf "$bytes" >&5
		[ -z "$(rest)" ]
	done
	[ "$(worker 0 0 add n 1)" = 1 ]
}

@test "half a frame and silence are closed after the hello timeout" {
	server --hello-timeout 1.5
	one_node 1
	# an authenticated client may be silent for longer
	start w rdzv_client do "$at" j 0 0 wait 2000 never add n 1
	connect
	exec 6<&5
	connect
	exec 7<&5
	connect
	printf 'DDP' >&6
	printf "$preface"'\x20\0\0\0\x01\0' >&7
	[ -z "$(rest)" ]
	exec 5<&6 6>&-
	[ -z "$(rest)" ]
	exec 5<&7 7>&-
	[ -z "$(rest)" ]
	finish w 1
	has "$out" 'for 1 of 1 key that nobody has set: '
}

@test "half a frame after HELLO delays no other client" {
	server
	one_node 1
	start half rdzv_client raw "$at" j 0 0 000010000a0000000200000001
	await "$T/half.out" '^sent'
	[ "$(worker 0 0 add n 1)" = 1 ]
	signal half KILL
	finish half 137
}

@test "SIGTERM notifies the agents and ends the server" {
	server
	one_node 1
	start w rdzv_client do "$at" j 0 0 set here 1 wait 60000 never
	worker 0 0 wait 60000 here
	signal server TERM
	finish h1 69
	has "$out" "the rendezvous server at $at received SIGTERM"
	finish w 1
	has "$out" 'received SIGTERM'
	finish server
}

@test "a server that stops does not wait for clients that stay" {
	server
	one_node 1
	start w rdzv_client do "$at" j 0 0 set here 1 wait 60000 never
	worker 0 0 wait 60000 here
	signal h1 STOP
	signal w STOP
	signal server TERM
	finish server
	signal h1 CONT
	signal w CONT
	finish h1 69
	finish w 1
}

@test "a server with a parent prints nothing, and ends when the parent's pipe closes" {
	mkfifo pipe
	start server bash -c 'exec ddprdzv --listen 127.0.0.1:0 \
		--parent-fd 7 7<"$0"' "$T/pipe"
	exec 8>"$T/pipe"
	signal server INT
	exec 8>&-
	finish server 0
	[ -z "$out$err" ]
}

# own_server: as an agent or a remote end starts it; its pipe is descriptor 8
own_server() {
	mkfifo pipe
	at=127.0.0.1:$(w_port free)
	start server bash -c 'exec ddprdzv --listen "$1" --job j --parent-fd 7 \
		7<"$0"' "$T/pipe" "$at"
	exec 8>"$T/pipe"
	until : 2>/dev/null <>"/dev/tcp/${at/://}"; do :; done
}

@test "a node that joins after the only run of a server learns how it ended" {
	own_server
	node h1 1 1:2
	await "$T/h1.out" '^START'
	say h1 "exit 0 7"
	finish h1 7
	node h2 1 1:2
	finish h2 7
	has "$out" '^END .*exited with code 7'
	lacks "$out" '^START'
	exec 8>&-
	finish server
}

# 33 bytes without an authentication method
@test "when the server's node has left, running and late nodes end" {
	own_server
	node h1 1 2
	node h2 1 2
	await "$T/h1.out" '^START'
	await "$T/h2.out" '^START'
	head -c 33 /dev/zero >&8
	finish h1 69
	has "$out" '^END .*the ddprun that started it is gone'
	finish h2 69
	node h3 1 2
	finish h3 69
	has "$out" '^END .*the ddprun that started it is gone'
	exec 8>&-
	finish server
}

@test "when the server's node leaves before the others join, they are notified" {
	own_server
	head -c 33 /dev/zero >&8
	node h2 1 2
	finish h2 69
	has "$out" '^END .*the ddprun that started it is gone'
	exec 8>&-
	finish server
}

@test "bad options are one line and exit status 2" {
	expect 2 ddprdzv
	has "$err" 'no address to listen on: give --listen HOST:PORT'
	expect 2 ddprdzv --listen 127.0.0.1:99999
	has "$err" '99999'
	expect 2 ddprdzv --lisen 127.0.0.1:0
	has "$err" "--lisen.*--listen"
	expect 2 ddprdzv --listen 127.0.0.1:0 more
	has "$err" "'more'"
	expect 2 ddprdzv --listen 127.0.0.1:0 --heartbeat-timeout 0
	has "$err" 'heartbeat-timeout'
	expect 71 ddprdzv --listen-fd 99
	has "$err" '--listen-fd 99 is not a socket'
	server
	expect 71 ddprdzv --listen "$at"
	has "$err" "${at##*:}"
}

@test "a server of one job turns other jobs' agents away, and serves its own" {
	server --job other
	node h1 1 1
	await "$T/h1.out" 'only serves another job'
	expect 0 ddprun --nnodes 1:1 --rdzv-id other --rdzv-endpoint "$at" true
	expect 2 ddprdzv --listen 127.0.0.1:0 --guests 2
	has "$err" '--guests needs --job'
}
