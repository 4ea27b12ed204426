"""The command line: each command parses, makes one library call and prints."""

import os

# on a GPU, random bits by a kernel that is there already: the same bits, and seconds less to compile
os.environ.setdefault("JAX_THREEFRY_GPU_KERNEL_LOWERING", "1")
