# covers: deps.sh Makefile
load ../lib

# What deps.sh says where there is no apt-get, and which targets build parts of the tree.

tree=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

setup() {
	lib_setup
	mkdir bin
	for tool in sh awk sort tr cat; do
		ln -s "$(command -v $tool)" "bin/$tool"
	done
}

# An installation whose package manager is $1.
on_a_system_with() {
	printf '#!/bin/sh\necho "$@" >>ran\n' >"bin/$1"
	chmod +x "bin/$1"
	expect 1 env PATH="$T/bin" DEPS=1 sh "$tree/deps.sh" "${@:2}"
	has "$err" 'this is not Debian'
	# it only prints
	[ ! -e ran ]
	rm "bin/$1"
}

@test "deps.sh prints the command of dnf, apk, pacman and brew" {
	on_a_system_with dnf
	has "$err" '^    dnf install .*\bcjson-devel .*\blibuv-devel .*\bonednn-devel '
	on_a_system_with apk tests
	has "$err" '^    apk add .*\blibuv-dev .*\bmusl-dev .*\bonednn-dev '
	on_a_system_with pacman
	has "$err" '^    pacman -S --needed .*\blibsodium .*\blibuv .*\bonednn '
	on_a_system_with brew
	has "$err" '^    brew install .*\blibsodium .*\blibuv .*\bonednn '
}

@test "deps.sh knows each package that building needs under its other names" {
	sed -n "s/^build='\(.*\)'/\1/p" "$tree/deps.sh" | tr ' ' '\n' | sort >needed
	sed -n "/^elsewhere='/,/^'/p" "$tree/deps.sh" | awk 'NF == 5 { print $1 }' |
		sort >known
	diff needed known
}

@test "make launcher and make sdk need neither trainers nor oneDNN" {
	expect 0 make -n -C "$tree" DEPS=0 O="$T/none" launcher sdk
	has "$out" 'ddprdzv'
	has "$out" 'libddp.so'
	lacks "$out" 'trainers/|dnnl'
}

@test "without oneDNN, make all leaves the trainers out, in one line" {
	expect 0 make -n -C "$tree" DEPS=0 O="$T/none" has_dnnl= all
	has "$out" 'no oneDNN .*: the trainers are left out'
	has "$out" 'libddp.so'
	lacks "$out" 'resnet.c|-ldnnl'
}
