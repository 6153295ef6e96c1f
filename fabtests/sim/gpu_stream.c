/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The GPUs' streams: each does one thing after the other, while its process computes, is stopped, or sleeps. A step waits
 * for a word in pinned memory, or writes one; or it is a kernel of the application's. What is put into a stream that is being
 * captured becomes a graph, and each launch of that puts it into a stream.
 */
#include "fiber.h"
#include "gpu.h"

#define STREAM_JOBS 4096

/* @word: of a step; NULL: a kernel. @at: when it comes to an end, at the earliest. @ends: a launch of that graph ends */
struct stream_job {
	uint64_t at;
	struct dev_step step;
	void (*kernel)(void *arg);
	void *arg;
	struct gpu_graph *ends;
};

#define GRAPH_JOBS 16
#define GRAPH_KEEPERS 4

/* @launches: that have not ended; @gone: it is launched no more. @ends: of those who keep it, with @args */
struct gpu_graph {
	uint64_t id;
	unsigned int node, count, launches, keepers;
	bool gone;
	struct stream_job jobs[GRAPH_JOBS];
	void (*ends[GRAPH_KEEPERS])(void *arg);
	void *args[GRAPH_KEEPERS];
};

struct gpu_stream {
	unsigned int node, head, tail;
	uint64_t last;
	struct gpu_graph *captured;
	struct stream_job jobs[STREAM_JOBS];
};

static struct gpu_stream streams[SIM_NODES][SIM_STREAMS + 1];

void *gpu_stream(unsigned int node, unsigned int stream)
{
	streams[node][stream].node = node;
	return &streams[node][stream];
}

static void stream_put(struct gpu_stream *stream, struct stream_job job)
{
	struct gpu_graph *graph = stream->captured;

	if (graph && graph->count == GRAPH_JOBS)
		world_fail("more than %d things are in a graph", GRAPH_JOBS);
	if (graph) {
		graph->jobs[graph->count++] = job;
		return;
	}
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

/* ---- graphs ---- */

bool gpu_capture_begin(void *of)
{
	static uint64_t last;
	struct gpu_stream *stream = of;

	if (stream->captured)
		return false;
	stream->captured = calloc(1, sizeof *stream->captured);
	stream->captured->id = ++last;
	stream->captured->node = stream->node;
	return true;
}

struct gpu_graph *gpu_capture_end(void *of)
{
	struct gpu_stream *stream = of;
	struct gpu_graph *graph = stream->captured;

	stream->captured = NULL;
	return graph;
}

int gpu_stream_captured(void *of, uint64_t *id, void **graph)
{
	const struct gpu_stream *stream = of;

	if (!stream->captured)
		return 0;
	*id = stream->captured->id;
	*graph = stream->captured;
	return 1;
}

int gpu_graph_keep(void *of, void (*end)(void *arg), void *arg)
{
	struct gpu_graph *graph = of;

	if (graph->keepers == GRAPH_KEEPERS)
		world_fail("n%u: more than %d keep a graph", world.current, GRAPH_KEEPERS);
	graph->ends[graph->keepers] = end;
	graph->args[graph->keepers++] = arg;
	return 0;
}

static void graph_put(struct gpu_graph *graph)
{
	if (!graph->gone || graph->launches)
		return;
	/* a thread of the driver's */
	process_enter(graph->node);
	for (unsigned int i = 0; i < graph->keepers; i++)
		graph->ends[i](graph->args[i]);
	free(graph);
}

void gpu_graph_launch(struct gpu_graph *graph, void *stream)
{
	graph->launches++;
	for (unsigned int i = 0; i < graph->count; i++)
		stream_put(stream, graph->jobs[i]);
	stream_put(stream, (struct stream_job){.ends = graph});
}

void gpu_graph_destroy(struct gpu_graph *graph)
{
	graph->gone = true;
	graph_put(graph);
}

/* ---- what streams do ---- */

/* False: it waits */
static bool stream_job_do(const struct stream_job *job)
{
	const struct dev_step *step = &job->step;

	if (world.now < job->at || (step->wait && *step->word < step->value))
		return false;
	if (job->ends) {
		job->ends->launches--;
		graph_put(job->ends);
	} else if (job->kernel) {
		job->kernel(job->arg);
	} else if (!step->wait) {
		__atomic_store_n(step->word, step->value, __ATOMIC_RELEASE);
	}
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
	for (unsigned int s = 0; s <= SIM_STREAMS; s++) {
		streams[node][s].head = streams[node][s].tail;
		streams[node][s].captured = NULL;
	}
}
