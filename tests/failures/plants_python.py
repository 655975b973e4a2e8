"""plants_python.py: failures of programs in Python, with and without PyTorch."""

from program import plant

plant("py-memoryerror", "py", r"MemoryError", "big = bytearray(1 << 55)")
plant("py-recursion", "py", r"RecursionError: maximum recursion depth",
      "fault()")
plant("py-exit0", "py", r"left early with code 0|exited with code 0", "sys.exit(0)")
plant("py-exit0-thread", "py", r"left early with code 0|exited with code 0",
      """\
      threading.Timer(0.5, os._exit, [0]).start()
      time.sleep(0.4)
      """, top="import threading")
plant("py-ulimit-v", "py", r"MemoryError|Cannot allocate memory", """\
      resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
      keep = [bytearray(1 << 26) for i in range(100)]
      """, top="import resource")
plant("py-sysexit-text", "py", r"lr must be positive",
      'sys.exit("config: lr must be positive, not -0.1")')
plant("py-argparse", "py", r"error: unrecognized arguments: --lrr", """\
      p = argparse.ArgumentParser()
      p.add_argument("--lr")
      p.parse_args(["--lrr", "3"])
      """, top="import argparse")
plant("py-interrupt", "py", r"KeyboardInterrupt|SIGINT", """\
      subprocess.run(["kill", "-INT", str(os.getpid())])
      time.sleep(60)
      """, top="import subprocess")
plant("py-segv", "py", r"SIGSEGV.*null pointer.*train\.py:\d+", "ctypes.string_at(0)",
      top="import ctypes")
plant("py-emfile", "py", r"Too many open files", """\
      resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
      keep = [open("/dev/null") for i in range(100)]
      """, top="import resource")
plant("py-too-large", "py", r"File too large", """\
      resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
      with open("checkpoint", "wb") as f:
          f.write(bytes(100000))
      """, top="import resource")
plant("py-dns", "py", r"gaierror.*(Name or service not known|failure in name)",
      'socket.create_connection(("storage.cluster.invalid", 80))',
      top="import socket")
plant("py-port-taken", "py", r"Address already in use", """\
      a = socket.create_server(("", 0))
      b = socket.create_server(a.getsockname())
      """, top="import socket")
plant("py-notes", "py", r"RESOURCE_EXHAUSTED: Out of memory", """\
      e = XlaRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4194304000000 bytes.")
      e.add_note("--------------------")
      e.add_note("For simplicity, JAX has removed its internal frames from the traceback of the following exception. Set JAX_TRACEBACK_FILTERING=off to include these.")
      raise e
      """, top="class XlaRuntimeError(RuntimeError):\n    pass\n")
plant("py-group", "py", r"ValueError: bad shard 7", """\
      async def load():
          raise ValueError("bad shard 7")
      async def all():
          async with asyncio.TaskGroup() as g:
              g.create_task(load())
      asyncio.run(all())
      """, top="import asyncio")
plant("py-thread-exception", "py", r"ValueError: cannot decode image 17", """\
      def load(q):
          raise ValueError("cannot decode image 17")
      q = queue.Queue()
      threading.Thread(target=load, args=(q,)).start()
      q.get()
      """, top="import queue\nimport threading")
plant("py-child-exits", "py", r"rank 3.*(exited with code 7|sleeps)", """\
      q = multiprocessing.get_context("fork").Queue()
      p = multiprocessing.get_context("fork").Process(target=os._exit, args=(7,))
      p.start()
      q.get()
      """, top="import multiprocessing")
plant("py-child-keeps-pipe", "py", r"ValueError: bad step", """\
      subprocess.Popen(["sleep", "1000"])
      raise ValueError("bad step")
      """, top="import subprocess")
plant("py-loop", "py", r"rank 3.*computes", "while True:\n    pass")
plant("py-stop", "py", r"rank 3.*SIGSTOP", "os.kill(os.getpid(), signal.SIGSTOP)",
      top="import signal")
plant("py-flock", "py", r"rank 3.*(flock|lock)", """\
      a, b = open("lock", "w"), open("lock", "w")
      fcntl.flock(a, fcntl.LOCK_EX)
      fcntl.flock(b, fcntl.LOCK_EX)
      """, top="import fcntl")
plant("py-http-hangs", "py", r"rank 3.*(recv|read|accept|poll|socket)", """\
      l = socket.create_server(("127.0.0.1", 0))
      c = socket.create_connection(l.getsockname())
      c.recv(100)
      """, top="import socket")
plant("py-waits-for-child", "py", r"rank 3.*(wait|child|process)",
      'subprocess.run(["sleep", "1000"])', top="import subprocess")
plant("py-recv-never-sent", "py", r"rank 3.*recv", """\
      world.recv(data, 0)
      """)
plant("py-late-init", "py", r"rank 3.*(sleeps|ddp_init)",
      files={"train.py": """\
import os, time
import ddprun
if os.environ["RANK"] == "3":
    open(os.environ["PLANTED"], "w").close()
    time.sleep(1000)
ddprun.init()
"""})
plant("py-gil", "py", r"rank 3.*sleeps",
      "ctypes.PyDLL(None).sleep(1000)", top="import ctypes")
plant("py-syntax", "py", r"SyntaxError: .*train\.py:3", rank="[23]",
      files={"h2/train.py": "import os\n\nfor x in range(3)\n    print(x)\n"})
plant("py-circular", "py", r"ImportError: cannot import name 'b' from", """\
      import mine
      """, files={"mine.py": "from other import b\n",
                  "other.py": "from mine import b\n"})
plant("py-no-module", "py", r"ModuleNotFoundError: No module named 'mine'",
      rank="[23]", files={"h1/mine.py": "", "train.py": "import time\nimport mine\n"
                          "time.sleep(1000)\n"})
plant("py-no-library", "py", r"libmine\.so\.1: cannot open shared object file",
      'ctypes.CDLL("libmine.so.1")', top="import ctypes")
plant("py-unicode", "py", r"UnicodeDecodeError: 'ascii' codec", """\
      with open("labels.txt", "wb") as f:
          f.write("Käse".encode())
      open("labels.txt", encoding="ascii").read()
      """)
plant("py-cwd-gone", "py", r"FileNotFoundError", """\
      os.mkdir("gone")
      os.chdir("gone")
      os.rmdir("../gone")
      os.getcwd()
      """)
plant("py-permission", "py", r"Permission denied|Read-only file system", """\
      os.seteuid(65534)
      open("/etc/shadow")
      """)
plant("py-chained", "py", r"RuntimeError: checkpoint 7 is damaged", """\
      try:
          {}["model"]
      except KeyError as e:
          raise RuntimeError("checkpoint 7 is damaged\\nrun fsck on it") from e
      """)
plant("py-pool-dies", "py", r"BrokenProcessPool|was killed by signal 9", """\
      with concurrent.futures.ProcessPoolExecutor(1) as pool:
          pool.submit(os.kill, os.getpid() * 0 or 0, 0).exception()
          pool.submit(die).result()
      """, top="import concurrent.futures\nimport signal\n\n\ndef die():\n"
      "    os.kill(os.getpid(), signal.SIGKILL)\n")
plant("py-count-differs", "py", r"another call|all ranks must",
      "world.all_reduce(array.array('f', [1.0] * 7))")
plant("py-logging-after", "py", r"ZeroDivisionError: division by zero", """\
      atexit.register(lambda: print("wandb: Run history: loss 0.3", file=sys.stderr))
      atexit.register(lambda: print("wandb: Find logs at: ./wandb/run-1", file=sys.stderr))
      1 / 0
      """, top="import atexit")
plant("py-warning-after", "py", r"KeyError: 'lr'", """\
      atexit.register(lambda: print("/usr/lib/python3.11/multiprocessing/resource_tracker.py:224: UserWarning: resource_tracker: There appear to be 1 leaked semaphore objects to clean up at shutdown\\n  warnings.warn('resource_tracker: There appear to be %d '", file=sys.stderr))
      {}["lr"]
      """, top="import atexit")

# ---- PyTorch ----

plant("torch-exit0", "torch", r"exited with code 0", "os._exit(0)")
plant("torch-timeout", "torch", r"rank 1.*(hangs|sleeps)", "time.sleep(1000)",
      env={"TIMEOUT": "8"})
plant("torch-loop", "torch", r"rank 1.*(hangs|computes)", "while True:\n    pass",
      env={"TIMEOUT": "8"})
plant("torch-silent", "torch", r"rank 1.*sleeps", "time.sleep(1000)")
plant("torch-shapes", "torch", r"RuntimeError: .*mat1 and mat2 shapes cannot be "
      r"multiplied.*train\.py:\d+", "torch.ones(3, 4) @ torch.ones(5, 6)")
plant("torch-damaged", "torch", r"PytorchStreamReader failed|invalid load key|"
      "UnpicklingError", """\
      with open("m.pt", "wb") as f:
          f.write(b"damaged" * 100)
      torch.load("m.pt")
      """)
plant("torch-no-gpu", "torch", r"NVIDIA driver|CUDA", 'torch.zeros(1).cuda()')
LOADER = """\
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, i):
        if i == 17:
            {how}
        return i
"""
plant("torch-loader-killed", "torch", r"DataLoader worker \(pid \d+\) is killed|"
      "killed by signal 9", "list(torch.utils.data.DataLoader(Data(), num_workers=1))",
      top=LOADER.format(how="os.kill(os.getpid(), 9)"))
plant("torch-loader-raises", "torch", r"KeyError: 'label'|KeyError: Caught KeyError",
      "list(torch.utils.data.DataLoader(Data(), num_workers=1))",
      top=LOADER.format(how="{}['label']"))
plant("torch-loader-segv", "torch", r"SIGSEGV|Segmentation fault",
      "list(torch.utils.data.DataLoader(Data(), num_workers=1))",
      top="import ctypes\n" + LOADER.format(how="ctypes.string_at(0)"))
plant("torch-loader-hangs", "torch", r"rank 1.*(sleeps|waits)",
      "list(torch.utils.data.DataLoader(Data(), num_workers=1))",
      top=LOADER.format(how="time.sleep(1000)"))
plant("torch-kill", "torch", r"SIGKILL", "os.kill(os.getpid(), 9)")
plant("torch-other-collective", "torch", r"rank [01]",
      "dist.broadcast(torch.ones(7), 0)", env={"TIMEOUT": "8"}, rank="[01]", host="h")
