# covers: trainers Makefile
load ../lib

setup() {
	lib_setup
	# all tests here share the generated digits
	export DDP_CACHE=$BATS_FILE_TMPDIR/cache
}

# The README's first promise: `make demo`, and the packages that it installs.

@test "the demo trains on two workers and ends with accuracy and time" {
	expect 0 sh "$lib_tests/demo"
	has "$out" '^\+ .*ddprun --standalone --nproc-per-node 2 .*mnist_mlp$'
	has "$out" 'drawn by this program'
	has "$out" '2 ranks'
	has "$out" 'epoch 5/5: loss [0-9.]+, [0-9.]+ s, [0-9,]+ samples/s'
	has "$out" '5 epochs in [0-9.]+ s'
	has "$(tail -n 1 <<<"$out")" 'test accuracy (8[0-9]|9[0-9])\.[0-9]{2} %$'
	# plain lines in a pipe
	[[ $out != *$'\r'* ]]
	nothing_left
}

@test "the demo shows its progress on a terminal, and trains on the files in DDP_DATA" {
	local mnist=${DDP_TEST_DATA:-}/mnist
	[ ! -d "$mnist" ] || export DDP_DATA=$mnist
	expect 0 script -qefc "sh '$lib_tests/demo'" /dev/null
	[[ $out == *$'\r'* ]]
	# epoch and step, samples/s, loss and the time left, in place
	has "$(tr '\r' '\n' <<<"$out")" 'epoch [0-9]/5 step [0-9]+/938 loss [0-9.]+ [0-9,]+ samples/s eta [0-9]'
	has "$out" 'test accuracy [0-9.]+ %'
	[ -d "$mnist" ] ||
		skip "only with drawn digits: DDP_TEST_DATA names no folder with mnist/"
	has "$out" 'test accuracy 9[5-7]\.[0-9]{2} %'
	[[ $out != *'drawn by this program'* ]]
}

# A machine with only the packages in $here installed: apt-get and sudo
# record their arguments.
machine() {
	mkdir -p bin
	echo '#!/bin/sh
for p; do :; done
case " $here " in *" $p "*) printf installed ;; esac' >bin/dpkg-query
	printf '#!/bin/sh\necho "apt-get $*" >>asked\n' >bin/apt-get
	printf '#!/bin/sh\nexec "$@"\n' >bin/sudo
	printf '#!/bin/sh\necho %s\n' "$1" >bin/id
	chmod +x bin/*
	: >asked
}

deps() {
	PATH=$T/bin:/usr/bin:/bin expect "$1" env here="$here" \
		sh "${lib_tests%/*}/deps.sh" tests
}

@test "deps.sh installs what is missing, and prints what it runs" {
	machine 0
	here='gcc libc6-dev bats' deps 0
	has "$out" '^\+ apt-get update'
	has "$out" '^\+ .*apt-get install .* make .*libuv1-dev'
	has "$(<asked)" 'install .* --no-install-recommends make pkg-config'
	[[ $(<asked) != *' gcc '* ]]
	[[ $out != *sudo* ]]
}

@test "deps.sh installs no other launchers for building and the demo" {
	machine 0
	PATH=$T/bin:/usr/bin:/bin expect 0 env here='' \
		sh "${lib_tests%/*}/deps.sh"
	has "$(<asked)" 'install .* make .*libuv1-dev'
	[[ $(<asked) != *mpich* && $(<asked) != *slurm* ]]
}

@test "deps.sh uses sudo if the user is not root" {
	machine 1000
	here='' deps 0
	has "$out" '^\+ sudo apt-get update'
	has "$out" '^\+ sudo .*apt-get install .*gcc'
}

@test "deps.sh prints what to install if there is neither root nor sudo" {
	machine 1000
	rm bin/sudo
	# a PATH without the machine's own sudo
	mkdir only
	for p in sh env printf echo; do
		ln -s "$(type -P $p)" only/$p
	done
	PATH=$T/bin:$T/only expect 1 env here='' "$T/only/sh" \
		"${lib_tests%/*}/deps.sh"
	has "$err" 'neither root nor sudo; run as root: apt-get install make gcc'
	[ ! -s asked ]
}

@test "deps.sh does nothing if nothing is missing, or with DEPS=0" {
	machine 0
	DEPS=0 here='' deps 0
	[ -z "$out" ]
	[ ! -s asked ]
	all=$(sed -n "s/^[a-z]*=['\"]\(.*\)['\"]\$/\1/p" "${lib_tests%/*}/deps.sh" |
		tr '\n' ' ')
	here=$all deps 0
	[ ! -s asked ]
}
