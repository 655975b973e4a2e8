# covers: launcher/env launcher/failure rendezvous/auth
load ../lib
load netns

# Two pods: containers of their own, with the variables of a TrainJob. They share no
# secret but that which Kubernetes mounts.

setup() {
	lib_setup
	hosts_up 2
	hosts_real
	pods=(KUBERNETES_SERVICE_HOST=10.96.0.1 PET_NNODES=2 PET_NPROC_PER_NODE=1
		PET_MASTER_ADDR=job-0 PET_MASTER_PORT=29400)
	for h in h1 h2; do
		echo "${addr[h1]} job-0" >>"$T/etc_hosts.$h"
		mkdir -p "pod.$h/secret"
		# homes apart, as containers have them
		mkdir "home.$h"
		head -c 24 /dev/zero | tr '\0' s >"pod.$h/secret/token"
		chmod 440 "pod.$h/secret/token"
	done
}

pod_named() { # H NAME HOST CMD...: in the background
	start_on "$1" "$2" env "${pods[@]}" HOME="$T/home.$1" \
		XDG_CONFIG_HOME="$T/home.$1/.config" \
		unshare --mount --uts --pid --fork --kill-child \
		sh "$BATS_TEST_DIRNAME/pod.sh" "$T/pod.$1" "$3" "${@:4}"
}

pod() { # H INDEX CMD...: a node of the TrainJob
	pod_named "$1" "pod$2" "job-$2" env PET_NODE_RANK="$2" "${@:3}"
}

stop_pod() { # NAME SIGNAL: to the pod's process 1
	local p=${pid[$1]}
	while [ "$(cat "/proc/$p/comm")" != ddprun ]; do
		p=$(pgrep -P "$p")
	done
	kill "-$2" "$p"
}

@test "pods meet with the Secret that is mounted for them" {
	pod h1 0 ddprun sh -c 'echo "rank $RANK of $WORLD_SIZE"'
	pod h2 1 ddprun sh -c 'echo "rank $RANK of $WORLD_SIZE"'
	finish pod0
	has "$out" '^\[0\] rank 0 of 2$'
	finish pod1
	has "$out" '^\[1\] rank 1 of 2$'
	[ ! -s pod.h1/termination-log ]
	[ ! -e home.h1/.config ]
}

@test "pods with different Secrets refuse each other with exit code 77" {
	head -c 24 /dev/zero | tr '\0' t >pod.h2/secret/token
	pod h1 0 ddprun true
	await pod0.err 'waiting|meet'
	pod h2 1 ddprun true
	finish pod1 77
	has "$(cat pod.h2/termination-log)" 'the token file /var/run/secrets/ddprun/token'
	has "$err" 'give all nodes the same'
	stop_pod pod0 TERM
	finish pod0 143
}

@test "a Secret that all users of a pod can read is refused with what to write" {
	chmod 444 pod.h1/secret/token
	pod h1 0 ddprun true
	finish pod0 77
	has "$err" "readable by other users \\(mode 0444\\), .*: give the Secret's volume defaultMode: 0400"
	has "$(cat pod.h1/termination-log)" 'readable by other users'
}

@test "each pod's termination log has the first line of the failure" {
	pod h1 0 ddprun sh -c "exec tail -f /dev/null"
	pod h2 1 ddprun sh -c 'exit 3'
	finish pod1 3
	finish pod0 3
	for h in h1 h2; do
		[ "$(wc -l <pod.$h/termination-log)" = 1 ]
		has "$(cat pod.$h/termination-log)" \
			"^ddprun: job 'none' failed: rank 1 .* on job-1, pid [0-9]+, exited with code 3"
	done
}

@test "a bad option is in the termination log" {
	pod h1 0 ddprun --nnodes 0 true
	finish pod0 2
	has "$(cat pod.h1/termination-log)" "^--nnodes '0': give the number of nodes"
}

@test "SIGTERM to process 1 of a pod stops the workers with grace" {
	on_term='trap "echo saved; exit 0" TERM; echo ready; while :; do sleep 0.1; done'
	pods+=(PET_NNODES=1)
	pod h1 0 ddprun sh -c "$on_term"
	await pod0.out ready
	stop_pod pod0 TERM
	finish pod0 143
	has "$out" saved
}

# ---- the manifests of kubernetes/

# Starts the pods of a manifest in order, h1 then h2, with what its operator sets.
runs_as_one_world() { # FILE SIZE
	local n=0 host domain env command words
	python3 -c 'import yaml' 2>/dev/null || skip 'python3 has no yaml'
	printf '#!/bin/sh\necho "rank $RANK of $WORLD_SIZE on $(hostname)"\n' >trainer
	chmod +x trainer
	python3 "$BATS_TEST_DIRNAME/../manifests.py" pods \
		"$BATS_TEST_DIRNAME/../../kubernetes/$1" >pods
	[ "$(wc -l <pods)" = 2 ]
	while IFS=$'\t' read -r host domain env command; do
		n=$((n + 1))
		[ "$domain" = - ] && domain= || domain=.$domain.ns.svc.cluster.local
		# kubelet's own line, and the record that the Service publishes
		echo "${addr[h$n]} $host$domain $host" >>"$T/etc_hosts.h$n"
		for h in h1 h2; do
			echo "${addr[h$n]} $host$domain ${host}${domain%.ns.*} $host" \
				>>"$T/etc_hosts.$h"
		done
		eval "pods$n=($env) command$n=($command)"
		echo "$host" >"host$n"
	done <pods
	for n in 1 2; do
		declare -n words=pods$n run=command$n
		pods=("${words[@]}")
		pod_named "h$n" "pod$n" "$(cat "host$n")" "${run[@]}"
		unset -n words run
	done
	for n in 1 2; do
		finish "pod$n"
		has "$out" "rank [0-9] of $2 on $(cat "host$n")\$"
	done
	[ "$(cat pod1.out pod2.out | sort -u | grep -c rank)" = "$2" ]
	# no failure, no word for kubectl
	[ ! -s pod.h1/termination-log ]
}

@test "each manifest is valid, and gives its pods the Secret and enough grace" {
	python3 -c 'import yaml' 2>/dev/null || skip 'python3 has no yaml'
	expect 0 python3 "$BATS_TEST_DIRNAME/../manifests.py" check \
		"$BATS_TEST_DIRNAME"/../../kubernetes/*.yaml
	[ "$(wc -l <<<"$out")" = 6 ]
}

@test "the Indexed Job of kubernetes/ is one world" {
	runs_as_one_world indexed-job.yaml 2
}

@test "the JobSet of kubernetes/ is one world" {
	runs_as_one_world jobset.yaml 2
}

@test "the TrainJob of kubernetes/ is one world" {
	runs_as_one_world trainjob.yaml 4
}

@test "the PyTorchJob of kubernetes/ is one world" {
	runs_as_one_world pytorchjob.yaml 2
}

@test "Volcano's job of kubernetes/ is one world" {
	runs_as_one_world volcano.yaml 2
}
