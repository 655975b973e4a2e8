# covers: packaging deps.sh
load ../lib

# The recipes of other systems' packages. Their tools are not here, or need a network:
# these tests find a recipe that was not changed with the tree. make check-image builds
# and runs the image.

tree=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

header_version() {
	sed -n 's/^#define DDP_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$tree/worker-sdk/ddp.h" |
		paste -sd.
}

# libraries: what the build needs, by names that all recipes have in theirs
libraries() {
	sed -n "s/^build='\(.*\)'/\1/p" "$tree/deps.sh" | tr ' ' '\n' | grep -- -dev |
		grep -v libc6 | sed 's/-dev$//;s/libcurl4-openssl/curl/;s/liblzma/xz/
			s/libdnnl/onednn/;s/libdw/elfutils/;s/libjpeg/jpeg.turbo/
			s/1g*$//;s/^lib//'
}

@test "each recipe has every library that the build needs" {
	local library recipe
	[ "$(libraries | wc -l)" -ge 13 ]
	for library in $(libraries); do
		for recipe in conda/recipe.yaml spack/package.py default.nix ddprun.rb; do
			case $recipe:$library in
			conda/*:munge) continue ;; # conda-forge has none
			*.rb:elfutils) continue ;; # nor has Homebrew
			esac
			grep -qi "[ \"a-z]$library" "$tree/packaging/$recipe" ||
				{ echo "$recipe has no $library"; false; }
		done
	done
}

@test "the recipes' version is that of ddp.h" {
	grep -qx "  version: \"$(header_version)\"" "$tree/packaging/conda/recipe.yaml"
	grep -qx "%{!?version_: %global version_ $(header_version)}" \
		"$tree/packaging/ddprun.spec"
	grep -qx "revision = v$(header_version)" "$tree/packaging/meson/ddp.wrap"
	grep -q "version: '$(header_version)'" \
		"$tree/packaging/meson/packagefiles/ddp/meson.build"
}

@test "Spack's package and conda's recipe can be read" {
	python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' \
		"$tree/packaging/spack/package.py"
	python3 -c 'import yaml' 2>/dev/null || skip "python3 has no yaml"
	python3 - "$tree/packaging/conda/recipe.yaml" <<-'END'
		import sys, yaml
		recipe = yaml.safe_load(open(sys.argv[1]))
		assert recipe["package"]["name"] == "ddprun"
		assert {"package", "source", "build", "requirements", "tests", "about"} <= set(recipe)
	END
}

@test "Homebrew's formula can be read" {
	command -v ruby >/dev/null || skip "ruby is not installed"
	expect 0 ruby -wc "$tree/packaging/ddprun.rb"
}

@test "Nix's expression has the version, and builds from this tree" {
	command -v nix-instantiate >/dev/null || skip "Nix is not installed"
	cat >with.nix <<-END
		import $tree/packaging/default.nix {
		  pkgs = {
		    stdenv.mkDerivation = it: it;
		    lib = {
		      cleanSourceWith = it: it.src;
		      hasPrefix = a: b: false;
		      licenses.asl20 = "Apache-2.0";
		      platforms.linux = [ ];
		    };
		  };
		}
	END
	expect 0 env NIX_STATE_DIR="$T/nix" nix-instantiate --eval -E "(import ./with.nix).version"
	[ "$out" = "\"$(header_version)\"" ]
	expect 0 env NIX_STATE_DIR="$T/nix" nix-instantiate --eval -E "toString (import ./with.nix).src"
	[ "$out" = "\"$tree\"" ]
}

@test "a Meson project takes libddp by the wrap file" {
	local meson=${DDP_TEST_MESON:-meson} objects room
	command -v "$meson" >/dev/null || skip "no Meson here"
	[ -z "${SAN:-}" ] || skip "the linker would need the sanitizers"
	mkdir -p upstream app/subprojects
	git -C "$tree" ls-files -z --cached --others --exclude-standard 2>/dev/null >names ||
		skip "this tree is not a clone"
	tar -C "$tree" --null -T names -c | tar -C upstream -x
	git -C upstream init -q
	git -C upstream add -A
	git -C upstream -c user.name=n -c user.email=e commit -qm all
	git -C upstream tag "v$(header_version)"
	cd app
	cp -r "$tree/packaging/meson/." subprojects
	sed -i "s|^url = .*|url = file://$T/upstream|" subprojects/ddp.wrap
	cp "$tree/worker-sdk/examples/fit_line.c" .
	printf '%s\n' "project('fit', 'c')" \
		"executable('fit', 'fit_line.c', dependencies: dependency('ddp'))" >meson.build
	PKG_CONFIG_PATH= "$meson" setup out >meson.log 2>&1 || { cat meson.log; false; }
	grep -q 'ddp .*from subproject' meson.log
	# what is compiled already: these objects are newer than the clone
	objects=out/subprojects/ddp/obj
	mkdir -p $objects
	for room in base pmi rendezvous slurm worker-sdk; do
		cp -r "$O/obj/$room" $objects
	done
	"$meson" compile -C out >meson.log 2>&1 || { cat meson.log; false; }
	expect 0 ddprun --standalone --nproc-per-node 2 out/fit
	[ "$out" = "[0] y = 2.00x + 1.00" ]
}

@test "the image's files exist, and its build leaves out built ones" {
	local file
	for file in Dockerfile ddprun.def; do
		grep -q 'make.* deb' "$tree/packaging/$file"
		grep -q 'build/deb/\*.deb' "$tree/packaging/$file"
	done
	grep -qx build "$tree/.dockerignore"
	# both load the same libraries
	[ "$(grep -o 'libcjson1 .*' "$tree/packaging/Dockerfile" | tr -d '\\ ')" = \
		"$(grep -o 'libcjson1 .*' "$tree/packaging/ddprun.def" | tr -d '\\ ')" ]
}
