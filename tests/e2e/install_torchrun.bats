# install_torchrun.bats: python -m torch.distributed.run as ddprun, where the user
# asked for it.
# covers: python launcher/link_command.c
bats_require_minimum_version 1.5.0
load ../lib

# A virtual environment with the module of the tree and a PyTorch that only says that
# it ran.
setup() {
	lib_setup
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
		skip "no python3 from 3.9 on here"
	python3 -m venv --without-pip venv >/dev/null 2>&1 ||
		skip "no python3 with venv here"
	python=$T/venv/bin/python
	packages=$("$python" -c 'import site; print(site.getsitepackages()[0])')
	ln -s "$BATS_TEST_DIRNAME/../../python/ddprun" "$packages/ddprun"
	mkdir -p "$packages/torch/distributed"
	: >"$packages/torch/__init__.py"
	: >"$packages/torch/distributed/__init__.py"
	for name in run launch; do
		echo 'import sys; print("PyTorch", *sys.argv[1:])' \
			>"$packages/torch/distributed/$name.py"
	done
	printf '%s\n' 'import os, sys' \
		'print(os.environ["RANK"], sys.executable, *sys.argv[1:])' >show.py
	export PYTHONDONTWRITEBYTECODE=1
	unset PYTHONPATH PYTHON_EXEC
}

own='PyTorch --nproc-per-node 2 show.py --x'

@test "the two modules start ddprun once it is installed, until it is removed" {
	expect 0 "$python" -m torch.distributed.run --nproc-per-node 2 show.py --x
	[ "$out" = "$own" ]
	expect 0 "$python" -m ddprun install-torchrun
	has "$out" "^$packages/ddprun-torchrun.pth: .* starts $DDPRUN; "
	expect 0 "$python" -m ddprun install-torchrun # again
	expect 0 "$python" -m torch.distributed.run --nproc-per-node 2 show.py --x
	[ "$(sort <<<"$out")" = "[0] 0 $python --x"$'\n'"[1] 1 $python --x" ]
	expect 0 "$python" -m torch.distributed.launch --nproc-per-node 2 show.py --x
	has "$out" "^\[1\] 1 $python --local-rank=1 --x$"
	expect 0 "$python" -m ddprun uninstall-torchrun
	expect 0 "$python" -m torch.distributed.run --nproc-per-node 2 show.py --x
	[ "$out" = "$own" ]
	expect 1 "$python" -m ddprun uninstall-torchrun
	has "$err" '^ddprun: error: there is no .*/ddprun-torchrun.pth: '
	[ "$(ls "$packages" | grep -c pth)" = 0 ]
}

@test "Python's own options may precede the module" {
	"$python" -m ddprun install-torchrun >/dev/null
	expect 0 "$python" -umtorch.distributed.run show.py
	[ "$out" = "[0] 0 $python" ]
	expect 0 "$python" -W ignore -X dev -Im torch.distributed.run show.py -m a
	[ "$out" = "[0] 0 $python -m a" ]
	# no option
	expect 2 "$python" -m torch.distributed.run
	has "$err" '^ddprun: error: '
}

@test "no other start of Python is changed, or imports anything" {
	echo 'import sys; print("other", "ddprun" in sys.modules, *sys.argv[1:])' \
		>other.py
	"$python" -m ddprun install-torchrun >/dev/null
	expect 0 "$python" other.py -m torch.distributed.run
	[ "$out" = 'other False -m torch.distributed.run' ]
	expect 0 "$python" -m other x
	[ "$out" = 'other False x' ]
	expect 0 "$python" -m other -m torch.distributed.run
	has "$out" '^other .* -m torch.distributed.run$'
	expect 0 "$python" -c 'import torch.distributed.run' a
	[ "$out" = 'PyTorch a' ]
	[ -z "$err" ]
	"$python" <other.py >out -
	[ "$(<out)" = 'other False' ]
}

@test "a file that is left without the module or ddprun changes nothing" {
	"$python" -m ddprun install-torchrun >/dev/null
	mkdir elsewhere
	expect 0 env PATH=/usr/bin:/bin "$python" -m torch.distributed.run a
	[ "$out" = 'PyTorch a' ]
	has "$err" '^ddprun: warning: ddprun is neither .*; starting PyTorch.s own$'
	mv "$packages/ddprun" elsewhere
	expect 0 "$python" -m torch.distributed.run --nproc-per-node 2 show.py --x
	[ "$out" = "$own" ]
	[ -z "$err" ]
	# as is a module where Python reads no such files
	expect 1 env PYTHONPATH="$T/elsewhere" "$python" -m ddprun install-torchrun
	has "$err" "^ddprun: error: the module ddprun is in $T/elsewhere, where"
	[ ! -e elsewhere/ddprun-torchrun.pth ]
}

@test "--version names the file" {
	expect 0 "$python" -m ddprun --version
	lacks "$out" torch
	local version=$out
	"$python" -m ddprun install-torchrun >/dev/null
	expect 0 "$python" -m ddprun --version
	[ "$out" = "$version
python -m torch.distributed.run starts ddprun: $packages/ddprun-torchrun.pth" ]
	expect 0 "$python" -m torch.distributed.run --version
	has "$out" '^python -m torch.distributed.run starts ddprun: '
	# the wheel's ddprun knows its environment
	cp "$DDPRUN" venv/bin
	expect 0 venv/bin/ddprun --version
	has "$out" '^python -m torch.distributed.run starts ddprun: '
	expect 0 ddprun --version
	lacks "$out" torch
}

@test "workers of python -m ddprun have the signals of a shell's" {
	expect 0 "$python" -m ddprun grep SigIgn /proc/self/status
	local module=${out#* }
	expect 0 ddprun grep SigIgn /proc/self/status
	[ "$module" = "${out#* }" ]
}
