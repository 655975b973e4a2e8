# covers: launcher/stage launcher/agent
load ../lib

# --stage on one node: what a copy has, where it lies, and what is refused.

setup() {
	lib_setup
	mkdir -p src/folder disk
	head -c 300000 /dev/urandom >src/folder/file
}

stage() {
	expect "$1" env TMPDIR="$T/disk" ddprun --stage "${@:2}"
}

copy_of() {
	echo "$T/disk/ddprun-stage-$(id -u)"/*/"$1"
}

@test "a copy has the links, times, modes and holes of its source" {
	local copy
	ln src/folder/file src/hard
	ln -s folder/file src/relative
	ln -s "$T/src/folder" src/absolute
	ln -s /nowhere src/dangling
	: >src/empty
	truncate -s 4M src/hole
	mkfifo src/pipe
	chmod 750 src/folder
	chmod 444 src/empty
	touch -d '2001-02-03 04:05:06.789' src/folder/file
	stage 0 "$T/src" sh -c 'echo "$DDP_STAGE"'
	copy=$(copy_of src)
	[ "$out" = "[0] $copy" ]
	has "$err" "not copied, because they are sockets, pipes or devices: 1 files below"
	cmp src/folder/file "$copy/folder/file"
	[ "$(stat -c '%a %Y %.Y' src/folder/file)" = \
		"$(stat -c '%a %Y %.Y' "$copy/folder/file")" ]
	[ "$(stat -c %a "$copy/folder" "$copy/empty")" = $'750\n444' ]
	[ "$copy/hard" -ef "$copy/folder/file" ]
	[ "$(readlink "$copy/relative")" = folder/file ]
	[ "$(readlink "$copy/absolute")" = "$copy/folder" ]
	[ "$(readlink "$copy/dangling")" = /nowhere ]
	[ "$(stat -c %s "$copy/hole")" = 4194304 ]
	[ "$(stat -c %b "$copy/hole")" -lt 100 ]
	[ ! -e "$copy/pipe" ]
	nothing_left
}

@test "a single file can be staged, into a folder of the user's choice" {
	stage 0 "$T/src/folder/file:$T/disk/own/copies" sh -c 'cmp "$0" "$DDP_STAGE"' \
		"$T/src/folder/file"
	[ -f "$T"/disk/own/copies/*/file ]
}

@test "a copy is used again until its source changes, and is mended if it changes" {
	local first
	stage 0 "$T/src" true
	first=$(stat -c %i "$(copy_of src)/folder/file")
	stage 0 "$T/src" true
	[ "$(stat -c %i "$(copy_of src)/folder/file")" = "$first" ]
	echo more >>"$(copy_of src)/folder/file"
	stage 0 "$T/src" true
	cmp src/folder/file "$(copy_of src)/folder/file"
	echo other >src/folder/file
	stage 0 "$T/src" sh -c 'cat "$DDP_STAGE/folder/file"'
	[ "$out" = '[0] other' ]
	# the copy of the earlier version is gone
	[ "$(ls "disk/ddprun-stage-$(id -u)" | wc -l)" = 1 ]
}

@test "a copy that another job uses stays when a newer one is made" {
	local old
	start job env TMPDIR="$T/disk" ddprun --stage "$T/src" sh -c \
		'echo "$DDP_STAGE"; exec tail -f /dev/null'
	await job.out '/src$'
	old=${line#* }
	echo other >src/folder/file
	stage 0 "$T/src" true
	[ "$(stat -c %s "$old/folder/file")" = 300000 ]
	signal job INT
	finish job 130
	echo another >src/folder/file
	stage 0 "$T/src" true
	[ ! -e "$old" ]
}

@test "a virtual environment runs from its copy, scripts of pip included" {
	python3 -m venv --without-pip env 2>/dev/null ||
		skip 'python3 has no venv (package python3-venv)'
	printf '#!%s\nimport sys; print(sys.prefix)\n' "$T/env/bin/python3" >env/bin/tool
	chmod 755 env/bin/tool
	echo 'import sys; print(sys.prefix, sys.executable)' >train.py
	. env/bin/activate
	stage 0 auto train.py
	[ "$out" = "[0] $(copy_of env) $(copy_of env)/bin/python3" ]
	stage 0 auto tool
	[ "$out" = "[0] $(copy_of env)" ]
	stage 0 auto sh -c 'command -v tool; echo "$VIRTUAL_ENV"'
	[ "$out" = "[0] $(copy_of env)/bin/tool"$'\n'"[0] $(copy_of env)" ]
	# --preload imports from the copy
	stage 0 auto --preload json train.py
	[ "$out" = "[0] $(copy_of env) $(copy_of env)/bin/python3" ]
	deactivate
	stage - auto true
	[ "$status" != 0 ]
	has "$err" 'no virtual environment is active here'
}

@test "an interpreter outside the environment that a node lacks is named" {
	mkdir -p base env/bin
	ln -s "$(python3 -c 'import sys; print(sys.executable)')" base/python3
	ln -s ../../base/python3 env/bin/python3.x # it points elsewhere in the copy
	ln -s python3.x env/bin/python3
	stage - "$T/env" "$T/env/bin/python3" -c pass
	[ "$status" != 0 ]
	has "$err" "--stage: '$(copy_of env)/bin/python3' is a link to '.*/base/python3', which $(hostname) lacks; install that on each node, or stage a folder that contains it"
	nothing_left
}

@test "a source that is written meanwhile ends the job with the file's name" {
	local i
	for i in {1..400}; do echo >"src/folder/$i"; done
	: >src/zz
	start writer bash -c 'while :; do echo >>src/zz; done'
	# on a busy machine the writer may pause while the file is read
	for i in {1..20}; do
		stage - "$T/src" true
		[ "$status" = 0 ] || break
	done
	has "$err" "src/zz' was changed while it was copied"
	signal writer KILL
	finish writer 137
}

@test "a bad path, folder or disk is refused with the reason" {
	local mine
	mine=disk/ddprun-stage-$(id -u)
	stage - "$T/none" true
	has "$err" "there is no '$T/none' on .*, the first node, which reads it"
	stage 2 "$T/src:relative" true
	has "$err" 'the folder after the colon must be an absolute path'
	stage 2 : true
	has "$err" 'give a path, or auto'
	stage - / true
	has "$err" "name a file or folder in '/'"
	ln -s "$T/src" "$mine" # another user's, in a shared /tmp
	stage - "$T/src" true
	has "$err" "cannot use the folder '$T/$mine': Not a directory"
	rm "$mine"
	mkdir -m 777 "$mine"
	stage - "$T/src" true
	has "$err" "others can write to the folder '$T/$mine'"
	unshare -m true 2>/dev/null || return 0
	expect - unshare -m sh -c 'mount -t tmpfs -o size=8m none disk || exit 0
		exec ddprun --stage "$0/src:$0/disk/copies" true' "$T"
	[ "$status" = 0 ] || has "$err" "has [0-9]+ MiB free, and the copy needs 16 MiB"
	nothing_left
}
