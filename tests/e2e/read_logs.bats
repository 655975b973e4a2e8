# ddprun logs: the lines of all ranks, from their files.
# covers: launcher/logs launcher/agent/agent_round.c
bats_require_minimum_version 1.5.0
load ../lib

# made LOCAL_RANK STREAM [RUN [ATTEMPT]]: makes a worker's file, from stdin, where ddprun
# puts it; by default in attempt 0 of the run logs/run7_a
made() {
	local dir=${3:-logs/run7_a}/attempt_${4:-0}/$1
	mkdir -p "$dir"
	cat >"$dir/$2.log"
}

# place FOLDER NODE FIRST WORKERS WORLD [BEGAN]
place() {
	echo "{\"host\":\"h$2\",\"node_rank\":$2,\"first_rank\":$3,\"workers\":$4,\"world_size\":$5${6:+,\"began\":$6}}" \
		>"$1/node.json"
}

@test "the lines of all ranks are in the order of their times" {
	made 0 stderr <<-'END'
		2026-11-29 10:00:00,100 INFO a
		a, second line
		2026-11-29T10:00:02.5 ERROR c
	END
	made 1 stderr <<-'END'
		I1129 10:00:01.000000 12 x.cc:3] b
		2026-11-29 10:00:03+00:00 zone
	END
	made 1 stdout <<<'no time'
	place logs/run7_a/attempt_0 0 0 2 2
	TZ=UTC expect 0 ddprun logs logs
	[ "$out" = "[1] no time
[0] 2026-11-29 10:00:00,100 INFO a
[0] a, second line
[1] I1129 10:00:01.000000 12 x.cc:3] b
[0] 2026-11-29T10:00:02.5 ERROR c
[1] 2026-11-29 10:00:03+00:00 zone" ]
	TZ=UTC expect 0 ddprun logs --stream stderr -r 1 logs/run7_a/attempt_0
	[ "$(wc -l <<<"$out")" = 2 ]
}

@test "lines of a host whose clock is wrong are placed as if it were right" {
	made 0 stdout <<-'END'
		2026-11-29 10:00:00 a
		2026-11-29 10:00:02 c
	END
	made 0 stdout logs/run7_b <<-'END'
		2026-11-29 08:59:31 b
		2026-11-29 08:59:33 d
	END
	# node 1's clock is an hour and half a minute behind
	place logs/run7_a/attempt_0 0 0 1 2 1795946400
	place logs/run7_b/attempt_0 1 1 1 2 1795942770
	TZ=UTC expect 0 ddprun logs logs
	[ "$out" = "[0] 2026-11-29 10:00:00 a
[1] 2026-11-29 08:59:31 b
[0] 2026-11-29 10:00:02 c
[1] 2026-11-29 08:59:33 d" ]
	has "$err" 'the clock of h1 is about 3630 s behind that of h0: its lines are placed as if'
	# a node may begin a little later
	place logs/run7_b/attempt_0 1 1 1 2 1795946405
	TZ=UTC expect 0 ddprun logs logs
	[ "$(head -n 1 <<<"$out")" = '[1] 2026-11-29 08:59:31 b' ]
	[ -z "$err" ]
}

@test "lines are filtered by level and pattern, and a traceback is an error" {
	made 0 stderr <<-'END'
		before
		2026-11-29 10:00:00,100 DEBUG loading
		2026-11-29 10:00:01,100 WARNING odd
		Traceback (most recent call last):
		  File "w.py", line 3
		ValueError: bad shard
		2026-11-29 10:00:02,100 INFO again
	END
	expect 0 ddprun logs --level warning logs
	[ "$out" = '[0] 2026-11-29 10:00:01,100 WARNING odd
[0] Traceback (most recent call last):
[0]   File "w.py", line 3
[0] ValueError: bad shard' ]
	expect 0 ddprun logs --level error logs --grep 'File|shard$'
	[ "$(wc -l <<<"$out")" = 2 ]
	expect 0 ddprun logs -n 1 logs
	[ "$out" = '[0] 2026-11-29 10:00:02,100 INFO again' ]
	expect 0 ddprun logs -n 0 logs
	[ "$out" = '' ]
	has "$err" 'the numbers are local ranks$'
}

@test "a real job's files have global ranks, and the last attempt is shown" {
	local port
	port=$(w_port free)
	job() {
		ddprun --nnodes 2 --rdzv-endpoint "127.0.0.1:$port" --rdzv-id two \
			--nproc-per-node 2 --max-restarts 1 --log-dir logs --redirects 3 "$@"
	}
	echo 'echo "attempt $TORCHELASTIC_RESTART_COUNT of $RANK"
		[ $TORCHELASTIC_RESTART_COUNT = 1 ] || [ $RANK != 3 ]' >w
	start one job sh w
	start two job sh w
	finish one
	finish two
	expect 0 ddprun logs logs
	[ "$out" = "[0] attempt 1 of 0
[1] attempt 1 of 1
[2] attempt 1 of 2
[3] attempt 1 of 3" ]
	# what is written late into an old folder does not make it the last
	touch logs/*/attempt_0
	expect 0 ddprun logs -r 0 logs
	[ "$out" = "[0] attempt 1 of 0" ]
	expect 0 ddprun logs logs --attempt 0 -r 2-3
	has "$out" '^\[3\] attempt 0 of 3$'
	# an older job of the same name does not mix with a newer one
	start one job sh -c 'echo new $RANK'
	start two job sh -c 'echo new $RANK'
	finish one
	finish two
	expect 0 ddprun logs logs
	[ "$out" = "[0] new 0
[1] new 1
[2] new 2
[3] new 3" ]
}

@test "-f shows lines as they come, in whole lines, and those after a restart" {
	cat >w <<-'END'
		exec 7<go
		echo "begin $TORCHELASTIC_RESTART_COUNT"
		read -r x <&7
		printf 'half '
		read -r x <&7
		echo line
		read -r x <&7
		exit "$x"
	END
	mkfifo go
	exec 8<>go
	start job ddprun --max-restarts 1 --log-dir logs --redirects 3 sh w
	until compgen -G 'logs/*/attempt_0/0/stdout.log' >/dev/null; do
		kill -0 "${pid[job]}"
	done
	start follow ddprun logs -f logs
	await "$T/follow.out" '^\[0\] begin 0$'
	echo >&8
	until grep -q half logs/*/attempt_0/0/stdout.log; do
		kill -0 "${pid[job]}"
	done
	echo >&8
	await "$T/follow.out" '^\[0\] half line$'
	lacks "$(cat follow.out)" '^\[0\] half $'
	echo 3 >&8
	await "$T/follow.err" '^ddprun: attempt 1 begins$'
	await "$T/follow.out" '^\[0\] begin 1$'
	printf '\n\n0\n' >&8
	finish job 0
	kill "${pid[follow]}"
	finish follow -
}

# More than the kernel allows of inotify's instances (128 for a user): those that get none
# look once a second.
@test "200 followers of one log all get each line, with a few hundred KiB each" {
	local i n line kib
	made 0 stdout <<<first
	made 1 stderr </dev/null
	place logs/run7_a/attempt_0 0 0 2 2
	mkfifo all
	exec 7<>all
	start followers bash -c 'for i in {1..200}; do ddprun logs -f logs >all & done; wait'
	for line in '[0] first' '[1] second' '[0] third'; do
		for i in {1..200}; do
			IFS= read -rt 60 -u 7 n
			[ "$n" = "$line" ]
		done
		[ "$line" != '[0] first' ] || echo second >>logs/run7_a/attempt_0/1/stderr.log
		[ "$line" != '[1] second' ] || echo third >>logs/run7_a/attempt_0/0/stdout.log
	done
	kib=$(awk '/^RssAnon/ { sum += $2; n++ } END { print int(sum / n) }' \
		$(printf '/proc/%s/status ' $(pgrep -P "${pid[followers]}")))
	echo "$kib KiB each"
	[ -n "${SAN:-}" ] || [ "$kib" -lt 1024 ]
	pkill -P "${pid[followers]}"
	finish followers
	nothing_left
}

@test "on a terminal hostile lines cannot move the cursor, and a bar has its last state" {
	command -v script >/dev/null || skip "no script(1)"
	printf 'a\033[2Jb\302\233c\ttab\n 10%%\r 90%%\r\nlast without newline' |
		made 0 stdout
	place logs/run7_a/attempt_0 0 0 1 1
	expect 0 script -qec "env TERM=dumb ddprun logs logs" /dev/null
	has "$out" '^\[0\] a\?\[2Jb\?c.tab'
	lacks "$out" $'\033'
	has "$out" '^\[0\]  90%'
	has "$out" '^\[0\] last without newline'
	# a pipe gets the bytes
	expect 0 ddprun logs logs
	has "$out" $'a\033\\[2Jb'
}

@test "bad usage and folders without output are named" {
	expect 2 ddprun logs
	has "$err" 'give the folder: ddprun logs FOLDER'
	expect 2 ddprun logs a b
	has "$err" "give one folder, not 'b' as well\$"
	expect 2 ddprun logs --level loud .
	has "$err" '--level loud: give debug, info, warning, error or fatal$'
	expect 2 ddprun logs --grep '(' .
	has "$err" "--grep '\(': "
	expect 2 ddprun logs --stream 3 .
	has "$err" '--stream 3: give stdout or stderr$'
	expect 2 ddprun logs --ranks 1-x .
	has "$err" '--ranks'
	expect 1 ddprun logs none
	has "$err" 'cannot read none: No such file or directory$'
	mkdir empty
	expect 1 ddprun logs empty
	has "$err" 'empty has no output of workers: give the --log-dir of a job'
	made 0 stdout </dev/null
	expect 1 ddprun logs logs --attempt 4
	has "$err" 'logs has no output of workers in an attempt_4$'
	expect 0 ddprun logs --help
	has "$out" '^usage: ddprun logs '
}

@test "256 ranks and a line of 2 MiB are shown" {
	local i
	for i in $(seq 0 255); do
		made "$i" stdout <<<"2026-11-29 10:00:00.$((999 - i)) rank $i"
	done
	head -c 2097152 /dev/zero | tr '\0' x | made 0 stderr
	place logs/run7_a/attempt_0 0 0 256 256
	expect 0 sh -c 'ulimit -S -n 64; ddprun logs logs --stream stdout | head -n 2'
	[ "$out" = "[255] 2026-11-29 10:00:00.744 rank 255
[254] 2026-11-29 10:00:00.745 rank 254" ]
	expect 0 sh -c 'ddprun logs logs --stream stderr | tr -cd x | wc -c'
	[ "$out" = 2097152 ]
	expect 1 sh -c 'ulimit -n 64; ddprun logs logs'
	has "$err" 'the limit of open files is reached \(ulimit -n\); raise it, or choose --ranks$'
}
