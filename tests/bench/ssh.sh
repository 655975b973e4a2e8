# ssh.sh: `ddprun -H` to 8 hosts (namespaces, a real sshd in each), from start to end of
# a worker that returns at once, beside the floor for launchers over ssh: the same
# number of `ssh HOST true` at once. All share the CPUs of this machine, so the time of
# one ssh alone is only printed.

SSH_HOSTS=8

ssh_config() {
	mkdir -p /run/sshd
	ssh-keygen -q -t ed25519 -N '' -f "$work/id"
	ssh-keygen -q -t ed25519 -N '' -f "$work/hostkey"
	cp "$work/id.pub" "$work/authorized_keys"
	echo "* $(cut -d' ' -f1,2 "$work/hostkey.pub")" >"$work/known_hosts"
	printf '%s\n' "HostKey $work/hostkey" 'StrictModes no' 'UsePAM no' \
		"AuthorizedKeysFile $work/authorized_keys" 'PidFile none' \
		'PermitRootLogin yes' 'MaxStartups 100' >"$work/sshd_config"
	printf '%s\n' "IdentityFile $work/id" 'IdentitiesOnly yes' \
		'IdentityAgent none' "UserKnownHostsFile $work/known_hosts" \
		'LogLevel ERROR' >"$work/ssh_config"
}

ssh_host_up() { # NAME ADDRESS: its pid is in $p
	mkfifo "$work/up.$1"
	"$O/tests/host" up "$1" "$work/etc_hosts" >"$work/up.$1" &
	ssh_ups="$ssh_ups $!"
	read -r p <"$work/up.$1"
}

ssh_hosts_up() {
	if [ "$(id -u)" != 0 ] || ! have ip "ip (iproute2)" ||
		! have /usr/sbin/sshd "sshd (openssh-server)"; then
		echo "left out: ssh"
		return 1
	fi
	ssh_ups= ssh_list=
	printf '%s\n' '127.0.0.1 localhost' '10.80.0.254 switch' >"$work/etc_hosts"
	for i in $(seq "$SSH_HOSTS"); do
		echo "10.80.0.$i s$i" >>"$work/etc_hosts"
		ssh_list="$ssh_list${ssh_list:+,}s$i"
	done
	ssh_config
	ssh_host_up switch
	ssh_switch=$p
	set -- nsenter "--net=/proc/$p/ns/net"
	"$@" ip link add bridge type bridge stp_state 0 forward_delay 0
	"$@" ip link set bridge up
	"$@" ip addr add 10.80.0.254/24 dev bridge
	for i in $(seq "$SSH_HOSTS"); do
		ssh_host_up "s$i"
		"$@" ip link add "to_$i" type veth peer name eth0 netns "$p"
		"$@" ip link set "to_$i" master bridge up
		nsenter "--net=/proc/$p/ns/net" ip addr add "10.80.0.$i/24" dev eth0
		nsenter "--net=/proc/$p/ns/net" ip link set eth0 up
		"$O/tests/host" exec "$p" /usr/sbin/sshd -D -f "$work/sshd_config" &
		ssh_ups="$ssh_ups $!"
	done
	# retries refused connections until each host has answered
	for i in $(seq "$SSH_HOSTS"); do
		until "$O/tests/host" exec "$ssh_switch" ssh -F "$work/ssh_config" \
			"s$i" true </dev/null 2>/dev/null; do :; done
	done
}

ssh_hosts_down() {
	for p in $ssh_ups; do
		kill "$p" 2>/dev/null || true
		wait "$p" 2>/dev/null || true
	done
}

# What each is, as a program of one word: interleave splits at blanks.
ssh_programs() {
	cat >"$work/one" <<-END
		#!/bin/sh
		exec $O/tests/host exec $ssh_switch ssh -F $work/ssh_config s1 true
	END
	cat >"$work/all" <<-END
		#!/bin/sh
		exec $O/tests/host exec $ssh_switch sh -c 'for i in $(seq -s ' ' "$SSH_HOSTS"); do
			ssh -F $work/ssh_config s\$i true </dev/null &
		done; wait'
	END
	cat >"$work/ours" <<-END
		#!/bin/sh
		exec $O/tests/host exec $ssh_switch $O/ddprun --nproc-per-node 1 \\
			--ssh-args '-F $work/ssh_config' -H $ssh_list $B/noop
	END
	cat >"$work/openmpi" <<-END
		#!/bin/sh
		exec $O/tests/host exec $ssh_switch mpirun.openmpi --host $ssh_list \\
			--mca plm_rsh_agent "ssh -F $work/ssh_config" -n $SSH_HOSTS $B/noop
	END
	cat >"$work/hydra" <<-END
		#!/bin/sh
		exec $O/tests/host exec $ssh_switch mpiexec.hydra -hosts $ssh_list \\
			-launcher ssh -launcher-exec $work/hydra_ssh -n $SSH_HOSTS $B/noop
	END
	printf '#!/bin/sh\nexec ssh -F %s "$@"\n' "$work/ssh_config" >"$work/hydra_ssh"
	chmod +x "$work/one" "$work/all" "$work/ours" "$work/openmpi" \
		"$work/hydra" "$work/hydra_ssh"
}

bench_ssh() {
	ssh_hosts_up || return 0
	ssh_programs
	say "a job on $SSH_HOSTS hosts over ssh, start to end (ratio: to as many" \
		"ssh at once); goal: those plus 100 ms;" \
		"load average $(cut -d' ' -f1 /proc/loadavg)"
	{
		printf 'one ssh\t%s\n' "$work/one"
		printf '%s ssh at once\t%s\n' "$SSH_HOSTS" "$work/all"
		printf 'ddprun -H\t%s\n' "$work/ours"
		! have mpiexec.hydra "hydra (mpich)" ||
			printf 'hydra\t%s\n' "$work/hydra"
		! have mpirun.openmpi "mpirun (openmpi-bin)" ||
			printf 'mpirun (Open MPI)\t%s\n' "$work/openmpi"
	} | "$B/interleave" "$ROUNDS" "$SSH_HOSTS ssh at once"
	ssh_hosts_down
}
bench_ssh
