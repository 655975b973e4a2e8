# covers: launcher/ssh
load ../lib
load netns
load sshd

# ddprun -H when ssh, or the host at its other end, does not work: the error names the
# host and a remedy, and nothing starts anywhere.

setup() {
	lib_setup
}

# refused CODE ERE OPTIONS...: a job on h1 and h2 ends with that, and ran nowhere
refused() {
	local code=$1 pattern=$2
	shift 2
	over_ssh job -H h1:1,h2:1 "$@" touch "$T/ran"
	finish job "$code"
	has "$err" "$pattern" || return 1
	[ ! -e "$T/ran" ]
}

@test "a missing key, an unknown host key, no sshd and an unknown name each have a remedy" {
	sshd_say h2 'PasswordAuthentication yes'
	sshd_up 2
	keys="-o IdentityFile=none -F $T/ssh/config2"
	sed '/^IdentityFile/d' "$T/ssh/config" >"$T/ssh/config2"
	refused 69 'host h[12]: ssh cannot connect: .*Permission denied.*ssh-copy-id' \
		--ssh-args "$keys"
	refused 69 'host h[12]: ssh cannot connect: .*Host key verification failed.*ssh-keyscan' \
		--ssh-args "-o UserKnownHostsFile=/dev/null $SSH_ARGS"
	refused 69 'host h[12]: ssh cannot connect: .*refused; no sshd runs there' \
		--ssh-args "$SSH_ARGS -p 1"
	over_ssh job -H h1:1,h9:1 touch "$T/ran"
	finish job 69
	has "$err" 'host h9: .*Could not resolve hostname h9.*check the name'
	over_ssh job --ssh no-such-ssh -H h1:1,h2:1 touch "$T/ran"
	finish job 69
	has "$err" "cannot run 'no-such-ssh'.*--ssh PROGRAM"
	[ ! -e "$T/ran" ]
	nothing_left
}

@test "a host that is down is named within --ssh-timeout, and the others are released" {
	sshd_up 2
	# what is sent there vanishes, instead of finding no neighbour
	in_net h1 ip neigh replace "${addr[h2]}" lladdr 02:00:00:00:00:01 \
		dev eth0 nud permanent
	refused 69 'host h2: no answer within 5 s .*is it down' --ssh-timeout 5
	nothing_left
}

@test "a missing working directory or program on a host is found before the start" {
	sshd_up 2
	mkdir here
	cp "$(command -v touch)" here/touch
	hide_on h2 "$T/here"
	over_ssh job -H h1:1,h2:1 here/touch "$T/ran"
	finish job 127
	has "$err" "host h2: cannot run 'here/touch': No such file"
	cd here
	mkdir only
	cd only
	refused 71 "host h2: cannot enter the working directory '$T/here/only'"
	cd ../..
	nothing_left
}

@test "a host without ddprun gets a copy, once, and can run the server from it" {
	sshd_up 2
	hide_on h2 "$O"
	over_ssh job -H h2:1,h1:1 sh -c 'echo "$RANK on $(hostname)"'
	finish job
	[ "$(sort <<<"$out")" = $'[0] 0 on h2\n[1] 1 on h1' ]
	copies=("$T"/home.h2/.cache/ddprun/*)
	[ "$(ls "${copies[0]}")" = $'ddprdzv\nddprun' ]
	cmp "$O/ddprun" "${copies[0]}/ddprun"
	before=$(stat -c '%i %Y' "${copies[0]}/ddprun")
	over_ssh job --host-check -H h2:1,h1:1
	finish job
	[ "$(stat -c '%i %Y' "${copies[0]}/ddprun")" = "$before" ]
	has "$out" 'h2: fine: ddprun is there'
	[ ! -e "$T/home.h1/.cache/ddprun" ]
	rm -r "$T/home.h2/.cache/ddprun"
	over_ssh job --host-check -H h2:1
	finish job
	has "$out" 'h2: fine: ddprun was copied there'
	nothing_left
}

@test "a ddprun that another user could have installed there is not run" {
	sshd_up 2
	mkdir -m 777 shared
	cp "$O/ddprun" "$O/ddprdzv" shared
	# on h2 another user has put a program of that name there
	mkdir planted
	printf '#!/bin/sh\ntouch %s/was_run\n' "$T" >planted/ddprun
	chmod 755 planted/ddprun
	chmod 777 planted
	start_on h2 bind mount --bind "$T/planted" "$T/shared"
	finish bind
	start_on h1 job "$T/shared/ddprun" --ssh-args "$SSH_ARGS" -H h1:1,h2:1 \
		sh -c 'echo "$RANK on $(hostname)"'
	finish job
	[ "$(sort <<<"$out")" = $'[0] 0 on h1\n[1] 1 on h2' ]
	[ ! -e was_run ]
	# nor is a copy put where others can change it
	chmod 777 "$T/home.h2/.cache"
	start_on h1 job "$T/shared/ddprun" --ssh-args "$SSH_ARGS" -H h1:1,h2:1 true
	finish job 69
	has "$err" "host h2: .*cannot be copied to .*: other users can change $T/home.h2/.cache; .*XDG_CACHE_HOME"
	nothing_left
}

@test "errors name a full disk, a read-only home, and another architecture" {
	mkdir "$T/fake"
	printf '#!/bin/sh\necho riscv64\n' >"$T/fake/uname"
	chmod +x "$T/fake/uname"
	sshd_path[h3]=$T/fake:/usr/bin:/bin
	sshd_up 3
	for h in h2 h3; do
		hide_on $h "$O"
	done
	hide_on h2 "$T/home.h2" -o size=64k
	refused 69 'host h2: it has no ddprun of this build, and one cannot be copied to .*/home.h2/.*No space left.*make room'
	hide_on h2 "$T/home.h2" -o ro
	refused 69 'host h2: .*cannot be copied to .*Read-only file system.*XDG_CACHE_HOME'
	over_ssh job -H h1:1,h3:1 true
	finish job 69
	has "$err" 'host h3: it has no ddprun, and cannot run this one: its machine is riscv64'
	nothing_left
}

@test "start-up files that print, and missing locales, do no harm" {
	sshd_say h2 'ForceCommand printf "no newline"; printf "to stderr\n" >&2; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"'
	sshd_say h3 "SetEnv LC_ALL=xx_YY.UTF-8 LANG=de_DE.UTF-8 HOME=$T/home.h3 TEST_COOKIE=$TEST_COOKIE"
	sshd_up 3
	echo 'echo hello from bashrc; echo and more' >"$T/home.h1/.bashrc"
	start_on h1 job env LC_ALL=C.UTF-8 LANG=tlh_QO ddprun \
		--ssh-args "$SSH_ARGS" -H h1:1,h2:1,h3:1 \
		sh -c 'echo "$RANK: Grüße $LC_ALL $LANG"'
	finish job
	[ "$(sort <<<"$out")" = '[0] 0: Grüße C.UTF-8 tlh_QO
[1] 1: Grüße C.UTF-8 tlh_QO
[2] 2: Grüße C.UTF-8 tlh_QO' ]
	[ "$(grep -c 'prints to stdout' <<<"$err")" = 1 ]
	has "$err" 'warning: host h[12]: a start-up file of the shell there'
	nothing_left
}

@test "--host-check tries all hosts, and reports each one's problem" {
	sshd_up 3
	mkdir -p here/only
	hide_on h2 "$T/here"
	signal sshd.h3 TERM
	finish sshd.h3 -
	cd here/only
	over_ssh job --host-check -H h1:2,h2:1,h3:1 true
	cd ../..
	finish job 71
	has "$out" '^h1: fine: ddprun is there, working directory and true too; 2 workers, [0-9]+ CPUs?, [0-9]+ GPUs?; clock '
	has "$out" "^h2: FAILED: cannot enter the working directory"
	has "$out" '^h3: FAILED: ssh cannot connect: .*refused'
	[ "$(wc -l <<<"$out")" = 3 ]
	nothing_left
}
