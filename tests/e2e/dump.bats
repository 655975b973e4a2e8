# ddprun dump: what runs is seen from outside, and goes on.
load ../lib

# Others may test here at the same time: a name that no other job has.
setup() {
	lib_setup
	J=dump.$TEST_COOKIE
}

# lacks TEXT ERE: no line of TEXT matches.
lacks() {
	! grep -E -e "$2" <<<"$1"
}

# until_lines N ERE: dumps job $J until N lines are like that; it is $out.
until_lines() {
	local end=$((SECONDS + 60))
	while [ $SECONDS -lt $end ]; do
		out=$(ddprun dump --no-stacks --job "$J" 2>&1) || true
		[ "$(grep -cE -e "$2" <<<"$out")" != "$1" ] || return 0
	done
	echo "not $1 lines like '$2' in:"
	echo "$out"
	return 1
}

waiting='^  in all_reduce #3 .* for [0-9.]+ s; not there: rank 1$'

state() { # PID
	local s
	s=$(<"/proc/$1/stat")
	s=${s##*) }
	echo "${s%% *}"
}

# Three ranks, of which rank 1 does not come to its third call.
start_late() {
	start job ddprun --rdzv-id "$J" --nproc-per-node 3 c_fault late 1
	until_lines 2 "$waiting"
}

end_late() {
	signal job TERM
	finish job 143
}

pid_of() { # RANK, of $out
	sed -n "s/^rank $1 (local rank $1), pid \([0-9]*\), .*/\1/p" <<<"$out"
}

@test "who waits is told in which call, since when and for whom" {
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

@test "the native stacks of all, who run on" {
	local p0 p1
	start_late
	p0=$(pid_of 0) p1=$(pid_of 1)
	expect 0 ddprun dump --job "$J"
	has "$out" "^  thread $p0 \(c_fault\)"
	if grep -q 'no permission to look at it' <<<"$out"; then
		end_late
		skip "ptrace is forbidden here"
	fi
	[ "$(grep -cE ' main .*\(c_fault 0x[0-9a-f]+\)$' <<<"$out")" = 3 ]
	expect 0 ddprun dump --job "$J" --json
	[ "$(grep -c '"function":	"main",' <<<"$out")" = 3 ]
	# one that is stopped is seen, and stays so
	kill -STOP "$p1"
	until_lines 1 "^rank 1 .*, pid $p1, stopped, "
	expect 0 ddprun dump --job "$J"
	[ "$(grep -c ' main ' <<<"$out")" = 3 ]
	[ "$(state "$p1")" = T ]
	kill -CONT "$p1"
	[ "$(state "$p0")" != t ]
	end_late
}

@test "a dump that is killed in the midst leaves nobody stopped" {
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

@test "programs without libddp, behind a shell, and none at all" {
	mkfifo go
	start job ddprun --rdzv-id "$J" sh -c "echo up; read _ <'$T/go'; true"
	await job.out up
	expect 0 ddprun dump --job "$J"
	has "$out" '^  no call of libddp$'
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
	has "$err" "^ddprun: error: no ddprun of yours runs workers of job '$J' on "
}

@test "without libdw a line says what is missing" {
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

@test "its usage; and a program of its name can be started" {
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
