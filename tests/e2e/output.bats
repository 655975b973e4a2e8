# The console output of workers.
# covers: launcher/output
load ../lib

# lacks TEXT ERE: no line of TEXT matches.
lacks() {
	! grep -E -e "$2" <<<"$1"
}

# The lines of stdin are whole and, for each of 8 ranks, complete and in order.
whole() {
	awk -v count="$1" '
		{
			rank = substr($1, 2, length($1) - 2)
			if ($1 != "[" rank "]" || $2 != rank || $3 != next_[rank]++ ||
			    length($5) != $4 || $5 !~ /^x*$/ || NF > 5) {
				print "torn: " $0
				bad = 1
				exit
			}
		}
		END {
			for (r = 0; r < 8; r++)
				if (!bad && next_[r] != count) {
					print "rank " r ": " next_[r] " lines"
					bad = 1
				}
			exit bad
		}'
}

@test "8 workers x 10000 lines arrive whole, prefixed, in order, on both streams" {
	ddprun --nproc-per-node 8 w_lines 10000 >all.out 2>all.err 3>&- 4>&-
	whole 10000 <all.out
	whole 10000 <all.err
}

@test "lines of stdout and stderr in one pipe are not torn" {
	ddprun --nproc-per-node 8 w_lines 3000 2>&1 3>&- 4>&- | cat >all
	# each line appears twice: once per stream
	awk '$1 != "[" $2 "]" || length($5) != $4 || $5 !~ /^x*$/ || NF > 5 {
			print "torn: " $0
			exit 1
		}
		{ print $2, $3 }' all | sort | uniq -c >counts
	[ "$(wc -l <counts)" = 24000 ]
	lacks "$(<counts)" '^ *[13]'
}

@test "a slow reader slows the workers down, and loses nothing" {
	mkfifo go
	{
		ddprun w_lines bytes 24 "$T/progress" 3>&- 4>&-
		echo "rc $?" >rc
	} | {
		read -r _ <go
		awk '{ n += length($0) + 1 } length($5) != $4 { exit 1 }
			END { print n }' >sum
	} &
	local reader=$!
	await progress '^1 MiB'
	# 1 MiB of ours and the pipes: far from 24
	lacks "$(<progress)" '^12 MiB'
	echo >go
	wait "$reader"
	[ "$(<rc)" = "rc 0" ]
	[ "$(<sum)" -gt $((24 * 1024 * 1024)) ]
}

@test "a reader that closes its end does not end the job" {
	{ ddprun --nproc-per-node 2 w_lines 5000 2>/dev/null 3>&- 4>&-
	echo $? >rc; } | head -n 1 >first
	[ "$(<rc)" = 0 ]
	has "$(<first)" '^\[[01]\] '
}

@test "a last line without its newline is shown completely" {
	expect 0 ddprun sh -c 'printf "one\ntwo"; printf "err" >&2'
	[ "$out" = "[0] one
[0] two" ]
	[ "$err" = "[0] err" ]
}

@test "a line of up to 1 MiB is printed whole, a longer one in marked pieces" {
	head -c 1048575 /dev/zero | tr '\0' y >long
	{ cat long; echo; } >whole
	{ cat long; echo yend; } >longer
	ddprun cat whole >whole.out 3>&- 4>&-
	[ "$(wc -l <whole.out)" = 1 ]
	[ "$(tail -c +5 whole.out | cmp - whole)" = '' ]
	ddprun cat longer >longer.out 3>&- 4>&-
	[ "$(wc -l <longer.out)" = 2 ]
	sed -n 1p longer.out | grep -qE '^\[0\] y+ \.\.\.$'
	sed -n 2p longer.out | grep -qE '^\[0\] \.\.\. end$'
	[ "$(tr -cd y <longer.out | wc -c)" = 1048576 ]
}

@test "a progress bar appears in a log file while it is drawn" {
	local from
	start job ddprun sh -c 'i=0; until [ -e seen ]; do
			i=$((i + 1)); printf "\r%d steps" $i >&2; sleep 0.05
		done; printf "\rdone\n" >&2'
	await job.err '^\[0\] [0-9]+ steps$'
	from=$(($(wc -l <job.err) + 1))
	await job.err '^\[0\] [0-9]+ steps$' 60 "$from"
	touch seen
	finish job
	[ "$(tail -n 1 <<<"$err")" = '[0] done' ]
	lacks "$err" $'\r'
}

@test "the unfinished line of a worker that waits is shown, and then its end" {
	mkfifo go
	start job ddprun sh -c 'printf "name? "; read _ <go; echo end'
	await job.out '^\[0\] name\?  \.\.\.$'
	echo >go
	finish job
	[ "$out" = "[0] name?  ...
[0] ... end" ]
}

@test "\\r passes unchanged when stdout is no terminal" {
	expect 0 ddprun printf '10 %%\r20 %%\rdone\n'
	[ "$out" = "[0] 10 %"$'\r'"20 %"$'\r'"done" ]
}

@test "on a terminal \\r redraws one line in place, and workers know its size" {
	cat >bar <<-'EOF2'
		#!/bin/sh
		echo "size $DDP_TERMINAL"
		printf '10 %%\r'
		read _ <go
		printf '20 %%\rall done\n'
	EOF2
	chmod +x bar
	mkfifo go
	mkfifo tty
	script -qec 'stty cols 70 rows 20; ddprun ./bar' /dev/null \
		>tty </dev/null 3>&- 4>&- &
	exec 8<tty
	IFS= read -rt 60 -d % first <&8
	echo >go
	{ printf '%s%%' "$first"; cat <&8; } | tr '\r' '~' >seen
	wait $!
	grep -q '^\[0\] size 70x20' seen
	grep -q '\[0\] 10 %' seen
	# drawn, erased, and only its last state remains as a line
	grep -qF $'~\e[K[0] all done' seen
	lacks "$(sed 's/.*\x1b\[K//' seen)" '^\[0\] 10 %'
}

# on_terminal TERM NO_COLOR ARGS...: what ddprun writes to a terminal
on_terminal() {
	TERM=$1 NO_COLOR=$2 script -qec "ddprun --nproc-per-node 2 --log-dir logs ${*:3} \
		sh -c 'echo out; echo err >&2'" /dev/null </dev/null | tr -d '\r' | sort
}

@test "on a terminal each rank's prefix has a color, but not in files and pipes" {
	local plain=$'[0] err\n[0] out\n[1] err\n[1] out'
	local colored=$'\e[33m[1] \e[0merr\n\e[33m[1] \e[0mout\n\e[36m[0] \e[0merr\n\e[36m[0] \e[0mout'
	[ "$(on_terminal xterm-256color '' | grep -v workers)" = "$colored" ]
	[ "$(on_terminal xterm 1 | grep -v workers)" = "$plain" ]
	[ "$(on_terminal dumb '' | grep -v workers)" = "$plain" ]
	lacks "$(cat logs/*/attempt_0/*/stdout.log)" $'\e'
	# the user's own colors are kept
	has "$(on_terminal xterm '' --log-line-prefix-template $'\'\e[31m$rank \e[0m\'')" \
		$'^\e\\[31m1 \e\\[0mout$'
	expect 0 env TERM=xterm ddprun --nproc-per-node 2 echo hi
	lacks "$out" $'\e'
}

@test "output that a worker's child writes after the worker's end is shown" {
	mkfifo go.0 go.1
	start job ddprun --nproc-per-node 2 sh -c '
		[ $RANK = 0 ] || { read _ <'"$T"'/go.1; exit; }
		(read _ <'"$T"'/go.0; echo late) & echo first'
	await job.out '^\[0\] first'
	echo >go.0
	await job.out '^\[0\] late$'
	echo >go.1
	finish job
}

@test "all output is written before ddprun returns, also on failure" {
	expect 3 ddprun --nproc-per-node 4 sh -c \
		'seq 20000; seq 1000 >&2; [ $RANK != 0 ] || exit 3; exec sleep 1000'
	[ "$(grep -c '^\[0\]' <<<"$out")" = 20000 ]
	[ "$(grep -c '^\[0\]' <<<"$err")" = 1000 ]
	[ "$(tail -n 1 <<<"$err" | cut -c1-5)" = "+----" ]
}

@test "a full disk under stdout is reported once on stderr, and the job continues" {
	start job bash -c 'exec ddprun --nproc-per-node 2 sh -c \
		"echo one; echo two" >/dev/full'
	finish job 0
	[ "$err" = "ddprun: warning: cannot write to stdout: No space left on device; the job continues, but what its workers print is lost" ]
}
