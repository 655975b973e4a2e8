# covers: rendezvous/journal rendezvous/server rendezvous/recovery
load ../lib
load ../hosts/etcd

# Everything that a ddprdzv has answered survives kill -9, with each kind of journal;
# tests/programs/peers/rdzv_death.py has the table of deaths.

setup() {
	lib_setup
	unset DDP_TOKEN
	export ETCDCTL_API=3
}

as_if_it_had_never_died() { # PLACE...
	expect 0 python3 "$BATS_TEST_DIRNAME/../programs/peers/rdzv_death.py" "$1" \
		"$DDPRDZV" "${@:2}"
	has "$out" '^[0-9]+ rows, 3 ways, 0 differences$'
}

@test "a server with a journal in memory resumes as if it had never died" {
	as_if_it_had_never_died memory
}

@test "a server with a journal in a file resumes as if it had never died" {
	as_if_it_had_never_died file
}

@test "a server with a journal in etcd resumes as if it had never died" {
	etcd_here --unsafe-no-fsync
	as_if_it_had_never_died etcd "$etcd"
}

@test "a journal that has become unreadable is not treated as empty" {
	start server ddprdzv --listen 127.0.0.1:0 --journal jobs
	await server.err ' listening on'
	at=${line##* }
	mkfifo say
	start node bash -c 'exec rdzv_client agent "$0" a 1 n 1 -1 0 <>say' "$at"
	await node.out '^START'
	kill -KILL "${pid[server]}"
	finish server 137
	finish node 1
	# as after a power cut: the first page exists, what it points to does not
	dd if=/dev/zero of=jobs bs=4096 seek=1 count=2 conv=notrunc 2>dd.err
	start server ddprdzv --listen 127.0.0.1:0 --journal jobs
	await server.err ' listening on'
	has "$(<server.err)" 'journal jobs: its contents are unreadable; did this host lose power'
	signal server TERM
	finish server
	start server ddprdzv --listen 127.0.0.1:0 --journal jobs
	await server.err ' listening on'
	lacks "$(<server.err)" 'cannot be read'
}

# joins NAME ADDRESSES: two nodes of job NAME by one connection, or one with an
# invalid address; prints the result
odd_agent() {
	cat >odd.py <<-'PY'
		import sys
		sys.path.insert(0, sys.argv[1])
		from rdzv_wire import *
		class Server:
		    at, etcd = ('127.0.0.1', int(sys.argv[2])), None
		j = Job(Server, sys.argv[3])
		if sys.argv[4] == 'address':
		    a = Agent(j, 'n0')
		    said = a.join(addrs=['not-an-address'])
		elif sys.argv[4] == 'resume':
		    a = j.running(nproc=1)
		    # an agent that would take over, and one of another node
		    for b, addrs in (j.keep(Agent(j, 'n0')), ['not-an-address']), \
		                    (Job(Server, 'other').agent('n1', nodes=2), []):
		        said = b.ask(RESUME, pack('sbIbl', 'n0', 1, j.round, 0, addrs))
		        print(said[0] == ERROR, Reader(said[1]).take('is')[1].decode())
		    # the node has kept its agent
		    a.exited(0)
		    print('ended', len(a.ended()) > 0)
		    sys.exit()
		else:
		    a = j.agent('n0', nodes=3)
		    a.node = 'n1'
		    said = a.join(nodes=3)
		print(said[0] == ERROR, Reader(said[1]).take('is')[1].decode())
		try:
		    a.frame()
		except Closed:
		    print('closed')
		# the job is unchanged: it begins with two others
		b, c = j.agent('b', nodes=2), j.agent('c', nodes=2)
		print('began', len(b.started()) > 0)
	PY
	expect 0 python3 odd.py "$BATS_TEST_DIRNAME/../programs/peers" "${at##*:}" "$@"
}

@test "a refused RESUME takes no node from its agent" {
	export DDP_AUTH=none
	start server ddprdzv --auth none --listen 127.0.0.1:0
	await "$T/server.err" 'listening on'
	at=${line##* }
	odd_agent resumed resume
	has "$out" '^True the node sent an invalid address$'
	has "$out" '^True RESUME after a JOIN$'
	has "$out" '^ended True$'
}

# Each is closed, without consequences for its job or another at the next start.
@test "a refused JOIN leaves nothing in the job or in the journal" {
	local i
	export DDP_AUTH=none
	start server ddprdzv --auth none --listen 127.0.0.1:0 --journal "$T/j"
	await "$T/server.err" 'listening on'
	at=${line##* }
	[ -p agent.in ] || mkfifo agent.in
	start agent bash -c 'exec rdzv_client agent "$@" <"$0"' "$T/agent.in" \
		"$at" healthy 2 node 1 -1 0
	exec 7>agent.in
	await agent.out START
	expect 0 rdzv_client do "$at" healthy 0 0 set k v
	odd_agent a address
	has "$out" '^True the node sent an invalid address$'
	has "$out" '^closed$'
	has "$out" '^began True$'
	odd_agent b node
	has "$out" '^True JOIN as node n1 on the connection of node n0$'
	has "$out" '^closed$'
	has "$out" '^began True$'
	for i in 1 2; do
		signal server KILL
		finish server 137
		start server ddprdzv --auth none --listen "$at" --journal "$T/j"
		await "$T/server.err" 'listening on'
		expect 0 rdzv_client do "$at" healthy 0 0 get k
		[ "$out" = "1 'v'" ]
		! grep -q 'is invalid\|cannot read it\|ignored' server.err
	done
}

# sessions FIRST N: each gathers 64 KiB alone and leaves; the last one, which lost its
# connection, asks once more. Then the server is killed, before its agent leaves
sessions() {
	cat >sessions.py <<-'PY'
		import sys
		sys.path.insert(0, sys.argv[1])
		from rdzv_wire import *
		class Server:
		    at, etcd = ('127.0.0.1', int(sys.argv[2])), None
		j = Job(Server, 'j')
		first, n = int(sys.argv[3]), int(sys.argv[4])
		a = j.running(nproc=1) if first == 1 else j.resume('n0')[0]
		for s in range(first, first + n):
		    for again in (0, 1) if s == first + n - 1 else (0,):
		        w = Conn(j, WORKER, 0, s)
		        kind, body = w.ask(GATHER, pack('sIIs', f'g{s}', 1, 9000,
		                                        'x' * 65536), 2)
		        if kind != REPLY:
		            print(s, body)
		            sys.exit(1)
		        w.close()
		os.kill(int(sys.argv[5]), 9)
		print('gathered', len(body))
	PY
	expect 0 python3 sessions.py "$BATS_TEST_DIRNAME/../programs/peers" "${at##*:}" "$@" \
		"${pid[server]}"
	has "$out" '^gathered 655'
	finish server 137
}

# What is kept of each for its coming again counts against --max-bytes.
@test "sessions that ended long ago are forgotten, also by the next server" {
	local first
	at=127.0.0.1:0
	for first in 1 1001 2001; do
		start server ddprdzv --auth none --listen "$at" --journal "$T/j" \
			--max-bytes 8388608
		await "$T/server.err" 'listening on'
		at=${line##* }
		sessions $first 1000
	done
}

# gate NAME WORD...: a proxy to etcd that holds a request with these words; a line of
# $T/NAME.in lets it through. $gate is where it is
gate() {
	local name=$1 to
	shift
	mkfifo "$name.in"
	exec {to}<>"$name.in"
	start "$name" bash -c 'exec python3 "$@" <"$0"' "$T/$name.in" \
		"$BATS_TEST_DIRNAME/../programs/peers/etcd_gate.py" "$etcd" "$@"
	await "$name.out" :
	gate=$line
}

# puts KEY: how a transaction of ours puts that key, or one with this prefix: a
# prefix has to be a multiple of three bytes
puts() {
	printf '"request_put":{"key":"%s' "$(printf %s "$1" | base64)"
}

server_in_etcd() { # NAME ENDPOINTS
	start "$1" ddprdzv --auth none --listen "${at:-127.0.0.1:0}" --job j \
		--etcd "$2" --etcd-ttl 600 --etcd-lease 77
	await "$T/$1.err" 'serving job'
	at=${line##* }
}

# The first batch of a job is two transactions: the piece, and what makes it count.
@test "a server killed between its first two writes leaves a job that can begin" {
	local held n=0
	export DDP_AUTH=none
	etcd_here
	for held in "$(puts /ddprun/j/jo)" "$(puts /ddprun/j/head)"; do
		n=$((n + 1))
		gate gate$n "$held"
		server_in_etcd a$n "$gate"
		start none$n rdzv_client agent "$at" j 2 node 1 -1 0
		await gate$n.out '^held$'
		signal a$n KILL
		finish a$n 137
		finish none$n -
		server_in_etcd b$n "$etcd"
		mkfifo agent$n.in
		start agent$n bash -c 'exec rdzv_client agent "$@" <"$0"' \
			"$T/agent$n.in" "$at" j 2 node 1 -1 0
		exec 7>agent$n.in
		await agent$n.out START
		echo 'exit 0 0' >&7
		echo 'exit 1 0' >&7
		finish agent$n
		signal b$n KILL
		finish b$n 137
		expect 0 etcdctl --endpoints "$etcd" del --prefix /ddprun/j/
	done
}

# A request that hangs is also sent to the next member; what the first one does with
# it in the end must not undo what came after it.
@test "a request that etcd executes late and twice changes nothing" {
	local to
	etcd_here
	gate late "$(puts /ddprun/j/head)"
	mkfifo a.in
	start a bash -c 'exec etcd_election "$@" <"$0"' "$T/a.in" \
		"$gate,$etcd" j 127.0.0.1:1 77 600
	exec {to}>a.in
	await a.out '^loaded$'
	echo 'append one' >&"$to"
	await late.out '^held$'
	await a.out '^kept 1$'
	echo 'snapshot two' >&"$to"
	await a.out '^kept 2$'
	echo 'append three' >&"$to"
	await a.out '^kept 3$'
	echo >late.in
	await late.out '^answered$'
	echo 'append four' >&"$to"
	await a.out '^kept 4$'
	signal a KILL
	finish a 137
	mkfifo b.in
	start b bash -c 'exec etcd_election "$@" <"$0"' "$T/b.in" "$etcd" j \
		127.0.0.1:1 77 600
	exec {to}>b.in
	await b.out '^loaded$'
	[ "$(grep ^had b.out)" = $'had two (3)\nhad three (5)\nhad four (4)' ]
}

# The same for a request that was done at once, with a late answer: the request
# that is sent again finds what it wanted to be so.
@test "a write is stored even if etcd's reply is lost, and the server continues" {
	local to
	etcd_here
	cat >deaf.py <<-'PY'
		import socket, sys, threading
		host, port = sys.argv[1].rsplit(':', 1)
		word = sys.argv[2].encode()
		at = socket.create_server(('127.0.0.1', 0))
		print('127.0.0.1:%d' % at.getsockname()[1], flush=True)
		lost = set()
		def pump(a, b, there):
		    while data := a.recv(1 << 16):
		        if not there and word in data and not lost:
		            lost.add(b)
		        if there and a in lost:
		            print('lost', flush=True)
		            continue
		        b.sendall(data)
		while True:
		    here, _ = at.accept()
		    up = socket.create_connection((host, int(port)))
		    threading.Thread(target=pump, args=(here, up, False), daemon=True).start()
		    threading.Thread(target=pump, args=(up, here, True), daemon=True).start()
	PY
	start deaf python3 deaf.py "$etcd" "$(puts /ddprun/j/head)"
	await deaf.out :
	mkfifo a.in
	start a bash -c 'exec etcd_election "$@" <"$0"' "$T/a.in" \
		"$line,$etcd" j 127.0.0.1:1 77 600
	exec {to}>a.in
	await a.out '^loaded$'
	echo 'append one' >&"$to"
	await deaf.out '^lost$'
	await a.out '^kept 1$'
	echo 'append two' >&"$to"
	await a.out '^kept 2$'
	! grep -q lost a.out
}
