# The last lines of a rank on another host, in `ddprun top` and on the page.
# covers: launcher/top launcher/inspect/output_query.c launcher/agent/agent_output.c rendezvous/query rendezvous/web
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 2
	J=top.$TEST_COOKIE
	mkfifo go
}

# begin_job OPTION...: four workers on two hosts; each prints two lines, and waits
begin_job() {
	local h
	for h in h1 h2; do
		start_on "$h" "on_$h" bash -c 'echo "agent $$"; exec "$@"' bash \
			ddprun --nnodes 2 --nproc-per-node 2 --rdzv-id "$J" \
			--node-rank $((${h#h} - 1)) --rdzv-endpoint "${at[h1]}:29400" "$@" \
			sh -c 'echo "out of $RANK"; echo "err of $RANK" >&2; read -r _ <go; true'
	done
}

end_job() {
	: >go
	finish on_h1
	finish on_h2
}

# until_shown H RANK: until top on H shows both lines of that rank
until_shown() {
	local end=$((SECONDS + 60))
	while [ $SECONDS -lt $end ]; do
		start_on "$1" top ddprun top --once --job "$J" --rank "$2"
		finish top -
		! grep -qx "out of $2" <<<"$out" || ! grep -qx "err of $2" <<<"$out" ||
			return 0
	done
	echo "they are not there:"
	echo "$out"
	return 1
}

@test "top on either host shows the last lines of ranks of both hosts" {
	local h rank host
	begin_job
	for h in h1 h2; do
		for rank in 0 3; do
			until_shown "$h" "$rank"
			host='.*'
			[ "$HOSTS" = loopback ] || host=h$((rank / 2 + 1))
			has "$out" "^rank $rank on $host: last lines of stdout\$"
			has "$out" "^rank $rank on $host: last lines of stderr\$"
		done
	done
	start_on h2 top ddprun top --json --job "$J" --rank 1
	finish top
	[ "$(python3 -c 'import json, sys
o = json.loads(sys.argv[1])["jobs"][0]["output"]
print(o["rank"], o["stdout"], o["stderr"], o["error"])' "$out")" = \
		"1 ['out of 1'] ['err of 1'] None" ]
	end_job
}

@test "lines of another host come from its log files where workers write to these" {
	begin_job --log-dir "$T/logs" --redirects 3
	until_shown h1 3
	until_shown h2 0
	end_job
}

@test "an agent that is stopped is named instead of its ranks' lines" {
	local agent
	begin_job --heartbeat-timeout 300
	until_shown h1 3
	await "$T/on_h2.out" '^agent'
	agent=${line#* }
	start_on h2 stopper kill -STOP "$agent"
	finish stopper
	start_on h1 top ddprun top --once --job "$J" --rank 3
	finish top
	has "$out" '^its agent did not answer within 2 s; the server last heard from it [0-9.]+ s ago$'
	start_on h2 goer kill -CONT "$agent"
	finish goer
	until_shown h1 3
	end_job
}

@test "the page on one host shows the lines of a rank of another" {
	begin_job --web 0
	await "$T/on_h1.err" 'the page is at (http://[^ ]+)'
	cat >try.py <<-EOF
		import json, sys, time, urllib.parse, urllib.request
		url = urllib.parse.urlsplit(sys.argv[1])
		ask = urllib.request.Request(
		    f"http://{url.netloc}/api/output?job={sys.argv[2]}&rank=3",
		    headers={"Authorization": "Bearer " + url.query.split("=")[1]})
		end = time.monotonic() + 60
		while time.monotonic() < end:
		    try:
		        with urllib.request.urlopen(ask, timeout=20) as reply:
		            got = json.load(reply) if reply.status == 200 else None
		    except urllib.error.HTTPError as e: # the rank does not run yet
		        assert e.code == 404, e.read()
		        got = None
		    if got and got["stdout"] and got["stderr"]:
		        break
		    time.sleep(0.1)
		assert got["stdout"] == ["out of 3"] and got["stderr"] == ["err of 3"], got
		assert got["rank"] == 3 and got["error"] is None, got
	EOF
	start_on h1 reader python3 try.py "${line##* }" "$J"
	finish reader
	end_job
}
