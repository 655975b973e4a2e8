"""Images per second of CPU time of torchvision's loader, as its users write it.
usage: jpeg_torch.py FOLDER pil|tensor[-train]
pil decodes and scales with Pillow, ImageFolder's default; tensor with torchvision's own
decoder and vectorized scaling. With -train it crops and flips at random, else it cuts out
the middle. The second of two passes counts."""
import resource
import sys

import torch
from torch.utils.data import DataLoader
from torchvision import datasets, io, transforms
from torchvision.transforms import v2

folder, how = sys.argv[1:3]
torch.set_num_threads(1)


def read(path):
    return io.decode_jpeg(io.read_file(path), mode=io.ImageReadMode.RGB)


t = transforms if how.startswith('pil') else v2
steps = ([t.RandomResizedCrop(224, antialias=True), t.RandomHorizontalFlip()]
         if how.endswith('train') else
         [t.Resize(224, antialias=True), t.CenterCrop(224)])
if how.startswith('pil'):
    images = datasets.ImageFolder(folder, t.Compose(steps + [t.PILToTensor()]))
else:
    images = datasets.ImageFolder(folder, t.Compose(steps), loader=read)


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


for _ in range(2):
    count, start = 0, cpu()
    for batch, labels in DataLoader(images, batch_size=50):
        count += len(labels)
    seconds = cpu() - start
print(f'{count / seconds:.1f}')
