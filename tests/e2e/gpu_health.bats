# gpu_health.bats: the health of GPUs by NVML, on a stand-in for its library: what
# goes wrong with a GPU, and with NVML itself. docs/gpu-health.md describes it.
#
# covers: launcher/gpu launcher/agent/agent_watch.c tests/gpu/standin/nvml.c

load ../lib

setup() {
	lib_setup
	export STANDIN_NVML=$T/gpus DDP_NVML_LIB=$O/standin/libnvidia-ml.so.1
	export DDP_TEST_GPU_MS=50
	unset CUDA_VISIBLE_DEVICES DDP_GPU_HEALTH
	printf '%s\n' 'count 2' '0 temperature 41' '1 temperature 52' \
		'0 utilization 97' '0 memory_used 1073741824' \
		'0 memory_total 8589934592' '0 ecc_volatile 0' \
		'1 ecc_volatile 0' >"$STANDIN_NVML"
}

teardown() { lib_teardown; }

# A job of two workers. USR1 ends a worker with code 7, USR2 with 0.
start_job() { # OPTIONS
	start job ddprun --nproc-per-node 2 "$@" bash -c '
		trap "echo CUDA error >&2; exit 7" USR1; trap "exit 0" USR2
		echo "rank $RANK pid $$ is up"; eval "$IDLE"'
	await job.out 'rank 0 pid [0-9]+ is up'
	rank0=${line##*pid } rank0=${rank0%% *}
	await job.out 'rank 1 pid [0-9]+ is up'
	rank1=${line##*pid } rank1=${rank1%% *}
}

end_job() {
	kill -USR2 "$rank0" "$rank1"
	finish job
}

happens() { # LINE
	echo "$1" >>"$STANDIN_NVML"
}

# The children of the job's agent with this name.
helpers() {
	pgrep -P "${pid[job]}" -x ddprun-gpu || :
}

# Until the helper has looked at all GPUs N times.
await_looks() { # N
	await gpus.waits waits
	until [ "$(wc -l <gpus.waits)" -ge "$1" ]; do
		await gpus.waits waits 60 "$(($(wc -l <gpus.waits) + 1))"
	done
}

@test "a GPU that falls off the bus is the first cause on the page" {
	start_job --log-dir logs
	happens '1 xid 79'
	await job.err 'GPU 1: Xid 79, fell off the bus: drain the node'
	kill -USR1 "$rank1"
	finish job 7
	has "$(<job.err)" "failed: rank 1 .* exited with code 7: GPU 1: Xid 79, fell off the bus\$"
	has "$(<job.err)" '^\|  +what to do: drain the node and power it off and on'
	# once, and before the page
	[ "$(grep -c 'GPU 1: Xid 79, fell off the bus: drain' job.err)" = 1 ]
	nothing_left
}

@test "an Xid that the program caused does not mark its GPU as broken" {
	start_job
	happens '0 xid 31'
	await job.err 'GPU 0: Xid 31, the program used GPU memory that is not mapped'
	kill -USR1 "$rank0"
	finish job 7
	has "$(<job.err)" 'exited with code 7: CUDA error'
	has "$(<job.err)" '^\|  +GPU 0: Xid 31, the program used GPU memory'
}

@test "an uncorrected memory error is reported with the death that it causes" {
	start_job
	await_looks 1
	happens '1 ecc_volatile 3'
	await job.err 'GPU 1: 3 uncorrected memory errors \(ECC\)'
	kill -USR1 "$rank0"
	finish job 7
	has "$(<job.err)" 'exited with code 7: GPU 1: 3 uncorrected memory errors'
}

@test "a lost GPU, a slow one, and links that go down are named once" {
	printf '%s\n' '0 throttle 0' '1 throttle 0' '0 links 4' '0 nvlink_errors 0' \
		>>"$STANDIN_NVML"
	start_job
	await_looks 1
	happens '0 throttle 64'
	await job.err 'warning: GPU 0: slowed down: too hot \(41 degrees Celsius\): look'
	happens '0 nvlink_errors 9'
	await job.err 'warning: GPU 0: NVLink errors: 9 more: look'
	happens '0 down 2'
	await job.err 'warning: GPU 0: 2 of 4 NVLinks went down: drain'
	happens '1 lost 1'
	await job.err 'warning: GPU 1: lost: it no longer answers the driver: drain'
	n=$(wc -l <gpus.waits)
	await_looks "$((n + 3))"
	end_job
	[ "$(grep -c 'GPU' job.err)" = 4 ]
}

@test "a call of NVML that hangs is logged once and delays nothing" {
	export DDP_TEST_GPU_LIMIT_MS=300
	happens '1 hang 1'
	start_job
	await job.err "warning: the health of this node's GPUs is not watched: a call of NVML has not returned in time"
	end_job
	[ "$(wc -l <job.err)" = 1 ]
	nothing_left
}

@test "ddprun exits while a call of NVML hangs" {
	happens '0 hang 1'
	start_job
	end_job
	nothing_left
}

@test "a crash in NVML is logged once, and the job continues" {
	start_job
	await_looks 1
	happens '0 crash 1'
	await job.err "warning: the health of this node's GPUs is not watched: NVML crashed \(signal 6\)"
	end_job
	[ "$(grep -c 'not watched' job.err)" = 1 ]
	nothing_left
}

@test "a library that is missing, is another one, or does not start is named" {
	export DDP_NVML_LIB=$T/libnvidia-ml.so.1
	start_job
	await job.err "not watched: $T/libnvidia-ml.so.1: cannot open shared object"
	end_job
	DDP_NVML_LIB=$O/standin/libcuda.so.1
	start_job
	await job.err 'not watched: .*/libcuda.so.1 is not NVML'
	end_job
	DDP_NVML_LIB=$O/standin/libnvidia-ml.so.1
	happens '0 init 18'
	start_job
	await job.err 'not watched: NVML does not start: the driver was updated'
	end_job
	happens '0 init 9'
	start_job
	await job.err 'not watched: NVML does not start: the driver is not loaded'
	end_job
}

@test "without permission for Xids, the rest is watched" {
	happens '1 denied 1'
	start_job
	await job.err 'warning: Xid errors are not watched: GPU 1: no permission'
	await_looks 1
	happens '1 ecc_volatile 1'
	await job.err 'GPU 1: 1 uncorrected memory error \(ECC\)'
	end_job
}

@test "only the job's GPUs are watched, and a GPU counts once under MIG" {
	printf '%s\n' 'count 4' '2 mig 3' '2 temperature 40' '3 temperature 40' \
		>>"$STANDIN_NVML"
	export CUDA_VISIBLE_DEVICES=1,MIG-2,MIG-2-b
	start_job
	happens '0 xid 48'
	happens '2 xid 94 5'
	await job.err 'GPU 2, instance 5: Xid 94, uncorrectable memory error, contained'
	happens '3 xid 48'
	happens '1 xid 74'
	await job.err 'GPU 1: Xid 74, NVLink error'
	end_job
	lacks "$(<job.err)" 'GPU [03]'
	[ "$(grep -c 'Xid' job.err)" = 2 ]
}

@test "without a GPU, or switched off, no process is started" {
	[ ! -e /dev/nvidiactl ] || skip "this machine has a GPU"
	unset DDP_NVML_LIB
	start_job
	[ ! "$(helpers)" ]
	end_job
	export DDP_NVML_LIB=$O/standin/libnvidia-ml.so.1 DDP_GPU_HEALTH=0
	start_job
	[ ! "$(helpers)" ]
	end_job
	[ ! -e gpus.waits ]
	[ ! -s job.err ]
}

@test "the helper ends with a ddprun that is killed" {
	start_job
	await_looks 1
	helper=$(helpers)
	[ "$helper" ]
	signal job KILL
	finish job 137
	await_end "$helper"
	nothing_left
}

@test "after a restart, the same error of a GPU is reported again" {
	start_job --max-restarts 1
	happens '1 xid 94'
	await job.err 'GPU 1: Xid 94'
	kill -USR1 "$rank1"
	await job.err 'restarting .*: GPU 1: Xid 94, uncorrectable memory error, contained'
	await job.out 'rank 1 pid [0-9]+ is up' 60 3
	n=$(wc -l <job.err)
	happens '1 xid 94'
	await job.err 'GPU 1: Xid 94' 60 "$((n + 1))"
	signal job TERM
	finish job 143
}

@test "docs/gpu-health.md has the Xids of the table, and their kinds" {
	root=${BATS_TEST_DIRNAME%/tests/e2e}
	sed -n 's/^\t{\([0-9]*\), GPU_XID_\([A-Z]*\),.*/\1 \L\2/p' \
		"$root/launcher/gpu/gpu_findings.c" | sed 's/recorded/note/' >code
	sed -n 's/^| \([0-9]*\) | \([a-z]*\) |.*/\1 \2/p' \
		"$root/docs/gpu-health.md" >docs
	[ "$(wc -l <code)" -gt 20 ]
	diff code docs
}

# json FILE EXPRESSION: of a JSON file, as Python's `s`
json() {
	python3 -c 'import json, sys
s = json.load(open(sys.argv[1]))
print(eval(sys.argv[2]))' "$@"
}

@test "ddprun status and the metrics show each GPU" {
	happens '1 memory_used 5'
	happens '1 ecc_volatile 2'
	start server ddprdzv --listen 127.0.0.1:0 --metrics-listen 0
	await server.err 'listening on 127.0.0.1:[0-9]+'
	at=$(grep -oE '127.0.0.1:[0-9]+' <<<"$line" | head -1)
	await server.err 'metrics at http://127.0.0.1:[0-9]+'
	web=$(grep -oE 'http://127.0.0.1:[0-9]+' <<<"$line")
	start_job --rdzv-id 'a"b' --rdzv-endpoint "$at"
	await_looks 2 # the first is on its way by then, or has come
	await job.err 'GPU 1: has had 2 uncorrected memory errors'
	n=0
	until python3 -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1] + "/metrics").read().decode())' \
		"$web" >metrics && grep -q gpu_temp metrics; do
		((++n < 200))
	done
	has "$(<metrics)" '^# TYPE ddprdzv_gpu_temperature_celsius gauge$'
	has "$(<metrics)" '^ddprdzv_gpu_temperature_celsius\{job="a\\"b",host="[^"]+",gpu="1",uuid="GPU-f00d0001-1"\} 52$'
	has "$(<metrics)" '^ddprdzv_gpu_ecc_uncorrected\{.*gpu="1".*\} 2$'
	# what NVML does not report is not there
	lacks "$(<metrics)" 'gpu_nvlinks\{'
	lacks "$(<metrics)" 'gpu_utilization_percent\{.*gpu="1"'
	expect 0 ddprun status --rdzv-endpoint "$at"
	has "$out" '^  gpu 0 on node 0  NVIDIA Stand-in  41 C  97 % busy  1024 of 8192 MiB$'
	has "$out" '^  gpu 1 on node 0  NVIDIA Stand-in  52 C  2 uncorrected memory errors$'
	expect 0 ddprun status --rdzv-endpoint "$at" --json
	[ "$(json program.out '[(g["index"], g["temperature"], g["utilization"])
		for g in s["jobs"][0]["gpus"]]')" = '[(0, 41, 97), (1, 52, None)]' ]
	end_job
	signal server TERM
	finish server
}

@test "all nodes learn what happens to a GPU of one of them" {
	printf '%s\n' '#!/bin/sh' 'tr -d "\n" >>events; echo >>events' >record
	chmod +x record
	port=$(w_port free)
	node=(ddprun --nnodes 2 --rdzv-endpoint "127.0.0.1:$port" --log-dir logs)
	worker='trap "exit 7" USR1; echo "pid $$ is up"; eval "$IDLE"'
	start a env DDP_GPU_HEALTH=0 "${node[@]}" --node-rank 0 \
		--on-event ./record bash -c "$worker"
	start job "${node[@]}" --node-rank 1 bash -c "$worker"
	await a.out 'pid [0-9]+ is up'
	rank0=${line#*pid } rank0=${rank0%% *}
	await job.out 'pid [0-9]+ is up'
	await_looks 1
	happens '1 xid 79'
	await job.err 'warning: GPU 1: Xid 79, fell off the bus'
	await a.err 'ddprun: node 1 \(.*\): GPU 1: Xid 79, fell off the bus: drain'
	await events '"event":.*"gpu"'
	has "$line" 'node 1 \(.*\): GPU 1: Xid 79, fell off the bus'
	# the node without the GPU fails first
	kill -USR1 "$rank0"
	finish a 7
	finish job 7
	has "$(<a.err)" '^\|  GPUs +node 1 \(.*\): GPU 1: Xid 79, fell off the bus'
	report=$(echo logs/*/attempt_0/report.json)
	[ "$(json "${report%% *}" '[(g["node_rank"], g["index"], g["xid"], g["severity"],
		g["uuid"]) for g in s["gpus"]]')" = \
		"[(1, 1, 79, 'broken', 'GPU-f00d0001-1')]" ]
	nothing_left
}
