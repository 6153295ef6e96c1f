/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The GPUs' streams: each does one thing after the other, while its process computes, is stopped, or sleeps. A step waits
 * for a word in pinned memory, or writes one; or it is a kernel of the application's.
 */
#include "fiber.h"
#include "gpu.h"

#define STREAM_JOBS 512

/* @word: of a step; NULL: a kernel. @at: when it comes to an end, at the earliest */
struct stream_job {
	uint64_t at;
	struct dev_step step;
	void (*kernel)(void *arg);
	void *arg;
};

struct gpu_stream {
	unsigned int node, head, tail;
	uint64_t last;
	struct stream_job jobs[STREAM_JOBS];
};

static struct gpu_stream streams[SIM_NODES][SIM_STREAMS];

void *gpu_stream(unsigned int node, unsigned int stream)
{
	streams[node][stream].node = node;
	return &streams[node][stream];
}

static void stream_put(struct gpu_stream *stream, struct stream_job job)
{
	if (stream->tail - stream->head == STREAM_JOBS)
		world_fail("more than %d things are in a stream", STREAM_JOBS);
	if (stream->last < world.now)
		stream->last = world.now;
	stream->last += 500 + world_upto(world_upto(20) ? 5000 : SIM_MS);
	job.at = stream->last;
	stream->jobs[stream->tail++ % STREAM_JOBS] = job;
}

void gpu_stream_kernel(void *stream, void (*kernel)(void *arg), void *arg)
{
	stream_put(stream, (struct stream_job){.kernel = kernel, .arg = arg});
}

int gpu_stream_steps(const struct dev_mem *mem, void *stream, const struct dev_step *steps,
		     size_t count)
{
	for (size_t i = 0; i < count; i++)
		stream_put(stream, (struct stream_job){.step = steps[i]});
	return 0;
}

/* False: it waits */
static bool stream_job_do(const struct stream_job *job)
{
	const struct dev_step *step = &job->step;

	if (world.now < job->at || (step->wait && *step->word < step->value))
		return false;
	if (job->kernel)
		job->kernel(job->arg);
	else if (!step->wait)
		__atomic_store_n(step->word, step->value, __ATOMIC_RELEASE);
	return true;
}

void gpu_streams_run(void)
{
	for (unsigned int at = 0; at < SIM_NODES * SIM_STREAMS; at++) {
		struct gpu_stream *stream = &streams[at / SIM_STREAMS][at % SIM_STREAMS];

		while (stream->head != stream->tail &&
		       stream_job_do(&stream->jobs[stream->head % STREAM_JOBS])) {
			stream->head++;
			world.moved = true;
		}
	}
}

uint64_t gpu_streams_due(void)
{
	uint64_t due = UINT64_MAX;

	for (unsigned int at = 0; at < SIM_NODES * SIM_STREAMS; at++) {
		const struct gpu_stream *stream = &streams[at / SIM_STREAMS][at % SIM_STREAMS];
		const struct stream_job *job = &stream->jobs[stream->head % STREAM_JOBS];

		if (stream->head != stream->tail && job->at > world.now && job->at < due)
			due = job->at;
	}
	return due;
}

struct stream_words {
	unsigned int node;
	const uint64_t *first, *end;
};

static bool nobody_needs(const void *of)
{
	const struct stream_words *words = of;

	for (unsigned int s = 0; s < SIM_STREAMS; s++) {
		const struct gpu_stream *stream = &streams[words->node][s];

		for (unsigned int at = stream->head; at != stream->tail; at++) {
			const uint64_t *word = stream->jobs[at % STREAM_JOBS].step.word;

			if (word && word >= words->first && word < words->end)
				return false;
		}
	}
	return true;
}

void gpu_streams_leave(const void *addr, size_t len)
{
	const struct stream_words words = {world.current, addr,
					   (const uint64_t *) ((uintptr_t) addr + len)};

	fiber_wait(nobody_needs, &words, UINT64_MAX);
}

void gpu_streams_end(unsigned int node)
{
	for (unsigned int s = 0; s < SIM_STREAMS; s++)
		streams[node][s].head = streams[node][s].tail;
}
