# slurm.bash: a Slurm for one test: munged, slurmctld and a slurmd for each node, from
# Debian's packages. It writes nothing outside $T and ends with the test. Load it after
# ../lib; it knows nothing about ddprun.
#
#   slurm_or_skip       skips the test if Slurm, munge or root are missing
#   slurm_up HOST...    makes each host a node of 8 CPUs and sets SLURM_CONF. There
#                       $slurm_on HOST NAME CMD... starts its slurmd (`start_on` of
#                       ../hosts/netns.bash); without slurm_on all run here
#                       slurm_gpus=N: each node has N GPUs, which can be counted but
#                       not used
#                       slurm_auth=slurm: it authenticates by auth/slurm, and no
#                       munged runs
#                       slurm_topology=1: each node has its own switch, the last
#                       node the first switch
#                       slurm_preempt=1: jobs are preempted in the partitions low
#                       and soon (Slurm requeues them after 60 s, or 1 s) and lost
#                       and now (Slurm ends them, after the same times)
#   slurm_down          ends all of it; needed before the test's end
#   slurm_signal HOST NAME SIG   sends a daemon (slurmctld, slurmd_HOST) a signal
#   slurm_kill HOST NAME SIG   the same, and waits until the daemon is gone;
#                       slurm_again NAME starts it again

slurm_or_skip() {
	local program
	for program in munged slurmctld slurmd srun; do
		PATH=$PATH:/usr/sbin command -v $program >/dev/null ||
			skip "Slurm is not installed: $program is missing"
	done
	[ "$(id -u)" = 0 ] || skip "slurmd has to be started by root"
	[ -n "$(ls /sys/fs/cgroup 2>/dev/null)" ] ||
		skip "slurmd wants a /sys/fs/cgroup, and there is none"
	[ "${slurm_auth:-munge}" = munge ] ||
		ls /usr/lib/*/slurm*/auth_slurm.so >/dev/null 2>&1 ||
		skip "this Slurm has no auth/slurm, which came with 23.11"
}

slurm_auth_conf() { # ",MORE" of AuthInfo
	if [ "${slurm_auth:-munge}" = slurm ]; then
		printf '%s\n' AuthType=auth/slurm CredType=auth/slurm
		[ -z "$1" ] || echo "AuthInfo=${1#,}"
	else
		printf '%s\n' AuthType=auth/munge CredType=cred/munge \
			"AuthInfo=socket=$S/munge.sock$1"
	fi
}

# Writes the configuration: $1 is the controller's host and address, then the nodes.
slurm_conf() {
	local control=$1 host gres= preempt=
	shift
	[ -z "${slurm_gpus:-}" ] || gres="Gres=gpu:$slurm_gpus"
	[ -z "${slurm_preempt:-}" ] || preempt=PreemptMode=REQUEUE
	cat <<-EOF
	ClusterName=test
	SlurmctldHost=$control
	SlurmctldPort=$(w_port free)
	SlurmUser=root
	SlurmdUser=root
	$(slurm_auth_conf "${preempt:+,cred_expire=5}")
	StateSaveLocation=$S/state
	SlurmdSpoolDir=$S/spool.%n
	TmpFS=$S/tmp.%n
	SlurmctldPidFile=$S/slurmctld.pid
	SlurmdPidFile=$S/slurmd.%n.pid
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	MpiDefault=none
	SwitchType=switch/none
	AccountingStorageType=accounting_storage/none
	JobAcctGatherType=jobacct_gather/none
	JobCompType=jobcomp/none
	SelectType=select/cons_tres
	SelectTypeParameters=CR_CPU
	SchedulerType=sched/backfill
	SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_interval=1
	SlurmdParameters=config_overrides
	ReturnToService=2
	KillWait=5
	${slurm_topology:+TopologyPlugin=topology/tree}
	${preempt:+PreemptType=preempt/partition_prio}
	$preempt
	${gres:+GresTypes=gpu}
	EOF
	for host; do
		if [ -n "${slurm_on:-}" ]; then
			echo "NodeName=$host NodeAddr=${addr[$host]} CPUs=8 $gres"
		else
			echo "NodeName=$host NodeHostname=$(hostname)" \
				"NodeAddr=127.0.0.1 Port=$(w_port free) CPUs=8 $gres"
		fi
	done
	echo "PartitionName=all Nodes=ALL Default=YES State=UP${preempt:+ PriorityTier=10 PreemptMode=OFF}"
	[ -n "$preempt" ] || return 0
	echo "PartitionName=low Nodes=ALL State=UP PriorityTier=1 GraceTime=60"
	echo "PartitionName=lost Nodes=ALL State=UP PriorityTier=1 GraceTime=60 PreemptMode=CANCEL"
	echo "PartitionName=soon Nodes=ALL State=UP PriorityTier=1 GraceTime=1"
	echo "PartitionName=now Nodes=ALL State=UP PriorityTier=1 GraceTime=0 PreemptMode=CANCEL"
}

slurm_gres_conf() {
	local i
	mkdir -p "$S/dev"
	for ((i = 0; i < slurm_gpus; i++)); do
		mknod -m 666 "$S/dev/nvidia$i" c 1 3
	done
	echo "AutoDetect=off"
	echo "Name=gpu File=$S/dev/nvidia[0-$((slurm_gpus - 1))]"
}

# In Slurm 26.05 the tasks follow the switches, but the list of nodes does not.
slurm_topology_conf() {
	local host i=0
	for host in "${@:$#}" "${@:1:$#-1}"; do
		i=$((i + 1))
		echo "SwitchName=s$i Nodes=$host"
	done
	echo "SwitchName=top Switches=s[1-$i]"
}

slurm_munged() {
	(umask 077 && head -c 1024 /dev/urandom >"$S/munge.key")
	start munged munged --foreground --force --key-file="$S/munge.key" \
		--socket="$S/munge.sock" --pid-file="$S/munged.pid" \
		--log-file="$S/munged.log" --seed-file="$S/munge.seed"
	slurm_started=munged
	slurm_wait test -S "$S/munge.sock"
}

slurm_up() {
	local host control
	S=$T/slurm
	export PATH=$PATH:/usr/sbin SLURM_CONF=$S/slurm.conf
	mkdir -p "$S/state"
	chmod 755 "$S"
	if [ -n "${slurm_on:-}" ]; then
		control="$1(${addr[$1]})"
	else
		control="$(hostname)(127.0.0.1)"
	fi
	slurm_conf "$control" "$@" >"$S/slurm.conf"
	[ -z "${slurm_gpus:-}" ] || slurm_gres_conf >"$S/gres.conf"
	[ -z "${slurm_topology:-}" ] ||
		slurm_topology_conf "$@" >"$S/topology.conf"
	echo '# no plugin here needs cgroups' >"$S/cgroup.conf"
	slurm_started=
	if [ "${slurm_auth:-munge}" = slurm ]; then
		(umask 077 && head -c 1024 /dev/urandom >"$S/slurm.key")
	else
		slurm_munged
	fi
	slurm_daemon "$1" slurmctld slurmctld -D
	slurm_started="slurmctld $slurm_started"
	for host; do
		mkdir -p "$S/spool.$host"
		# its PMIx has a folder there, named only for the job's number
		mkdir -m 1777 "$S/tmp.$host"
		slurm_daemon "$host" "slurmd_$host" slurmd -D -N "$host"
		slurm_started="slurmd_$host $slurm_started"
	done
	slurm_wait slurm_idle "$1" $#
}

# A daemon that a test may end: a line to its fifo starts it again.
slurm_keep='
	exec 8<>"$1"
	shift
	over= child=
	trap "over=1; kill -TERM \$child" TERM
	while [ -z "$over" ]; do
		"$@" 8>&- &
		child=$!
		echo "pid $child"
		while kill -0 "$child" 2>/dev/null; do
			wait "$child"
		done
		echo ended
		until [ -n "$over" ] || read -rt 1 -u 8 _; do :; done
	done'

slurm_daemon() { # HOST NAME CMD...
	mkfifo "$S/$2.again"
	${slurm_on:-slurm_here} "$1" "$2" bash -c "$slurm_keep" keep \
		"$S/$2.again" "${@:3}"
}

slurm_signal() {
	${slurm_on:-slurm_here} "$1" killer kill "-$3" \
		"$(sed -n 's/^pid //p' "${S%/*}/$2.out" | tail -n 1)"
	finish killer
}

slurm_kill() {
	local log=${S%/*}/$2.out before
	slurm_killed="${slurm_killed:-} $2"
	before=$(grep -c '^ended' "$log") || true
	slurm_signal "$@"
	slurm_wait slurm_ended "$log" "$before"
}

slurm_ended() {
	[ "$(grep -c '^ended' "$1")" -gt "$2" ]
}

slurm_again() {
	echo >"$S/$1.again"
}

slurm_here() { # HOST NAME CMD...
	shift
	start "$@"
}

# A daemon has ended, but not by slurm_kill: it is not restarted.
slurm_lost() {
	local name log
	for name in ${slurm_started:-}; do
		log=${S%/*}/$name.out
		grep -q '^ended' "$log" || continue
		[[ " ${slurm_killed:-} " != *" $name "* ]] || continue
		echo "slurm: $name has ended"
		return 0
	done
	return 1
}

# Waits until CMD... is true: the daemons do not report that they are ready.
slurm_wait() {
	local i
	for ((i = 0; i < 600; i++)); do
		"$@" && return
		! slurm_lost || break
		read -rt 0.05 _ <> <(:) || true
	done
	echo "slurm: after $((i / 20)) s still not: $*"
	tail -n 20 "$T"/slurm*.err
	return 1
}

slurm_idle() { # HOST N: N nodes are idle
	${slurm_on:-slurm_here} "$1" sinfo sinfo -h -N -p all -t idle -o %N
	DEADLINE=20 finish sinfo - && [ "$(wc -l <<<"$out")" = "$2" ] &&
		[ -n "$out" ]
}

# munged last: the others need it to sign off.
slurm_down() {
	local name
	for name in $slurm_started; do
		signal "$name" TERM
		DEADLINE=20 finish "$name" - || true
	done
	slurm_started=
}
