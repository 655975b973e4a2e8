load ../lib
load ../hosts/etcd

# What a ddprdzv has answered is there after kill -9, in each place that it can be
# kept in: tests/programs/rdzv_death.py has the table of all that can happen.

setup() {
	lib_setup
	unset DDP_TOKEN
	export ETCDCTL_API=3
}

as_if_it_had_never_died() { # PLACE...
	expect 0 python3 "$BATS_TEST_DIRNAME/../programs/rdzv_death.py" "$1" \
		"$DDPRDZV" "${@:2}"
	has "$out" '^[0-9]+ rows, 3 ways, 0 differences$'
}

@test "a server with a journal in memory goes on as if it had never died" {
	as_if_it_had_never_died memory
}

@test "a server with a journal in a file goes on as if it had never died" {
	as_if_it_had_never_died file
}

@test "a server with a journal in etcd goes on as if it had never died" {
	etcd_here --unsafe-no-fsync
	as_if_it_had_never_died etcd "$etcd"
}

# joins NAME ADDRESSES: two nodes of job NAME by one connection, or one with an
# address that is none; prints what becomes of it
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
		else:
		    a = j.agent('n0', nodes=3)
		    a.node = 'n1'
		    said = a.join(nodes=3)
		print(said[0] == ERROR, Reader(said[1]).take('is')[1].decode())
		try:
		    a.frame()
		except Closed:
		    print('closed')
		# the job is as if that had not been: it begins with two others
		b, c = j.agent('b', nodes=2), j.agent('c', nodes=2)
		print('began', len(b.started()) > 0)
	PY
	expect 0 python3 odd.py "$BATS_TEST_DIRNAME/../programs" "${at##*:}" "$@"
}

# Each is closed; and neither its job nor another pays for it at the next start.
@test "a JOIN that is refused leaves nothing in the job, nor in the journal" {
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
	has "$out" '^True what is to be an address of the node is none$'
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
		! grep -q 'makes no sense\|left out' server.err
	done
}
