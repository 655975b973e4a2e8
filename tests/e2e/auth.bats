# Authentication: both sides prove that they belong to the job, and a client without
# proof learns nothing. munge is in cluster/auth.bats, the secret's way over ssh in
# hosts/ssh_options.bats.
# covers: rendezvous/auth rendezvous/admission launcher/membership rendezvous/client
bats_require_minimum_version 1.5.0
load ../lib

server() {
	start server ddprdzv --listen 127.0.0.1:0 --heartbeat-timeout 60 "$@"
	await "$T/server.err" 'listening on'
	at=${line##* }
}

# node NAME [OPTION...]: one of two ddpruns that meet at $at
node() {
	local name=$1
	shift
	start "$name" ddprun --nnodes 2 --rdzv-endpoint "$at" "$@" \
		sh -c 'echo "rank $RANK"'
}

here() {
	at=127.0.0.1:$(w_port free)
}

one=first-token-of-ours two=second-token-of-theirs

@test "both sides report a wrong token at once, with addresses" {
	here
	DDP_LOG=debug DDP_TOKEN=$one node a
	await "$T/a.err" 'debug: 1 of 2 nodes have joined'
	DDP_TOKEN=$two node b
	finish b 77
	has "$err" "rendezvous server $at: it rejected our secret \(from DDP_TOKEN on $(hostname)\), because its own is different; give all nodes the same DDP_TOKEN or --token-file FILE"
	await "$T/a.err" "ddprdzv: warning: refused 127\.0\.0\.1:[0-9]+ \(claims host $(hostname), job 'none'\): it does not have this job's secret"
	# said once: it has tried twice
	[ "$(grep -c refused "$T/a.err")" = 1 ]
	DDP_TOKEN=$one node c
	finish c
	finish a
	[ "$out" = '[0] rank 0' ]
}

@test "ranks started without ddprun also report a wrong token at once" {
	local port token rank=0
	port=$(w_port free)
	for token in $one $two $one; do
		start r$rank env DDP_TOKEN=$token RANK=$((rank > 0)) WORLD_SIZE=2 \
			MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" c_guest
		[ $rank != 1 ] || {
			finish r1 1
			has "$out" "rendezvous server 127.0.0.1:$port: .*it rejected our secret \\(from DDP_TOKEN on"
		}
		rank=$((rank + 1))
	done
	finish r0
	finish r2
}

@test "a token from a file works like DDP_TOKEN; a node without it is refused" {
	here
	echo "$one" >token
	chmod 600 token
	DDP_TOKEN=$one node a
	await "$T/a.err" 'waiting'
	node b
	finish b 77
	has "$err" 'from the key file '"$T"'/config/ddprun/key'
	node c --token-file token
	finish c
	finish a
}

# as_nobody COMMAND...: as another user, with the programs of the system alone
as_nobody() {
	env PATH=/usr/bin:/bin setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

@test "a token that another user can replace is refused, with the folder" {
	[ "$(id -u)" = 0 ] || skip 'another user can be had by root only'
	local project=$T/project
	here
	let_others_in
	mkdir -p "$project/known" "$project/team"
	chmod 777 "$project/team"
	echo "$one" >"$project/team/token"
	# a file of ours whose text everybody knows
	echo 'a line of a public repository' >"$project/known/README"
	chmod 600 "$project"/*/*
	as_nobody sh -ec 'cd "$1"; mv token old; ln -s ../known/README token' - \
		"$project/team"
	node a --token-file "$project/team/token"
	finish a 77
	has "$err" "the token file $project/team/token can be replaced by other users, because they can write to the folder $project/team \(mode 0777\): run chmod go-w on it"
	expect 77 ddprdzv --listen 127.0.0.1:0 --token-file "$project/team/token"
	has "$err" 'mode 0777'
	# a pipe of theirs, in a folder in which each user has files
	chmod 1777 "$project/team"
	as_nobody mkfifo -m 600 "$project/team/pipe"
	node b --token-file "$project/team/pipe"
	finish b 77
	has "$err" "the token file $project/team/pipe belongs to user 65534, but this process runs as user 0"
	node c --token-file "$project/team/token"
	finish c 77
	has "$err" "can be replaced by user 65534, who owns the link $project/team/token"
	# there, nobody can replace a file of ours
	mv "$project/team/old" "$project/team/ours"
	as_nobody sh -c 'mv "$1/ours" "$1/theirs" 2>"$2"' - "$project/team" /dev/null && false
	node d --token-file "$project/team/ours"
	DDP_TOKEN=$one node f
	finish d
	finish f
}

# theirs NAME: another user's node, with the key file of that user
theirs() {
	start "$1" as_nobody env PATH="$T/bin:/usr/bin:/bin" XDG_CONFIG_HOME="$T/theirs" \
		ddprun --nnodes 2 --rdzv-endpoint "$at" sh -c 'echo "their rank $RANK"'
}

@test "of two users' jobs on one port, the first runs, and the other is refused" {
	local first second refused
	[ "$(id -u)" = 0 ] || skip 'another user can be had by root only'
	let_others_in
	install -d -m 755 "$T/bin"
	install -d -o 65534 -m 700 "$T/theirs"
	install -m 755 "$O/ddprun" "$O/ddprdzv" "$T/bin"
	refused="rendezvous server 127.0.0.1:[0-9]+: it rejected our secret \(from the key file"
	for first in node theirs; do
		here
		[ $first = node ] && second=theirs || second=node
		$first a
		await a.err 'waiting'
		$second b
		finish b 77
		has "$err" "$refused"
		[ -z "$out" ]
		$first c
		finish c
		has "$out" 'rank [01]$'
		finish a
		has "$out" 'rank [01]$'
		# one line, with the client's address
		[ "$(grep -c 'does not have' <<<"$err")" = 1 ]
		has "$err" "127.0.0.1:[0-9]+ \(.*\): it does not have this job's secret"
	done
}

@test "two ddpruns of one user authenticate with the key file, without configuration" {
	here
	[ ! -e config ]
	node a
	node b
	finish a
	finish b
	[ "$(stat -c %a config/ddprun/key config/ddprun)" = $'600\n700' ]
	[ "$(ls -A config/ddprun)" = key ]
}

@test "a key file that others can read is refused, and so is a missing one" {
	here
	mkdir -p config/ddprun
	echo 0123456789abcdef0123456789abcdef >config/ddprun/key
	chmod 640 config/ddprun/key
	node a
	finish a 77
	has "$err" "the key file $T/config/ddprun/key is readable by other users \(mode 0640\), so it may not be secret: run chmod 600 on it"
	expect 77 ddprdzv --listen 127.0.0.1:0
	has "$err" 'mode 0640'
	# no home is made for it
	expect 77 env -u XDG_CONFIG_HOME HOME="$T/gone" ddprdzv --listen 127.0.0.1:0
	has "$err" "cannot create this user's key file $T/gone/.config/ddprun/key on .*: No such file"
	[ ! -e gone ]
	# what one process starts needs none
	expect 0 ddprun --nproc-per-node 2 true
	XDG_CONFIG_HOME=/proc/self node b
	finish b 77
	has "$err" 'cannot create this user.s key file /proc/self/ddprun/key on .*; give all nodes the same secret in DDP_TOKEN or --token-file FILE, or admit everybody with --auth none'
	DDP_TOKEN=short node c
	finish c 2
	has "$err" 'DDP_TOKEN has 5 bytes: a secret needs 16'
	DDP_TOKEN=short expect 2 ddprun --rdzv-endpoint "$at" true
	has "$err" 'DDP_TOKEN has 5 bytes: a secret needs 16'
}

@test "a job of one node needs no shared secret, unless another server has its endpoint" {
	here
	export XDG_CONFIG_HOME=/proc/self
	expect 0 ddprun --rdzv-endpoint "$at" --nproc-per-node 2 true
	[ -z "$err" ]
	expect 0 env SLURM_JOB_ID=7 DDP_MUNGE_SOCKET="$T/none" ddprun --nnodes 1 \
		--node-rank 0 --master-addr 127.0.0.1 --master-port "${at##*:}" true
	expect 77 ddprun --nnodes 1:2 --rdzv-endpoint "$at" true
	expect 77 ddprun --auth secret --rdzv-endpoint "$at" true
	DDP_TOKEN=$one start server ddprdzv --listen "$at"
	await server.err 'listening on'
	expect 77 ddprun --rdzv-endpoint "$at" true
	has "$err" "it rejected our secret \(from a key that this ddprun generated: cannot create this user's key file /proc/self/ddprun/key on"
	signal server TERM
	finish server
}

@test "--auth none on one node warns with the address of its server" {
	expect 0 ddprun --auth none sh -c 'echo "$DDP_RDZV_ENDPOINT"'
	has "$err" "^ddprun: warning: --auth none: anyone who can reach ${out#*] } can join job 'none', "
}

@test "--auth none prints one line of explanation, and only connects to --auth none" {
	here
	DDP_LOG=debug node a --auth none
	await "$T/a.err" 'debug: 1 of 2 nodes have joined'
	[ "$(grep -c -- '--auth none' "$T/a.err")" = 1 ]
	has "$(<"$T/a.err")" "^ddprun: warning: --auth none: anyone who can reach $at can join job 'none', read what it stores there and end it\$"
	node b
	finish b 77
	has "$err" "rendezvous server $at: it runs without authentication \(--auth none\)"
	DDP_AUTH=none node c
	finish c
	finish a
	server
	node d --auth none
	finish d 77
	has "$err" "rendezvous server $at: it requires authentication"
	signal server TERM
	finish server
	start open ddprdzv --listen 127.0.0.1:0 --auth none
	await "$T/open.err" 'listening on'
	has "$(<"$T/open.err")" '^ddprdzv: warning: --auth none: any process that reaches this port can join any job here'
	signal open TERM
	finish open
}

@test "a worker has only its job's key, and another job's worker cannot read its store" {
	server
	start a ddprun --rdzv-endpoint "$at" --nnodes 1:2 --last-call-timeout 0 \
		--rdzv-id a sh -c 'echo "key $DDP_JOB_KEY $DDP_ROUND"; exec tail -f /dev/null'
	await "$T/a.out" 'key [0-9a-f]{64} '
	read -r _ _ key round <<<"$line"
	DDP_JOB_KEY=$key expect 0 rdzv_client do "$at" a "$round" 0 set k v get k
	[ "$out" = "1 'v'" ]
	# job b's key is another
	DDP_JOB_KEY=$key expect 1 rdzv_client do "$at" b "$round" 0 get k
	has "$out" 'it rejected our key \(from DDP_JOB_KEY'
	DDP_JOB_KEY=${key%????}0000 expect 1 rdzv_client do "$at" a "$round" 0 get k
	has "$out" 'it rejected our key \(from DDP_JOB_KEY'
	DDP_AUTH=none expect 1 rdzv_client do "$at" a "$round" 0 get k
	has "$out" 'requires authentication'
	# in its own job its holder can also pass as a node or a tool (docs/security.md)
	for role in worker agent tool; do
		DDP_JOB_KEY=$key expect 0 rdzv_client told $role "$at" a
		has "$out" "^welcome "
		DDP_JOB_KEY=$key expect 1 rdzv_client told $role "$at" b
		[ "$out" = closed ]
	done
	# nor does a tool that has nothing
	DDP_TOKEN=$two expect 77 ddprun status --rdzv-endpoint "$at"
	DDP_TOKEN=$two expect 77 ddprun dump --rdzv-endpoint "$at" --job a
	expect 0 ddprun status --rdzv-endpoint "$at"
	has "$out" "a"
	expect 0 ddprun dump --job a --no-stacks
	signal a TERM
	finish a 143
}

@test "an impostor is detected before it learns anything" {
	local methods
	for methods in 2 3; do
		start impostor rdzv_peer impostor $methods
		await "$T/impostor.out" '^at '
		at=${line#at }
		node a
		finish a 77
		has "$err" "rendezvous server $at: it does not have this job's secret .*another program poses as the server"
		has "$(<"$T/impostor.out")" '^closed'
		[ "$(grep told "$T/impostor.out")" = 'told HELLO' ]
		signal impostor KILL
		finish impostor 137
	done
	# a client that asks for less gets no reply at all
	start impostor rdzv_peer impostor 1
	await "$T/impostor.out" '^at '
	at=${line#at }
	node a
	finish a 77
	[ "$(grep -c told "$T/impostor.out")" = 0 ]
	signal impostor KILL
	finish impostor 137
}

@test "a replay of a recorded session gets only a greeting" {
	server
	start agent bash -c 'exec rdzv_client agent "$@" <> <(:)' - "$at" j 1 h1 1 -1 0
	await "$T/agent.out" '^START'
	start tap rdzv_peer record "$at" "$T/session"
	await "$T/tap.out" '^at '
	expect 0 rdzv_client do "${line#at }" j 0 0 set k secret get k
	[ "$out" = "1 'secret'" ]
	finish tap
	expect 0 rdzv_peer replay "$at" "$T/session"
	[ "$out" = 'heard 56 bytes' ] || [ "$out" = 'heard 0 bytes' ]
	await "$T/server.err" "it does not have this job's secret"
	signal agent KILL
	finish agent 137
}

@test "silent connections keep no client out, and are closed after a deadline" {
	# more than may stand there, for longer than anybody waits
	server --hello-timeout 300
	start silent rdzv_peer silent "$at" 600
	await "$T/silent.out" '^open'
	expect 0 ddprun --rdzv-endpoint "$at" --nnodes 1:2 --last-call-timeout 0 true
	signal silent KILL
	finish silent 137
	signal server TERM
	finish server
	server --hello-timeout 0.3
	start silent rdzv_peer silent "$at" 100
	await "$T/silent.out" '^closed'
	finish silent
}

@test "a scanner does not fill the disk" {
	server
	for _ in {1..30}; do
		DDP_TOKEN=$two rdzv_client do "$at" j 0 0 get k >scan || true
	done
	[ "$(wc -l <"$T/server.err")" = 2 ]
}

@test "no secret is on a command line or in an environment, except the workers' key" {
	DDP_TOKEN=$one start job ddprun --nproc-per-node 2 \
		sh -c 'echo up $DDP_JOB_KEY; exec tail -f /dev/null'
	await "$T/job.out" '\[1\] up [0-9a-f]{64}$'
	local key=${line##* } p
	[ ${#key} = 64 ]
	for p in /proc/[0-9]*; do
		! tr '\0' '\n' <"$p/cmdline" 2>/dev/null | grep -qF -e "$key"
		# the parent of all has only what the user gave it
		case $(cat "$p/comm" 2>/dev/null) in
		ddprun | ddprdzv)
			! tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -qF -e "$key"
			;;
		esac
	done
	signal job TERM
	finish job 143
}

@test "a debug log, its folder and the report hold no secret, and only the user reads them" {
	local run
	DDP_TOKEN=$one ETCDCTL_PASSWORD=etcd-password DDP_LOG=debug expect 3 ddprun \
		--standalone --nproc-per-node 1 --log-dir L --tee 3 sh -c '
		echo $DDP_JOB_KEY >key; echo to the log; exit 3'
	[ "$(wc -c <key)" = 65 ]
	for run in L/*; do
		[ "$(stat -c %a "$run")" = 700 ]
	done
	grep -rq 'to the log' L
	[ -e "$run/attempt_0/report.json" ]
	! grep -rlF -e "$one" -e etcd-password -e "$(<key)" L program.err
}

# A core file has all of it.
@test "a worker's memory holds the job's key, and neither the user's secret nor etcd's" {
	[ -z "${SAN:-}" ] || skip "a sanitizer maps terabytes"
	local p key workers=0
	local search='
import re, sys
pid, *texts = sys.argv[1:]
with open("/proc/%s/maps" % pid) as maps, \
        open("/proc/%s/mem" % pid, "rb", 0) as mem:
    for line in maps:
        begin, end = (int(n, 16) for n in line.split()[0].split("-"))
        if not re.search(r" r.*\[v|^\S+ -", line):
            mem.seek(begin)
            part = mem.read(end - begin)
            print(*[n for n, text in enumerate(texts) if text.encode() in part])
'
	mkfifo go
	ETCDCTL_PASSWORD=$two DDP_TOKEN=$one start job ddprun --standalone --nproc-per-node 2 sh -c '
		echo key $DDP_JOB_KEY; exec c_late_message "$1"' sh "$T/go"
	await job.out '\[0\] key [0-9a-f]{64}$'
	key=${line##* }
	await job.out waiting
	for p in $(<"/proc/${pid[job]}/task/${pid[job]}/children"); do
		[ "$(<"/proc/$p/comm")" = c_late_message ] || continue
		workers=$((workers + 1))
		expect 0 python3 -c "$search" "$p" "$key" "$one" "$two"
		has "$out" '^0$'
		lacks "$out" '[12]'
	done
	[ $workers = 2 ]
	# the search finds what is there
	expect 0 python3 -c "$search" "${pid[job]}" "$key" "$one" "$two"
	has "$out" 1
	echo >go
	finish job
}

@test "a client that has the token cannot exceed its role" {
	export DDP_TOKEN=$one
	server
	start agent bash -c 'exec rdzv_client agent "$@" <> <(:)' - "$at" j 2 h1 1 -1 0
	await "$T/agent.out" '^START'
	expect 0 python3 "$BATS_TEST_DIRNAME/../programs/peers/rdzv_hostile.py" "$at"
	[ "$out" = ok ]
	# and nobody noticed
	expect 0 rdzv_client do "$at" j 0 0 add n 1
	[ "$out" = 1 ]
	run ! grep -E '^(END|error|closed)' agent.out
	signal agent KILL
	finish agent 137
}
