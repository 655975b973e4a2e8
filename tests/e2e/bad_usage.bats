# Bad usage: before any worker starts, ddprun prints one line that names the mistake
# and a remedy.
# covers: launcher/config base
load ../lib

# refused STATUS PATTERN ARGS...: nothing on stdout, one line on stderr.
refused() {
	local want=$1 pattern=$2
	shift 2
	expect "$want" ddprun "$@"
	[ -z "$out" ]
	has "$err" "^ddprun: error: $pattern"
	[ "$(wc -l <<<"$err")" = 1 ]
}

@test "a program that is missing, not executable, a folder, or not given is an error" {
	touch plain
	refused 127 "cannot run './nothing': No such file" ./nothing
	refused 127 "cannot run 'no-such-tool': .* in \\\$PATH" no-such-tool
	refused 127 "cannot run 'plain': .*--run-path NAME" plain
	refused 127 "cannot run 'none.py': No such file" none.py
	refused 126 "cannot run './plain': Permission denied; make it executable" \
		./plain
	refused 126 "cannot run '$T': Is a directory" "$T"
	refused 2 "no program to run" --nnodes 1
	touch plain.py
	PYTHON_EXEC=no-python refused 127 \
		"cannot run 'no-python', the Python for 'plain.py' \(\\\$PYTHON_EXEC\): No such file .* in \\\$PATH; set PYTHON_EXEC" \
		plain.py
	refused 127 "cannot run 'plain': .* this directory has a file of that name: .*--run-path" \
		plain
	mkdir empty
	refused 126 "cannot run 'empty': it is a folder without a __main__.py" \
		--run-path empty
}

@test "with enough nodes the end of --rdzv-timeout waits for the last call" {
	expect 0 ddprun --nnodes 1:2 --rdzv-timeout 1 --last-call-timeout 2 \
		--rdzv-endpoint 127.0.0.1:0 echo started
	[ "$out" = "[0] started" ]
}

@test "bad values of --nproc-per-node are errors" {
	local n
	for n in 0 -1 1e9 1000000000 two ''; do
		refused 2 "--nproc-per-node '$n': give a number from 1 to 65536, or auto, cpu, gpu" \
			--nproc-per-node "$n" true
	done
	refused 71 "--nproc-per-node 65536: .*start fewer" \
		--nproc-per-node 65536 true
}

@test "--nproc-per-node gpu without a GPU is an error" {
	CUDA_VISIBLE_DEVICES= refused 2 \
		"--nproc-per-node gpu: this host has no GPU to use: .*; give a number, cpu or auto" \
		--nproc-per-node gpu true
}

@test "too few open files are an error" {
	expect 71 bash -c 'ulimit -n 100; exec ddprun --nproc-per-node 64 true'
	has "$err" 'need [0-9]* open files, including the [0-9]* that ddprun was started with, but the hard limit is 100; raise it \(ulimit -Hn\)'
	# a soft limit is raised for us, and not for the workers
	expect 0 bash -c \
		'ulimit -Sn 100; exec ddprun --nproc-per-node 64 sh -c "ulimit -n"'
	[ "$(wc -l <<<"$out")" = 64 ]
	[ "$(sed 's/.* //' <<<"$out" | sort -u)" = 100 ]
}

@test "bad values of --nnodes are errors" {
	refused 2 "--nnodes '0': give the number of nodes" --nnodes 0 true
	refused 2 "--nnodes '2:1': the minimum is above" --nnodes 2:1 true
	refused 2 "--nnodes 'a': give the number of nodes" --nnodes a true
	refused 2 "--nnodes '1:2:3': give the number of nodes" --nnodes 1:2:3 true
}

@test "an unknown option names the nearest one" {
	refused 2 "unknown option --nproc-per-mode; did you mean --nproc-per-node\\?" \
		--nproc-per-mode 2 true
	refused 2 "unknown option --max-restart-s; did you mean --max-restarts\\?" \
		--max-restart-s 1 true
	refused 2 "unknown option -y" -y true
	refused 2 "--nnodes needs a value" --nnodes
}

@test "bad values of other options are errors" {
	refused 2 "--node-rank 2: with --nnodes 2 it must be from 0 to 1" \
		--nnodes 2 --node-rank 2 true
	refused 2 "--standalone is for one node" --standalone --nnodes 2 true
	refused 2 "--rdzv-backend 'zeus' is not supported: .*leave it out" \
		--rdzv-backend zeus true
	refused 2 "--max-restarts: -1 is not in the range 0 to 1000000" --max-restarts -1 true
	refused 2 "--shutdown-timeout: 'x' is not a number" \
		--shutdown-timeout x true
	refused 2 "--rdzv-id: the name must have 1 to 256 printable" \
		--nnodes 2 --rdzv-id '' true
	refused 2 "--rdzv-id: the name must have 1 to 256 printable" \
		--rdzv-id $'a\nb' true
	PET_MAX_RESTARTS=many refused 2 "PET_MAX_RESTARTS in the environment" \
		true
	PET_NODE_RANK= refused 2 "PET_NODE_RANK in the environment: ''" true
	PET_STANDALONE=yes refused 2 "PET_STANDALONE in the environment: 'yes'" \
		true
	MASTER_PORT=http refused 2 "MASTER_PORT in the environment" \
		--nnodes 2 true
	# one node meets no other there
	MASTER_PORT=http expect 0 ddprun true
}

@test "options that only Python could implement are refused, with the reason" {
	refused 2 "--logs-specs 'mine' is Python code, which ddprun cannot load; use --log-dir" \
		--logs-specs mine true
	refused 2 "--event-log-handler 'mine' is Python code" \
		--event-log-handler mine true
	refused 2 "--start-method 'thread': give spawn, fork or forkserver" \
		--start-method thread true
	refused 2 "--module runs PROGRAM with Python and --no-python without" \
		-m --no-python true
	refused 2 "--legacy-launch with --no-python needs --use-env" \
		--legacy-launch --no-python true
	refused 2 "--nproc-per-node xpu: ddprun counts only NVIDIA GPUs" \
		--nproc-per-node xpu true
}

@test "bad values of --rdzv-conf are errors" {
	refused 2 "--rdzv-conf: 'timeout': give KEY=VALUE,KEY=VALUE" \
		--rdzv-conf timeout true
	refused 2 "--rdzv-conf: join_timeout=soon: give a number of seconds" \
		--rdzv-conf join_timeout=soon true
	refused 2 "--rdzv-conf: store_type=file: ddprun's rendezvous only uses TCP" \
		--rdzv-conf store_type=file true
	refused 2 "--rdzv-conf is_host=1: the endpoint '192.0.2.1:9' is not at an address of this host" \
		--rdzv-endpoint 192.0.2.1:9 --rdzv-conf is_host=1 true
	expect 0 ddprun --rdzv-conf plugin=1 true
	has "$err" '^ddprun: warning: --rdzv-conf: plugin is ignored'
	expect 75 ddprun --nnodes 2 --rdzv-conf join_timeout=0.5 \
		--rdzv-endpoint 192.0.2.1:29400 true
	has "$err" '^ddprun: error: gave up after 0.5 s'
}

@test "bad etcd options and their conflicts are errors" {
	local with=(--rdzv-backend etcd --rdzv-endpoint 192.0.2.1)
	refused 2 "--rdzv-backend etcd needs --rdzv-endpoint HOST" \
		--rdzv-backend etcd --rdzv-id j true
	refused 2 "--rdzv-backend etcd-v2 needs --rdzv-id ID: each job in this etcd" \
		--rdzv-backend etcd-v2 --rdzv-endpoint 192.0.2.1 true
	refused 2 "--rdzv-endpoint 'h1,': a member is empty; give etcd's members as HOST\[:PORT\],HOST" \
		--rdzv-backend etcd --rdzv-endpoint h1, --rdzv-id j true
	refused 2 "--rdzv-endpoint 'http://h1:2379': it must not be a URL" \
		--rdzv-backend etcd --rdzv-endpoint http://h1:2379 --rdzv-id j true
	refused 2 "--rdzv-backend etcd with -H: .*; leave one of them out" \
		"${with[@]}" --rdzv-id j -H localhost:1 true
	refused 2 "--rdzv-backend etcd with --hostfile: " \
		"${with[@]}" --rdzv-id j --hostfile f true
	refused 2 "--rdzv-backend etcd with --standalone: " \
		"${with[@]}" --rdzv-id j --standalone true
	refused 2 "--rdzv-backend etcd with --journal: etcd keeps the server's" \
		"${with[@]}" --rdzv-id j --journal f true
	refused 2 "--rdzv-backend etcd with --rdzv-conf is_host: " \
		"${with[@]}" --rdzv-id j --rdzv-conf is_host=1 true
	refused 2 "--rdzv-conf: cacert, cert and key are for protocol=https" \
		"${with[@]}" --rdzv-id j --rdzv-conf cacert=f true
	refused 2 "--local-addr 192.0.2.7 is not an address of this host" \
		"${with[@]}" --rdzv-id j --local-addr 192.0.2.7 true
}

@test "GPUs that do not exist are an error" {
	CUDA_VISIBLE_DEVICES=0,1,2 refused 2 \
		"--gpus-per-proc: 2 workers need 4 GPUs, but CUDA_VISIBLE_DEVICES '0,1,2' has 3; start fewer workers" \
		--nproc-per-node 2 --gpus-per-proc 2 true
	CUDA_VISIBLE_DEVICES=0 refused 2 \
		"--virtual-local-rank: 2 workers need 2 GPUs, but CUDA_VISIBLE_DEVICES '0' has 1" \
		--nproc-per-node 2 --virtual-local-rank true
}

@test "an endpoint that is invalid or does not resolve is an error" {
	refused 2 "endpoint ':29400': the host is empty" \
		--rdzv-endpoint :29400 true
	refused 2 "endpoint 'h:99999': the port is not a number from 0 to 65535" \
		--rdzv-endpoint h:99999 true
	refused 2 "host 'no-such-host.invalid' does not resolve: .*; check the name" \
		--rdzv-endpoint no-such-host.invalid true
}

@test "a name that several nodes meet at is waited for within --rdzv-timeout" {
	expect 75 ddprun --nnodes 2 --rdzv-timeout 0.1 \
		--rdzv-endpoint no-such-host.invalid true
	has "$err" "^ddprun: error: the name 'no-such-host.invalid' did not resolve within 0.1 s"
}

@test "a port with another protocol's server is an error" {
	start other w_port says 'SSH-2.0-OpenSSH_9.2'
	await other.out '^[0-9]'
	refused 76 "rendezvous server 127.0.0.1:$line: the process there is not a ddprdzv.*; choose another port" \
		--rdzv-endpoint "127.0.0.1:$line" true
}

@test "a port with a silent server is an error" {
	start other w_port silent
	await other.out '^[0-9]'
	expect 76 ddprun --rdzv-endpoint "127.0.0.1:$line" true
	has "$err" "^ddprun: waiting [0-9]+ s for an answer from 127.0.0.1:$line "
	has "$err" "^ddprun: error: .*127.0.0.1:$line: .*silent for 5 s, .*; choose another port with --rdzv-endpoint"
}

@test "ddprun waits for its own server, however slow that is" {
	cat >slow <<-'END'
		#!/bin/sh
		kill -STOP $$
		exec ddprdzv "$@"
	END
	chmod +x slow
	start job env DDP_SERVER=./slow ddprun --standalone echo hello
	await job.err 'waiting ([6-9]|[1-9][0-9]+) s for an answer from '
	kill -CONT "$(pgrep -P "${pid[job]}" -x slow)"
	finish job
	has "$out" '^\[0\] hello$'
}

@test "a port that closes each connection is an error" {
	start other w_port closing
	await other.out '^[0-9]'
	expect 76 ddprun --rdzv-endpoint "127.0.0.1:$line" true
	has "$err" "^ddprun: error: .*127.0.0.1:$line: .*closes each connection without a reply"
}

@test "a missing server program is an error" {
	DDP_SERVER=./no-server refused 71 \
		"DDP_SERVER is './no-server', which cannot be run .*: set it to the path" \
		true
}

@test "an endpoint on another host where nobody answers is an error" {
	# TEST-NET-1: never routed. The error names what it waits for at that moment: a
	# connection that is refused at once, or one under way.
	expect 75 ddprun --nnodes 2 --rdzv-timeout 1.5 \
		--rdzv-endpoint 192.0.2.1:29400 true
	has "$err" '^ddprun: waiting [0-9]+ s for (the rendezvous at|an answer from) 192.0.2.1:29400 \(job .none.\)'
	has "$err" '^ddprun: error: gave up after 1.5 s: no rendezvous at 192.0.2.1:29400'
}

@test "hosts that are invalid or cannot be reached are errors" {
	refused 2 'none: No such file or directory$' --hostfile none true
	refused 2 '-H, word 2: host a is already in word 1' -H a,a true
	refused 2 '--nproc-per-node 3: -H has 2 for b; leave one of the two out, or list b with 3$' \
		-H a:4,b:2 --nproc-per-node 3 true
	expect 0 ddprun -H a:4,b:2 --nproc-per-node 2 --dry-run true
	[ "$(grep -c 'workers: 2' <<<"$out")" = 2 ]
	# the only host, so the whole job ends
	expect 69 ddprun -H nowhere --ssh false true
	[ "$err" = 'ddprun: error: host nowhere: cannot start ddprun there (exit code 1)' ]
}

@test "--help and --version print and exit" {
	expect 0 ddprun --help
	has "$out" '^usage: ddprun \[OPTIONS\] PROGRAM \[ARGUMENTS\]$'
	has "$out" '^  doctor  report what is found'
	has "$out" '^failures and restarts:$'
	has "$out" '--nproc-per-node N'
	[ -z "$(awk 'length > 80' <<<"$out")" ]
	expect 0 ddprun --version
	has "$out" '^ddprun [0-9]+\.[0-9]+\.[0-9]+$'
}

@test "a mistyped command gets a hint, and another missing program gets none" {
	expect 127 ddprun statsu
	has "$err" "; did you mean ddprun status\\?\$"
	expect 127 ddprun help
	has "$err" '; did you mean ddprun --help\?$'
	expect 127 ddprun no-such-program
	lacks "$err" 'did you mean'
}
