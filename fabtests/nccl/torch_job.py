#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Programs as PyTorch's users write them, over MPI or NCCL. Each result is compared with what one process computes.

  mpirun-p2p -n 2 python3 torch_job.py mpi     GPU tensors in MPI's calls, while others capture CUDA graphs
  python3 torch_job.py nccl --ranks 2          torch.distributed; the environment says by which plugin
  mpirun-p2p -n 2 python3 torch_job.py late    a rank computes for --seconds before its first message
  mpirun-p2p -n 2 python3 torch_job.py stop    each rank in turn is stopped for --seconds amid messages

The allocator is chosen as PyTorch has it: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or
backend:cudaMallocAsync. Each rank has a GPU of its own. A line for each part ends in "right" or in the number of
wrong elements; the exit status is 1 if there are any.
"""
import argparse
import os
import subprocess
import sys
import threading
import time
import traceback

import torch

SIZES = [1, 8, 1000, 4097, 65536, 65537, 300001, 1 << 20, 5 << 20]
SCALE = float(1 << 20)
wrong_total = 0


def report(rank, part, wrong):
    global wrong_total
    wrong_total += wrong
    print(f'rank {rank}: {part}: {wrong or "right"}{" wrong elements" if wrong else ""}', flush=True)


def pattern(count, sender, turn):
    index = torch.arange(count, dtype=torch.int64, device='cuda')
    return (index * 131 + (index >> 8) * 7 + sender * 29 + turn * 17 + 1).to(torch.uint8)


class Mail:
    """A message each way for each length and turn. All tensors are there before the first one is sent."""

    def __init__(self, rank, peer_of, sizes, turns, first=0):
        self.letters = []
        for number, size in enumerate(list(sizes) * turns):
            peer = peer_of(number)
            if peer == rank:
                continue
            turn = first + number
            into = torch.full((size,), 255, dtype=torch.uint8, device='cuda')
            self.letters.append((peer, turn, pattern(size, rank, turn), into))
        torch.cuda.current_stream().synchronize()

    def send(self, comm):
        for peer, turn, out, into in self.letters:
            comm.Sendrecv(out, peer, turn, into, peer, turn)

    def rewrite_and_send(self, comm, rank):
        """Each is written from pageable memory, and sent at once"""
        for peer, turn, out, into in self.letters:
            source = pattern(out.numel(), rank, turn).cpu()
            out.zero_()
            torch.cuda.current_stream().synchronize()
            out.copy_(source)
            comm.Sendrecv(out, peer, turn, into, peer, turn)

    def wrong(self):
        return sum(int((into != pattern(into.numel(), peer, turn)).sum()) for peer, turn, _, into in self.letters)


def capture(turn):
    """Captures a graph in PyTorch's default mode, global, and replays it. Returns the wrong elements."""
    graph, x = torch.cuda.CUDAGraph(), torch.full((4096,), float(turn), device='cuda', dtype=torch.float64)
    with torch.cuda.graph(graph):
        y = x * 3
        for _ in range(20):
            y = y + x
    x.fill_(turn + 1.0)
    graph.replay()
    torch.cuda.current_stream().synchronize()
    return int((y != 23 * (turn + 1.0)).sum())


def beside_captures(part, rank, device, send):
    """@send runs in a thread of its own, which calls nothing but MPI, while this one captures graphs."""
    errors = []

    def messages():
        try:
            torch.cuda.set_device(device)
            send()
        except Exception:
            errors.append(traceback.format_exc())

    thread = threading.Thread(target=messages)
    thread.start()
    captured = wrong = 0
    try:
        while thread.is_alive() or captured < 3:
            wrong += capture(captured)
            captured += 1
    except Exception:
        errors.append(traceback.format_exc())
    thread.join()
    for error in errors:
        print(error, flush=True)
    report(rank, f'{part}: {captured} graphs captured meanwhile', wrong + len(errors))


class Model:
    """A net of three layers. Gradients are summed as integers, so that their order is no matter."""

    def __init__(self, width=512):
        generator = torch.Generator().manual_seed(7)
        shapes = [(64, width), (width, width), (width, 16)]
        self.weights = [(torch.randn(shape, generator=generator, dtype=torch.float64) / 8).cuda().requires_grad_()
                        for shape in shapes]

    def gradients(self, step, shard):
        generator = torch.Generator().manual_seed(1000 * step + shard)
        x = torch.randn((32, 64), generator=generator, dtype=torch.float64).cuda()
        due = torch.randn((32, 16), generator=generator, dtype=torch.float64).cuda()
        for weight in self.weights[:-1]:
            x = torch.tanh(x @ weight)
        loss = ((x @ self.weights[-1] - due) ** 2).mean()
        return [(g * SCALE).round().to(torch.int64) for g in torch.autograd.grad(loss, self.weights)]

    def apply(self, sums, count):
        with torch.no_grad():
            for weight, total in zip(self.weights, sums):
                weight -= 0.05 * (total.to(torch.float64) / SCALE / count)


def train(rank, size, steps, sum_up):
    """The same steps twice: shards summed by @sum_up, and all of them in this process."""
    ours, alone = Model(), Model()
    for step in range(steps):
        ours.apply(sum_up(ours.gradients(step, rank)), size)
    torch.cuda.synchronize()
    for step in range(steps):
        shards = [alone.gradients(step, shard) for shard in range(size)]
        alone.apply([sum(parts[1:], parts[0]) for parts in zip(*shards)], size)
    return sum(int((a != b).sum()) for a, b in zip(ours.weights, alone.weights))


def run_mpi(options):
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    device = rank % torch.cuda.device_count()
    torch.cuda.set_device(device)

    def peer_of(number):
        # Both ends of a pair have to agree
        return rank ^ (1 + number % (size - 1)) if size & (size - 1) == 0 else (number - rank) % size

    def sum_by_ring(gradients):
        sums = []
        for mine in gradients:
            total, passed = mine.clone(), mine
            for _ in range(size - 1):
                into = torch.empty_like(mine)
                torch.cuda.current_stream().synchronize()
                comm.Sendrecv(passed, (rank + 1) % size, 1, into, (rank - 1) % size, 1)
                total += into
                passed = into
            sums.append(total)
        return sums

    for part, turns in (('first messages', 1), ('messages', options.turns)):
        mail = Mail(rank, peer_of, SIZES, turns)
        comm.Barrier()
        beside_captures(part, rank, device, lambda: mail.send(comm))
        report(rank, part, mail.wrong())
    mail = Mail(rank, peer_of, SIZES, options.turns)
    comm.Barrier()
    mail.rewrite_and_send(comm, rank)
    report(rank, 'written from pageable memory, and sent at once', mail.wrong())

    comms = [comm.Dup() for _ in range(3)]
    mails = [Mail(rank, peer_of, SIZES, options.turns, 50 * n) for n in range(3)]

    def thread(number):
        torch.cuda.set_device(device)
        mails[number].send(comms[number])

    threads = [threading.Thread(target=thread, args=(n,)) for n in range(3)]
    comm.Barrier()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    report(rank, 'three threads', sum(mail.wrong() for mail in mails))
    report(rank, f'{options.steps} steps of training', train(rank, size, options.steps, sum_by_ring))
    return comm.allreduce(wrong_total)


def run_late(options):
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    torch.cuda.set_device(comm.rank % torch.cuda.device_count())
    mail = pattern(1000000, 0, 0) if comm.rank == 0 else torch.zeros(1000000, dtype=torch.uint8, device='cuda')
    torch.cuda.synchronize()
    if comm.rank == 0:
        comm.Send(mail, 1)
    elif comm.rank == 1:
        time.sleep(options.seconds)
        comm.Recv(mail, 0)
        report(1, f'a message after {options.seconds} s without a call', int((mail != pattern(1000000, 0, 0)).sum()))
    return comm.allreduce(wrong_total)


def run_stop(options):
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    torch.cuda.set_device(comm.rank % torch.cuda.device_count())
    for stopped in range(comm.size):
        mail = Mail(comm.rank, lambda number: comm.rank ^ 1, [4097, 1000000], 20, 100 * stopped)
        if stopped == comm.rank:
            subprocess.Popen(['sh', '-c', f'kill -STOP {os.getpid()}; sleep {options.seconds}; kill -CONT {os.getpid()}'])
        mail.send(comm)
        mail.send(comm)
        report(comm.rank, f'rank {stopped} stopped for {options.seconds} s', mail.wrong())
    return comm.allreduce(wrong_total)


# What one rank does behind a collective. PyTorch brings the kernels of "loaded" in its libraries. It compiles that of
# "compiled" at run time, or finds it in a cache of its own: then CUDA loads it at once, which waits for the collective.
BEHIND = {
    'nothing': lambda x: x,
    'loaded': lambda x: torch.atan2(x, x + 1).cos(),
    'compiled': torch.special.bessel_j0,
}


def run_nccl_rank(rank, options):
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    if options.own_stream:
        torch.cuda.set_stream(torch.cuda.Stream())
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(options.port))
    dist.init_process_group('nccl', rank=rank, world_size=options.ranks, device_id=torch.device('cuda', rank))

    # The first launch of each of these kernels is behind a collective that waits for the others
    first = torch.full((300001,), rank + 1, dtype=torch.int32, device='cuda')
    dist.all_reduce(first)
    later = BEHIND[options.behind](first.to(torch.float64)) if rank % 2 else first.to(torch.float64)
    due = options.ranks * (options.ranks + 1) // 2
    report(rank, 'first launches behind a collective', int((first != due).sum()) + int(later.isnan().sum()))

    def sum_up(gradients):
        for gradient in gradients:
            dist.all_reduce(gradient)
        return gradients

    together = train(rank, options.ranks, options.steps, sum_up)
    report(rank, f'{options.steps} steps of training', together)
    dist.destroy_process_group()
    sys.exit(1 if wrong_total else 0)


def run_nccl(options):
    import torch.multiprocessing as mp
    mp.spawn(run_nccl_rank, args=(options,), nprocs=options.ranks)
    return 0


WAYS = {'mpi': run_mpi, 'nccl': run_nccl, 'late': run_late, 'stop': run_stop}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('way', choices=WAYS)
    parser.add_argument('--ranks', type=int, default=2, help='of NCCL, a GPU each (2)')
    parser.add_argument('--own-stream', action='store_true',
                        help='no work in the default stream, as docs/nccl.md asks for where NCCL hands over GPU buffers')
    parser.add_argument('--behind', choices=BEHIND, default='loaded',
                        help='kernels behind a collective. "compiled" hangs where NCCL hands over GPU buffers '
                             '(docs/limits.md)')
    parser.add_argument('--turns', type=int, default=10, help='how often each length is sent (10)')
    parser.add_argument('--steps', type=int, default=100, help='of training (100)')
    parser.add_argument('--seconds', type=int, default=40, help='of computing or of being stopped (40)')
    parser.add_argument('--port', type=int, default=29517, help='of NCCL (29517)')
    options = parser.parse_args()
    sys.exit(1 if WAYS[options.way](options) else 0)


if __name__ == '__main__':
    main()
