"""Images a second of PyTorch's ResNet-50 as its users train it fastest: bf16
autocast, channels_last, synthetic images that lie on the GPU.
usage: resnet_torch.py eager|compiled|max-autotune [BATCH [SIDE]]; medians of 7
times 10 steps. compiled is torch.compile's default; max-autotune may take many
minutes to compile. Prints one line; exits with 77 where there is no PyTorch
with a GPU."""
import sys
import time

try:
    import torch
    from torchvision.models import resnet50
except ImportError as e:
    print(f"left out: {e}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("left out: this PyTorch sees no GPU")
    sys.exit(77)

how = sys.argv[1]
batch = int(sys.argv[2]) if len(sys.argv) > 2 else 256
side = int(sys.argv[3]) if len(sys.argv) > 3 else 224
torch.backends.cudnn.benchmark = True
model = resnet50(num_classes=250).cuda().to(memory_format=torch.channels_last)
images = torch.randn(batch, 3, side, side, device="cuda")
images = images.to(memory_format=torch.channels_last)
labels = torch.randint(0, 250, (batch,), device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9,
                            weight_decay=1e-5, fused=True)
loss_of = torch.nn.CrossEntropyLoss()
modes = {"eager": None, "compiled": "default", "max-autotune": "max-autotune"}
forward = torch.compile(model, mode=modes[how]) if modes[how] else model


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = loss_of(forward(images), labels)
    loss.backward()
    optimizer.step()


for i in range(10):
    step()
seconds = []
for i in range(7):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for k in range(10):
        step()
    torch.cuda.synchronize()
    seconds.append((time.perf_counter() - start) / 10)
middle = sorted(seconds)[3]
print(f"# PyTorch {torch.__version__}, {how}: {middle * 1e3:.2f} ms a step, "
      f"{batch / middle:.0f} images/s")
