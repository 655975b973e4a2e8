# faults.bats: shortage of memory, descriptors or disk space, and an ssh whose other
# side sends nonsense. `make faults` tries all single faults; this is a sample.
# covers: tests/faults launcher/agent launcher/ssh launcher/worker rendezvous/daemon

load ../lib
load faults

# A "ssh" that is the given shell text, with the host's name in $1.
fake_ssh() {
	printf '#!/bin/sh\n%s\n' "$1" >"$T/FAKE"
	chmod +x "$T/FAKE"
}

# Frames of a far side: length of the body, type, host, body (remote_frame.h).
greeting='printf "\002ddprun far\003"'

@test "a sample of single faults causes no crash, hang, silence, leftover or wrong end" {
	needs_plain_build
	inject OWN=1 N=130 SEED=22 JOBS=2
}

@test "a remote end that has no pipes for its ddprun starts none" {
	needs_plain_build
	inject FOR=far JOB=hosts CALL=fcntl LOG="$T/runs"
	# its first four are for ssh's pipes; no run waits for a node, or
	# reports a signal that nobody sent
	[ "$(grep -c '"code": 71' runs)" -ge 9 ]
	! grep '"code": \(75\|143\)' runs
}

# Few of the sample above are writes. A write that fails while the connection reads
# on must not leave the others waiting.
@test "a job ends if any write of a node's ddprun fails" {
	needs_plain_build
	inject FOR=agent CALL=write JOB=ok JOBS=2
}

# The sample has a few of these: without descriptors, libuv's initializers fail.
@test "however few descriptors are free, a node's ddprun reports that and exits" {
	needs_plain_build
	inject FOR=agent CALL="free pipe2" JOB=ok JOBS=2
	# n = 0 to 47, and each of libuv's pipes
	has "$output" '^\| agent \| free \| 48 \|'
}

@test "a server without memory for a node counts as lost, and does not refuse it" {
	needs_plain_build
	inject FOR=server JOB=sums CALL=malloc LOG="$T/runs"
	[ "$(grep -c '"code": 69.*server is out of memory' runs)" -ge 9 ]
	! grep '"code": 77' runs
}

@test "a getrandom that a signal interrupts is retried" {
	[ -z "${SAN:-}" ] || skip "a sanitizer does not like to be preloaded over"
	for n in 1 2 3; do
		rm -f state
		truncate -s 100k state
		expect 0 env LD_PRELOAD="$O/tests/faults.so" FAULT_PROGRAM=ddprun \
			FAULT_ROLE=agent FAULT_CALL=getrandom FAULT_ERROR=4 \
			FAULT_AT=$n FAULT_STATE="$T/state" ddprun --standalone true
	done
}

# There libuv cannot return an error.
@test "a ddprun that libuv aborts names the host, the process and the cause" {
	local n code aborts=0
	[ -z "${SAN:-}" ] || skip "a sanitizer does not like to be preloaded over"
	for n in {1..12}; do
		code=0
		rm -f state
		truncate -s 100k state
		env LD_PRELOAD="$O/tests/faults.so" FAULT_PROGRAM=ddprun \
			FAULT_ROLE=agent FAULT_CALL=pipe2 FAULT_ERROR=24 \
			FAULT_AT=$n FAULT_ABORT=1 FAULT_STATE="$T/state" \
			ddprun --standalone true 2>err || code=$?
		[ $code = 134 ] || continue
		aborts=$((aborts + 1))
		has "$(<err)" "^ddprun: error: ddprun on $(hostname) \(pid [0-9]+\) aborted: too many open files; raise the limit \(ulimit -n\)$"
	done
	[ "$aborts" -gt 0 ]
}

@test "--help, --version and a dry run to a full disk are errors" {
	local what
	for what in --help --version "--print-completion bash" "--dry-run true"; do
		status=0
		ddprun $what >/dev/full 2>err || status=$?
		[ $status = 71 ]
		has "$(<err)" 'error: cannot .*: No space left on device'
	done
	status=0
	ddprdzv --help >/dev/full 2>err || status=$?
	[ $status = 71 ]
	has "$(<err)" 'cannot write to stdout: No space left on device'
}

@test "128 KiB of stack are enough for ddprun" {
	[ -z "${SAN:-}" ] || skip "sanitizers need more"
	expect 0 sh -c 'ulimit -s 128 && ddprun --standalone true'
}

@test "descriptors that ddprun inherited count against the limit" {
	expect 71 bash -c 'ulimit -n 128
		while exec {fd}</dev/null && [ $fd -lt 100 ]; do :; done
		exec ddprun --standalone true'
	has "$err" 'need [0-9]+ open files, including the [0-9]+ that ddprun was started with'
}

@test "an invalid message from a host ends the job, with the host's name" {
	local ready='\001\000\000\000\011\000\000\000\000?'
	fake_ssh "$greeting; printf '$ready'; exec sleep 60"
	expect 69 ddprun -H a:1 --ssh "$T/FAKE" true
	has "$err" 'host a: it violated the protocol between ddpruns'
	# a host may speak for itself and those behind it
	local stranger='\000\000\000\000\011\007\000\000\000'
	fake_ssh "$greeting; printf '$stranger'; exec sleep 60"
	expect 69 ddprun -H a:1 --ssh "$T/FAKE" true
	has "$err" 'host a: it sent a message from a host that is not connected through it'
}

@test "a remote end that gets an invalid message reports it and exits" {
	build=$(ddprun --remote-end none 2>&1 | sed -n 's/.*is build //p')
	status=0
	printf '\001\000\000\000\001\000\000\000\000?' |
		ddprun --remote-end "$build" >out 2>err || status=$?
	has "$(<err)" 'error: unexpected data over ssh, not from ddprun \(JOB\)'
	# something to read, for a ddprun that was not started
	status=0
	printf '\001\000\000\000\006\000\000\000\000?' |
		ddprun --remote-end "$build" >out 2>err || status=$?
	[ "$status" = 0 ]
	# TOOK: nobody reads it
	[ "$(tail -c 10 out | od -An -tx1)" = " 01 00 00 00 0b 00 00 00 00 00" ]
}

@test "an unterminated line of a start-up file is quoted completely, and nothing more" {
	fake_ssh "printf WELCOME; $greeting; exec sleep 60"
	start job ddprun -H a:1 --ssh "$T/FAKE" true
	await job.err "prints to stdout \('WELCOME'\); ignored"
	signal job TERM
	finish job -
}
