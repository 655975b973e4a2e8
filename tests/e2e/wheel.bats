# covers: python Makefile
bats_require_minimum_version 1.5.0
load ../lib

# The wheel that `make wheel` left in the build folder, in a virtual environment and
# without the network. `make check` builds none: ziglang comes from PyPI.

setup() {
	lib_setup
	[ -z "${SAN:-}" ] || skip "a wheel is built without sanitizers"
	set -- "$O"/ddprun-*_"$(uname -m)".whl
	[ -e "$1" ] || skip "no wheel here: make wheel"
	[ $# = 1 ] || skip "several wheels here: remove the old ones"
	wheel=$1
	python3 -m venv venv >/dev/null 2>&1 || skip "no python3 with venv here"
	pip=(venv/bin/python -m pip --disable-pip-version-check install -q
		--no-index)
	"${pip[@]}" "$wheel"
	at=$T/venv/bin
	unset DDP_LIBRARY PYTHONPATH
}

@test "the wheel's ddprun starts Python workers that use the wheel's module" {
	local ddp=$BATS_TEST_DIRNAME/../programs/sdk/module.py
	cat >sum.py <<-'EOF'
		import array, os, sys
		import ddprun
		with ddprun.init() as world:
		    x = array.array("f", [world.rank + 1, 10])
		    world.all_reduce(x)
		    print(world.rank, x.tolist(), os.environ["OF_THE_USER"],
		          sys.prefix, ddprun.library_path())
	EOF
	local end="kept $T/venv $T/venv/lib/ddprun/libddp.so.0"
	expect 0 env PATH="$at:/usr/bin:/bin" OF_THE_USER=kept \
		ddprun --standalone --nproc-per-node 2 python sum.py
	has "$out" "^\[0\] 0 \[3\.0, 20\.0\] $end\$"
	has "$out" "^\[1\] 1 \[3\.0, 20\.0\] $end\$"
	# by default with the python that started it
	expect 0 env PATH=/usr/bin:/bin OF_THE_USER=kept "$at/python" -m ddprun \
		--standalone --nproc-per-node 2 sum.py
	has "$out" "^\[1\] 1 \[3\.0, 20\.0\] $end\$"
	expect 0 env PATH=/usr/bin:/bin "$at/python" -m ddprun --standalone \
		--nproc-per-node 2 "$ddp" collectives counts shared
	[ "$(grep -c ': ok$' <<<"$out")" = 2 ]
}

@test "each program of the wheel runs, and finds what came with it" {
	local version
	version=$(sed 's/.*ddprun-\([0-9.]*\)-py3.*/\1/' <<<"$wheel")
	expect 0 env PATH=/usr/bin:/bin "$at/python" -m ddprun --version
	has "$out" "^ddprun $version( |\$)"
	expect 0 "$at/ddprdzv" --version
	has "$out" " $version( |\$)"
	# cJSON writes the report
	expect 3 env -u LD_LIBRARY_PATH "$at/ddprun" --standalone --log-dir L \
		--nproc-per-node 1 sh -c 'exit 3'
	compgen -G 'L/*/attempt_0/report.json'
	# ddprun-check is beside ddprun
	expect 0 env PATH="$at:/usr/bin:/bin" ddprun check --help
	[ -s venv/share/man/man1/ddprun.1 ]
}

# mounted STATUS SCRIPT CMD...: CMD exits with STATUS after SCRIPT, in a mount namespace
mounted() {
	unshare -m true 2>/dev/null || skip "needs root"
	expect "$1" unshare -m sh -euc "$2"$'\n''exec "$@"' sh "${@:3}"
}

@test "the wheel works without /dev/shm" {
	local ddp=$BATS_TEST_DIRNAME/../programs/sdk/module.py device
	mkdir dev
	for device in null zero full random urandom; do : >dev/$device; done
	# a /dev with nothing but these
	mounted 0 'for device in null zero full random urandom; do
			mount --bind /dev/$device dev/$device
		done
		mount --rbind dev /dev
		[ ! -e /dev/shm ]' env -u TMPDIR PATH=/usr/bin:/bin "$at/python" -m ddprun \
		--standalone --nproc-per-node 2 --preload auto --max-restarts 1 \
		"$ddp" collectives counts shared
	[ "$(grep -c ': ok$' <<<"$out")" = 2 ]
	lacks "$err" 'without a fork'
}

@test "the wheel works in a read-only environment, and needs its module only for the module" {
	cat >sum.py <<-'EOF'
		import array, os, sys
		try:
		    import ddprun
		except ModuleNotFoundError as error:
		    sys.exit(str(error))
		with ddprun.init() as world:
		    x = array.array("f", [world.rank + 1])
		    world.all_reduce(x)
		    print(world.rank, x.tolist())
	EOF
	find venv | sort >before
	mounted 0 'mount --bind venv venv
		mount -o remount,bind,ro venv
		! touch venv/new 2>/dev/null' "$at/python" -m ddprun --standalone \
		--nproc-per-node 2 --preload auto sum.py
	[ "$(sort <<<"$out")" = '[0] 0 [3.0]'$'\n''[1] 1 [3.0]' ]
	[ -z "$err" ]
	# what would write there says so
	mounted 1 'mount --bind venv venv
		mount -o remount,bind,ro venv' "$at/python" -m ddprun install-torchrun
	has "$err" 'ddprun-torchrun.pth.*Read-only file system'
	find venv | sort | diff before -
	# without site-packages, as where only bin is in a shared PATH
	mv venv/lib/python3*/site-packages gone
	echo 'print("ran")' >plain.py
	expect 0 env PATH="$at:/usr/bin:/bin" ddprun --standalone --nproc-per-node 2 plain.py
	[ "$(grep -c '\] ran$' <<<"$out")" = 2 ]
	expect 1 env PATH="$at:/usr/bin:/bin" ddprun --standalone sum.py
	has "$err" "^\[0\] No module named 'ddprun'\$"
}

@test "a C program builds against the wheel" {
	command -v "${CC:-cc}" >/dev/null || skip "no C compiler here"
	command -v pkg-config >/dev/null || skip "no pkg-config here"
	export PKG_CONFIG_PATH=$T/venv/lib/pkgconfig
	cp "$BATS_TEST_DIRNAME/../../worker-sdk/examples/fit_line.c" .
	${CC:-cc} -o fit_line fit_line.c $(pkg-config --cflags --libs ddp)
	expect 0 "$at/ddprun" --standalone --nproc-per-node 2 ./fit_line
	[ "$out" = '[0] y = 2.00x + 1.00' ]
}

# on PLATFORM: pip installs for it
on() {
	"${pip[@]}" --only-binary=:all: --target "$T/$1" --platform "$1" "$wheel"
}

@test "pip refuses the wheel on musl and with an older glibc" {
	local arch
	arch=$(uname -m)
	expect 0 on "manylinux_2_28_$arch"
	[ -x "manylinux_2_28_$arch/bin/ddprun" ]
	expect 1 on "manylinux_2_17_$arch"
	has "$err" 'is not a supported wheel on this platform'
	expect 1 on "musllinux_1_2_$arch"
	has "$err" 'is not a supported wheel on this platform'
}

@test "auditwheel agrees with the wheels' tags" {
	local one
	python3 -m auditwheel --version >/dev/null 2>&1 || skip "no auditwheel here"
	for one in "$O"/ddprun-*.whl; do
		expect 0 python3 -m auditwheel show "$one"
		one=${one##*_2_28_}
		has "$(tr '\n' ' ' <<<"$out")" \
			"consistent with the following platform tag: \"manylinux_2_(17|2[0-8])_${one%.whl}\""
	done
}

# What `make wheel ARCH=aarch64` left. qemu's user mode has no binfmt here: ddprun cannot
# start its server, and the test does.
@test "the wheel for arm64 runs under qemu" {
	local server
	[ "$(uname -m)" != aarch64 ] || skip "this is an arm64 machine"
	set -- "$O"/ddprun-*_aarch64.whl
	[ -e "$1" ] || skip "no wheel for arm64 here: make wheel ARCH=aarch64"
	command -v qemu-aarch64 >/dev/null || skip "no qemu-aarch64 here"
	export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
	[ -d "$QEMU_LD_PREFIX" ] || skip "no libc for arm64 here (libc6-arm64-cross)"
	"${pip[@]}" --only-binary=:all: --target arm --platform manylinux_2_28_aarch64 "$1"
	expect 0 qemu-aarch64 arm/bin/ddprun --version
	has "$out" '^ddprun [0-9.]+( |$)'
	start server qemu-aarch64 arm/bin/ddprdzv --listen 127.0.0.1:0
	await server.err 'listening on (127.0.0.1:[0-9]+)'
	server=$(cut -d' ' -f4 <<<"$line")
	expect 0 qemu-aarch64 arm/bin/ddprun --nnodes 1 --rdzv-endpoint "$server" \
		--nproc-per-node 2 qemu-aarch64 arm/bin/ddprdzv --version
	[ "$(grep -cE '^\[[01]\] ddprdzv [0-9.]+$' <<<"$out")" = 2 ]
	lacks "$out$err" 'undefined symbol'
	signal server TERM
	finish server -
}
