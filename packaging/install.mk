# install.mk: what `make install` installs, `make uninstall` removes, and `make dist`,
# `make deb` and `make rpm` pack. Included by the Makefile.
#
# LIBDIR is the folder of the libraries, for systems that use lib64 or
# lib/x86_64-linux-gnu. An installation may be moved: ddp.pc, ddp-config.cmake and the
# module file find it by their own place.
LIBDIR ?= $(PREFIX)/lib
docdir := share/doc/ddprun
dest := $(DESTDIR)$(PREFIX)
libdest := $(DESTDIR)$(LIBDIR)
# Programs with names as common as `resnet` do not belong in everybody's PATH.
trainers_dir := $(dest)/libexec/ddprun
# From the folder of ddp.pc to PREFIX, and from PREFIX to the libraries.
up_from = $(shell realpath -ms --relative-to=$(1) $(PREFIX))
lib_below := $(shell realpath -ms --relative-to=$(PREFIX) $(LIBDIR))
# The licences of the libraries that are linked into our programs.
linked := libuv1-dev libsodium-dev
notices := $(foreach p,$(linked),$(wildcard /usr/share/doc/$p/copyright))

# Not every root has it in PATH.
ldconfig = PATH="$$PATH:/usr/sbin:/sbin" ldconfig

install: all
	install -d $(dest)/bin $(libdest)/pkgconfig $(libdest)/cmake/ddp $(dest)/include \
		$(dest)/share/man/man1 $(dest)/share/man/man3 $(dest)/$(docdir)/examples \
		$(dest)/$(docdir)/docs $(dest)/$(docdir)/third-party $(dest)/share/bash-completion/completions \
		$(dest)/share/zsh/site-functions $(dest)/share/fish/vendor_completions.d \
		$(dest)/share/ddprun/slurm $(dest)/lib/systemd/system $(trainers_dir)
	for f in systemd/*; do \
		sed 's|/usr/local/|$(PREFIX)/|' $$f >$(dest)/lib/systemd/system/$${f#*/} || exit 1; \
		chmod 644 $(dest)/lib/systemd/system/$${f#*/}; done
	install $(programs) trainers/ddp-plot $(dest)/bin
	install $(if $(has_dnnl),$(trainers)) $(packer) $(cuda_ops) trainers/get-data $(trainers_dir)
	install -m 644 $(O)/libddp.a $(libdest)
	install -m 644 $(O)/libddp.so $(libdest)/libddp.so.$(VERSION)
	ln -sf libddp.so.$(VERSION) $(libdest)/libddp.so.0
	ln -sf libddp.so.0 $(libdest)/libddp.so
	install -m 644 worker-sdk/ddp.h $(dest)/include
	$(call ddp_pc,$${pcfiledir}/$(call up_from,$(LIBDIR)/pkgconfig),$${prefix}/$(lib_below),$${prefix}/include,) > $(libdest)/pkgconfig/ddp.pc
	sed 's|@UP@|$(call up_from,$(LIBDIR)/cmake/ddp)|;s|@LIBDIR@|$(lib_below)|' \
		packaging/ddp-config.cmake.in >$(libdest)/cmake/ddp/ddp-config.cmake
	sed 's|@VERSION@|$(VERSION)|' packaging/ddp-config-version.cmake.in \
		>$(libdest)/cmake/ddp/ddp-config-version.cmake
	for f in slurm/*.sbatch slurm/*.txt; do \
		sed 's|/usr/local/|$(PREFIX)/|' $$f >$(dest)/share/ddprun/$$f || exit 1; done
	chmod 755 $(dest)/share/ddprun/slurm/*.sbatch
	sed 's|@LIBDIR@|$(lib_below)|;s|@VERSION@|$(VERSION)|' \
		packaging/modulefile.in >$(dest)/share/ddprun/modulefile
	install -m 644 docs/man/*.1 $(dest)/share/man/man1
	install -m 644 docs/man/*.3 $(dest)/share/man/man3
	cp -P $(O)/man/*.3 $(dest)/share/man/man3
	install -m 644 README.md CHANGELOG.md LICENSE $(dest)/$(docdir)
	install -m 644 docs/*.md docs/*.txt $(dest)/$(docdir)/docs
	install -m 644 worker-sdk/examples/*.c $(dest)/$(docdir)/examples
	for f in $(notices); do \
		d=$${f%/copyright}; install -m 644 $$f $(dest)/$(docdir)/third-party/$${d##*/}.txt || exit 1; done
	install -m 644 $(O)/completion/ddprun.bash $(dest)/share/bash-completion/completions/ddprun
	install -m 644 $(O)/completion/_ddprun $(dest)/share/zsh/site-functions
	install -m 644 $(O)/completion/ddprun.fish $(dest)/share/fish/vendor_completions.d
	@# programs that are linked with libddp.so must find it when they start
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then $(ldconfig); fi; \
	if ! $(ldconfig) -N -v 2>/dev/null | grep -qx '$(LIBDIR):.*'; then \
		echo "make: programs that are linked with libddp.so need its folder when they start:"; \
		echo "make:   link them with -Wl,-rpath,$(LIBDIR), or set LD_LIBRARY_PATH=$(LIBDIR)"; fi

# Removes the files that an installation of this tree with the same PREFIX and LIBDIR
# has, and the folders of ours that are then empty.
uninstall:
	@t=$$(mktemp -d) && trap 'rm -rf "$$t"' EXIT && \
	$(MAKE) --no-print-directory -s install DESTDIR="$$t" PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) >/dev/null && \
	(cd "$$t" && find . ! -type d) | while read -r f; do rm -f "$(DESTDIR)/$$f"; done && \
	for d in $(trainers_dir) $(addprefix $(dest)/$(docdir)/,examples docs third-party) $(dest)/$(docdir) \
		$(dest)/share/ddprun/slurm $(dest)/share/ddprun $(libdest)/cmake/ddp; do \
		rmdir "$$d" 2>/dev/null || true; done; \
	if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then $(ldconfig); fi

# The tree of the last commit: the same bytes each time.
dist:
	@mkdir -p $(O)
	git archive --prefix=ddprun-$(VERSION)/ HEAD | gzip -9n >$(O)/ddprun-$(VERSION).tar.gz
	@echo "$(O)/ddprun-$(VERSION).tar.gz"

# Packages are built in a copy of this tree, in $(O)/NAME/ddprun-VERSION, with the
# objects of this one. Operations on GPUs are left out: they need CUDA's own packages.
pack_dir = $(abspath $(O))/$(1)/ddprun-$(VERSION)
copy_tree = rm -rf $(O)/$(1) && mkdir -p $(call pack_dir,$(1)) && \
	tar -c --exclude='./build*' --exclude=./.git . | tar -x -C $(call pack_dir,$(1))
pack_make = PACK_O=$(abspath $(O))

deb: all
	@command -v dh >/dev/null || { echo "make deb: debhelper is missing: apt-get install debhelper"; exit 1; }
	$(call copy_tree,deb)
	sed -i '1s/([^)]*)/($(VERSION))/' $(call pack_dir,deb)/debian/changelog
	cd $(call pack_dir,deb) && env -u MAKEFLAGS -u MAKELEVEL DEB_BUILD_OPTIONS=noautodbgsym \
		$(pack_make) dpkg-buildpackage -b -us -uc -nc -d
	@ls $(O)/deb/*.deb

rpm: all
	@command -v rpmbuild >/dev/null || { echo "make rpm: rpmbuild is missing: install the package rpm or rpm-build"; exit 1; }
	$(call copy_tree,rpm)
	env -u MAKEFLAGS -u MAKELEVEL $(pack_make) rpmbuild -bb --nodeps --build-in-place -D 'version_ $(VERSION)' \
		-D '_topdir $(abspath $(O))/rpm' -D '_builddir $(call pack_dir,rpm)' $(call pack_dir,rpm)/packaging/ddprun.spec
	@find $(O)/rpm/RPMS -name '*.rpm'
