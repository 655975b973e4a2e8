# Unmodified PyTorch scripts under ddprun, if PyTorch is installed: DDP_TEST_PYTHON
# names a python that has it (default: python3, /usr/bin/python3).
# covers: rendezvous/torch launcher/plan rendezvous/vouching
bats_require_minimum_version 1.5.0
load ../lib

setup() {
	lib_setup
	torch_or_skip
}

script=$BATS_TEST_DIRNAME/../programs/workers/ddp_gloo.py

@test "a DDP script runs on gloo with --standalone" {
	expect 0 ddprun --standalone --nproc-per-node 2 "$script" snapshot 3
	has "$out" '^\[0\] start: rank 0 of 2 at epoch 0 '
	has "$out" '^\[0\] epoch 3: '
	has "$out" '^\[0\] rank 0 of 2: ok$'
	has "$out" '^\[1\] rank 1 of 2: ok$'
}

@test "torchrun's query functions report elastic and the run's id" {
	cat >ask.py <<-'EOF2'
		import os
		import torch.distributed as dist
		print(dist.is_torchelastic_launched(),
		      os.environ["TORCHELASTIC_RUN_ID"],
		      os.environ["TORCHELASTIC_RESTART_COUNT"],
		      os.environ["TORCHELASTIC_MAX_RESTARTS"])
	EOF2
	expect 0 ddprun --rdzv-id me --max-restarts 3 ask.py
	[ "$out" = '[0] True me 0 3' ]
}

@test "when a worker is killed, all restart from the snapshot" {
	local pid_of_1
	start job ddprun --standalone --nproc-per-node 2 --max-restarts 1 \
		"$script" "$T/snapshot" 2 "$T/stop"
	await job.out '^\[1\] start: rank 1 of 2 at epoch 0 '
	pid_of_1=${line##* }
	await job.out '^\[0\] epoch 2: '
	kill -KILL "$pid_of_1"
	await job.err 'restarting \(1 of 1\): rank 1 .*SIGKILL'
	await job.out '^\[1\] start: rank 1 of 2 at epoch ([2-9]|[1-9][0-9]+) '
	: >stop
	finish job 0
	has "$out" '^\[1\] rank 1 of 2: ok$'
}

store=$BATS_TEST_DIRNAME/../programs/peers/torch_store.py

@test "ddprun's server answers every call of PyTorch's store" {
	expect 0 ddprun --standalone --nproc-per-node 2 "$store"
	has "$out" '^\[0\] rank 0: store ok, '
	has "$out" '^\[1\] rank 1: store ok, '
	run ! grep "client of PyTorch's store" <<<"$err"
	# and rank 0, on request
	TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 expect 0 ddprun --standalone \
		--nproc-per-node 2 sh -c "echo \$TORCHELASTIC_USE_AGENT_STORE
			exec $PYTHON_EXEC $store"
	has "$out" '^\[0\] False$'
	has "$out" '^\[0\] rank 0: store ok, '
}

@test "each attempt sees an empty store" {
	expect 0 ddprun --standalone --nproc-per-node 2 --max-restarts 1 \
		"$store" mark
	has "$err" 'restarting \(1 of 1\): rank 0 .* exited with code 3'
	has "$out" '^\[1\] rank 1: store ok, '
}

@test "connections that do not speak PyTorch's protocol are closed, and logged" {
	expect 0 ddprun --standalone bash -c '
		exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT || exit 9
		printf "GET / HTTP/1.1\r\n\r\n" >&3
		[ "$(cat <&3 | wc -c)" = 0 ]'
	has "$err" "disconnected a client of PyTorch's store: .*not PyTorch"
}

@test "each rank may have 64 connections to the store, and more are refused" {
	cat >many.py <<-'EOF2'
		import datetime, os, sys
		from torch.distributed import TCPStore
		rank, n = int(os.environ["RANK"]), int(sys.argv[1])
		at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
		limit = datetime.timedelta(seconds=60)
		stores = [TCPStore(*at, 2, False, timeout=limit,
		                   wait_for_workers=False) for i in range(n)]
		for store in stores:
		    store.add("all", 1)
		stores[0].set("done %d" % rank, "1")
		stores[0].wait(["done 0", "done 1"], limit)
		print("rank", rank, "has", n, "of", stores[0].add("all", 0), flush=True)
	EOF2
	# both at the same time, as in the report of 64 for all ranks
	expect 0 ddprun --standalone --nproc-per-node 2 many.py 45
	has "$out" '^\[0\] rank 0 has 45 of 90$'
	has "$out" '^\[1\] rank 1 has 45 of 90$'
	lacks "$err" "PyTorch's store"
	# 256 connections are there for the smallest jobs
	expect 0 ddprun --standalone --nproc-per-node 2 many.py 120
	has "$out" '^\[1\] rank 1 has 120 of 240$'
	cat >more.py <<-'EOF2'
		import os, socket
		at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
		kept = [socket.create_connection(at) for i in range(257)]
		kept[-1].settimeout(60)
		print("the last got", kept[-1].recv(1), flush=True)
	EOF2
	expect 0 ddprun --standalone more.py
	has "$out" "^\[0\] the last got b''\$"
	has "$err" "PyTorch's store refuses connections: it has 256, more than its ranks can need\$"
}

# Its clients cannot reconnect on their own, and report that.
@test "after the server's death, old connections continue and new ones find all keys" {
	local child
	mkfifo go.0 go.1
	start job ddprun --standalone --nproc-per-node 2 \
		"$BATS_TEST_DIRNAME/../programs/peers/torch_server_death.py" "$T/go"
	await job.out '^\[0\] met'
	await job.out '^\[1\] met'
	for child in $(<"/proc/${pid[job]}/task/${pid[job]}/children"); do
		[ "$(<"/proc/$child/comm")" != ddprdzv ] || kill -9 "$child"
	done
	await job.err 'SIGKILL: restarted it'
	echo >go.0
	echo >go.1
	finish job 0
	[ "$(grep -c '\] error: ' <<<"$out")" = 2 ]
	has "$out" '^\[0\] rank 0: ok$'
	has "$out" '^\[1\] rank 1: ok$'
}

@test "a rank that waits in PyTorch's store for a missing one is reported" {
	cat >hangs.py <<-'EOF2'
		import datetime, os, sys
		import torch.distributed as dist
		if os.environ["RANK"] == "1":
		    open(sys.argv[1]).readline()
		    sys.exit(0)
		store, _, _ = next(dist.rendezvous("env://"))
		dist.init_process_group("gloo", store=store, rank=0, world_size=2,
		                        timeout=datetime.timedelta(seconds=15))
	EOF2
	mkfifo go
	start job ddprun --standalone --heartbeat-timeout 0.5 \
		--nproc-per-node 2 hangs.py "$T/go"
	await job.err '^ddprun: waiting [1-9] s for 1 of 1 key that nobody has set: .* \(rank 0, pid [0-9]+, in PyTorch.s store\)'
	# rank 0's time-out ends the job; the rank that it waited for is the cause
	finish job 79
	has "$err" "failed: rank 1 .* hangs: it waits for the other end of a FIFO in hangs.py:4 <module>, no progress for"
	has "$err" 'so rank 0 failed: .*timeout'
}
