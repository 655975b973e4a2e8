# Access to PyTorch's store: its clients cannot authenticate, so the agents vouch for
# their sockets. bash scripts and w_knock speak its protocol here.
# covers: launcher/membership rendezvous/vouching rendezvous/torch
bats_require_minimum_version 1.5.0
load ../lib

# as_other CMD...: as another user, who may not be asked what it is good for
other=(setpriv --reuid 65534 --clear-groups)
other_or_skip() {
	[ "$(id -u)" = 0 ] || skip "only root can be another user"
	# access to our build folder is not tested here
	install -m 755 "$O/tests/w_knock" "$T/knock"
	let_others_in
	"${other[@]}" "$T/knock" || [ $? = 2 ] ||
		skip "another user reaches nothing here"
}

@test "workers, their children and surviving grandchildren are admitted" {
	expect 0 ddprun --standalone --nproc-per-node 2 sh -c \
		'w_knock ping; (w_knock ping); setsid -w w_knock ping'
	[ "$(grep -c 'answered$' <<<"$out")" = 6 ]
	[ -z "$err" ]
}

@test "requests of another user's process are neither answered nor stored" {
	other_or_skip
	expect 0 ddprun --standalone sh -c "
		${other[*]} '$T/knock' ping
		${other[*]} '$T/knock' set mine stolen
		w_knock set mine kept
		${other[*]} '$T/knock' set mine stolen
		w_knock get mine"
	[ "$out" = '[0] closed
[0] sent
[0] sent
[0] sent
[0] mine is kept' ]
	# once, though it connected three times
	[ "$(grep -c 'closed a connection' <<<"$err")" = 1 ]
	has "$err" "^ddprdzv: warning: job '.*': closed a connection to PyTorch's store from 127.0.0.1 \\(.*\\): the socket there belongs to user 65534, but the job to user 0$"
}

@test "--store-open admits every client, and logs that" {
	other_or_skip
	expect 0 ddprun --standalone --store-open "${other[@]}" "$T/knock" ping
	[ "$out" = '[0] answered' ]
	has "$err" '^ddprun: --store-open: anyone who can reach 127.0.0.1:[0-9]+ can read and write the values that workers store there$'
	# once a job, not once an attempt
	expect 3 ddprun --standalone --store-open --max-restarts 1 sh -c 'exit 3'
	[ "$(grep -c -e --store-open <<<"$err")" = 1 ]
}

@test "a close right after a set does not undo it, however late the client is vouched for" {
	expect 0 ddprun --standalone bash -c '
		mkfifo said
		kill -STOP $PPID
		w_knock set key value >said &
		read -r line <said
		kill -CONT $PPID
		wait
		w_knock get key'
	[ "$out" = '[0] key is value' ]
}

@test "a value whose sender closes before it is vouched for is not stored" {
	expect 0 ddprun --standalone bash -c '
		kill -STOP $PPID
		w_knock dash key value >said
		kill -CONT $PPID
		w_knock set other value
		w_knock get other
		# empty, as for a missing key
		w_knock get key'
	[ "$out" = '[0] sent
[0] other is value
[0] key is ' ]
	has "$err" 'from 127.0.0.1 \(.*\): (it was closed before ddprun there found its owner|ddprun there sees no such socket; .*)$'
}

@test "an agent that does not answer is named, and its client is closed" {
	expect 0 ddprun --standalone --heartbeat-timeout 0.1 bash -c '
		kill -STOP $PPID
		w_knock ping >said
		kill -CONT $PPID
		w_knock ping'
	[ "$(<said)" = closed ]
	[ "$out" = '[0] answered' ]
	has "$err" 'from 127.0.0.1 \(.*\): ddprun there did not name its owner within 1.0 s$'
}

@test "any of several agents on one host can vouch for a worker" {
	local i
	for i in 0 1 2; do
		start n$i ddprun --nnodes 3 --rdzv-endpoint 127.0.0.1:29517 \
			sh -c 'w_knock ping; w_knock ping'
	done
	for i in 0 1 2; do
		finish n$i
		[ "$(grep -c answered <<<"$out")" = 2 ]
	done
}

@test "many simultaneous connections of another user take no worker's place" {
	other_or_skip
	# more than may be there in all; the job's agent answers when it may
	expect 0 ddprun --standalone bash -c "
		mkfifo said
		kill -STOP \$PPID
		${other[*]} '$T/knock' crowd 300 >said &
		exec 5<said
		read -r line <&5
		w_knock set key value >sent &
		# connections that end before their turn
		${other[*]} '$T/knock' crowd 50 >other &
		kill -KILL \$!
		kill -CONT \$PPID
		read -r last <&5
		wait
		w_knock get key
		echo \$line, \$last"
	[ "$out" = '[0] key is value
[0] open, closed' ]
	[ "$(<sent)" = sent ]
	[ "$(grep -c 'closed a connection' <<<"$err")" = 1 ]
	run ! grep 'refuses connections' <<<"$err"
}

@test "over IPv6 another user's connection is closed, and named" {
	other_or_skip
	expect 0 ddprun --rdzv-endpoint '[::1]:29519' sh -c "
		${other[*]} '$T/knock' AT ::1 \$MASTER_PORT ping
		w_knock AT ::1 \$MASTER_PORT ping"
	[ "$out" = '[0] closed
[0] answered' ]
	has "$err" "closed a connection to PyTorch's store from ::1 \\(.*\\): the socket there belongs to user 65534, but the job to user 0$"
}

@test "over IPv6 a worker is also admitted" {
	expect 0 ddprun --rdzv-endpoint '[::1]:29518' sh -c \
		'w_knock ping; w_knock AT ::1 "$MASTER_PORT" ping'
	[ "$out" = '[0] answered
[0] answered' ]
}

@test "workers of successive attempts are admitted" {
	expect 0 ddprun --standalone --max-restarts 1 sh -c \
		'w_knock ping; exit $((3 - 3 * TORCHELASTIC_RESTART_COUNT))'
	[ "$(grep -c answered <<<"$out")" = 2 ]
}

@test "after the server's death a stranger is closed and a worker admitted" {
	other_or_skip
	expect 0 ddprun --standalone bash -c "
		w_knock set mine kept
		for p in \$(</proc/\$PPID/task/\$PPID/children); do
			[ \"\$(</proc/\$p/comm)\" != ddprdzv ] || kill -9 \$p
		done
		until w_knock get mine 2>/dev/null | grep kept; do :; done
		${other[*]} '$T/knock' set mine stolen
		${other[*]} '$T/knock' ping
		w_knock get mine"
	[ "$(uniq <<<"$out")" = '[0] sent
[0] mine is kept
[0] sent
[0] closed
[0] mine is kept' ]
	has "$err" 'the socket there belongs to user 65534, but the job to user 0$'
}
