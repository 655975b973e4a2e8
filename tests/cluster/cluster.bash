# cluster.bash: one Slurm for all tests of a file. Its nodes are the hosts h1, h2, h3
# (or CLUSTER_NODES of them), each with 8 CPUs and 4 GPUs (which can only be counted).
# The host after them is the login host, which is not a node. Loads what it needs; it
# knows nothing about ddprun.
#
#   cluster_up      for setup_file; cluster_down for teardown_file
#   cluster_join    for setup; lib.bash's functions work after it
#   cluster_leave   for teardown
#   on_login NAME CMD...   start, on the login host
#   as_other H NAME CMD...   start, on H, as a user of the cluster who is not root
#   slurm STATUS CMD...    starts CMD there and finishes it; $out and $err: its output
#   batch STATUS [OPTION...]   submits a batch script that ends with stdin, and waits
#                   for it; $out is its output
#   submit, job_over      of a file, and of any job: below

cluster_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$cluster_here/../lib.bash"
. "$cluster_here/../hosts/netns.bash"
. "$cluster_here/slurm.bash"

: "${CLUSTER_NODES:=3}"
slurm_on=start_on

cluster_up() {
	# setup_file cannot skip, each test does
	export BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR CLUSTER=$BATS_FILE_TMPDIR
	lib_setup
	if ! cluster_possible; then
		return
	fi
	hosts_up $((CLUSTER_NODES + 1))
	if [ "$HOSTS" = namespaces ]; then
		slurm_gpus=4
		slurm_up $(seq -f h%g "$CLUSTER_NODES")
	fi
	: "${SLURM_CONF:=}" "${S:=}"
	declare -p addr at host_pid HOSTS SLURM_CONF S |
		sed 's/^declare /declare -g /' >"$CLUSTER/state"
}

# slurm_or_skip's check, for places that cannot skip
cluster_possible() {
	(
		skip() {
			echo "$*" >"$CLUSTER/why"
			exit 1
		}
		slurm_or_skip
	)
}

cluster_down() {
	[ -z "${slurm_started:-}" ] || slurm_down
	lib_teardown
}

cluster_join() {
	lib_setup
	[ ! -e "$CLUSTER/why" ] || skip "$(<"$CLUSTER/why")"
	. "$CLUSTER/state"
	hosts_real
	# slurm.conf names munged's socket
	export SLURM_CONF PATH=$PATH:/usr/sbin
}

# A failed test's jobs in the queue must not affect the next test.
cluster_leave() {
	if [ -z "${BATS_TEST_COMPLETED:-}" ] && [ ! -e "$CLUSTER/why" ]; then
		on_login scancel scancel --user=root
		finish scancel - || true
	fi
	lib_teardown
}

on_login() {
	start_on "h$((CLUSTER_NODES + 1))" "$@"
}

as_other() {
	local h=$1 name=$2
	shift 2
	# only its user can enter this test's folders, and maybe the build's
	if [ ! -e other ]; then
		chmod a+x "$BATS_RUN_TMPDIR" "$CLUSTER" "${CLUSTER%/*}" "$T" "${T%/*}"
		mkdir -p other/home
		cp "$O/ddprun" "$O/ddprdzv" "$O/tests/rdzv_client" other
		chown -R 65534 other/home
	fi
	start_on "$h" "$name" env -u XDG_CONFIG_HOME HOME="$T/other/home" \
		PATH="$T/other:$PATH" TMPDIR="$T/other/home" \
		setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$(type -P env)" -C / "$@"
}

slurm() {
	local want=$1
	shift
	on_login job "$@"
	finish job "$want"
}

batch() {
	local want=$1
	shift
	cat >body.sh
	cat >batch.sh <<-'EOF'
	#!/bin/sh
	bash body.sh
	echo "batch: $?"
	EOF
	rm -f batch.log
	slurm 0 sbatch -o "$T/batch.log" "$@" batch.sh
	await batch.log '^batch: '
	out=$(<batch.log)
	[ "$line" = "batch: $want" ] && return
	echo "the batch script's status is not $want:"
	sed 's/^/| /' batch.log
	return 1
}

# submit STATE [OPTION...] FILE: sbatch of the unchanged file; waits until the job, or
# every job of an array or of groups, is over in that STATE; $out is its output.
submit() {
	local want=$1
	shift
	slurm 0 sbatch --parsable -o "$T/batch.log" "$@"
	job_over "$out" "$want"
	out=$(<batch.log)
}

# job_over ID STATE: waits until job ID is over, in that STATE
job_over() {
	slurm_wait job_ended "$1"
	[ "$(sort -u <<<"$states")" = "$2" ] && return
	echo "job $1 is not $2 but" $states
	sed 's/^/| /' batch.log
	return 1
}

job_ended() {
	slurm 0 scontrol -o show job "$1"
	states=$(sed -n 's/.* JobState=\([A-Z_]*\) .*/\1/p' <<<"$out")
	! grep -qE 'PENDING|RUNNING|CONFIGURING|COMPLETING' <<<"$states"
}
