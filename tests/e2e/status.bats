# ddprun status: what the server knows about a job, as text and JSON.
# covers: launcher/inspect rendezvous/query
load ../lib

setup() {
	lib_setup
	port=$(w_port free)
	at=127.0.0.1:$port
}

# json EXPRESSION: of what `ddprun status --json` prints, as Python's `s`
json() {
	ddprun status --json --job of_status --rdzv-endpoint "$at" >status.json
	python3 -c 'import json, sys
s = json.load(open("status.json"))
print(eval(sys.argv[1]))' "$1"
}

# node NAME RANK [OPTION...]: a ddprun of job of_status, of two nodes
node() {
	local name=$1 rank=$2
	shift 2
	start "$name" ddprun --nnodes 2 --node-rank "$rank" --rdzv-id of_status \
		--rdzv-endpoint "$at" "$@"
}

@test "status without a job prints a line and exits with 1" {
	expect 1 ddprun status --job no-such-job
	has "$err" "^ddprun: error: none of your ddpruns on .* is in job 'no-such-job'"
	expect 2 ddprun status --jobb
	has "$err" 'did you mean --job'
	expect 0 ddprun status --help
	has "$out" '^usage: ddprun status'
}

@test "status finds a job on this host and shows which nodes it waits for" {
	node a 0 --nproc-per-node 3 true
	await a.err '^ddprun: waiting [12] s'
	expect 0 ddprun status --job of_status
	has "$out" "^job 'of_status' at $at: gathering for [1-3] s, round 0, attempt 1 of 1\$"
	has "$out" '^  1 of 2 nodes$'
	has "$out" '^  waiting [1-3] s for 1 of 2 nodes: node 1 \(not connected\)$'
	has "$out" '^  node -  .*  127.0.0.1  waits  3 workers'
	expect 0 ddprun status --job of_status --json
	[ "$(python3 -c 'import json, sys
j, = json.load(open(sys.argv[1]))["jobs"]
print(j["state"], j["joined"], j["max_nodes"], j["waiting"]["for"],
	1 <= j["waiting"]["seconds"] < 9, j["last_end"], j["nodes"][0]["state"])
' program.out)" = "gathering 1 2 1 of 2 nodes: node 1 (not connected) True None waits" ]
	signal a TERM
	finish a -
}

@test "status of a running job shows its nodes and workers" {
	mkfifo go
	# in the order of ranks, not of joining
	start server ddprdzv --listen "$at"
	await server.err 'listening on'
	node b 1 --nproc-per-node 1 sh -c 'echo here; read -r _ <>go'
	await b.err 'waiting [12] s'
	node a 0 --nproc-per-node 2 sh -c 'echo here; read -r _ <>go'
	await a.out '\[1\] here'
	await b.out here
	expect 0 ddprun status --job of_status
	[ "$(grep -c '^job ' <<<"$out")" = 1 ]
	has "$out" "^job 'of_status' at $at: running for [0-9]+ s, round 0, attempt 1 of 1\$"
	has "$out" '^  2 of 2 nodes, 3 workers \(0 connected, 0 ended\); the store holds 0 keys, 0 bytes$'
	has "$out" '^  node 0  .*  127.0.0.1  runs  ranks 0 to 1: 0 connected, 0 ended'
	has "$out" '^  node 1  .*  127.0.0.1  runs  ranks 2 to 2: 0 connected, 0 ended'
	[ "$(grep -c waiting <<<"$out")" = 0 ]
	[ "$(grep -oE '^  node [01]' <<<"$out" | tr -d '\n')" = '  node 0  node 1' ]
	# rank 0 waits for a key that is never set
	start w env DDP_LOG=error rdzv_client do "$at" of_status 0 0 set k value \
		wait 60000 never
	start clock rdzv_client do "$at" of_status 0 1 wait 60000 k wait 1500 never
	finish clock 1
	[ "$(json '[(j["connected"], j["store_keys"], j["waiting"]["for"],
		[n["connected"] for n in j["nodes"]]) for j in s["jobs"]]')" = \
		"[(1, 1, \"1 of 1 key that nobody has set: 'never'\", [1, 0])]" ]
	exec 8<>go
	echo >&8
	echo >&8
	echo >&8
	finish a
	finish b
	exec 8>&-
	finish w 1
}

@test "status of a restarting job shows its last failure, attempt and nodes" {
	mkfifo go
	node a 0 --max-restarts 2 --shutdown-timeout 1 sh -c \
		'[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exec tail -f /dev/null
		echo here; read -r _ <go; exit 3'
	await a.err 'waiting [12] s'
	node b 1 --max-restarts 2 --shutdown-timeout 4 "${deaf[@]}" sh -c \
		'echo here $TORCHELASTIC_RESTART_COUNT; exec tail -f /dev/null'
	await b.out 'here 0'
	echo >go
	await a.err 'waiting [12] s .* to come back'
	expect 0 ddprun status --job of_status
	has "$out" "^job 'of_status' at $at: restarting for [1-4] s, round 1, attempt 2 of 3\$"
	has "$out" '^  waiting [1-4] s for 1 of 2 nodes: node 1 \(.*, stopping its workers, or in its --restart-backoff, for [1-4] s\)$'
	has "$out" '^  the last round ended: rank 0 \(local rank 0\) on .*exited with code 3$'
	has "$out" '^  node 1  .*  stops  1 worker'
	await b.out 'here 1'
	[ "$(json '[(j["state"], j["restarts"], j["max_restarts"], j["round"])
		for j in s["jobs"]]')" = "[('running', 1, 2, 1)]" ]
	signal a TERM
	finish a -
	finish b -
}

@test "status shows all jobs of a server, or the job that is given" {
	start server ddprdzv --listen "$at"
	await server.err 'listening on'
	start x ddprun --nnodes 2 --rdzv-id x --rdzv-endpoint "$at" true
	start y ddprun --nnodes 2 --rdzv-id y --rdzv-endpoint "$at" true
	await x.err 'waiting [12] s'
	await y.err 'waiting [12] s'
	expect 0 ddprun status --rdzv-endpoint "$at"
	has "$out" "^job 'x' at"
	has "$out" "^job 'y' at"
	expect 0 ddprun status --rdzv-endpoint "$at" --job y
	[ "$(grep -c '^job ' <<<"$out")" = 1 ]
	start z ddprun status --rdzv-endpoint "$at" --job z
	finish z -
	[ "$status" = 77 ]
	has "$err" "there is no job 'z' at $at"
	signal server TERM
	finish server
	finish x -
	finish y -
}

@test "status shows job names with percents, quotes, other scripts, or invalid UTF-8" {
	local name n=0 names=('100%s%n' 'Grüße/日本' "o'hare \"x\" \\"
		$'b\xffd' '-x' '$(echo)')
	export LC_ALL=C # for grep
	start server ddprdzv --listen "$at"
	await server.err 'listening on'
	for name in "${names[@]}"; do
		start "n$n" ddprun --nnodes 2 --rdzv-id="$name" \
			--rdzv-endpoint "$at" true
		n=$((n + 1))
	done
	for ((n = 0; n < ${#names[@]}; n++)); do
		name=${names[n]}
		await "n$n.err" 'waiting [12] s'
		expect 0 ddprun status --rdzv-endpoint "$at" --job="$name"
		grep -qF "job '$name' at" <<<"$out"
		expect 0 ddprun status --json --rdzv-endpoint "$at" --job="$name"
		python3 -c 'import json, os, sys
j, = json.load(sys.stdin)["jobs"]
name = os.fsencode(sys.argv[1])
assert j["job"] == name.decode(errors="replace"), j["job"]' "$name" <<<"$out"
	done
	expect 0 ddprun status --json --rdzv-endpoint "$at"
	[ "$(python3 -c 'import json, sys
print(len(json.load(sys.stdin)["jobs"]))' <<<"$out")" = $n ]
	signal server TERM
	finish server
	while ((n--)); do
		finish "n$n" -
	done
}
