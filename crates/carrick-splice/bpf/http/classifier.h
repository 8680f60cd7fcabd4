/* Classifies requests: whether a packet is exactly one plain request without a body, and which route takes it.
 *
 * It must never decide otherwise than the process would (http1 and route of carrick-logic); so whatever is unusual is up to the
 * process. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_CLASSIFIER_H
#define CARRICK_CLASSIFIER_H

#include "../common/bounds.h"
#include "head.h"
#include "routes.h"

/* A table; it is never changed, but another one takes its place. This one is of nobody's. Sizes instead of types: those that are made
 * later have no BTF, and Linux before 6.2 takes only maps in which as much is known of timers, which is by types. */
struct request_table_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct request_table));
} no_requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, REQUEST_TABLES_MAX);
	__type(key, __u32);
	__array(values, struct request_table_map);
} request_tables SEC(".maps") = {
	.values = {&no_requests},
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct request_counts);
} request_counters SEC(".maps");

/* For each upstream, how often its clients were to choose a server again. Mapped into the process. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, REQUEST_UPSTREAMS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} upstream_choices SEC(".maps");

static __always_inline __u32 choices_of(__u32 upstream)
{
	__u32 *choices = bpf_map_lookup_elem(&upstream_choices, &upstream);

	return choices ? *(volatile __u32 *)choices : 0;
}

/* Requests that were forwarded unseen. The process sets its size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} request_events SEC(".maps");

/* Has clang describe the whole of them (BTF). */
struct request_table *request_table_type __attribute__((unused));
struct request_event *request_event_type __attribute__((unused));

/* Takes the payload out of the packet. */
GLOBAL_FUNCTION int load_head(struct __sk_buff *skb, struct parsed_head *parsed, __u32 at, __u32 bytes)
{
	if (!parsed)
		return UP_LENGTH;
	if (!IS_WITHIN(bytes, HEAD_MIN, REQUEST_HEAD_MAX) || bpf_skb_load_bytes(skb, at, parsed->head, bytes))
		return UP_LENGTH;
	parsed->end = bytes;
	parsed->host_end = 0;
	parsed->connection_at = 0;
	parsed->fields = 0;
	parsed->is_whole = 0;
	parsed->is_in_cookies = 0;
	parsed->cookies = 0;
	/* So each search through lines ends in the head. */
	return pair_at(head_at(parsed, bytes - 4)) == CRLF && pair_at(head_at(parsed, bytes - 2)) == CRLF ? 0 : UP_PART;
}

static __always_inline int classify_head(struct parsed_head *parsed, const struct request_table *table)
{
	__u32 i;
	int up;

	if (table->generation != parsed->generation)
		return UP_TABLE;
	if (parsed->end > table->head_bytes_max)
		return UP_LENGTH;
	up = parse_request_line(parsed);
	if (up)
		return up;
#pragma clang loop unroll(disable)
	for (i = 0; i < STEPS_MAX && !parsed->is_whole; i++) {
		up = parse_step(parsed, table);
		if (up)
			return up;
	}
	if (!parsed->is_whole)
		return UP_FIELDS;
	if (!parsed->host_end)
		return UP_HOST;
	return choose_route(parsed, table);
}

/* What was found in the request that was classified last on this CPU; 0 never comes, but the verifier wants it to be asked for. */
static __always_inline struct parsed_head *parsed_head(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&parsed_heads, &zero);
}

#include "response.h"

/* The number of the route of this table that takes the request in a packet; or less than 0, a negative `enum request_up`: the
 * request is up to the process. `parsed_head` tells more. `generation` is that of the table when whoever asks became what it is.
 *
 * A function of its own for the verifier, too, which looks at it once wherever it is called from. It must not be called with a
 * lock, nor while an earlier `parsed_head` is still of use. */
GLOBAL_FUNCTION int classify_request(struct __sk_buff *skb, __u32 payload_at, __u32 payload_bytes, __u32 number, __u32 generation)
{
	struct parsed_head *parsed = parsed_head();
	struct request_table *table = 0;
	struct request_counts *counts;
	__u32 zero = 0;
	int up;

	if (!parsed)
		return -UP_TABLE;
	parsed->table = number;
	parsed->generation = generation;
	up = load_head(skb, parsed, payload_at, payload_bytes);
	if (!up) {
		table = bpf_map_lookup_elem(&request_tables, &parsed->table);
		if (table)
			table = bpf_map_lookup_elem(table, &zero);
		up = table ? classify_head(parsed, table) : UP_TABLE;
	}
	counts = bpf_map_lookup_elem(&request_counters, &zero);
	if (!counts)
		return -UP_TABLE;
	FORGET(up);
	if (up || !table) {
		counts->up[up & (UP_REASONS - 1)] += 1;
		return -up;
	}
	counts->classified += 1;
	parsed->sample_every = table->sample_every;
	return parsed->route;
}

/* What is known of the splice that forwards a request. See `struct request_event`. */
struct telling {
	__u64 time_ns;
	__u64 sent_bytes;
	__u64 told_end;
	__u64 told_as;
	__u32 place;
	__u32 told_status;
};

/* Whether the process is to be woken for the event that begins now: once the room is half full, and at each further eighth of it.
 * (For each event would be an interrupt for each until the process runs.) */
static __always_inline int is_to_be_woken(void)
{
	__u64 room = bpf_ringbuf_query(&request_events, BPF_RB_RING_SIZE), used = bpf_ringbuf_query(&request_events, BPF_RB_AVAIL_DATA);
	__u64 before = used - sizeof(struct request_event) - BPF_RINGBUF_HDR_SZ;

	return used > room / 2 && (used ^ before) & ~(room / 8 - 1);
}

/* Tells the process of the request that was classified last on this CPU and is forwarded: for the access log. Nobody is woken before the
 * room is half full; the process looks by itself now and then. False: it is not told of this one. */
static __always_inline int tell_request(const struct telling *telling)
{
	struct parsed_head *parsed = parsed_head();
	struct request_event *event;
	struct request_counts *counts;
	__u32 zero = 0, i;

	counts = bpf_map_lookup_elem(&request_counters, &zero);
	if (!parsed || !counts || !parsed->sample_every)
		return 0;
	counts->sampled += 1;
	if (counts->sampled < parsed->sample_every)
		return 0;
	counts->sampled = 0;
	event = bpf_ringbuf_reserve(&request_events, sizeof(*event), 0);
	if (!event) {
		counts->events_lost += 1;
		return 0;
	}
	counts->events += 1;
	event->time_ns = telling->time_ns;
	event->sent_bytes = telling->sent_bytes;
	event->told_end = telling->told_end;
	event->told_as = telling->told_as;
	event->place = telling->place;
	event->told_status = telling->told_status;
	event->table = parsed->table;
	event->generation = parsed->generation;
	event->sample_every = parsed->sample_every;
	event->head_bytes = parsed->end;
	event->path_bytes = parsed->target_end - parsed->path_at;
	event->host_bytes = parsed->host_end - parsed->host_at;
	event->route = parsed->route;
	event->method = parsed->method;
	/* What is copied behind their ends is the rest of the head. */
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_EVENT_PATH_MAX; i += 8)
		*(__u64 *)(event->path + i) = *(const __u64 *)head_at(parsed, parsed->path_at + i);
#pragma clang loop unroll(disable)
	for (i = 0; i < REQUEST_EVENT_HOST_MAX; i += 8)
		*(__u64 *)(event->host + i) = *(const __u64 *)head_at(parsed, parsed->host_at + i);
	bpf_ringbuf_submit(event, is_to_be_woken() ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return 1;
}

#endif
