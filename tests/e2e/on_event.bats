# on_event.bats: --on-event: the user's command gets what happens to a job as JSON, and
# never delays the job.
# covers: launcher/agent/event_command.c
load ../lib

# The command appends its input, one object per line, to events.
setup() {
	lib_setup
	cat >record <<-'END'
		#!/bin/sh
		printf '%s\n' "$(tr -d '\n')" >>events
	END
	chmod +x record
}

# The value of a Python expression on the list of events.
events() {
	python3 -c "import json
e = sorted((json.loads(l) for l in open('events')), key=lambda x: x['attempt'])
print($1)"
}

@test "a restart and the final failure each run the command, with JSON" {
	expect 3 ddprun --standalone --rdzv-id run7 --nproc-per-node 2 \
		--max-restarts 1 --on-event ./record \
		sh -c 'exit 3'
	[ "$(events '[x["event"] for x in e]')" = "['restarted', 'failed']" ]
	[ "$(events '[x["attempt"] for x in e]')" = '[0, 1]' ]
	[ "$(events 'all(x["version"] == 1 and x["rank"] is None for x in e)')" = True ]
	[ "$(events '"exited with code 3" in e[1]["text"]')" = True ]
	lacks "$err" 'on-event'
	nothing_left
}

@test "a rank that hangs runs the command while the job runs, with its rank" {
	start job env DDP_TEST_WATCH_MS=2000 ddprun --nproc-per-node 2 \
		--on-event ./record "${deaf[@]}" c_fault stop 1
	await "$T/events" hung 30
	[ "$(events '(e[0]["event"], e[0]["rank"])')" = "('hung', 1)" ]
	[ "$(events '"no progress for" in e[0]["text"]')" = True ]
	signal job KILL
	finish job -
}

@test "a job that succeeds runs no command" {
	expect 0 ddprun --standalone --on-event ./record true
	[ ! -e events ]
}

@test "a command that hangs is killed, with a warning, after the end of the job" {
	mkfifo never
	expect 3 ddprun --standalone --on-event 'cat never; true' sh -c 'exit 3'
	has "$err" "^ddprun: warning: the command of --on-event, for 'failed', did not end in time: killed"
	nothing_left
}

@test "a command that fails, or does not read its input, is a warning" {
	expect 3 ddprun --standalone --on-event 'exit 4' sh -c 'exit 3'
	has "$err" "^ddprun: warning: the command of --on-event, for 'failed', exited with code 4"
	expect 3 ddprun --standalone --on-event /no/such/command sh -c 'exit 3'
	has "$err" "for 'failed', exited with code 127"
}
