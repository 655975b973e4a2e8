# Which worker reads ddprun's standard input.
# covers: launcher/worker
load ../lib

# What each worker got, with its rank: a line for each that it read.
reads='while read -r x; do echo "got $x"; done; echo end'

from() {
	local file=$1
	shift
	expect 0 bash -c 'exec "${@:2}" <"$1"' bash "$file" "$@"
}

@test "rank 0 reads standard input, and the others get none" {
	printf 'a\nb\n' >in
	from in ddprun --nproc-per-node 3 bash -c "$reads"
	[ "$(sort <<<"$out")" = '[0] end
[0] got a
[0] got b
[1] end
[2] end' ]
}

@test "the worker inherits the descriptor itself: nothing is copied or read ahead" {
	printf 'a\nb\nc\n' >in
	expect 0 bash -c '{ read -r first
		ddprun --nproc-per-node 2 sh -c "if [ \$RANK = 0 ]; then read -r x
			echo got \$x; stat -Lc %i /dev/stdin; fi"
		read -r last; echo "$first $last"; } <in'
	[ "$out" = "[0] got b
[0] $(stat -c %i in)
a c" ]
}

@test "--stdin takes RANK, none, and all" {
	printf 'a\nb\n' >in
	from in ddprun --nproc-per-node 2 --stdin 1 bash -c "$reads"
	[ "$(sort <<<"$out")" = '[0] end
[1] end
[1] got a
[1] got b' ]
	from in ddprun --nproc-per-node 2 --stdin none bash -c "$reads"
	[ "$(sort <<<"$out")" = '[0] end
[1] end' ]
	from in ddprun --nproc-per-node 2 --stdin all bash -c "$reads"
	[ "$(sort <<<"$out")" = '[0] end
[0] got a
[0] got b
[1] end
[1] got a
[1] got b' ]
}

@test "--stdin that is neither a rank nor a word is refused" {
	expect 2 ddprun --stdin everybody true
	has "$err" "^ddprun: error: --stdin 'everybody': give the rank .*, all, or none\$"
	expect 2 ddprun --stdin -1 true
	has "$err" "--stdin '-1'"
}

@test "with --stdin all, megabytes reach each worker through a pipe, however slow it is" {
	head -c 3000000 /dev/zero | tr '\0' x >in
	local want
	want=$(md5sum <in)
	mkfifo pipe
	start writer sh -c 'cat in >pipe'
	start job bash -c 'exec ddprun --nproc-per-node 3 --stdin all sh -c \
		"dd bs=100 2>/dev/null | md5sum" <pipe'
	finish writer
	finish job
	[ "$(sort <<<"$out")" = "[0] $want
[1] $want
[2] $want" ]
}

@test "with --stdin all, a worker that closes its stdin, or ends, delays no other" {
	head -c 1000000 /dev/zero >in
	mkfifo done
	from in ddprun --nproc-per-node 3 --stdin all sh -c '
		case $RANK in
		0) wc -c; echo >done ;;
		1) exec <&-; read -r _ <done ;;
		2) exit 0 ;;
		esac'
	[ "$out" = '[0] 1000000' ]
}

@test "standard input that never ends does not keep ddprun from ending" {
	mkfifo never
	exec 9<>never
	local to
	for to in 0 all none; do
		from never ddprun --nproc-per-node 2 --stdin "$to" true
	done
	exec 9>&-
	nothing_left 0
}

@test "standard input may be closed, or a device" {
	expect 0 bash -c 'exec ddprun --stdin all wc -c <&-'
	[ "$out" = '[0] 0' ]
	expect 0 bash -c 'exec ddprun --stdin 0 wc -c <&-'
	[ "$out" = '[0] 0' ]
	expect 0 bash -c 'exec ddprun --nproc-per-node 2 --stdin all \
		sh -c "head -c 100000 | wc -c" </dev/zero'
	[ "$(sort <<<"$out")" = '[0] 100000
[1] 100000' ]
}

@test "after a restart the new rank 0 continues where the old one stopped reading" {
	printf 'a\nb\nc\n' >in
	from in ddprun --nproc-per-node 2 --max-restarts 1 sh -c '
		if [ $RANK = 1 ]; then
			[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 100
			exit 0
		fi
		read -r x; echo "got $x"
		[ $TORCHELASTIC_RESTART_COUNT = 1 ]'
	has "$out" '^\[0\] got a$'
	has "$out" '^\[0\] got b$'
}

@test "only the node with rank 0 reads, of two" {
	local port n
	port=$(w_port free)
	for n in 0 1; do
		echo "from $n" >in_$n
		start $n bash -c 'exec "${@:2}" <"$1"' bash in_$n ddprun --nnodes 2 \
			--rdzv-endpoint "127.0.0.1:$port" --node-rank $n \
			bash -c "$reads"
	done
	finish 0
	one=$out
	finish 1
	[ "$(sort <<<"$one
$out")" = '[0] end
[0] got from 0
[1] end' ]
}

# In a terminal of its own, with job control: what is written to fd 8 is typed
# there. The commands are a shell's; `reader` prints what it reads.
in_terminal() {
	printf '#!/bin/sh\necho reads; while read -r x; do echo "got $x"; done
		echo end\n' >reader
	printf 'set -m\n%s\n' "$2" >commands
	chmod +x reader
	mkfifo keys go
	exec 8<>keys 9<>go
	start "$1" bash -c 'exec script -qefc "bash commands" /dev/null <keys'
}

@test "terminal input reaches rank 0, and Ctrl-D ends it" {
	in_terminal job 'ddprun --nproc-per-node 2 ./reader'
	await job.out '^\[0\] reads'
	echo hello >&8
	await job.out '^\[0\] got hello'
	printf '\004' >&8
	finish job
	exec 8>&- 9>&-
	has "$out" '^\[0\] end'
	has "$out" '^\[1\] end'
}

@test "in the background of a terminal ddprun runs, and reads in the foreground" {
	in_terminal job 'ddprun --nproc-per-node 2 ./reader &
		read -r _ <go; echo in front; fg'
	await job.out '^\[0\] reads'
	echo hello >&8
	echo >&9
	await job.out '^\[0\] got hello'
	has "$(grep -aE '^in front|got' job.out | head -n 1)" '^in front'
	printf '\004' >&8
	finish job
	exec 8>&- 9>&-
}

@test "Ctrl-Z at a terminal stops ddprun and its workers; fg continues both" {
	in_terminal job 'ddprun --nproc-per-node 1 ./reader
		echo "stopped $?"; read -r _ <go; fg'
	await job.out '^\[0\] reads'
	printf '\032' >&8
	await job.out 'stopped 1[0-9]+'
	echo >&9
	echo hello >&8
	await job.out '^\[0\] got hello'
	printf '\004' >&8
	finish job
	exec 8>&- 9>&-
}

@test "a standard input that cannot be read is a warning" {
	expect 0 sh -c 'exec ddprun --stdin all --nproc-per-node 2 wc -c </'
	has "$err" 'warning: cannot read standard input: Is a directory'
	[ "$(sort <<<"$out")" = "[0] 0
[1] 0" ]
}
