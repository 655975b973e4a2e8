# sshd.bash: a real sshd on each host of netns.bash, with throw-away keys, and
# the ssh that knows them. Load it after netns; it knows nothing about ddprun.
#
#   sshd_up N          hosts_up N, with an sshd on each; skips the test without
#                      namespaces
#   $SSH_ARGS          ssh's arguments to get there: -F FILE
#   sshd_say H LINE    before sshd_up, adds a line to H's sshd_config; it takes
#                      precedence
#   ${sshd_path[H]}    before sshd_up, the PATH of H's sessions
#   hide_on H DIR      makes DIR empty on H
#   over_ssh NAME [OPTIONS...] PROGRAM...  starts ddprun on h1, in the background
#   kill_ssh_to H      kills h1's ssh to H with SIGKILL
#
# Processes of its sessions carry the test's mark; the sshd itself ends with its host.
# All hosts share the file system, as over NFS, but each has its own HOME: $T/home.H.

declare -gA sshd_lines sshd_path

sshd_say() {
	sshd_lines[$1]+=$2$'\n'
}

sshd_up() {
	local i
	command -v /usr/sbin/sshd >/dev/null || skip "no sshd here"
	hosts_up "$1"
	hosts_real
	mkdir -p "$T/ssh" /run/sshd
	ssh-keygen -q -t ed25519 -N '' -f "$T/ssh/id"
	ssh-keygen -q -t ed25519 -N '' -f "$T/ssh/host"
	cp "$T/ssh/id.pub" "$T/ssh/authorized_keys"
	echo "* $(cut -d' ' -f1,2 "$T/ssh/host.pub")" >"$T/ssh/known_hosts"
	# the default, sntrup761, costs more CPU time than all else in these tests
	cat >"$T/ssh/config" <<-END
		KexAlgorithms curve25519-sha256
		IdentityFile $T/ssh/id
		IdentitiesOnly yes
		IdentityAgent none
		UserKnownHostsFile $T/ssh/known_hosts
		GlobalKnownHostsFile none
		StrictHostKeyChecking yes
	END
	SSH_ARGS="-F $T/ssh/config"
	for ((i = 1; i <= $1; i++)); do
		sshd_start "h$i"
	done
}

# It prints on stderr when it listens.
sshd_start() {
	local h=$1
	mkdir -p "$T/home.$h"
	cat >"$T/ssh/sshd_config.$h" <<-END
		${sshd_lines[$h]:-}
		HostKey $T/ssh/host
		AuthorizedKeysFile $T/ssh/authorized_keys
		StrictModes no
		PasswordAuthentication no
		KbdInteractiveAuthentication no
		PermitRootLogin yes
		UsePAM no
		PidFile none
		PrintMotd no
		SetEnv HOME=$T/home.$h TEST_COOKIE=$TEST_COOKIE TMPDIR=$T PATH=${sshd_path[$h]:-/usr/bin:/bin}
	END
	start "sshd.$h" env -u TEST_COOKIE host exec "${host_pid[$h]}" \
		/usr/sbin/sshd -D -e -f "$T/ssh/sshd_config.$h"
	await "$T/sshd.$h.err" 'Server listening on 0' 20
}

hide_on() {
	start_on "$1" hide mount -t tmpfs "${@:3}" none "$2"
	finish hide
}

over_ssh() {
	local name=$1
	shift
	start_on h1 "$name" ddprun --ssh-args "$SSH_ARGS" "$@"
}

kill_ssh_to() {
	start_on h1 killer sh -c 'for p in /proc/[0-9]*; do
		tr "\0" " " <$p/cmdline | grep -q "^ssh .* $1 " && kill -9 ${p#/proc/}
	done 2>/dev/null; true' sh "$1"
	finish killer
}
