# ddprun dump: shows what workers do, from outside, and leaves them running.
# covers: launcher/inspect rendezvous/query
load ../lib

# Other tests may run at the same time: a unique job name.
setup() {
	lib_setup
	J=dump.$TEST_COOKIE
}

# lacks TEXT ERE: no line of TEXT matches.
lacks() {
	! grep -E -e "$2" <<<"$1"
}

# has_lines N ERE...: $out has N lines like that, and so on.
has_lines() {
	while [ $# -gt 0 ]; do
		[ "$(grep -cE -e "$2" <<<"$out")" = "$1" ] || return 1
		shift 2
	done
}

# until_lines N ERE...: dumps job $J until N lines are like that; it is $out.
until_lines() {
	local end=$((SECONDS + 60))
	while [ $SECONDS -lt $end ]; do
		out=$(ddprun dump --no-stacks --job "$J" 2>&1) || true
		! has_lines "$@" || return 0
	done
	echo "not as many lines like these: $*, in:"
	echo "$out"
	return 1
}

waiting='^  in all_reduce #3 .* for [0-9.]+ s; missing: rank 1$'

state() { # PID
	local s
	s=$(<"/proc/$1/stat")
	s=${s##*) }
	echo "${s%% *}"
}

# Three ranks. Rank 1 does not enter its third call.
start_late() {
	start job ddprun --rdzv-id "$J" --nproc-per-node 3 c_fault late 1
	until_lines 2 "$waiting" 1 '^  between calls; last: all_reduce #2 '
}

end_late() {
	signal job TERM
	finish job 143
}

pid_of() { # RANK, of $out
	sed -n "s/^rank $1 (local rank $1), pid \([0-9]*\), .*/\1/p" <<<"$out"
}

@test "dump shows the call that a rank waits in, since when, and for which ranks" {
	start_late
	has "$out" "^job '$J', attempt 1: 3 of 3 ranks are on "
	has "$out" '^rank 0 \(local rank 0\), pid [0-9]+, [a-z]+, [0-9.]+ s of CPU$'
	has "$out" '^  between calls; last: all_reduce #2 \(f32 x 40000, avg\), entered [0-9.]+ s earlier$'
	has "$out" '^ +[0-9.]+ s ago  done       ddp_init$'
	has "$out" '^ +[0-9.]+ s ago  under way  all_reduce #3 \(f32 x 40000, avg\)$'
	lacks "$out" 'thread'
	expect 0 ddprun dump --no-stacks --job "$J" --last 1
	lacks "$out" 'ddp_init'
	expect 0 ddprun dump --json --no-stacks --job "$J"
	has "$out" "\"job\":	\"$J\","
	has "$out" '"not_there":	\[1\],'
	has "$out" '"state":	"under_way",'
	has "$out" '"call":	"all_reduce #3 \(f32 x 40000, avg\)",'
	end_late
}

@test "dump shows the native stacks of all workers, which continue to run" {
	local p0 p1
	start_late
	p0=$(pid_of 0) p1=$(pid_of 1)
	expect 0 ddprun dump --job "$J"
	has "$out" "^  thread $p0 \(c_fault\)"
	if grep -q 'no permission to trace it' <<<"$out"; then
		end_late
		skip "ptrace is forbidden here"
	fi
	[ "$(grep -cE ' main .*\(c_fault 0x[0-9a-f]+\)$' <<<"$out")" = 3 ]
	expect 0 ddprun dump --job "$J" --json
	[ "$(grep -c '"function":	"main",' <<<"$out")" = 3 ]
	# a worker that was stopped is shown and stays stopped
	kill -STOP "$p1"
	until_lines 1 "^rank 1 .*, pid $p1, stopped, "
	expect 0 ddprun dump --job "$J"
	[ "$(grep -c ' main ' <<<"$out")" = 3 ]
	[ "$(state "$p1")" = T ]
	kill -CONT "$p1"
	[ "$(state "$p0")" != t ]
	end_late
}

@test "a dump that is killed halfway leaves no worker stopped" {
	local i k p dump
	start_late
	for i in 0 1 2; do
		p[i]=$(pid_of $i)
	done
	for k in 0{01..25}; do
		ddprun dump --job "$J" >/dev/null 2>&1 3>&- 4>&- &
		dump=$!
		# somewhere between its begin and its end
		read -rt "0.$k" _ <> <(:) || true
		kill -KILL "$dump" 2>/dev/null || true
		wait "$dump" || true
		for i in 0 1 2; do
			case $(state "${p[i]}") in
			[tT])
				echo "rank $i is stopped:"
				grep -E '^(State|Tracer)' "/proc/${p[i]}/status"
				return 1
				;;
			esac
		done
	done
	end_late
}

@test "dump shows programs without libddp or behind a shell, and reports if there are none" {
	mkfifo go
	start job ddprun --rdzv-id "$J" sh -c "echo up; read _ <'$T/go'; true"
	await job.out up
	expect 0 ddprun dump --job "$J"
	has "$out" '^  no libddp call$'
	has "$out" '^  thread [0-9]+ \(sh\)'
	echo >go
	finish job
	# the program is a child of what ddprun started
	start job ddprun --rdzv-id "$J" --nproc-per-node 2 sh -c 'c_fault late 1; true'
	until_lines 1 "$waiting"
	[ "$(<"/proc/$(pid_of 0)/comm")" = c_fault ]
	signal job KILL
	finish job 137
	nothing_left
	expect 1 ddprun dump --job "$J"
	has "$err" "^ddprun: error: none of your ddpruns runs workers of job '$J' on "
}

@test "without libdw dump says which library is missing" {
	local lib=$T/lib
	mkdir "$lib"
	: >"$lib/libdw.so.1"
	start job ddprun --rdzv-id "$J" --nproc-per-node 2 c_fault late 1
	until_lines 1 "$waiting"
	LD_LIBRARY_PATH=$lib expect 0 ddprun dump --job "$J"
	[ "$(grep -c '^  no native stacks: .*libdw1' <<<"$out")" = 2 ]
	has "$out" '^  in all_reduce #3 '
	end_late
}

@test "dump prints its usage; a program named dump can still be started" {
	expect 0 ddprun dump --help
	has "$out" '^ *--no-stacks'
	expect 2 ddprun dump --jsn
	has "$err" 'json'
	expect 2 ddprun dump --last 999
	has "$err" '256'
	expect 2 ddprun dump me
	has "$err" "unexpected word 'me'"
	printf '#!/bin/sh\necho it runs\n' >dump
	chmod +x dump
	expect 0 ddprun ./dump
	has "$out" 'it runs'
}

# Two nodes of two ranks each on this machine; rank 1 does not enter the call.
start_nodes() { # OPTIONS...
	local n
	at=127.0.0.1:$(w_port free)
	for n in a b; do
		start $n ddprun --rdzv-id "$J" --nnodes 2 --nproc-per-node 2 \
			--rdzv-endpoint "$at" "$@" c_fault late 1
	done
	until_lines 3 '^  in all_reduce #3 ' 1 '^3 of 4 ranks have reached '
}

end_nodes() {
	signal a TERM
	finish a 143
	finish b -
}

@test "one dump shows the ranks of all nodes, on a node and elsewhere" {
	start_nodes
	[ "$(grep -E '^rank ' <<<"$out" | cut -d ' ' -f 1-2 | xargs)" = \
		"rank 0 rank 1 rank 2 rank 3" ]
	[ "$(grep -cE "^job '$J', attempt 1: 2 of 4 ranks are on " <<<"$out")" = 2 ]
	has "$out" '; missing: rank 1; unknown: 2 ranks of other nodes$'
	has "$out" '^3 of 4 ranks have reached all_reduce #3 \(f32 x 40000, avg\); missing: rank 1 \(.*\)$'
	# on a host without a ddprun --rdzv-endpoint says where
	expect 0 ddprun dump --rdzv-endpoint "$at" --job "$J" --last 0
	[ "$(grep -c '^rank ' <<<"$out")" = 4 ]
	lacks "$out" 'last calls'
	if ! grep -q 'no permission to trace it' <<<"$out"; then
		[ "$(grep -cE ' main .*\(c_fault 0x[0-9a-f]+\)$' <<<"$out")" = 4 ]
	fi
	expect 0 ddprun dump --json --no-stacks --job "$J"
	[ "$(grep -c '"answered":	true,' <<<"$out")" = 2 ]
	[ "$(grep -cE '^				"version":	1,$' <<<"$out")" = 2 ]
	[ "$(grep -cE '"call":	"all_reduce #3 .*",$' <<<"$out")" -ge 3 ]
	has "$out" '"here":	null$'
	# --here asks no server
	expect 0 ddprun dump --here --no-stacks --job "$J"
	[ "$(grep -c '^job ' <<<"$out")" = 1 ]
	has "$out" "^job '$J', attempt 1: 4 of 4 ranks are on "
	end_nodes
}

@test "dump shows a cycle of ranks that wait for each other" {
	start job ddprun --rdzv-id "$J" --nproc-per-node 4 c_cycle 3
	until_lines 1 '^deadlock: 3 ranks wait for each other$'
	has "$out" '^  rank 0 \(.*\) waits for rank 1 in recv '
	has "$out" '^  rank 1 \(.*\) waits for rank 2 in recv '
	has "$out" '^  rank 2 \(.*\) waits for rank 0 in recv '
	expect 0 ddprun dump --json --no-stacks --job "$J"
	has "$out" '"findings":	\["deadlock: 3 ranks wait for each other", '
	end_late
	# between nodes as well
	at=127.0.0.1:$(w_port free)
	for n in a b; do
		start $n ddprun --rdzv-id "$J" --nnodes 2 --rdzv-endpoint "$at" \
			c_cycle
	done
	until_lines 1 '^deadlock: 2 ranks wait for each other$'
	has "$out" '^  rank 1 \(.*\) waits for rank 0 in recv '
	end_nodes
}

@test "dump reports no deadlock in a job that makes progress" {
	local i
	start job ddprun --rdzv-id "$J" --nproc-per-node 3 c_fault on 0
	await job.out 'rank 0 goes on'
	for i in 1 2 3; do
		expect 0 ddprun dump --no-stacks --job "$J"
		lacks "$out" '^deadlock'
	done
	signal job KILL
	finish job 137
}

@test "many dumps run at once, also while the job ends" {
	local i
	start_nodes
	for i in 1 2 3 4; do
		start "d$i" ddprun dump --job "$J" --rdzv-endpoint "$at"
	done
	for i in 1 2 3 4; do
		finish "d$i"
		[ "$(grep -c '^rank ' <<<"$out")" = 4 ]
	done
	start last ddprun dump --job "$J" --rdzv-endpoint "$at"
	end_nodes
	# all workers, or which node has gone, or that there are none
	finish last -
	nothing_left
}

# server: a ddprdzv at $at.
server() {
	start server ddprdzv --listen 127.0.0.1:0
	await server.err 'listening on'
	at=${line##* }
}

# elsewhere NAME: a node of job $J on $at that only reads.
elsewhere() {
	mkfifo "$T/$1.in"
	start "$1" bash -c 'exec rdzv_client "$@" <>"$0"' "$T/$1.in" \
		agent "$at" "$J" 1 "$1" 2 -1 0 0 60000 default "$1-host"
}

@test "dump names a node that does not answer, and how long it was silent" {
	server
	start a ddprun --rdzv-id "$J" --nnodes 2 --rdzv-endpoint "$at" \
		--node-rank 0 --heartbeat-timeout 300 bash -c "echo up; $IDLE"
	elsewhere mute
	await a.out up
	start text ddprun dump --no-stacks --job "$J" --timeout 4
	start json ddprun dump --no-stacks --json --job "$J" --timeout 4
	finish text
	has "$out" "^job '$J', attempt 1: 1 of 2 ranks are on "
	has "$out" '^node 1 \(mute-host\) did not answer within 4 s; the server has not heard from it for [0-9.]+ s$'
	finish json
	has "$out" '"answered":	false,'
	# dump does not wait for a node that leaves meanwhile
	start dump ddprun dump --no-stacks --job "$J" --timeout 60
	# the third time that it is asked
	await mute.out '^DUMP_REQUEST 3'
	signal mute KILL
	finish mute 137
	finish dump -
	finish a -
	signal server TERM
	finish server -
	nothing_left
}

@test "if the server does not answer, dump shows this host and says why" {
	server
	start a ddprun --rdzv-id "$J" --nnodes 2 --rdzv-endpoint "$at" \
		--heartbeat-timeout 300 --shutdown-timeout 1 bash -c "echo up; $IDLE"
	elsewhere mute
	await a.out up
	signal server STOP
	expect 0 ddprun dump --no-stacks --job "$J" --timeout 0.1
	signal server CONT
	has "$err" "^ddprun: warning: cannot query the other nodes of job '$J': rendezvous server $at: no answer; showing this host only$"
	has "$out" "^job '$J', attempt 1: 1 of 2 ranks are on "
	signal a TERM
	finish a 143
	finish mute -
	signal server TERM
	finish server -
}

@test "dump refuses options that cannot be combined, and reports an unknown job" {
	at=127.0.0.1:$(w_port free)
	expect 71 ddprun dump --rdzv-endpoint "$at"
	has "$err" "^ddprun: error: rendezvous server $at: cannot connect"
	server
	expect 77 ddprun dump --rdzv-endpoint "$at" --job "$J"
	has "$err" "^ddprun: error: there is no job '$J' at $at$"
	signal server TERM
	finish server -
	expect 2 ddprun dump --rdzv-endpoint "$at" --here
	has "$err" '\-\-here'
	expect 2 ddprun dump --timeout 0
	has "$err" 'timeout'
}
