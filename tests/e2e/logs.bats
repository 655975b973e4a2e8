# Log folders, redirects, tee, prefixes, filters, and what goes wrong with them.
# covers: launcher/output
load ../lib

# The one folder of a run below logs/ is then $run.
find_run() {
	set -- logs/*
	[ $# = 1 ]
	[ -d "$1" ]
	run=$1
}

@test "redirected streams are written to files with torchrun's names, and not shown" {
	expect 0 ddprun --log-dir logs --redirects 3 --rdzv-id 'my/job' \
		--nproc-per-node 2 sh -c 'echo "out $RANK"; echo "err $RANK" >&2
			readlink /proc/self/fd/1'
	[ -z "$out$err" ]
	find_run
	[[ $run == logs/my_job_* ]]
	for rank in 0 1; do
		[ "$(<"$run/attempt_0/$rank/stdout.log")" = "out $rank
$T/$run/attempt_0/$rank/stdout.log" ]
		[ "$(<"$run/attempt_0/$rank/stderr.log")" = "err $rank" ]
	done
}

@test "--log-dir alone writes the workers' output to files, and still shows it" {
	expect 0 ddprun --log-dir logs --nproc-per-node 2 sh -c \
		'echo "out $RANK"; echo "err $RANK" >&2'
	[ "$(sort <<<"$out")" = $'[0] out 0\n[1] out 1' ]
	has "$err" '^\[1\] err 1$'
	find_run
	for rank in 0 1; do
		[ "$(<"$run/attempt_0/$rank/stdout.log")" = "out $rank" ]
		[ "$(<"$run/attempt_0/$rank/stderr.log")" = "err $rank" ]
	done
	rm -r logs
	expect 3 ddprun --log-dir logs sh -c 'echo err >&2; exit 3'
	grep -q '"stderr_file":[[:blank:]]"/.*/attempt_0/0/stderr.log"' \
		logs/*/attempt_0/report.json
	# a user who names streams gets those and no others
	rm -r logs
	expect 0 ddprun --log-dir logs --tee 1 sh -c 'echo out; echo err >&2'
	find_run
	[ "$(ls "$run/attempt_0/0")" = stdout.log ]
	rm -r logs
	expect 0 ddprun --log-dir logs --tee 0 sh -c 'echo out; echo err >&2'
	find_run
	[ -z "$(ls "$run/attempt_0/0")" ]
}

@test "the last lines of a redirected stderr are on the page" {
	expect 3 ddprun --log-dir logs -r 3 sh -c \
		'seq 50 >&2; echo "the reason" >&2; exit 3'
	has "$err" '^\|    the reason'
	has "$err" '^\|    50$'
	lacks "$err" '^\|    20$'
}

@test "teed streams are shown, and their files have the bytes as written" {
	head -c 300000 /dev/urandom >binary
	expect 0 ddprun --log-dir logs --tee 3 --nproc-per-node 2 sh -c \
		'cat binary; echo "err $RANK" >&2'
	has "$err" '^\[0\] err 0$'
	has "$err" '^\[1\] err 1$'
	find_run
	cmp binary "$run/attempt_0/0/stdout.log"
	cmp binary "$run/attempt_0/1/stdout.log"
	[ "$(<"$run/attempt_0/1/stderr.log")" = "err 1" ]
	# also shown, including NULs
	[ "$(tr -cd '\0' <program.out | wc -c)" = \
		$((2 * $(tr -cd '\0' <binary | wc -c))) ]
}

@test "masks apply to each rank, also above 9" {
	expect 0 ddprun --log-dir logs --redirects 1:1,10:3 --tee 11:2 \
		--nproc-per-node 12 sh -c 'echo "out $RANK"; echo "err $RANK" >&2'
	find_run
	[ "$(cd "$run/attempt_0" && echo */*.log)" = \
		"1/stdout.log 10/stderr.log 10/stdout.log 11/stderr.log" ]
	[ "$(wc -l <<<"$out")" = 10 ]
	[ "$(wc -l <<<"$err")" = 11 ]
	lacks "$out" '^\[(1|10)\]'
	lacks "$err" '^\[10\]'
	has "$err" '^\[11\] err 11$'
}

@test "bad masks, filters and folders are refused before anything starts" {
	local option
	for option in --tee=4 --redirects=0:1,0:2 --redirects=1:3 --tee= \
		--ranks-filter=a --local-ranks-filter=1- \
		--duplicate-stdout-filters=,; do
		expect 2 ddprun "$option" sh -c 'touch started'
		has "$err" "${option%%=*}"
	done
	: >file
	expect 71 ddprun --log-dir file/logs sh -c 'touch started'
	has "$err" "cannot create the log folder 'file/logs': Not a directory"
	[ ! -e started ]
}

@test "a read-only log folder is an error that names it" {
	unshare -m true || skip "no mount namespaces here"
	mkdir ro
	expect 71 unshare -m sh -c 'mount -t tmpfs -o ro none ro &&
		exec ddprun --log-dir ro touch started'
	has "$err" "cannot create a folder in 'ro': Read-only file system"
	[ ! -e started ]
}

@test "a disk that fills up prints one warning, and the job continues" {
	unshare -m true || skip "no mount namespaces here"
	mkdir small
	start job unshare -m sh -c 'mount -t tmpfs -o size=64k none small &&
		exec ddprun --log-dir small --tee 3 --nproc-per-node 2 \
			sh -c "seq 40000; echo done >&2"'
	finish job
	[ "$(grep -c warning <<<"$err")" = 1 ]
	has "$err" 'warning: cannot write to the log files: No space left'
	# shown all the same
	[ "$(wc -l <<<"$out")" = 80000 ]
	[ "$(grep -c '\[[01]\] done' <<<"$err")" = 2 ]
}

@test "log files at the file size limit (ulimit -f) do not end ddprun" {
	mkdir limited
	# cat: the limit is not for what the test keeps of the output
	expect 0 sh -c '(ulimit -f 1; exec ddprun --log-dir limited --tee 1 \
		--nproc-per-node 2 seq 3000) | cat'
	[ "$(wc -l <<<"$out")" = 6000 ]
	has "$err" 'warning: cannot write to the log files: File too large'
	# nor does it end the server, whose journal is in memory
	has "$err" 'warning: journal in memory: cannot grow: File too large; if'
	# and workers have the signal as it was
	expect 153 sh -c 'ulimit -f 1; exec ddprun sh -c "kill -XFSZ \$\$"'
}

@test "each attempt has its own folder" {
	expect 0 ddprun --log-dir logs --redirects 1 --max-restarts 2 sh -c \
		'echo "$TORCHELASTIC_RESTART_COUNT"
		[ "$TORCHELASTIC_RESTART_COUNT" = 2 ]'
	find_run
	[ "$(cd "$run" && echo *)" = "attempt_0 attempt_1 attempt_2" ]
	[ "$(cat "$run"/attempt_*/0/stdout.log)" = "0
1
2" ]
}

@test "without --log-dir, files are kept in a new folder that a line names" {
	expect 0 ddprun --redirects 1 echo hi
	[ -z "$out" ]
	has "$err" "output is in $T/torchelastic_[^/]*/none_"
	[ "$(cat "$T"/torchelastic_*/none_*/attempt_0/0/stdout.log)" = hi ]
}

@test "--log-dir /dev/null writes no files and discards redirected output" {
	expect 4 ddprun --log-dir /dev/null --redirects 3 sh -c \
		'echo out; echo err >&2; exit 4'
	[ -z "$out" ]
	lacks "$err" '^\[0\]'
	has "$err" '^\|    err'
	[ -z "$(find "$T" -name '*.log')" ]
}

@test "the private folder is removed at the end, also after kill -9" {
	mkfifo go
	expect 0 ddprun sh -c 'ls -d '"$T"'/ddprun_*'
	has "$out" '/ddprun_'
	[ -z "$(find . -name 'ddprun_*')" ]
	start job ddprun sh -c 'echo here; read _ <go'
	await job.out here
	[ -n "$(find . -name 'ddprun_*')" ]
	signal job KILL
	finish job -
	nothing_left
	[ -z "$(find . -name 'ddprun_*')" ]
}

@test "the output of redirected workers survives the agent" {
	: >begun
	start job ddprun --log-dir logs --redirects 3 sh -c \
		'trap "" TERM; seq 1000; echo begun >begun; exec sleep 1000'
	await begun begun
	signal job KILL
	finish job -
	nothing_left
	find_run
	[ "$(wc -l <"$run/attempt_0/0/stdout.log")" = 1000 ]
}

@test "the prefix is a template" {
	expect 0 ddprun --log-line-prefix-template \
		'<${role_name} ${rank}/$world_size $local_rank ${node_rank} $x $$>' \
		--role r --nproc-per-node 2 echo hi
	has "$out" '^<r 0/2 0 0 \$x \$>hi$'
	has "$out" '^<r 1/2 1 0 \$x \$>hi$'
	expect 0 env TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='${hostname}: ' \
		ddprun echo hi
	[ "$out" = "$(uname -n): hi" ]
	expect 0 ddprun --log-line-prefix-template= echo hi
	[ "$out" = hi ]
}

@test "filters only apply to the console" {
	expect 5 ddprun --log-dir logs --tee 1 --local-ranks-filter 0,2 \
		--ranks-filter 1-2 --nproc-per-node 4 sh -c \
		'echo "out $RANK"; echo "err $RANK" >&2; [ $RANK != 3 ] || exit 5
		exec sleep 1000'
	lacks "$out" '^\[[013]\]'
	lacks "$err" '^\[[013]\]'
	# a hidden rank's lines are still on the page
	has "$err" '^\|    err 3'
	find_run
	[ "$(cat "$run/attempt_0/3/stdout.log")" = "out 3" ]
}

@test "--duplicate-stdout-filters and -stderr-filters copy lines that contain a string" {
	expect 0 ddprun --log-dir logs --redirects 0:3 --ranks-filter 9 \
		--duplicate-stdout-filters 'loss,a,,b' \
		--duplicate-stderr-filters 'oops' --nproc-per-node 2 sh -c \
		'echo "loss 1"; echo no; echo "xa,by"; echo "oops $RANK" >&2'
	[ -z "$out$err" ]
	find_run
	[ "$(sort "$run/attempt_0/filtered_stdout.log")" = "[0] loss 1
[0] xa,by
[1] loss 1
[1] xa,by" ]
	[ "$(sort "$run/attempt_0/filtered_stderr.log")" = "[0] oops 0
[1] oops 1" ]
	# the file has everything, as without the filter
	[ "$(wc -l <"$run/attempt_0/0/stdout.log")" = 3 ]
}

@test "--collapse keeps every rank's lines, in its order" {
	expect 0 ddprun --collapse --nproc-per-node 6 sh -c \
		'seq 300; echo "rank $RANK"; seq 300'
	awk '{
		list = substr($1, 2, length($1) - 2)
		n = split(list, parts, ",")
		text = $0
		sub(/^[^ ]* /, "", text)
		for (i = 1; i <= n; i++) {
			split(parts[i], ends, "-")
			last = ends[2] == "" ? ends[1] : ends[2]
			for (r = ends[1] + 0; r <= last + 0; r++)
				print text >("rank." r)
		}
	}' <<<"$out"
	for rank in 0 1 2 3 4 5; do
		{ seq 300; echo "rank $rank"; seq 300; } | cmp - "rank.$rank"
	done
}

@test "a worker that closes its stdout continues" {
	mkfifo go
	start job ddprun sh -c 'echo first; exec >&-; echo closed >&2
		read _ <go; echo last >&2'
	await job.err '^\[0\] closed'
	echo >go
	finish job
	[ "$out" = "[0] first" ]
	has "$err" '^\[0\] last'
}

@test "much output without a newline costs neither time nor memory" {
	local mib=256
	[ -z "${SAN:-}" ] || mib=64
	mkfifo go
	: >written
	start job sh -c 'ddprun sh -c "head -c '${mib}M' /dev/zero
		echo written by \$PPID >written; read _ <go" | tr -cd "\0" | wc -c'
	await written 'written by'
	# the sanitizers need memory of their own
	if [ -z "${SAN:-}" ]; then
		peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' \
			"/proc/${line##* }/status")
		[ "$peak" -lt 32768 ]
	fi
	echo >go
	finish job
	[ "$out" = $((mib << 20)) ]
}

@test "a slow reader gets all of the teed output, with no line torn" {
	mkfifo go
	: >progress
	{
		ddprun --log-dir logs --tee 3 w_lines bytes 12 "$T/progress" \
			3>&- 4>&-
	} | {
		read -r _ <go
		sed 's/^\[0\] //'
	} >shown &
	local reader=$!
	await progress '^1 MiB'
	lacks "$(<progress)" '^9 MiB'
	echo >go
	wait "$reader"
	find_run
	cmp shown "$run/attempt_0/0/stdout.log"
	awk 'length($4) != $3 { exit 1 }' shown
}
