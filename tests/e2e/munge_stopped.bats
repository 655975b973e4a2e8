# A munged that does not answer: libmunge tries for 10 s, and nothing else in an agent
# waits for that. (A munged that is down is named at once: cluster/auth.bats.)
# covers: rendezvous/auth
load ../lib

setup() {
	lib_setup
	PATH=$PATH:/usr/sbin
	command -v munged >where || skip "no munge here"
	(umask 077 && head -c 1024 /dev/urandom >munge.key)
	let_others_in
	at=127.0.0.1:$(w_port free)
	munged_of a
	munged_of b
	cat >worker <<-'EOF'
	trap 'echo "$GROUP_RANK got USR1"' USR1
	echo "$GROUP_RANK is there"
	until [ -e go ]; do read -rt 0.2 -u 8 _ || true; done 8<> <(:)
	EOF
}

# Each node has its own munged with the same key, so that one can be stopped.
munged_of() {
	mkdir "$1"
	start "munged_$1" munged --foreground --force --key-file="$T/munge.key" \
		--socket="$T/$1/socket" --pid-file="$T/$1.pid" \
		--log-file="$T/$1.log" --seed-file="$T/$1.seed"
	await "$T/munged_$1.err" 'Created socket'
}

node() {
	start "$1" env DDP_LOG=debug DDP_MUNGE_SOCKET="$T/$1/socket" \
		ddprun --nnodes 2 --forward-signals USR1 --rdzv-endpoint "$at" bash worker
}

teardown() {
	local name
	for name in munged_a munged_b; do
		[ -z "${pid[$name]:-}" ] || kill -CONT "${pid[$name]}" || true
	done
	lib_teardown
}

@test "an agent whose munged is stopped can be ended at once" {
	signal munged_b STOP
	node a
	await a.err '1 of 2 nodes have joined'
	node b
	await b.err 'asking munge for a credential'
	signal b TERM
	finish b 143
	# it has not waited for that answer
	lacks "$err" 'munged does not answer'
	signal a TERM
	finish a 143
}

@test "an agent whose munged is stopped reports it once libmunge has tried for 10 s" {
	signal munged_b STOP
	node a
	await a.err '1 of 2 nodes have joined'
	node b
	finish b 77
	has "$err" "^ddprun: error: .*munged does not answer on $(hostname) \($T/b/socket: .*\); start it there \(systemctl start munge\), or give all nodes the same secret with --token-file FILE"
	signal munged_b CONT
	: >go
	node b
	finish b
	finish a
}

@test "a node learns that the munged on the server's host is stopped" {
	node a
	await a.err '1 of 2 nodes have joined'
	signal munged_a STOP
	node b
	finish b 77
	has "$err" "^ddprun: error: rendezvous server $at: it rejected our munge credential: .*munged there is down, or has a different clock or key"
	has "$(<a.err)" "munged does not answer on $(hostname) \($T/a/socket: no answer yet\); start it there"
	signal a TERM
	finish a 143
}

@test "output and signals work while an agent reconnects and its munged is stopped" {
	local server
	node a
	await a.err '1 of 2 nodes have joined'
	node b
	await b.out '1 is there'
	await a.out '0 is there'
	signal munged_b STOP
	server=$(pgrep -P "${pid[a]}" -x ddprdzv)
	kill -KILL "$server"
	# for the second time
	until [ "$(grep -c 'asking munge for a credential' b.err)" = 2 ]; do
		read -rt 0.01 _ <> <(:) || true
	done
	signal b USR1
	await b.out '1 got USR1'
	lacks "$(<b.err)" 'munged does not answer'
	signal munged_b CONT
	: >go
	finish b
	finish a
}

# Munge's answer then finds no client.
@test "a second HELLO while munge is asked ends that client alone" {
	local peer=$BATS_TEST_DIRNAME/../programs/peers/rdzv_hello_twice.py again
	start server env DDP_LOG=debug DDP_MUNGE_SOCKET="$T/a/socket" \
		ddprdzv --auth munge --listen "$at"
	await server.err 'listening'
	signal munged_a STOP
	expect 0 python3 "$peer" "$at" "$T/a/socket" -100
	[ "$out" = "{'refused': 100}" ]
	again=$(grep -c 'closed an unauthenticated connection: HELLO again$' server.err)
	[ "$again" = 100 ]
	signal munged_a CONT
	expect 0 python3 "$peer" "$at" "$T/a/socket" 300
	# both orders have occurred
	has "$out" welcome
	[ "$(grep -c 'unauthenticated connection: HELLO again$' server.err)" -gt "$again" ]
	expect 0 env DDP_MUNGE_SOCKET="$T/a/socket" ddprun --nnodes 1 \
		--rdzv-endpoint "$at" true
	signal server TERM
	finish server
}
