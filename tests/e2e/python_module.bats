# covers: python worker-sdk/api
bats_require_minimum_version 1.5.0
load ../lib

# The module ddprun of python/ddprun, from the tree, with the libddp of the build.

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
programs=$BATS_TEST_DIRNAME/../programs/sdk

setup() {
	lib_setup
	[ -z "${SAN:-}" ] || skip "a sanitizer's libddp needs a python that has it"
	python3 -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 9))' \
		2>/dev/null || skip "no python3 from 3.9 on with ctypes here"
	export PYTHONPATH=$root/python DDP_LIBRARY=$O/libddp.so
	export PYTHONDONTWRITEBYTECODE=1
}

# RANKS: the last test's output is an `ok` of each
all_ok() {
	[ "$(grep -cE '^\[[0-9]+\] rank [0-9]+( of [0-9]+)?: ok$' <<<"$out")" = "$1" ]
}

@test "Python's collectives, counts and messages have the right results" {
	expect 0 ddprun --standalone --nproc-per-node 3 "$programs/module.py" \
		collectives counts messages
	all_ok 3
	DDP_TEST_HOSTS=2 expect 0 ddprun --standalone --nproc-per-node 4 \
		"$programs/module.py" collectives counts messages
	all_ok 4
}

@test "Python's requests keep their buffers until they end" {
	expect 0 ddprun --standalone --nproc-per-node 2 "$programs/module.py" requests
	all_ok 2
}

@test "Python's groups, store, once and stopping together work" {
	expect 0 ddprun --standalone --nproc-per-node 3 "$programs/module.py" \
		groups shared job
	all_ok 3
}

@test "without ddprun the module's world has one rank" {
	expect 0 python3 "$programs/module.py" collectives counts messages
	[ "$out" = 'rank 0 of 1: ok' ]
}

@test "a rank that dies is an exception of the others, with libddp's text" {
	cat >dies.py <<-'EOF2'
		import array, os, signal, sys
		import ddprun
		signal.signal(signal.SIGTERM, signal.SIG_IGN)
		world = ddprun.init()
		if world.rank == 1:
		    os._exit(3)
		try:
		    world.all_reduce(array.array("f", [1]))
		except (ddprun.RemoteError, ddprun.AbortedError) as error:
		    print("caught:", error)
	EOF2
	expect 3 ddprun --standalone --nproc-per-node 2 dies.py
	has "$out" '^\[0\] caught: .*rank 1'
}

@test "requests under way end with the world, and buffers are free again" {
	cat >drop.py <<-'EOF2'
		import array
		import ddprun
		world = ddprun.init()
		x = array.array("i", [1])
		if world.rank == 0:
		    request = world.recv(x, 1, asynchronous=True)
		    assert not request.done
		    world.store.set("seen", "")
		    world.finalize()
		    x.append(2)
		    assert request.done
		    print("free")
		    # what is gone says so, and finalize may be called again
		    world.finalize()
		    try:
		        world.barrier()
		    except ValueError as error:
		        print(error)
		else:
		    world.store.get("seen")
	EOF2
	expect 0 ddprun --standalone --nproc-per-node 2 drop.py
	[ "$out" = $'[0] free\n[0] this communicator is freed already' ]
}

@test "record_error reaches the failure page" {
	printf '%s\n' 'import ddprun, sys' 'ddprun.record_error("no data: é")' \
		'ddprun.record_error("later")' 'sys.exit(4)' >record.py
	expect 4 ddprun --standalone --nproc-per-node 1 record.py
	has "$err" 'no data: é'
	lacks "$err" later
}

@test "the module names a library that is missing or too old" {
	DDP_LIBRARY=/none/libddp.so expect 1 python3 -c \
		'import ddprun; ddprun.version()'
	has "$err" 'ImportError: cannot load libddp: /none/libddp.so: .*DDP_LIBRARY'
	printf 'int x;\n' | ${CC:-cc} -shared -fPIC -xc -o old.so - ||
		skip "no C compiler here"
	DDP_LIBRARY=$T/old.so expect 1 python3 -c 'import ddprun; ddprun.version()'
	has "$err" 'ImportError: .*/old.so has no ddp_.*older than this module'
}

@test "the module's signatures are those of ddp.h" {
	cat >names.py <<-'EOF2'
		import re, sys
		from ddprun import _library, _buffers
		text = open(sys.argv[1]).read()
		text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
		calls = dict(re.findall(r"DDP_API [^;(]*?\*?ddp_(\w+)\(([^;]*)\);", text))
		def count(name):
		    inside = re.sub(r"\([^()]*\)", "", calls[name])
		    return 0 if inside.strip() == "void" else inside.count(",") + 1
		for name, arguments in _library._operations.items():
		    assert count(name) == len(arguments) + 1, name
		    assert count(name + "_async") == len(arguments) + 2, name
		for name, arguments in _library._calls.items():
		    assert count(name) == len(arguments), name
		for name, (unused, arguments) in _library._others.items():
		    assert count(name) == len(arguments), name
		for name, value in _library.OPS.items():
		    assert f"DDP_{name.upper()} = {value}," in text, name
		for name in "F32 F64 I32 I64 F16 BF16 I8 U8".split():
		    assert f"DDP_{name} = {getattr(_buffers, name)}," in text, name
		print("the same")
	EOF2
	expect 0 python3 names.py "$root/worker-sdk/ddp.h"
	[ "$out" = 'the same' ]
}

@test "NumPy's arrays are used in place" {
	python3 -c 'import numpy' 2>/dev/null || skip "no NumPy here"
	expect 0 ddprun --standalone --nproc-per-node 2 \
		"$programs/module_buffers.py" numpy
	all_ok 2
}

@test "torch's tensors are used in place" {
	torch_or_skip
	expect 0 ddprun --standalone --nproc-per-node 2 \
		"$programs/module_buffers.py" torch
	all_ok 2
}

@test "python -m ddprun is ddprun, with this python for scripts" {
	printf '%s\n' 'import sys; print(sys.executable)' >which.py
	expect 0 python3 -m ddprun --standalone --nproc-per-node 1 which.py
	[ "$out" = "[0] $(python3 -c 'import sys; print(sys.executable)')" ]
	expect 1 env PATH=/none "${out#* }" -m ddprun --version
	has "$err" '^ddprun: error: ddprun is neither beside .* nor in \$PATH'
}

@test "the module is typed" {
	local python=${DDP_TEST_PYTHON:-python3} # that of PyTorch, if there is one
	"$python" -m mypy --version >/dev/null 2>&1 || skip "$python has no mypy"
	DEADLINE=600 expect 0 "$python" -m mypy --strict --cache-dir "$T/mypy" "$root/python/ddprun"
}
