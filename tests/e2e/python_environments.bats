# Python where its users have it: environments of conda and uv, and containers.
# --preload and --stage work there as elsewhere. No test needs a package.
# covers: launcher/preload launcher/stage launcher/plan/program.c launcher/crash
bats_require_minimum_version 1.5.0
load ../lib

setup() {
	lib_setup
	export PYTHONDONTWRITEBYTECODE=1
	unset PYTHON_EXEC PYTHONPATH VIRTUAL_ENV PYTHONHOME ${!CONDA_*} ${!UV_*}
	mkdir site
	cat >site/counted.py <<-'END'
		import os
		with open(os.environ["TMPDIR"] + "/imports", "a") as f:
		    f.write("%d\n" % os.getpid())
		value = 1
	END
	cat >prefix.py <<-'END'
		import os, sys
		with_imports = "counted" in sys.modules
		import counted
		print("prefix", sys.prefix, "executable", sys.executable,
		      "forked", with_imports)
	END
}

# runs_in PREFIX MODULES CMD...: the job's forked workers run in this environment, and
# have imported counted once
runs_in() {
	rm -f imports
	expect 0 "${@:3}" --standalone --nproc-per-node 2 --preload "$2" prefix.py
	[ "$(grep -cE "\] prefix $1 executable $1/bin/python[0-9.]* forked True\$" \
		<<<"$out")" = 2 ]
	lacks "$err" 'without a fork'
	[ "$(wc -l <imports)" = 1 ]
}

# conda_environment FOLDER: an environment with conda's own layout: the interpreter, its
# library and site-packages in one prefix, scripts with the prefix in their first line, and
# conda-meta instead of pyvenv.cfg. What conda links from its cache of packages is copied
# from python3's installation.
conda_environment() {
	local version lib packages name=$1/conda-meta
	version=$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
	lib=$(python3 -c 'import os; print(os.path.realpath(os.path.dirname(os.__file__)))')
	mkdir -p "$1/bin" "$1/lib" "$name"
	cp "$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')" \
		"$1/bin/$version"
	ln -s "$version" "$1/bin/python3"
	ln -s "$version" "$1/bin/python"
	tar -C "${lib%/*}" --exclude=site-packages --exclude=dist-packages \
		--exclude=__pycache__ --exclude='config-*' --exclude=test \
		-cf - "${lib##*/}" | tar -C "$1/lib" --no-same-owner -xf -
	# Debian's python3 has another folder for packages
	packages=$("$1/bin/python" -c 'import site; print(site.getsitepackages()[0])')
	mkdir -p "$packages"
	cp site/counted.py "$packages"
	printf '#!%s/bin/python\nimport sys; print(sys.prefix)\n' "$PWD/$1" >"$1/bin/tool"
	chmod 755 "$1/bin/tool"
	printf '==> 2026-11-01 10:00:00 <==\n# cmd: conda create -p %s\n' "$PWD/$1" \
		>"$name/history"
	echo '{"name": "python", "channel": "conda-forge"}' >"$name/python.json"
	[ "$("$1/bin/python" -c 'import sys; print(sys.prefix)')" = "$PWD/$1" ] ||
		skip "a copy of this python3 does not run"
}

@test "workers are forked in an environment of conda" {
	local conda=$T/conda
	conda_environment conda
	# as `conda activate` and `conda run` set it
	local active=(env CONDA_PREFIX="$conda" CONDA_DEFAULT_ENV="$conda" CONDA_SHLVL=1
		PATH="$conda/bin:$PATH")
	runs_in "$conda" counted "${active[@]}" ddprun
	# site-packages of the prefix are installed packages; the standard library is not
	runs_in "$conda" auto "${active[@]}" ddprun
	# not active, as in a crontab or an sbatch script
	runs_in "$conda" counted env PYTHON_EXEC="$conda/bin/python" ddprun
	expect 0 "$DDPRUN" --standalone --nproc-per-node 2 --preload counted \
		"$conda/bin/python" prefix.py
	[ "$(grep -c "\] prefix $conda .* forked True\$" <<<"$out")" = 2 ]
}

# uv_environment FOLDER: a virtual environment as uv makes it: its interpreter is a link to
# one elsewhere, whose standard library it uses. Without uv here, by hand.
uv_environment() {
	local version python
	python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
	version=$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
	export UV_OFFLINE=1 UV_NO_CONFIG=1 UV_CACHE_DIR=$T/uv UV_PYTHON_DOWNLOADS=never
	if uv=$(command -v uv); then
		"$uv" venv -q --python "$python" "$1"
	else
		uv=
		mkdir -p "$1/bin" "$1/lib/$version/site-packages"
		ln -s "$python" "$1/bin/python"
		ln -s python "$1/bin/python3"
		ln -s python "$1/bin/$version"
		ln -s lib "$1/lib64"
		printf 'home = %s\nimplementation = CPython\nuv = 0.9.0\n%s\n' \
			"${python%/*}" 'include-system-site-packages = false' >"$1/pyvenv.cfg"
	fi
	cp site/counted.py "$1/lib/$version/site-packages"
	printf '#!%s/bin/python3\nimport sys; print(sys.prefix)\n' "$PWD/$1" >"$1/bin/tool"
	chmod 755 "$1/bin/tool"
}

@test "workers are forked in uv's virtual environments, also by uv run" {
	local uv
	uv_environment .venv
	runs_in "$T/.venv" counted env PYTHON_EXEC="$T/.venv/bin/python" ddprun
	# activated: python3 is the environment's
	runs_in "$T/.venv" auto env VIRTUAL_ENV="$T/.venv" PATH="$T/.venv/bin:$PATH" ddprun
	[ -z "$uv" ] || runs_in "$T/.venv" counted "$uv" run --no-project ddprun
}

@test "a node without the Python that an environment links to is an error" {
	local uv
	uv_environment .venv
	echo 'print("ran")' >script.py
	# what is there on another node that shares the environment, but not its Python
	ln -sfn "$T/not/here/python3" .venv/bin/python
	local lost="is a link to '$T/not/here/python3', which does not exist on this node"
	expect - env VIRTUAL_ENV="$T/.venv" PATH="$T/.venv/bin:$PATH" ddprun script.py
	[ "$status" != 0 ]
	has "$err" "cannot run '$T/.venv/bin/python3', the Python for 'script.py': it $lost; install"
	lacks "$out" ran
	expect - ddprun "$T/.venv/bin/python" script.py
	[ "$status" != 0 ]
	has "$err" "cannot run '$T/.venv/bin/python': it $lost"
	# the user's choice is taken
	expect 0 env VIRTUAL_ENV="$T/.venv" PYTHON_EXEC="$(command -v python3)" ddprun script.py
	[ "$out" = '[0] ran' ]
}

# staged PREFIX CMD...: the job's workers, plain and forked, run in a copy of this
# environment, which is $copy, with its modules
staged() {
	local prefix=$1 how
	for how in plain forked; do
		rm -rf disk
		mkdir disk
		local options=(--stage auto)
		[ $how = plain ] || options+=(--preload auto)
		expect 0 env TMPDIR="$T/disk" "${@:2}" "${options[@]}" where.py
		copy=$(echo disk/ddprun-stage-*/*/"${prefix##*/}")
		[ "$out" = "[0] $T/$copy True $how" ]
		lacks "$err" 'without a fork'
	done
	expect 0 env TMPDIR="$T/disk" "${@:2}" --stage auto --no-python "$prefix/bin/tool"
	[ "$out" = "[0] $T/$copy" ]
}

where_script() {
	cat >where.py <<-'END'
		import sys
		how = "forked" if "counted" in sys.modules else "plain"
		import counted
		print(sys.prefix, counted.__file__.startswith(sys.prefix + "/"), how)
	END
}

@test "a virtual environment of uv runs from its copy" {
	local uv copy
	uv_environment .venv
	where_script
	staged "$T/.venv" env VIRTUAL_ENV="$T/.venv" PATH="$T/.venv/bin:$PATH" ddprun
	# not active; another one is
	mkdir -p base/conda-meta
	staged "$T/.venv" env CONDA_PREFIX="$T/base" PYTHON_EXEC="$T/.venv/bin/python" ddprun
	[ -z "$uv" ] || staged "$T/.venv" "$uv" run --no-project ddprun
}

@test "an environment of conda runs from its copy, its standard library included" {
	local copy
	conda_environment conda
	where_script
	# nothing of the original is loaded
	cat >>where.py <<-'END'
		import os
		with open("/proc/self/maps") as f:
		    files = f.read() + "".join(getattr(m, "__file__", None) or ""
		                               for m in list(sys.modules.values()))
		assert os.environ["DDP_STAGE"] + "/lib/python" in files
		assert os.environ["THE_ORIGINAL"] + "/" not in files
	END
	export THE_ORIGINAL=$T/conda
	staged "$T/conda" env CONDA_PREFIX="$T/conda" PATH="$T/conda/bin:$PATH" ddprun
	staged "$T/conda" env PYTHON_EXEC="$T/conda/bin/python" ddprun
}

# contained CMD...: runs CMD in a container that bubblewrap makes: its own root, read-only
# but for this test's folder, with a /proc and a /dev of its own, and namespaces of PIDs,
# IPC, host names and cgroups. Nothing there gains privileges, and the calls that
# the filter refuses are as in containers of docker and podman: LeakSanitizer, which traces,
# does not work there. $more are further options.
contained() {
	bwrap --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try \
		--cap-drop ALL --die-with-parent --ro-bind / / --proc /proc \
		--ro-bind /proc/sys /proc/sys --dev /dev --tmpfs /tmp --tmpfs /run \
		--bind "$T" "$T" --chdir "$T" "${more[@]}" --seccomp 3 \
		"${leaky[@]}" "$@" 3<"$T/filter"
}

has_containers() {
	command -v bwrap >/dev/null || skip "no bwrap here (package bubblewrap)"
	case $(uname -m) in x86_64 | aarch64) ;; *) skip "not tried on this processor" ;; esac
	python3 "$BATS_TEST_DIRNAME/../programs/tools/container_seccomp.py" >filter
	more=()
	contained true || skip "bwrap cannot make a container here"
	# it is one: nothing can be traced, mounted or written there
	contained python3 - <<-'END'
		import ctypes, errno, os
		libc = ctypes.CDLL(None, use_errno=True)
		def refused(*call):
		    assert libc.syscall(*call) == -1
		    return ctypes.get_errno()
		ptrace = {"x86_64": 101, "aarch64": 117}[os.uname().machine]
		assert refused(ptrace, 0, 0, 0, 0) == errno.EPERM
		for path in "/proc/sys/kernel/ns_last_pid", "/usr/new", "/sys/new":
		    try:
		        open(path, "w")
		    except OSError as error:
		        assert error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
		    else:
		        assert False, path
		with open("/proc/self/status") as f:
		    status = f.read()
		assert "NoNewPrivs:\t1" in status and "CapEff:\t0000000000000000" in status
		assert "Seccomp:\t2" in status
	END
}

# same_state: a forked worker has the state of a plainly started one in a container
same_state() {
	local options=(--standalone --nproc-per-node 2)
	expect 0 contained env PYTHONPATH="$T/site" ddprun "${options[@]}" state.py
	sort <<<"$out" >plain
	rm -f imports
	expect 0 contained env PYTHONPATH="$T/site" ddprun "${options[@]}" \
		--preload counted,json state.py
	sort <<<"$out" >forked
	lacks "$err" 'without a fork'
	[ "$(wc -l <imports)" = 1 ]
	diff plain forked
}

@test "workers are forked in a container with a read-only root and a seccomp filter" {
	has_containers
	cp "$BATS_TEST_DIRNAME/../programs/workers/python_state.py" state.py
	same_state
	# by an unprivileged user, as rootless podman and Apptainer do
	more=(--unshare-user --uid 1000 --gid 1000)
	if contained true; then
		same_state
	fi
}

@test "forked workers are restarted in a container, and their crashes are explained" {
	has_containers
	cat >crash.py <<-'END'
		import ctypes, os, sys
		assert "counted" in sys.modules
		import counted
		if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
		    ctypes.string_at(0)
		print("ran", counted.value)
	END
	expect 0 contained env PYTHONPATH="$T/site" ddprun --standalone --nproc-per-node 2 \
		--max-restarts 1 --preload counted crash.py
	[ "$(grep -c 'ran 1' <<<"$out")" = 2 ]
	[ "$(wc -l <imports)" = 1 ]
	has "$err" 'SIGSEGV.*: null pointer .*\(crash\.py:5\)'
	lacks "$err" 'without a fork'
}
