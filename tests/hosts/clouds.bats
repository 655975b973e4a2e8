# covers: launcher/env launcher/config launcher/membership
load ../lib
load netns

# `ddprun PROGRAM`, without options, in the containers of two nodes: the variables that
# each cloud and each operator of Kubernetes sets make one world of them.

setup() {
	lib_setup
	hosts_up 2
	hosts_real
	# a worker: rank, size, and the host that has it
	show='echo "rank $RANK of $WORLD_SIZE on $(hostname)"'
	both=() first=() second=() options=() kube=KUBERNETES_SERVICE_HOST=10.96.0.1
	names=(h1 h2)
}

# Runs a command under another host name, as a pod has one.
on_pod() { # H NAME NODE CMD...
	start_on "$1" "$2" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' \
		pod "$3" "${@:4}"
}

start_both() {
	on_pod h1 n1 "${names[0]}" env "${both[@]}" "${first[@]}" ddprun \
		"${options[@]}" sh -c "$show"
	on_pod h2 n2 "${names[1]}" env "${both[@]}" "${second[@]}" ddprun \
		"${options[@]}" sh -c "$show"
}

# The two nodes are one world, and each prints what started it, as this ERE.
one_world() { # [ERE]
	start_both
	finish n1
	has "$out" "^\\[0\\] rank 0 of 2 on ${names[0]}\$"
	[ -z "${1:-}" ] || has "$err" "^ddprun: started by $1"
	finish n2
	has "$out" "^\\[1\\] rank 1 of 2 on ${names[1]}\$"
	[ -z "${1:-}" ] || has "$err" "^ddprun: started by $1"
}

pods_named() { # NAME NAME [DOMAIN]: each pod knows its own full name, and the other's
	local h
	names=("$1" "$2")
	for h in h1 h2; do
		echo "${addr[h1]} $1${3:+.$3} $1
${addr[h2]} $2${3:+.$3} $2" >>"$T/etc_hosts.$h"
	done
}

@test "AWS Batch's multi-node job is one world" {
	both=(AWS_BATCH_JOB_NUM_NODES=2 AWS_BATCH_JOB_MAIN_NODE_INDEX=0)
	first=(AWS_BATCH_JOB_NODE_INDEX=0)
	second=(AWS_BATCH_JOB_NODE_INDEX=1
		AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS="${addr[h1]}")
	one_world 'AWS Batch on 2 nodes: using --nnodes 2 --node-rank \$AWS_BATCH_JOB_NODE_INDEX --nproc-per-node 1 .* --rdzv-endpoint (h1|10.78.0.1):29400$'
}

@test "AWS Batch's main node is rank 0 whatever its index and its name" {
	# its own name is unknown, as in some images
	echo '127.0.0.1 localhost' >"$T/etc_hosts.h1"
	both=(AWS_BATCH_JOB_NUM_NODES=2 AWS_BATCH_JOB_MAIN_NODE_INDEX=1)
	first=(AWS_BATCH_JOB_NODE_INDEX=1)
	second=(AWS_BATCH_JOB_NODE_INDEX=0
		AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS="${addr[h1]}")
	one_world 'AWS Batch on 2 nodes: using --nnodes 2 --node-rank [01] '
	has "$(cat "$T/n1.err")" "does not resolve 'h1', its own name: .* listens on all"
}

@test "SkyPilot's task is one world" {
	both=(SKYPILOT_NUM_NODES=2 SKYPILOT_NUM_GPUS_PER_NODE=0
		SKYPILOT_NODE_IPS="${addr[h1]}"$'\n'"${addr[h2]}")
	first=(SKYPILOT_NODE_RANK=0)
	second=(SKYPILOT_NODE_RANK=1)
	one_world 'SkyPilot on 2 nodes: using --nnodes 2 --node-rank \$SKYPILOT_NODE_RANK .* --rdzv-endpoint 10.78.0.1:29400$'
}

@test "SkyPilot's number of GPUs is the number of workers" {
	both=(SKYPILOT_NUM_NODES=2 SKYPILOT_NUM_GPUS_PER_NODE=3
		SKYPILOT_NODE_IPS="${addr[h1]}"$'\n'"${addr[h2]}")
	first=(SKYPILOT_NODE_RANK=0)
	second=(SKYPILOT_NODE_RANK=1)
	start_both
	finish n1
	has "$out" '^\[2\] rank 2 of 6'
	has "$err" '--nproc-per-node 3 \(by its GPUs\)'
	finish n2
}

@test "Azure ML's job is one world" {
	both=(AZUREML_NODE_COUNT=2 MASTER_ADDR="${addr[h1]}" MASTER_PORT=6105
		WORLD_SIZE=2 LOCAL_RANK=0 AZ_BATCH_MASTER_NODE="${addr[h1]}:6000")
	first=(NODE_RANK=0 RANK=0)
	second=(NODE_RANK=1 RANK=1)
	one_world 'Azure ML on 2 nodes: .* --rdzv-endpoint 10.78.0.1:6105$'
}

@test "SageMaker's training job is one world" {
	pods_named algo-1 algo-2
	both=(SM_HOSTS='["algo-1","algo-2"]' SM_NUM_GPUS=0)
	first=(SM_CURRENT_HOST=algo-1)
	second=(SM_CURRENT_HOST=algo-2)
	one_world 'SageMaker on 2 nodes: using --nnodes 2 --node-rank [01] .* --rdzv-endpoint algo-1:29400$'
}

@test "Vertex AI's custom job is one world" {
	pods_named pool0-0 pool1-0
	spec='{"cluster":{"workerpool0":["pool0-0:2222"],"workerpool1":["pool1-0:2222"]},"environment":"cloud","task":'
	both=(MASTER_ADDR=pool0-0 MASTER_PORT=2222 WORLD_SIZE=2)
	first=(RANK=0 CLUSTER_SPEC="$spec"'{"type":"workerpool0","index":0}}')
	second=(RANK=1 CLUSTER_SPEC="$spec"'{"type":"workerpool1","index":0}}')
	one_world 'Vertex AI on 2 nodes: .* --rdzv-endpoint pool0-0:2222$'
}

@test "a TFJob's pods are one world" {
	pods_named tf-chief-0 tf-worker-0
	spec='{"cluster":{"chief":["tf-chief-0:2222"],"worker":["tf-worker-0:2222"]},"task":'
	both=("$kube")
	first=(TF_CONFIG="$spec"'{"type":"chief","index":0}}')
	second=(TF_CONFIG="$spec"'{"type":"worker","index":0}}')
	one_world 'TF_CONFIG on 2 nodes: .* --rdzv-endpoint tf-chief-0:29400$'
}

@test "Kubeflow Trainer's TrainJob is one world" {
	pods_named job-node-0-0 job-node-0-1 job
	both=("$kube" PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_MASTER_PORT=29400
		PET_MASTER_ADDR=job-node-0-0.job)
	first=(PET_NODE_RANK=0 JOB_COMPLETION_INDEX=0)
	second=(PET_NODE_RANK=1 JOB_COMPLETION_INDEX=1)
	one_world
}

@test "an older PyTorchJob, and Volcano's pytorch plugin, are one world" {
	pods_named job-master-0 job-worker-0
	both=("$kube" MASTER_ADDR=job-master-0 MASTER_PORT=23456 WORLD_SIZE=2
		PYTHONUNBUFFERED=0)
	first=(RANK=0)
	second=(RANK=1)
	one_world "Kubernetes \\(PyTorch's variables\\) on 2 nodes: using --nnodes 2 --node-rank \\\$RANK .* --rdzv-endpoint job-master-0:23456\$"
}

@test "a PyTorchJob that counts processes is one world of its nodes" {
	pods_named job-master-0 job-worker-0
	both=("$kube" MASTER_ADDR=job-master-0 MASTER_PORT=23456 WORLD_SIZE=4
		PET_NPROC_PER_NODE=2)
	first=(RANK=0 PET_NODE_RANK=0)
	second=(RANK=1 PET_NODE_RANK=1)
	start_both
	finish n1
	has "$out" '^\[1\] rank 1 of 4 on job-master-0$'
	finish n2
	has "$out" '^\[2\] rank 2 of 4 on job-worker-0$'
}

@test "an elastic PyTorchJob is one world" {
	pods_named job-worker-0 job-worker-1
	both=("$kube" PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=job-worker-0:29400
		PET_RDZV_ID=job PET_NNODES=2:2 PET_MAX_RESTARTS=3)
	one_world
}

@test "an Indexed Job is one world when it says how many pods it has" {
	pods_named job-0 job-1 svc.default.svc.cluster.local
	both=("$kube")
	first=(JOB_COMPLETION_INDEX=0)
	second=(JOB_COMPLETION_INDEX=1)
	start_both
	finish n1 2
	has "$err" 'a Kubernetes Indexed Job started this ddprun \(JOB_COMPLETION_INDEX=0\), .* do not say on how many nodes: write ddprun --nnodes N, or --standalone'
	finish n2 2
	has "$err" 'JOB_COMPLETION_INDEX=1'
	options=(--nnodes 2)
	one_world 'a Kubernetes Indexed Job: using --node-rank \$JOB_COMPLETION_INDEX .* --rdzv-endpoint job-0.svc.default.svc.cluster.local:29400$'
}

@test "a JobSet is one world" {
	pods_named set-workers-0-0 set-workers-0-1 set
	both=("$kube" JOBSET_NAME=set REPLICATED_JOB_NAME=workers JOB_INDEX=0
		PROCESSES_IN_JOB=2)
	first=(JOB_COMPLETION_INDEX=0)
	second=(JOB_COMPLETION_INDEX=1)
	one_world 'JobSet on 2 nodes: .* --rdzv-endpoint set-workers-0-0.set:29400$'
}

@test "Volcano's job is one world" {
	pods_named job-master-0 job-worker-0 job
	both=("$kube" VC_MASTER_HOSTS=job-master-0.job VC_MASTER_NUM=1
		VC_WORKER_HOSTS=job-worker-0.job VC_WORKER_NUM=1 VC_TASK_INDEX=0
		VK_TASK_INDEX=0)
	one_world 'Volcano on 2 nodes: .* --rdzv-endpoint job-master-0.job:29400$'
}

@test "the user's options take precedence over a cloud's variables" {
	both=(AWS_BATCH_JOB_NUM_NODES=4 AWS_BATCH_JOB_MAIN_NODE_INDEX=0
		AWS_BATCH_JOB_NODE_INDEX=3
		AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=192.0.2.1)
	options=(--nnodes 2 --rdzv-endpoint "${addr[h1]}:29411")
	start_both
	finish n1
	has "$out" 'of 2 on h1'
	finish n2
	has "$out" 'of 2 on h2'
}

@test "a first node that cannot be inferred is an error with the line to write" {
	start_on h1 n1 env "$kube" JOB_COMPLETION_INDEX=1 ddprun true
	finish n1 2
	has "$err" 'write ddprun --nnodes N --rdzv-endpoint FIRST_NODE:29400, or --standalone'
	start_on h1 n2 env "$kube" JOB_COMPLETION_INDEX=1 ddprun --nnodes 2 true
	finish n2 2
	has "$err" 'do not name the first node: write ddprun --rdzv-endpoint FIRST_NODE:29400, or --standalone'
	start_on h1 n3 env "$kube" JOB_COMPLETION_INDEX=1 ddprun --standalone \
		sh -c "$show"
	finish n3
	has "$out" 'rank 0 of 1 on h1'
}

@test "a name that gets its record later is waited for" {
	start_on h2 late ddprun --nnodes 2 --rdzv-endpoint pod-0.svc:29400 sh -c "$show"
	await late.err "'pod-0.svc'.*; waiting for the name to resolve, for up to 600 s"
	for h in h1 h2; do
		echo "${addr[h1]} pod-0.svc" >>"$T/etc_hosts.$h"
	done
	start_on h1 early ddprun --nnodes 2 --rdzv-endpoint pod-0.svc:29400 sh -c "$show"
	finish early
	finish late
	has "$out" 'rank 1 of 2 on h2'
}

# named HOST NAME [ADDRESS...]: the name's addresses on that host, in /etc/hosts
named() {
	grep -v " $2\$" "$T/etc_hosts.$1" >hosts.new || true
	[ $# = 2 ] || printf "%s $2\n" "${@:3}" >>hosts.new
	cat hosts.new >"$T/etc_hosts.$1" # in place: it is mounted
}

@test "a name with two addresses, the first of them dead, leads to the other one" {
	local dead
	# unreachable at once; nobody answers
	for dead in 240.0.0.1 10.78.0.99; do
		named h1 twice "$dead" "${addr[h1]}"
		named h2 twice "$dead" "${addr[h1]}"
		start_on h2 n2 ddprun --nnodes 2 --rdzv-endpoint twice:29400 sh -c "$show"
		start_on h1 n1 ddprun --nnodes 2 --rdzv-endpoint twice:29400 sh -c "$show"
		finish n1
		has "$out" 'rank 0 of 2 on h1'
		finish n2
		has "$out" 'rank 1 of 2 on h2'
	done
}

@test "a name that both nodes have is named: each would wait at its own server" {
	named h1 service "${addr[h2]}" "${addr[h1]}"
	start_on h1 n1 ddprun --nnodes 2 --rdzv-endpoint service:29400 sh -c "$show"
	await n1.err "'service' has several addresses: ${addr[h1]} of this host \(h1\), .* and ${addr[h2]}; .*--rdzv-endpoint the name of one node"
	signal n1 TERM
	finish n1 143
}

@test "a name whose record is wrong at first is looked up again" {
	# the address of a pod that is gone
	named h2 pod-0.svc 10.78.0.99
	start_on h2 late ddprun --nnodes 2 --rdzv-endpoint pod-0.svc:29400 sh -c "$show"
	await late.err 'waiting .* pod-0.svc:29400'
	named h2 pod-0.svc "${addr[h1]}"
	start_on h1 early ddprun --nnodes 2 --rdzv-endpoint "${addr[h1]}:29400" sh -c "$show"
	finish late
	has "$out" 'rank 1 of 2 on h2'
	finish early
}

# Starts a command on h2 whose name server is on h1, and is silent.
start_with_silent_dns() { # OPTIONS NAME CMD...
	printf 'nameserver %s\n%s\n' "${addr[h1]}" "$1" >"$T/resolv.conf"
	shift
	start_on h1 dns python3 "$BATS_TEST_DIRNAME/slow_dns.py" pod-0.svc.test \
		"${addr[h1]}" "$T/answers"
	await dns.out listening
	start_on h2 "$1" unshare --mount sh -c \
		'mount --bind "$1" /etc/resolv.conf || exit; shift; exec "$@"' \
		dns "$T/resolv.conf" "${@:2}"
}

@test "a name server that answers late is waited for" {
	command -v python3 >/dev/null || skip 'no python3'
	start_with_silent_dns 'options timeout:2' late ddprun --nnodes 2 \
		--rdzv-endpoint pod-0.svc.test:29400 sh -c "$show"
	await dns.out 'asked for pod-0.svc.test'
	await late.err "the resolver has not answered for 'pod-0.svc.test'; waiting"
	touch "$T/answers"
	start_on h1 early ddprun --nnodes 2 --rdzv-endpoint "${addr[h1]}:29400" \
		sh -c "$show"
	finish late
	has "$out" 'rank 1 of 2 on h2'
	finish early
}

@test "SIGTERM ends the wait for a name server at once" {
	command -v python3 >/dev/null || skip 'no python3'
	# as in a container, where ddprun is the first process; this look-up takes
	# minutes, longer than finish waits
	start_with_silent_dns 'options timeout:30 attempts:5' late unshare --pid --fork --kill-child --mount-proc \
		ddprun --nnodes 2 --rdzv-endpoint pod-0.svc.test:29400 true
	await dns.out 'asked for pod-0.svc.test'
	victim=${pid[late]}
	while [ "$(cat "/proc/$victim/comm")" != ddprun ]; do
		victim=$(pgrep -P "$victim")
	done
	kill -TERM "$victim"
	finish late 143
	has "$err" "got SIGTERM while waiting for the name 'pod-0.svc.test' to resolve: stopping"
	lacks "$err" 'does not resolve'
}
