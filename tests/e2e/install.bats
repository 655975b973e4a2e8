# covers: Makefile packaging debian
bats_require_minimum_version 1.5.0
load ../lib

# What `make install` and `make deb` install, and that it works from there.

tree=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

make_it() {
	make -s -C "$tree" DEPS=0 O="$O" SAN="${SAN:-}" "$@" >make.log 2>&1 ||
		{ cat make.log; return 1; }
}

@test "the installed programs run, and a program builds against the installation" {
	command -v pkg-config >/dev/null || skip "no pkg-config here"
	[ -z "${SAN:-}" ] || skip "the linker would need the sanitizers"
	make_it install DESTDIR="$T" PREFIX=/opt/ddp
	local at=$T/opt/ddp
	printf '%s\n' '#include <ddp.h>' '#include <stdio.h>' \
		'int main(void) { ddp_comm *c; if (ddp_init(&c, NULL)) return 1;' \
		'printf("rank %d of %d\n", ddp_rank(c), ddp_world_size(c));' \
		'ddp_finalize(c); return 0; }' >who.c
	export PKG_CONFIG_PATH=$at/lib/pkgconfig
	${CC:-gcc} -o who who.c $(pkg-config --cflags --libs ddp) \
		-Wl,-rpath,"$at/lib"
	expect 0 env -u DDP_SERVER PATH="$at/bin:/usr/bin:/bin" \
		ddprun --standalone --nproc-per-node 2 ./who
	[ "$(sort <<<"$out")" = $'[0] rank 0 of 2\n[1] rank 1 of 2' ]
	[ -s "$at/share/man/man1/ddprun.1" ]
	# what docs/trainers.md says to call
	local p
	for p in mnist_mlp mnist_ae resnet toy_mp; do
		expect 0 "$at/libexec/ddprun/$p" --version
		has "$out" "^$p "
	done
	expect 2 "$at/libexec/ddprun/get-data"
	has "$err" '^usage: .*get-data mnist.cifar10'
	expect 2 "$at/bin/ddp-plot"
	has "$err" '^ddp-plot: error: no run to plot'
	[ -s "$at/share/bash-completion/completions/ddprun" ]
	# batch scripts find the trainers installed with them
	grep -q "^PATH=.PATH:/opt/ddp/libexec/ddprun\$" \
		"$at/share/ddprun/slurm/several_nodes.sbatch"
	# every program and every function has its manual page
	local f
	for f in "$at"/bin/*; do
		f=${f##*/}
		[ -s "$at/share/man/man1/$f.1" ] || { echo "no $f.1"; false; }
	done
	for f in $(nm -D --defined-only "$at/lib/libddp.so" |
		sed -n 's/.* T \(ddp_[a-z_]*\).*/\1/p'); do
		[ -s "$at/share/man/man3/$f.3" ] || { echo "no $f.3"; false; }
	done
}

@test "programs and libraries are hardened" {
	[ -z "${SAN:-}" ] || skip "sanitizers have checks of their own"
	local p
	for p in ddprun ddprdzv libddp.so mnist_mlp resnet; do
		has "$(readelf -d "$O/$p")" BIND_NOW
		has "$(readelf -lW "$O/$p")" GNU_RELRO
		has "$(nm -D "$O/$p")" ' __stack_chk_fail@'
		has "$(nm -D "$O/$p")" ' __[a-z]*_chk@'
		case $p in
		*.so) ;;
		*) has "$(readelf -hW "$O/$p")" 'Type: *DYN' ;;
		esac
	done
}

@test "a program builds against the build tree, and runs" {
	command -v pkg-config >/dev/null || skip "no pkg-config here"
	[ -z "${SAN:-}" ] || skip "the linker would need the sanitizers"
	make_it "$O/ddp.pc"
	${CC:-gcc} -o fit_line "$tree/worker-sdk/examples/fit_line.c" \
		$(pkg-config --cflags --libs "$O/ddp.pc")
	expect 0 ddprun --standalone --nproc-per-node 2 ./fit_line
	[ "$out" = "[0] y = 2.00x + 1.00" ]
}

@test "an installation may be moved, and CMake finds it" {
	command -v cmake >/dev/null || skip "no cmake here"
	[ -z "${SAN:-}" ] || skip "the linker would need the sanitizers"
	local lib
	lib=lib/$(${CC:-gcc} -print-multiarch)
	make_it install DESTDIR="$T/stage" PREFIX=/opt/ddp "LIBDIR=/opt/ddp/$lib"
	mv stage/opt/ddp moved
	export PKG_CONFIG_PATH=$T/moved/$lib/pkgconfig
	[ "$(realpath "$(pkg-config --variable=libdir ddp)")" = "$(realpath "moved/$lib")" ]
	cp "$tree/worker-sdk/examples/fit_line.c" .
	printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(fit C)' \
		'find_package(ddp 0.2 REQUIRED)' 'add_executable(fit fit_line.c)' \
		'target_link_libraries(fit ddp::ddp)' >CMakeLists.txt
	cmake -B out -DCMAKE_PREFIX_PATH="$T/moved" >cmake.log 2>&1 || { cat cmake.log; false; }
	cmake --build out >cmake.log 2>&1 || { cat cmake.log; false; }
	expect 0 ddprun --standalone --nproc-per-node 2 out/fit
	[ "$out" = "[0] y = 2.00x + 1.00" ]
	# another minor version below 1.0 is not compatible
	sed -i 's/ddp 0.2/ddp 0.1/' CMakeLists.txt
	run -1 cmake -B out2 -DCMAKE_PREFIX_PATH="$T/moved"
}

@test "the module file finds the installation, also by a link and after a move" {
	local init=/usr/share/lmod/lmod/init/bash
	[ -r "$init" ] || skip "Lmod is not installed"
	[ -z "${SAN:-}" ] || skip "the linker would need the sanitizers"
	make_it install DESTDIR="$T/stage" PREFIX=/opt/ddp LIBDIR=/opt/ddp/lib64
	mv stage/opt/ddp moved
	mkdir -p modules/ddprun
	ln -s "$T/moved/share/ddprun/modulefile" modules/ddprun/1
	cat >loaded <<-END
		. $init
		module use $T/modules
		module load ddprun
		command -v ddprun
		pkg-config --libs-only-L ddp
		echo "\$LD_LIBRARY_PATH \$CPATH"
		module unload ddprun
		command -v ddprun || echo unloaded
	END
	expect 0 env -i HOME="$T" PATH=/usr/bin:/bin bash loaded
	[ "$(realpath "$(sed -n '1p' <<<"$out")")" = "$(realpath moved/bin/ddprun)" ]
	[ "$(realpath "$(sed -n '2s/^-L\(.*[^ ]\) *$/\1/p' <<<"$out")")" = "$(realpath moved/lib64)" ]
	[ "$(sed -n '3,$p' <<<"$out")" = "$T/moved/lib64 $T/moved/include"$'\n'unloaded ]
}

@test "uninstall removes what install created, and nothing else" {
	[ -z "${SAN:-}" ] || skip "nobody installs what is sanitized"
	mkdir -p root/usr/local/bin root/usr/local/share/man/man1
	echo mine >root/usr/local/bin/mine
	echo mine >root/usr/local/share/man/man1/mine.1
	make_it install DESTDIR="$T/root"
	[ -x root/usr/local/bin/ddprun ]
	[ -s root/usr/local/share/doc/ddprun/docs/security.md ]
	make_it uninstall DESTDIR="$T/root"
	[ "$(cd root && find . ! -type d | sort)" = \
		$'./usr/local/bin/mine\n./usr/local/share/man/man1/mine.1' ]
	[ -z "$(find root -name 'ddp*')" ]
}

@test "dist packs the same bytes each time" {
	git -C "$tree" rev-parse HEAD >/dev/null 2>&1 || skip "not a git repository"
	local file sum
	make_it dist
	file=$(echo "$O"/ddprun-*.tar.gz)
	sum=$(sha256sum <"$file")
	make_it dist
	[ "$(sha256sum <"$file")" = "$sum" ]
	tar -tzf "$file" >contents
	grep -q '^ddprun-[0-9.]*/worker-sdk/ddp.h$' contents
}

# The packages of `make deb`: what each has, what it depends on, and that it runs.
@test "the Debian packages are complete and run" {
	command -v dh >/dev/null || skip "no debhelper here"
	[ -z "${SAN:-}" ] || skip "nobody packs what is sanitized"
	local p file lib
	# xz takes seconds for what is removed again
	export DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1
	make_it deb
	lib=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
	for p in ddprun libddp0 libddp-dev ddp-trainers; do
		file=$(echo "$O/deb/${p}_"*.deb)
		dpkg-deb --extract "$file" root
		dpkg-deb --extract "$file" "only.$p"
		[ -s "only.$p/usr/share/doc/$p/copyright" ]
		dpkg-deb --field "$file" Depends >"$p.depends"
	done
	for p in bin/ddprun bin/ddprdzv bin/ddprun-check share/man/man1/ddprun.1.gz \
		share/ddprun/slurm/one_node.sbatch share/doc/ddprun/docs/slurm.md \
		share/doc/ddprun/third-party/libuv1-dev.txt; do
		[ -s "only.ddprun/usr/$p" ] || { echo "no $p"; false; }
	done
	[ -s only.ddprun/lib/systemd/system/ddprdzv.service ]
	[ -s "$(echo only.libddp0/"$lib"/libddp.so.0.*)" ]
	[ -s "only.libddp-dev/$lib/pkgconfig/ddp.pc" ]
	[ -s only.libddp-dev/usr/share/man/man3/ddp.3.gz ]
	for p in libexec/ddprun/get-data bin/ddp-plot share/man/man1/ddp-plot.1.gz; do
		[ -s "only.ddp-trainers/usr/$p" ] || { echo "no $p"; false; }
	done
	# each names the libc that its programs need
	grep -q 'libc6 (>= ' ddprun.depends
	grep -q 'libc6 (>= ' libddp0.depends
	grep -q '^libddp0 (= ' libddp-dev.depends
	[ "$(root/usr/bin/ddprun --nproc-per-node 1 echo hi)" = '[0] hi' ]
	! command -v lintian >/dev/null || lintian --fail-on error \
		"$O"/deb/*.changes >lintian.log 2>&1 || { cat lintian.log; false; }
}

@test "the RPM packages are complete and run" {
	[ -n "${DDP_TEST_LONG:-}" ] || skip "set DDP_TEST_LONG to build them"
	command -v rpmbuild >/dev/null || skip "no rpmbuild here"
	command -v rpm2cpio >/dev/null || skip "no rpm2cpio here"
	command -v cpio >/dev/null || skip "no cpio here"
	[ -z "${SAN:-}" ] || skip "nobody packs what is sanitized"
	local p file
	make_it rpm
	for p in ddprun libddp libddp-devel ddp-trainers; do
		file=$(find "$O/rpm/RPMS" -name "$p-[0-9]*.rpm")
		[ -s "$file" ]
		mkdir -p root
		(cd root && rpm2cpio "$file" | cpio -idm 2>/dev/null)
	done
	[ -s root/usr/include/ddp.h ]
	[ "$(root/usr/bin/ddprun --nproc-per-node 1 echo hi)" = '[0] hi' ]
}
