#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Checks and times NCCL's operations between ranks with a GPU each, or a share: contrib/bench-nccl runs it.

Prints `LABEL OPERATION SIZE MICROSECONDS`. SIZE: bytes that go to each other rank; of an all_reduce the buffer's.
A sendrecv goes round a ring, and a send from each even rank to the next one. MICROSECONDS: of one operation of the
slowest rank, issued back to back; the median of three rounds. All elements are checked before and after. Exits with 1
if one is wrong.
"""
import argparse
import os
import queue
import socket
import statistics
import sys
import time

SIZES = [8, 4096, 65536, 1 << 20, 4 << 20, 16 << 20]
OPERATIONS = ['all_reduce', 'all_gather', 'send', 'sendrecv', 'all_to_all']
SPAN = 1 << 25  # no message has as many elements, so each element tells who sent it to whom, of up to 11 ranks
MOST = 20       # operations of a round


def processors(text):
    found = set()
    for part in text.split('+'):
        first, _, last = part.partition('-')
        found |= set(range(int(first), int(last or first) + 1))
    return found


class Operation:
    """One operation of one size: its buffers, the call, and what has to arrive."""

    def __init__(self, torch, dist, rank, device, name, size):
        self.torch, self.dist, self.rank, self.name = torch, dist, rank, name
        self.ranks, self.n = dist.get_world_size(), size // 4
        self.index = torch.arange(self.n, dtype=torch.int32, device=device)
        self.rx = self.buffer(device, name in ('all_gather', 'all_to_all'))
        self.tx = self.buffer(device, name == 'all_to_all')

    def buffer(self, device, for_each_rank):
        return self.torch.empty((self.ranks if for_each_rank else 1) * self.n, dtype=self.torch.int32, device=device)

    def part(self, tensor, rank):
        return tensor[rank * self.n:(rank + 1) * self.n]

    def value(self, sender, receiver, salt):
        return self.index + ((self.ranks * sender + receiver + 1) * SPAN + salt)

    def fill(self, salt):
        if self.name == 'all_to_all':
            for receiver in range(self.ranks):
                self.part(self.tx, receiver).copy_(self.value(self.rank, receiver, salt))
        else:
            self.tx.copy_(self.value(self.rank, 0, salt))
        self.rx.fill_(-1)
        if self.name == 'all_reduce':
            self.rx.copy_(self.tx)

    def call(self):
        dist = self.dist
        if self.name == 'all_reduce':
            dist.all_reduce(self.rx)
        elif self.name == 'all_gather':
            dist.all_gather_into_tensor(self.rx, self.tx)
        elif self.name == 'all_to_all':
            dist.all_to_all_single(self.rx, self.tx)
        else:
            for work in dist.batch_isend_irecv(self.messages()):
                work.wait()

    def messages(self):
        sends = self.dist.P2POp(self.dist.isend, self.tx, (self.rank + 1) % self.ranks)
        receives = self.dist.P2POp(self.dist.irecv, self.rx, (self.rank - 1) % self.ranks)
        if self.name == 'sendrecv':
            return [sends, receives]
        return [receives if self.rank % 2 else sends]

    def expected(self, salt):
        """Pairs of what has come and what had to"""
        everyone = range(self.ranks)
        if self.name == 'all_reduce':
            return [(self.rx, sum(self.value(sender, 0, salt) for sender in everyone))]
        if self.name == 'all_gather':
            return [(self.part(self.rx, sender), self.value(sender, 0, salt)) for sender in everyone]
        if self.name == 'all_to_all':
            return [(self.part(self.rx, sender), self.value(sender, self.rank, salt)) for sender in everyone]
        if self.name == 'sendrecv' or self.rank % 2:
            return [(self.rx, self.value((self.rank - 1) % self.ranks, 0, salt))]
        return []

    def checked(self, salt):
        """Runs it once. Returns how many elements are wrong."""
        self.fill(salt)
        self.call()
        self.torch.cuda.synchronize()
        return sum(int((come != due).sum()) for come, due in self.expected(salt))

    def timed(self, count):
        """Seconds that one of @count takes. Sums of zeros stay small."""
        first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(count):
            self.call()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / 1e3 / count


def measure(torch, dist, operation, device, options):
    """The rounds' seconds, and the number of wrong elements"""
    meet = torch.zeros(1, dtype=torch.int32, device=device)
    wrong = operation.checked(1)
    operation.rx.zero_()
    dist.all_reduce(meet)
    once = torch.tensor([operation.timed(1)], dtype=torch.float64, device=device)
    dist.all_reduce(once, op=dist.ReduceOp.MAX)
    count = int(min(MOST, max(2, options.round / max(once.item(), 1e-6))))
    seconds = []
    for _ in range(3):
        dist.all_reduce(meet)
        seconds.append(operation.timed(count))
    torch.cuda.synchronize()
    return seconds, wrong + operation.checked(100)


def run_rank(rank, options, port, told):
    try:
        if options.cpus:
            os.sched_setaffinity(0, processors(options.cpus.split(',')[rank]))
        # NCCL refuses two ranks of one host that share a GPU
        os.environ['NCCL_HOSTID'] = f'rank {rank}'
        import torch
        import torch.distributed as dist
        device = torch.device('cuda', rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        # copies behind the default stream would keep those of the provider back: docs/limits.md
        torch.cuda.set_stream(torch.cuda.Stream())
        dist.init_process_group('nccl', init_method=f'tcp://127.0.0.1:{port}', world_size=options.ranks,
                                rank=rank, device_id=device)
        for size in options.sizes:
            for name in options.operations:
                operation = Operation(torch, dist, rank, device, name, size)
                told.put((rank, (name, size, *measure(torch, dist, operation, device, options))))
        dist.destroy_process_group()
        told.put((rank, None))
    except Exception as error:
        told.put((rank, f'{type(error).__name__}: {error}'))
        raise


def report(label, told):
    """Prints what all ranks say of an operation. Returns how many elements were wrong."""
    name, size = told[0][:2]
    wrong = sum(each[3] for each in told)
    slowest = statistics.median(map(max, *(each[2] for each in told)))
    print(f'{label} {name} {size} {slowest * 1e6:.1f}', flush=True)
    if wrong:
        print(f'# {label} {name} {size}: {wrong} elements are wrong', flush=True)
    return wrong


def collect(label, ranks, told):
    """Prints results as they come. Returns what is wrong, in words, or None."""
    waiting, ended, wrong = [[] for _ in ranks], 0, 0
    while ended < len(ranks):
        try:
            rank, what = told.get(timeout=1)
        except queue.Empty:
            if any(rank.exitcode for rank in ranks):
                return 'a rank has ended'
            continue
        if isinstance(what, str):
            return f'rank {rank}: {what}'
        if what is None:
            ended += 1
            continue
        waiting[rank].append(what)
        if all(waiting):
            wrong += report(label, [results.pop(0) for results in waiting])
    return f'{wrong} wrong elements' if wrong else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--label', default='nccl', help='first word of each line')
    parser.add_argument('--operations', default=OPERATIONS, type=lambda text: text.split(','))
    parser.add_argument('--sizes', default=SIZES, type=lambda text: [int(size) for size in text.split(',')])
    parser.add_argument('--ranks', default=2, type=int, help='how many: an even number, up to 10')
    parser.add_argument('--cpus', help='processors of each rank, such as 0-15,16-31')
    parser.add_argument('--round', type=float, default=0.1, help='seconds that a round may take')
    options = parser.parse_args()

    import multiprocessing
    context = multiprocessing.get_context('spawn')
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    told = context.Queue()
    ranks = [context.Process(target=run_rank, args=(rank, options, port, told), daemon=True)
             for rank in range(options.ranks)]
    for rank in ranks:
        rank.start()
    failed = collect(options.label, ranks, told)
    for rank in ranks:
        rank.join(0 if failed else 10)
        if rank.is_alive():
            rank.kill()
            rank.join()
    if failed:
        print(f'# {options.label}: {failed}', flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
