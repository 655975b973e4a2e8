# covers: launcher/stage
load ../lib

# The helpers of --stage, without their agents: four nodes in a chain whose links
# change, lose or stop what passes (tests/programs/tools/stage_chain.py).

setup() {
	lib_setup
	mkdir -p src/folder
	head -c 3000000 /dev/urandom >src/random
	yes 'as in a text' | head -c 3000000 >src/text
	head -c 700000 /dev/zero >src/zeroes
	for i in {1..300}; do echo "$i" >"src/folder/$i"; done
	: >src/empty
}

# chain WORDS...: stages src on four nodes; what they report is in $out
chain() {
	expect 0 python3 "$BATS_TEST_DIRNAME/../programs/tools/stage_chain.py" \
		"$T/src" "$T/d0" "$T/d1" "$T/d2" "$T/d3" "$@"
}

all_have_it() {
	local i
	for i in 0 1 2 3; do
		has "$out" "$i: A"
		diff -r src "$T/d$i"/*/src
	done
	nothing_left
}

@test "a frame that was damaged on the way is sent again" {
	chain flip=1:2000000 flip=2:1000000
	all_have_it
}

@test "a link that damages frames is named, and the nodes before it are not" {
	chain flips=1:60000
	has "$out" '2: E .* node 1 \(n1\) sent a block that does not authenticate: it, or something on the path, changes data'
	lacks "$out" '[013]: E'
	[ -z "$(echo "$T"/d2/*/hashes | grep -v part)" ]
	nothing_left
}

@test "bytes that were lost on the way are noticed and sent again" {
	chain skip=1:2000000
	all_have_it
}

@test "nodes that have different parts of the copy get the rest" {
	local i
	chain stop=0:500000
	chain stop=1:1500000
	chain stop=2:2500000
	lacks "$out" '[0123]: A'
	chain
	all_have_it
	chain
	for i in 0 1 2 3; do has "$out" "$i: D 1 "; done
}

@test "a node without zstd passes the copy on" {
	chain raw=1
	all_have_it
}

@test "a part of a file that an earlier job left damaged is replaced" {
	local copy
	rm -r src/folder src/text src/zeroes
	chain
	# node 2 has only a part of it, and the hash of the empty file
	copy=$(echo "$T"/d2/*)
	mv "$copy" "$copy.part-1"
	truncate -s 32 "$copy.part-1/hashes"
	truncate -s 1000000 "$copy.part-1/src/random"
	printf 'damaged' | dd of="$copy.part-1/src/random" bs=1 seek=1000 conv=notrunc status=none
	# and node 3 gets it from there before it is noticed
	rm -r "$T/d3"
	chain
	has "$out" '1: D 1 '
	all_have_it
}
