# nix-build packaging/default.nix: ddprun, libddp and the trainers, from this tree.
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "ddprun";
  version = builtins.head (builtins.match ".*DDP_VERSION_MAJOR ([0-9]+).*"
    (builtins.readFile ../worker-sdk/ddp.h)) + "." + builtins.head (builtins.match
    ".*DDP_VERSION_MINOR ([0-9]+).*" (builtins.readFile ../worker-sdk/ddp.h)) + "."
    + builtins.head (builtins.match ".*DDP_VERSION_PATCH ([0-9]+).*"
      (builtins.readFile ../worker-sdk/ddp.h));

  src = pkgs.lib.cleanSourceWith {
    src = ../.;
    filter = path: type: !(pkgs.lib.hasPrefix (toString ../build) path);
  };

  nativeBuildInputs = [ pkgs.pkg-config ];
  buildInputs = with pkgs; [
    libuv cjson zlib hwloc elfutils libmicrohttpd libsodium munge curl xz oneDNN
    libpng libjpeg_turbo
  ];

  enableParallelBuilding = true;
  makeFlags = [ "DEPS=0" "CUDA=/none" "PREFIX=$(out)" ];

  # loaded at run time, by names without a folder
  postFixup = ''
    for f in $out/bin/ddp{run,rdzv,run-check} $out/lib/libddp.so $out/libexec/ddprun/*; do
      ! isELF "$f" || patchelf --add-rpath ${pkgs.lib.makeLibraryPath (with pkgs; [
        cjson hwloc elfutils libmicrohttpd munge curl
      ])} "$f"
    done
  '';

  meta = {
    description = "Launcher for distributed data-parallel jobs, with a worker SDK in C";
    homepage = "https://github.com/ddprun/ddprun";
    license = pkgs.lib.licenses.asl20;
    platforms = pkgs.lib.platforms.linux;
    mainProgram = "ddprun";
  };
}
