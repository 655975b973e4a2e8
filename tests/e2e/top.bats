# ddprun top: the screen of jobs, on a terminal and as text.
# covers: launcher/top
load ../lib

setup() {
	lib_setup
	export TERM=xterm
	unset NO_COLOR
	at=127.0.0.1:$(w_port free)
}

# job N: a job of N workers that report step 7 and wait for the end of the file go
job() {
	mkfifo go
	start job ddprun --nproc-per-node "$1" --rdzv-id of_top --rdzv-endpoint "$at" \
		sh -c 'echo 7 >"$DDP_STEP_FILE"; echo here; read -r _ <go || true'
	for ((i = 0; i < $1; i++)); do
		await job.out "\\[$i\\] here|^here"
	done
}

end_job() {
	: >go
	finish job "${1:-0}"
}

# screen OPTION...: ddprun top on a terminal of 90 columns and ROWS=20 lines; what is
# written to descriptor 7 are its keys
screen() {
	mkfifo keys
	printf '%s\n' "stty cols 90 rows ${ROWS:-20}" 'echo $$ >shell' \
		'code=0; ddprun top "$@" || code=$?; echo "ended $code"' >commands
	start top bash -c 'exec script -qefc "bash commands $*" /dev/null <keys' bash "$@"
	exec 7>keys
}

@test "top without a job prints a line and exits with 1" {
	expect 1 ddprun top --once --job no-such-job
	has "$err" '^ddprun: error: no job of yours with the --rdzv-id no-such-job runs on '
	expect 2 ddprun top --onc --interva 0
	has "$err" 'interval'
	expect 2 ddprun top more
	has "$err" "unexpected word 'more'"
	expect 0 ddprun top --help
	has "$out" '^usage: ddprun top'
}

@test "without a terminal top prints the ranks of all jobs once" {
	job 3
	expect 0 ddprun top --job of_top
	has "$out" "^job 'of_top'  running for .*  attempt 1 of 1\$"
	has "$out" "^1 of 1 nodes  3 workers  at $at\$"
	expect 0 ddprun top --job of_top --json
	[ "$(python3 -c 'import json, sys
j, = json.load(open(sys.argv[1]))["jobs"]
print(j["job"], j["world_size"])' program.out)" = "of_top 3" ]
	expect 0 ddprun top --rdzv-endpoint "$at" --once
	has "$out" "^job 'of_top'"
	end_job
}

@test "on a terminal top shows each rank, and q leaves it as it was" {
	job 2
	screen --job of_top --interval 0.2
	await top.out "job 'of_top'  running for"
	await top.out '^ +1 +0 .* 7 .*' 60 # the second rank, with its step
	printf q >&7
	await top.out 'ended 0'
	exec 7>&-
	finish top
	grep -qF $'\e[?1049h' top.out
	has "$(tail -n 2 top.out)" $'\e\\[\\?25h\e\\[\\?7h\e\\[\\?1049l'
	end_job
}

@test "keys filter the ranks and show a dump of the job" {
	job 2
	PAGER=cat screen --job of_top --interval 0.2
	await top.out '^ +0 +0 .* 7 '
	printf / >&7
	await top.out 'filter: '
	printf '1\r' >&7
	await top.out '/ filter: 1'
	printf d >&7
	await top.out '^rank 0|worker|no call'
	printf q >&7
	await top.out 'ended 0'
	exec 7>&-
	finish top
	end_job
}

@test "page-up and page-down scroll" {
	job 12
	ROWS=14 screen --job of_top --interval 0.2
	await top.out '^ +0 +0 .* 7 '
	! grep -E '^ +11 +0 ' top.out
	printf '\e[6~' >&7
	await top.out '^ +11 +0 .* 7 '
	printf q >&7
	await top.out 'ended 0'
	exec 7>&-
	finish top
	end_job
}

@test "a signal ends top, and the terminal is as it was" {
	screen
	await top.out 'no job of yours runs on|job '
	read -r shell <shell
	kill -TERM $(<"/proc/$shell/task/$shell/children")
	await top.out 'ended 143'
	exec 7>&-
	finish top
	grep -qF $'\e[?1049l' top.out
}

@test "a server that does not answer is named, and the screen continues to update" {
	start server ddprdzv --listen "$at" --auth none
	await server.err 'listening on'
	signal server STOP
	screen --rdzv-endpoint "$at" --auth none --timeout 0.3 --interval 0.2
	await top.out "rendezvous server $at: no answer"
	lacks "$(<top.out)" 'no job runs there'
	signal server CONT
	await top.out 'no job runs there'
	printf q >&7
	await top.out 'ended 0'
	exec 7>&-
	finish top
	signal server TERM
	finish server -
}

# talker OPTION...: a job of two workers whose output is not harmless; each ends when its
# file go has an end
talker() {
	mkfifo go ready
	start job ddprun --nproc-per-node 2 --rdzv-id of_top --rdzv-endpoint "$at" "$@" \
		bash -c 'for i in {1..30}; do printf "\e[31mline %d\e[m of %d\e]0;own\a\n" $i $RANK; done
			printf "bad \xff\r \x9b2J\n" >&2
			printf "10%%\r20%%" >&2
			echo >ready
			read -r _ <go || true'
	exec 7<>ready
	read -rt 60 _ <&7
	read -rt 60 _ <&7
	exec 7>&-
}

# await_output TEXT OPTION...: until top with these options prints a line TEXT
await_output() {
	local end=$((SECONDS + 20))
	while [ $SECONDS -lt $end ]; do
		ddprun top --once --job of_top --rank 1 "${@:2}" >program.out
		out=$(<program.out)
		! grep -qxF -- "$1" program.out || return 0
	done
	cat program.out
	return 1
}

@test "top shows the last lines of a rank, as plain text and as JSON" {
	talker
	await_output 'line 30 of 1'
	has "$out" '^rank 1 on .*: last lines of stdout$'
	has "$out" '^line 21 of 1$'
	lacks "$out" '^line 20 of 1$'
	await_output '20%'
	has "$out" '^rank 1 on .*: last lines of stderr$'
	has "$out" '^ \?2J$'
	! grep -q $'[\x01-\x08\x0b-\x1f\x7f\x9b]' program.out
	await_output 'line 29 of 1' --lines 2
	lacks "$out" '^line 28 of 1$'
	expect 0 ddprun top --job of_top --rank 0 --lines 1 --json
	[ "$(python3 -c 'import json, sys
j, = json.load(open(sys.argv[1]))["jobs"]
o = j["output"]
print(o["rank"], o["stdout"], o["stderr"], o["error"])' program.out)" = \
		"0 ['line 30 of 0'] ['20%'] None" ]
	expect 0 ddprun top --once --job of_top --rank 2
	has "$out" "^rank 2: no lines\$"
	has "$out" "^no rank 2 of job 'of_top' runs now\$"
	expect 0 ddprun top --job of_top --json
	lacks "$out" '"output"'
	expect 2 ddprun top --rank 0 --lines 21
	has "$err" 'lines'
	end_job
}

@test "top reads the last lines from the files of workers that write to these" {
	talker --log-dir logs --redirects 3
	await_output 'line 30 of 1'
	await_output '20%'
	end_job
}

@test "top says that stdout is discarded where nothing keeps it" {
	talker --local-ranks-filter 0
	await_output 'its stdout is discarded: the options neither show it nor write it to a file'
	await_output '20%'
	end_job
}

@test "on a terminal a key shows the last lines of a rank, and hides them" {
	job 2
	screen --job of_top --interval 0.2
	await top.out '^ +1 +0 .* 7 .*' 60
	printf o >&7
	await top.out 'output of rank .Enter: 0.: '
	printf '1\r' >&7
	await top.out 'rank 1 on .*: last lines of stdout'
	await top.out '^here'
	printf o >&7
	printf 'o\r' >&7
	await top.out 'rank 0 on .*: last lines of stdout'
	printf q >&7
	await top.out 'ended 0'
	exec 7>&-
	finish top
	end_job
}
