# Homebrew's formula of ddprun, for Linux: brew install --HEAD ./packaging/ddprun.rb
class Ddprun < Formula
  desc "Launcher for distributed data-parallel jobs, with a worker SDK in C"
  homepage "https://github.com/ddprun/ddprun"
  license "Apache-2.0"
  head "https://github.com/ddprun/ddprun.git", branch: "main"

  depends_on "pkgconf" => :build
  depends_on "cjson"
  depends_on "curl"
  depends_on "hwloc"
  depends_on "jpeg-turbo"
  depends_on "libmicrohttpd"
  depends_on "libpng"
  depends_on "libsodium"
  depends_on "libuv"
  depends_on :linux
  depends_on "munge"
  depends_on "onednn"
  depends_on "xz"
  depends_on "zlib"

  def install
    system "make", "install", "DEPS=0", "CUDA=/none", "PREFIX=#{prefix}"
  end

  test do
    assert_equal "[0] 2\n[1] 2\n",
      shell_output("#{bin}/ddprun --nproc-per-node 2 printenv WORLD_SIZE").lines.sort.join
  end
end
