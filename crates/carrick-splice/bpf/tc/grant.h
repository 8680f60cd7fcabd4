/* Pacing by windows: grants to waiting senders, and the window updates that announce them. Included by tc.bpf.c,
 * behind its maps. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_GRANT_H
#define CARRICK_TC_GRANT_H

#include "../pacing/turn.h"
#include "share.h"

/* The most ways that one run of `carrick_grant` visits. */
#define GRANTS_MAX 64

/* If the waiting ways are not visited for this long, no worker does so, and each way takes what it can. */
#define UNVISITED_NS 100000000LL

/* The longest window update: Ethernet, IPv6, TCP with timestamps. */
#define UPDATE_BYTES_MAX (ETH_HLEN + 40 + TCP_HEADER_MIN + 12)

/* Ways whose windows could be opened further, in order of turn. The process sets the size. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 4);
	__uint(value_size, __builtin_offsetof(struct held_way, lowest_rate));
} held SEC(".maps");

struct holding {
	__u64 visited_ns; /* when they were last visited, or the first was queued */
	__u32 count;      /* queued ways */
	__u32 buckets[PACE_BUCKETS + 1]; /* of these, how many wait for each bucket */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct holding);
} holdings SEC(".maps");

/* Wakes the worker that visits them. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} held_events SEC(".maps");

/* The headers of a window update. */
struct update_numbers {
	struct flow flow; /* whose peer it comes from */
	__u32 seq;
	__u32 ack;
	__u32 tsval;
	__u32 tsecr;
	__u32 ifindex;
	__u16 window;
	__u8 has_timestamps;
	__u8 is_ipv6;
	__u8 is_due;
};

/* Room for a window update, and the pacing of its way. */
struct update {
	struct pace_view view;
	struct update_numbers numbers;
	__u8 frame[UPDATE_BYTES_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct update);
} updates SEC(".maps");

static __always_inline __u32 bucket_of(pace_handle handle)
{
	__u32 bucket = handle >> 32;

	return bucket <= PACE_BUCKETS ? bucket : 0;
}

static __always_inline int is_paced(const struct packet_splice *splice)
{
	return splice->ways[0].pace.handle || splice->ways[1].pace.handle;
}

/* For a packet that is not paced. */
static __always_inline void forget_pace(struct pace_view *view)
{
	__builtin_memset(view, 0, sizeof(*view));
}

/* Looks up how much a way may be granted now. Ways queued for the same bucket go first; with `is_turn`, this is one
 * of them, which has reserved this much. */
static __always_inline void look_up_rate(struct pace_view *view, __u64 handle, __u64 now, int is_turn, __u64 reserved)
{
	struct pace_block *block = pace_find(handle);
	struct pace_class *class;
	struct holding *holding;
	__u32 zero = 0, bucket = bucket_of(handle);

	view->now = now;
	view->hold_max_ns = ~0ULL;
	view->piece_bytes = PACE_PIECE_BYTES;
	view->left = pace_left_of(block, handle, now, reserved);
	if (!block || view->left == ~0ULL)
		return;
	class = pace_class_of(block, handle);
	if (!view->left) {
		/* A way is not held forever while only the worker's share is used up. */
		if (class && (!bucket || reserved || pace_bucket_left(block, bucket, now)))
			view->hold_max_ns = *(volatile __u64 *)&class->hold_max_ns;
		return;
	}
	holding = bpf_map_lookup_elem(&holdings, &zero);
	if (is_turn || !holding || !holding->count)
		return;
	if ((__s64)(now - *(volatile __u64 *)&holding->visited_ns) > UNVISITED_NS)
		view->piece_bytes = 1;
	else if (bucket <= PACE_BUCKETS && holding->buckets[bucket])
		view->left = 0;
}

/* Looks up pacing for a packet that advertises a window to the sender of the way `told`. (Not inlined and not
 * static, so that the verifier checks it once, not for each state at its calls; hence it looks up what it needs
 * itself.) */
GLOBAL_FUNCTION int look_up_pace(__u32 number, __u32 told, __u64 now)
{
	struct packet_splice *splice = bpf_map_lookup_elem(&splices, &number);
	__u32 zero = 0;
	struct headers *headers_of = bpf_map_lookup_elem(&headers, &zero);
	struct pace_view *view;
	__u64 handle;

	if (!splice || !headers_of)
		return 0;
	view = &headers_of->pace;
	told &= 1;
	handle = *(volatile __u64 *)&splice->ways[told].pace.handle;
	look_up_rate(view, handle, now, 0, 0);
	view->told_way = handle && (splice->state == PACKET_SPLICED || splice->state == PACKET_RESPONSES) ? told + 1 : 0;
	return 0;
}

/* Queues a way. */
static __always_inline void wait_turn(struct packet_splice *splice, __u32 direction, __u64 handle, __u64 now)
{
	__u32 zero = 0, wait = WAIT_OF_PACKET, bucket = bucket_of(handle);
	struct holding *holding = bpf_map_lookup_elem(&holdings, &zero);
	struct held_way *way = bpf_map_lookup_elem(&waits, &wait);

	if (!holding || !way)
		return;
	way->direction = direction;
	way->bucket = bucket;
	pace_reserve(wait, now);
	if (bpf_map_push_elem(&held, way, 0)) {
		/* The way's next packet tries again. */
		pace_give_back(wait);
		splice->ways[direction & 1].pace.is_held = 0;
		return;
	}
	if (bucket <= PACE_BUCKETS)
		__sync_fetch_and_add(&holding->buckets[bucket], 1);
	if (!__sync_fetch_and_add(&holding->count, 1)) {
		holding->visited_ns = now;
		bpf_ringbuf_output(&held_events, &zero, sizeof(zero), 0);
	}
}

/* Grants according to what the state machine has noted. (Also separate for the verifier; three functions, since the
 * caller's stack is deep.) */
GLOBAL_FUNCTION int settle_pace(__u32 number, __u32 told)
{
	struct packet_splice *splice = bpf_map_lookup_elem(&splices, &number);
	__u32 zero = 0;
	struct headers *headers_of = bpf_map_lookup_elem(&headers, &zero);
	struct pace_view *view;

	if (!splice || !headers_of)
		return 0;
	view = &headers_of->pace;
	told &= 1;
	bpf_spin_lock(&splice->lock);
	if (view->has_sent)
		pace_sent(&splice->ways[told ^ 1], told ^ 1, view);
	if (view->told_way && view->says_window)
		pace_window(&splice->ways[told], told, view);
	bpf_spin_unlock(&splice->lock);
	return 0;
}

/* Charges a way for what was granted. */
GLOBAL_FUNCTION int pay_pace(__u32 number, __u32 side)
{
	struct packet_splice *splice = bpf_map_lookup_elem(&splices, &number);
	__u32 zero = 0;
	struct headers *headers_of = bpf_map_lookup_elem(&headers, &zero);
	__u64 handle;

	if (!splice || !headers_of)
		return 0;
	side &= 1;
	handle = splice->ways[side].pace.handle;
	return pace_take(pace_find(handle), handle, headers_of->pace.taken[side], 0, headers_of->pace.now);
}

/* Counts and queues a way that waits for a grant. */
GLOBAL_FUNCTION int hold_pace(__u32 number, __u32 told, __u64 now)
{
	struct packet_splice *splice = bpf_map_lookup_elem(&splices, &number);
	struct pace_class *class;
	struct pace_block *block;
	__u64 handle;

	if (!splice)
		return 0;
	told &= 1;
	handle = splice->ways[told].pace.handle;
	block = pace_find(handle);
	class = block ? pace_class_of(block, handle) : 0;
	if (class)
		__sync_fetch_and_add(&class->held, 1);
	wait_turn(splice, 2 * number + told, handle, now);
	return 0;
}

/* Reads the numbers that the receiver of the way `side` would send now. The splice's lock is held. */
static __always_inline void read_numbers(const struct packet_splice *splice, __u32 side, struct update_numbers *numbers)
{
	const struct packet_way *way = &splice->ways[side & 1], *back = &splice->ways[~side & 1];
	const struct packet_leg *sender = &splice->legs[side & 1], *receiver = &splice->legs[~side & 1];
	__u32 window = is_after(way->offered_end, way->acked) ? way->offered_end - way->acked : 0;

	numbers->seq = back->end;
	numbers->ack = way->acked + way->delta;
	numbers->window = scale_window(window, receiver->peer_shift);
	numbers->tsval = splice->state == PACKET_RESPONSES ? receiver->peer_tsval : sender->last_tsval - back->ts_delta;
	numbers->tsecr = receiver->last_tsval;
	numbers->has_timestamps = receiver->has_tsval && sender->has_tsval;
	numbers->ifindex = receiver->ifindex;
	numbers->flow = receiver->flow;
	numbers->is_ipv6 = receiver->is_ipv6;
}

/* Writes a bare acknowledgement from the receiver. Returns its length. */
static __always_inline __u32 write_update(struct update *update)
{
	const struct update_numbers *numbers = &update->numbers;
	const struct flow *flow = &numbers->flow;
	__u8 *frame = update->frame, *ip = frame + ETH_HLEN, *tcp = ip + (numbers->is_ipv6 ? 40 : 20);
	__u32 tcp_bytes = TCP_HEADER_MIN + (numbers->has_timestamps ? 12 : 0);
	__s64 sum;

	__builtin_memset(frame, 0, sizeof(update->frame));
	if (numbers->is_ipv6) {
		frame[12] = 0x86;
		frame[13] = 0xdd;
		ip[0] = 0x60;
		ip[5] = tcp_bytes;
		ip[6] = IPPROTO_TCP;
		ip[7] = 64;
		__builtin_memcpy(ip + 8, flow->peer, 16);
		__builtin_memcpy(ip + 24, flow->own, 16);
		sum = bpf_csum_diff(0, 0, (__be32 *)(ip + 8), 32, 0);
	} else {
		frame[12] = 0x08;
		ip[0] = 0x45;
		ip[3] = 20 + tcp_bytes;
		ip[6] = 0x40;
		ip[8] = 64;
		ip[9] = IPPROTO_TCP;
		__builtin_memcpy(ip + 12, &flow->peer[3], 4);
		__builtin_memcpy(ip + 16, &flow->own[3], 4);
		sum = bpf_csum_diff(0, 0, (__be32 *)ip, 20, 0);
		*(__u16 *)(ip + 10) = ~fold(sum);
		sum = bpf_csum_diff(0, 0, (__be32 *)(ip + 12), 8, 0);
	}
	*(__u16 *)tcp = flow->peer_port;
	*(__u16 *)(tcp + 2) = flow->own_port;
	write_u32_anywhere(tcp + 4, numbers->seq);
	write_u32_anywhere(tcp + 8, numbers->ack);
	tcp[12] = tcp_bytes / 4 << 4;
	tcp[13] = FLAG_ACK;
	*(__u16 *)(tcp + 14) = bpf_htons(numbers->window);
	if (numbers->has_timestamps) {
		tcp[20] = tcp[21] = OPTION_NOTHING;
		tcp[22] = OPTION_TIMESTAMPS;
		tcp[23] = 10;
		write_u32_anywhere(tcp + 24, numbers->tsval);
		write_u32_anywhere(tcp + 28, numbers->tsecr);
		sum = bpf_csum_diff(0, 0, (__be32 *)tcp, 32, sum);
	} else {
		sum = bpf_csum_diff(0, 0, (__be32 *)tcp, 20, sum);
	}
	*(__u16 *)(tcp + 16) = ~fold(sum + bpf_htonl(tcp_bytes) + bpf_htonl(IPPROTO_TCP));
	return tcp - frame + tcp_bytes;
}

/* Grants more to the way whose turn it is, and announces it by a packet that enters the interface as if the receiver
 * had sent it, so that it is handled like any other. Whether the way keeps waiting. */
GLOBAL_FUNCTION int grant_turn(struct __sk_buff *skb, __u32 direction, __u64 now)
{
	__u32 number = direction >> 1, side = direction & 1, zero = 0, wait = WAIT_OF_GRANT, bytes;
	struct held_way *turn = bpf_map_lookup_elem(&waits, &wait);
	struct packet_splice *splice = bpf_map_lookup_elem(&splices, &number);
	struct update *update = bpf_map_lookup_elem(&updates, &zero);
	struct update_numbers *numbers;
	struct pace_view *view;
	struct packet_way *way;
	__u64 handle, share;

	if (!splice || !update || !turn)
		return 0;
	side &= 1;
	view = &update->view;
	numbers = &update->numbers;
	__builtin_memset(numbers, 0, sizeof(*numbers));
	way = &splice->ways[side];
	handle = *(volatile __u64 *)&way->pace.handle;
	forget_pace(view);
	look_up_rate(view, handle, now, 1, turn->reserved);
	share = turn->reserved ? turn->reserved : view->left;
	bpf_spin_lock(&splice->lock);
	if (way->pace.is_held && (splice->state == PACKET_SPLICED || splice->state == PACKET_RESPONSES))
		numbers->is_due = pace_grant(way, side, splice->legs[side].own_shift & 15, share > WINDOW_LIMIT ? WINDOW_LIMIT : share, view);
	else
		way->pace.is_held = 0;
	if (numbers->is_due)
		read_numbers(splice, side, numbers);
	bpf_spin_unlock(&splice->lock);
	if (!numbers->is_due)
		return view->is_held;
	pace_take(pace_find(handle), handle, view->taken[side], turn->reserved, now);
	turn->reserved = view->taken[side] < turn->reserved ? turn->reserved - view->taken[side] : 0;
	bytes = write_update(update);
	if (!IS_WITHIN(bytes, ETH_HLEN + 40, UPDATE_BYTES_MAX) || bpf_skb_change_tail(skb, bytes, 0) ||
	    bpf_skb_store_bytes(skb, 0, update->frame, bytes, 0))
		return 0;
	bpf_clone_redirect(skb, numbers->ifindex, BPF_F_INGRESS);
	return 0;
}

/* A run of `carrick_grant`. */
struct granting {
	struct __sk_buff *skb;
	__u64 now;
};

/* Serves the next queued way. A callback of bpf_loop(): a result other than 0 ends it. */
static long grant_next(__u32 index, struct granting *granting)
{
	__u32 zero = 0, wait = WAIT_OF_GRANT, number;
	struct holding *holding = bpf_map_lookup_elem(&holdings, &zero);
	struct pace_block *block = bpf_map_lookup_elem(&pace, &zero);
	struct held_way *way = bpf_map_lookup_elem(&waits, &wait);
	struct packet_splice *splice;

	if (!holding || !block || !way || bpf_map_pop_elem(&held, way))
		return 1;
	/* After a change of a rate, its turn may come at another time. */
	if (block->changes != way->changes) {
		pace_give_back(wait);
		pace_reserve(wait, granting->now);
	}
	if (granting->now < way->go_at_ns || grant_turn(granting->skb, way->direction, granting->now)) {
		/* It keeps its place, if only by its time. */
		if (!bpf_map_push_elem(&held, way, 0))
			return 0;
		/* The way's next packet tries again. */
		number = way->direction >> 1;
		splice = bpf_map_lookup_elem(&splices, &number);
		if (splice)
			splice->ways[way->direction & 1].pace.is_held = 0;
	}
	/* What it was not granted. */
	pace_give_back(wait);
	__sync_fetch_and_add(&holding->count, -1);
	number = way->bucket;
	if (number <= PACE_BUCKETS)
		__sync_fetch_and_add(&holding->buckets[number], -1);
	return 0;
}

#endif
