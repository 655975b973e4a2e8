# elastic_events.bats: --event-log-handler console prints torchrun's events.
# covers: launcher/agent/agent_elastic.c launcher/failure/elastic_event.c
load ../lib

# events EXPRESSION [FILE]: the value of a Python expression on the events e of the last
# expect, or in FILE; m is the metadata of each, n what is nested in that.
events() {
	python3 - "$1" "${2:-$T/program.err}" <<-'END'
		import json, sys
		e = [json.loads(l) for l in open(sys.argv[2]) if l.startswith("{")]
		m = [x["metadata"] for x in e]
		n = [json.loads(x["metadata"]) for x in m]
		workers = [x for x in m if x["global_rank"] is not None]
		print(eval(sys.argv[1]))
	END
}

@test "a start and an end of each worker are events, and so is a restart" {
	expect 0 ddprun --rdzv-id run7 --nproc-per-node 2 \
		--max-restarts 1 --event-log-handler console \
		sh -c '[ $RANK$TORCHELASTIC_RESTART_COUNT != 10 ] || exit 3'
	[ "$(events '[(x["source"][0], x["metadata"]["state"]) for x in e]')" = \
		"[('A', 'RENDEZVOUS'), ('W', 'START'), ('W', 'START'), ('A', 'RENDEZVOUS'), ('W', 'START'), ('W', 'START'), ('W', 'SUCCEEDED'), ('W', 'SUCCEEDED'), ('A', 'SUCCEEDED')]" ]
	[ "$(events '{x.get("exit_code", [None])[0] for x in n}')" = '{None}' ]
	[ "$(events '{x["rdzv_backend"] for x in m}')" = "{'c10d'}" ]
	[ "$(events '[x["agent_restarts"] for x in m]')" = '[0, 0, 0, 1, 1, 1, 1, 1, 1]' ]
	[ "$(events '[x["global_rank"] for x in workers]')" = '[0, 1, 0, 1, 0, 1]' ]
	[ "$(events '{x["run_id"] for x in m}')" = "{'run7'}" ]
	[ "$(events '{x["name"] for x in e if x["source"] == "AGENT"}' | tr -d '{}' |
		tr , '\n' | grep -c "'torchelastic.worker.status.")" = 2 ]
	[ "$(events '[x["entry_point"] for x in n][0]')" = sh ]
	[ "$(events '[x.get("local_rank") for x in n][-3:]')" = '[[0], [1], None]' ]
	[ "$(events 'all(x["duration_ms"] >= 0 for x in m if x["state"] == "RENDEZVOUS")')" = True ]
	[ "$(events 'all(x["timestamp"] > 1e12 for x in e)')" = True ]
}

@test "events say how each worker ended, and carry its error file" {
	cat <<<'{"message": "no\ndata", "timestamp": 17}' >error
	expect 3 ddprun --standalone --nproc-per-node 3 --event-log-handler console \
		sh -c 'case $RANK in
		0) cp error "$TORCHELASTIC_ERROR_FILE"; exit 3 ;;
		*) exec sleep 1000 ;; esac'
	[ "$(events '[x["state"] for x in m][4:]')" = \
		"['FAILED', 'TERMINATED', 'TERMINATED', 'SUCCEEDED']" ]
	[ "$(events 'json.loads(m[4]["raw_error"])["message"]')" = $'no\ndata' ]
	[ "$(events 'n[4]["exit_code"]')" = '[3]' ]
	[ "$(events '[str(n[4]["worker_pid"][0]) == m[4]["worker_id"] == m[1]["worker_id"], n[5]["exit_code"]]')" = '[True, [None]]' ]
	# without a file: the line of the failure page; a signal is negative
	expect 137 ddprun --standalone --nproc-per-node 1 --event-log-handler console \
		sh -c 'kill -9 $$'
	[ "$(events 'n[2]["exit_code"]')" = '[-9]' ]
	has "$(events 'json.loads(m[2]["raw_error"])["message"]')" '^rank 0 .*SIGKILL'
	has "$err" '^ddprun: job .* failed: rank 0 '
}

@test "a job that is stopped has workers that were terminated, and an agent that failed" {
	start job ddprun --standalone --nproc-per-node 2 --event-log-handler console \
		bash -c 'echo here; '"$IDLE"
	await job.out '^\[0\] here'
	await job.out '^\[1\] here'
	signal job TERM
	finish job 143
	[ "$(events '[x["state"] for x in m][-3:]' "$T/job.err")" = \
		"['TERMINATED', 'TERMINATED', 'FAILED']" ]
	[ "$(events '[x["raw_error"] for x in m][-3:-1]' "$T/job.err")" = '[None, None]' ]
	has "$(events 'm[-1]["raw_error"]' "$T/job.err")" ' received SIGTERM$'
}

@test "each node prints the events of its own workers" {
	local at=127.0.0.1:$(w_port free) i
	for i in 0 1; do
		start "node$i" ddprun --nnodes 2 --node-rank "$i" --nproc-per-node 1 \
			--rdzv-endpoint "$at" --event-log-handler=console true
	done
	finish node0
	finish node1
	for i in 0 1; do
		[ "$(events '[(x["group_rank"], x["global_rank"], x["state"]) for x in m]' \
			"$T/node$i.err")" = "[($i, None, 'RENDEZVOUS'), ($i, $i, 'START'), ($i, $i, 'SUCCEEDED'), ($i, None, 'SUCCEEDED')]" ]
		[ "$(events 'n[2]["group_world_size"]' "$T/node$i.err")" = 2 ]
	done
}

@test "events of several programs have their roles" {
	expect 0 ddprun -n 1 --role a --event-log-handler console true : \
		-n 2 --role b sh -c :
	[ "$(events '[(x["role"], json.loads(x["metadata"])["role_rank"], json.loads(x["metadata"])["role_world_size"]) for x in workers[:3]]')" = \
		"[('a', [0], [1]), ('b', [0], [2]), ('b', [1], [2])]" ]
	[ "$(events '[x["entry_point"] for x in n][1:3]')" = "['true', 'sh']" ]
}

@test "there are no events without the option, or with LOGLEVEL above INFO" {
	expect 0 ddprun --standalone true
	[ -z "$err" ]
	expect 0 ddprun --standalone --event-log-handler null true
	[ -z "$err" ]
	LOGLEVEL=WARNING expect 0 ddprun --standalone --event-log-handler console true
	[ -z "$err" ]
	PET_EVENT_LOG_HANDLER=console expect 0 ddprun --standalone true
	[ "$(events 'len(e)')" = 4 ]
}

@test "PyTorch's own class reads the events" {
	torch_or_skip
	expect 0 ddprun --standalone --nproc-per-node 2 --event-log-handler console true
	# the file alone: to import torch takes seconds
	cat >read.py <<-'END'
		import importlib.util as u, os, re, runpy, sys
		at = os.path.dirname(u.find_spec("torch").origin)
		api = runpy.run_path(at + "/distributed/elastic/events/api.py")
		for line in open(sys.argv[1]):
		    event = api["Event"].deserialize(line.rstrip("\n"))
		    event.metadata["duration_ms"] = None # 1.500 is 1.5
		    line = re.sub(r"[0-9.]+(}}\n)", r"null\1", line)
		    print(event.source.value, event.metadata["state"],
		          event.serialize() + "\n" == line)
	END
	"$PYTHON_EXEC" read.py program.err >read
	diff read - <<-'END'
		AGENT RENDEZVOUS True
		WORKER START True
		WORKER START True
		WORKER SUCCEEDED True
		WORKER SUCCEEDED True
		AGENT SUCCEEDED True
	END
}
