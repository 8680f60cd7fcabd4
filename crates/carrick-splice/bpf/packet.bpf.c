// The packet engine: forwards the packets of two connections from one to the other, as if they were one connection.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>
#include "packet.h"
#include "packet_headers.h"
#include "packet_local.h"
#include "packet_machine.h"
#include "judge.h"
#include "packet_pulse.h"

char _license[] SEC("license") = "GPL";

// What a packet is marked with between two of these programs. Set when they are loaded: others of carrick's on the same interface have
// another mark, and leave it alone.
const volatile __u32 own_mark = 0x63617272;

// So that the generated types have these, too: their numbers stand in packet.h only.
const volatile enum packet_state state_numbers = PACKET_FREE;
const volatile enum packet_command command_numbers = PACKET_LOOK;
const volatile enum packet_answer answer_numbers = PACKET_DONE;

// Connections, and where they belong. The process sets the sizes of the maps when it loads them.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2);
	__type(key, struct flow);
	__type(value, struct place);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet_splice);
} splices SEC(".maps");

// What is known of forwarded responses; mapped into the process.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet_response);
} responses SEC(".maps");

// Splices whose owner is to look at them.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} packet_events SEC(".maps");

// What `command` is asked, behind an Ethernet header: it is run by BPF_PROG_TEST_RUN.
struct request {
	__u32 command;
	__u32 number;
	__u32 argument;
	/* PACKET_ARM_RESPONSES: */
	__u32 table; /* 1 more than that of the routes by which the kernel judges; 0: it does not */
	__u32 generation;
	__u32 upstream;
	/* PACKET_GO_BY: */
	__u32 side;
};

// Whether the packets of both connections are still looked at for this splice: another one, with the addresses of one of them, may
// have begun.
static __always_inline int has_flows(const struct packet_splice *splice, __u32 number)
{
	struct place *a = bpf_map_lookup_elem(&flows, &splice->legs[0].flow);
	struct place *b = bpf_map_lookup_elem(&flows, &splice->legs[1].flow);

	return a && b && a->number == 2 * number && b->number == 2 * number + 1;
}

// Why two connections cannot be joined: both ways, or only from `b` to `a`.
static __always_inline enum packet_answer compare(const struct local *a, const struct local *b, int is_both_ways)
{
	if (!a->is_established || !b->is_established)
		return PACKET_NO_SOCKET;
	if (!a->is_empty || !b->is_empty)
		return PACKET_BUSY;
	if (a->has_timestamps != b->has_timestamps)
		return PACKET_TIMESTAMPS;
	if (a->has_sack != b->has_sack)
		return PACKET_SACK;
	if (a->has_ecn != b->has_ecn)
		return PACKET_ECN;
	if (a->segment_bytes < b->advertised_bytes || (is_both_ways && b->segment_bytes < a->advertised_bytes))
		return PACKET_SEGMENTS;
	if (a->is_signed || b->is_signed)
		return PACKET_SIGNED;
	return PACKET_DONE;
}

// The way from the leg whose socket is `from` to the one whose socket is `to`.
static __always_inline void begin_way(struct packet_way *way, struct packet_leg *sender, const struct local *from,
				      struct packet_leg *receiver, const struct local *to)
{
	__u32 start = from->rcv_nxt + sender->receive_offset, tsval = to->tsval + receiver->ts_offset;
	__u64 bytes = way->bytes, packets = way->packets;

	// It may have been sent later ones by an earlier splice, and nothing by the local socket since.
	if (receiver->has_tsval && is_before(tsval, receiver->last_tsval)) {
		receiver->ts_offset += receiver->last_tsval - tsval;
		tsval = receiver->last_tsval;
	}
	__builtin_memset(way, 0, sizeof(*way));
	way->bytes = bytes;
	way->packets = packets;
	way->start = way->end = start;
	// What the local socket has sent may be on its way yet.
	way->acked = start - (to->write_seq - to->snd_una);
	way->delta = to->write_seq + receiver->send_offset - start;
	way->ts_delta = tsval - from->ts_recent;
	way->window_end = from->window_end + sender->receive_offset;
	way->window_max = way->window_end - way->acked;
	receiver->last_tsval = receiver->local_tsval = tsval;
	receiver->has_tsval = to->has_timestamps;
	sender->peer_tsval = from->ts_recent;
	receiver->local_end = to->write_seq + receiver->send_offset;
	receiver->local_acked = to->snd_una + receiver->send_offset;
	receiver->may_end = 0;
	receiver->own_shift = to->own_shift;
	receiver->peer_shift = to->peer_shift;
}

// Lets what the server sends go to the client. The server may send what the client takes, and what its local socket has allowed.
static __always_inline void begin_responses(struct packet_splice *splice, const struct local *client,
					    const struct request *request)
{
	struct packet_leg *leg = &splice->legs[0];
	struct packet_way *down = &splice->ways[1];

	leg->received = client->rcv_nxt + leg->receive_offset;
	leg->local_window = client->window >> (client->own_shift & 15);
	down->offered_end = client->offered_end + leg->send_offset - down->delta;
	if (is_after(down->offered_end, down->window_end))
		down->window_end = down->offered_end;
	down->window_max = down->window_end - down->acked;
	splice->response_start = down->end;
	splice->judged_start = splice->judged_end = leg->received;
	splice->record = request->argument;
	splice->table = request->table;
	splice->generation = request->generation;
	splice->upstream = request->upstream;
	splice->state = PACKET_RESPONSES;
}

static __always_inline enum packet_answer arm(struct packet_splice *splice, const struct request *request,
					      const struct local *a, const struct local *b)
{
	int is_both_ways = request->command == PACKET_ARM;
	enum packet_answer answer = compare(a, b, is_both_ways);

	if (answer)
		return answer;
	bpf_spin_lock(&splice->lock);
	if (splice->state != PACKET_PROCESS) {
		answer = PACKET_NO_PLACE;
	} else if (!splice->legs[0].ifindex || !splice->legs[1].ifindex || !splice->legs[0].was_received ||
		   !splice->legs[1].was_received) {
		answer = PACKET_UNSEEN;
	} else if (splice->legs[0].is_ahead || splice->legs[1].is_ahead) {
		answer = PACKET_BUSY;
	} else {
		begin_way(&splice->ways[0], &splice->legs[0], a, &splice->legs[1], b);
		begin_way(&splice->ways[1], &splice->legs[1], b, &splice->legs[0], a);
		splice->state = PACKET_SPLICED;
		if (!is_both_ways)
			begin_responses(splice, a, request);
	}
	bpf_spin_unlock(&splice->lock);
	return answer;
}

// Whether the receiver has the end of a stream, from the kernel.
static __always_inline int is_passed(const struct packet_way *way)
{
	return way->has_end && way->has_moved && way->start == way->end_of_stream;
}

// From where on the local socket of a leg goes on.
static __always_inline void resume(struct packet_leg *leg, const struct packet_way *way, const struct packet_way *back,
				   const struct local *local)
{
	__u32 start = back->start + back->delta;

	// An end that the peer has acknowledged is passed on once more by the local socket.
	if (is_passed(back))
		start -= 1;
	// By which interface its packets leave is seen when it sends some.
	leg->ifindex = 0;
	// What the process has received and not passed on yet, it passes on with the numbers that it has.
	if (way->has_moved || !is_after(local->rcv_nxt + leg->receive_offset, way->start))
		leg->receive_offset = way->start - local->rcv_nxt;
	leg->send_offset = start - local->write_seq;
	leg->local_end = start;
	leg->sent_end = leg->peer_next = back->end + back->delta;
	leg->is_ahead = leg->sent_end != start;
	leg->had_end = back->has_end;
}

static __always_inline enum packet_answer disarm(struct packet_splice *splice, const struct local *a, const struct local *b,
						 int is_forced)
{
	enum packet_answer answer = PACKET_DONE;

	if (splice->state == PACKET_RESPONSES) {
		// Nothing is said by the local sockets in the meantime: they need not be at rest. But a request that was forwarded must have
		// arrived: only its client can send it again, and the local socket would take it for an old one.
		bpf_spin_lock(&splice->lock);
		if (splice->state != PACKET_RESPONSES)
			answer = PACKET_NO_PLACE;
		else if (!is_forced && is_before(splice->legs[0].received, splice->judged_end))
			answer = PACKET_BUSY;
		else
			end_responses(splice);
		bpf_spin_unlock(&splice->lock);
		return answer;
	}
	// By force, one is enough: the other one may have been reset by a packet that had passed the hook before the splice.
	if (is_forced ? !a->is_whole && !b->is_whole : !a->is_established || !b->is_established)
		return PACKET_NO_SOCKET;
	// What they have sent may be unacknowledged. Either that keeps its numbers, or the peer has it already: then their numbers
	// move on, and what they send again is old to the peer.
	if (!is_forced && (!a->is_empty || !b->is_empty))
		return PACKET_BUSY;
	bpf_spin_lock(&splice->lock);
	if (is_over(splice)) {
		answer = PACKET_ENDED_BEFORE;
	} else if (splice->state != PACKET_SPLICED) {
		answer = PACKET_NO_PLACE;
	} else {
		if (a->is_whole)
			resume(&splice->legs[0], &splice->ways[0], &splice->ways[1], a);
		if (b->is_whole)
			resume(&splice->legs[1], &splice->ways[1], &splice->ways[0], b);
		splice->state = PACKET_PROCESS;
	}
	bpf_spin_unlock(&splice->lock);
	return answer;
}

// Does what the process asks for (`enum packet_command`), and answers with an `enum packet_answer`.
SEC("tc")
int carrick_command(struct __sk_buff *skb)
{
	struct packet_splice *splice;
	struct request request;
	struct local a, b;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &request, sizeof(request)))
		return PACKET_NO_PLACE;
	splice = bpf_map_lookup_elem(&splices, &request.number);
	if (!splice)
		return PACKET_NO_PLACE;
	if (request.command == PACKET_MAY_END) {
		bpf_spin_lock(&splice->lock);
		splice->legs[request.argument & 1].may_end = 1;
		bpf_spin_unlock(&splice->lock);
		return PACKET_DONE;
	}
	if (request.command == PACKET_GO_BY) {
		bpf_spin_lock(&splice->lock);
		splice->legs[request.side & 1].ifindex = request.argument;
		bpf_spin_unlock(&splice->lock);
		return PACKET_DONE;
	}
	look_at(skb, &splice->legs[0], &a);
	look_at(skb, &splice->legs[1], &b);
	if (request.command == PACKET_ARM || request.command == PACKET_ARM_RESPONSES) {
		splice->seen_ns = bpf_ktime_get_ns();
		return has_flows(splice, request.number) ? arm(splice, &request, &a, &b) : PACKET_NO_PLACE;
	}
	if (request.command == PACKET_LOOK)
		return a.is_there || b.is_there ? PACKET_DONE : PACKET_NO_SOCKET;
	if (request.command == PACKET_DISARM)
		return disarm(splice, &a, &b, request.argument);
	return PACKET_NO_PLACE;
}

// Tells the process to look at a splice.
static __always_inline void tell(__u32 direction)
{
	bpf_ringbuf_output(&packet_events, &direction, sizeof(direction), 0);
}

// Gives the local socket an acknowledgement for what it has sent, and nothing else: whatever the packet carries ends where the
// socket expects more, so that it is old.
static __always_inline int copy_to_local(struct __sk_buff *skb, struct packet *packet, const struct packet_leg *leg,
					 const struct plan *plan)
{
	struct rewriting rewriting = {
		.ack = plan->local_ack - packet->ack,
		.tsecr = -leg->ts_offset,
		.window = packet->window,
	};
	__u8 sack_blocks = packet->sack_blocks;
	struct local local;

	look_at(skb, leg, &local);
	// One that has ended its stream still waits.
	if (!local.is_whole)
		return 1;
	rewriting.seq = local.rcv_nxt - packet->payload_bytes - packet->seq;
	// Of no use here: they are translated for the other peer.
	packet->sack_blocks = 0;
	rewrite_tcp(packet, &rewriting);
	packet->sack_blocks = sack_blocks;
	packet->headers->new[13] &= ~FLAG_FIN;
	if (!write_tcp(skb, packet))
		return 0;
	skb->mark = own_mark;
	bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS);
	skb->mark = 0;
	// The one that goes on is made from the one that came: the checksum in both headers is the one that it came with.
	packet->headers->new[13] = packet->flags;
	return 1;
}

// Where the packet's connection belongs; 0 if it is in no splice.
static __always_inline struct packet_splice *find(const struct packet *packet, const struct flow *flow, __u32 *direction)
{
	struct place *place = bpf_map_lookup_elem(&flows, flow);
	__u32 number;

	if (!place)
		return 0;
	*direction = place->number;
	number = place->number >> 1;
	return bpf_map_lookup_elem(&splices, &number);
}

static __always_inline int changes(const struct packet *packet, const struct rewriting *rewriting)
{
	return rewriting->seq || rewriting->ack || rewriting->sack || rewriting->tsval || rewriting->tsecr ||
	       rewriting->window != packet->window || rewriting->is_reset;
}

// Where what is known of the splice's responses stands. Splices of other kinds have no use for it.
static __always_inline struct packet_response *find_record(const struct packet_splice *splice)
{
	__u32 record = splice->record;

	return bpf_map_lookup_elem(&responses, &record);
}

// Keeps the first bytes and the last ones of a response for the process.
static __always_inline void record_payload(struct __sk_buff *skb, const struct packet *packet, const struct plan *plan,
					   struct packet_response *record)
{
	__u32 at = packet->tcp_at + packet->header_bytes, bytes = packet->payload_bytes;

	if (plan->is_tail && bytes >= PACKET_TAIL_BYTES)
		bpf_skb_load_bytes(skb, at + bytes - PACKET_TAIL_BYTES, record->tail, PACKET_TAIL_BYTES);
	if (!plan->is_head)
		return;
	if (bytes > PACKET_HEAD_BYTES)
		bytes = PACKET_HEAD_BYTES;
	asm volatile("" : "+r"(bytes));
	if (!bytes || bytes > PACKET_HEAD_BYTES)
		return;
	if (!bpf_skb_load_bytes(skb, at, record->head, bytes))
		record->head_bytes = bytes;
}

// Whether a local socket has nothing to send, or to send again: what it sends later may have other numbers. A function of its own, since its
// stack and the judge's would be too much at the same time.
static __attribute__((noinline)) int is_silent(struct __sk_buff *skb, const struct packet_leg *leg)
{
	struct local local;

	look_at(skb, leg, &local);
	return local.is_established && local.is_empty && local.snd_una == local.write_seq;
}

// Whether the packet is a request that may go where the last one went. Whatever is not certain is up to the process.
static __always_inline int judge_packet(struct __sk_buff *skb, const struct packet *packet, const struct packet_splice *splice,
					struct packet_response *record)
{
	struct judgement *judged;

	// What the server's local socket has yet to send, or to send again, would get numbers that are taken.
	if (!is_next_request(splice, record, packet) || !is_silent(skb, &splice->legs[1]))
		return 0;
	if (judge_request(skb, packet->tcp_at + packet->header_bytes, packet->payload_bytes, splice->table - 1,
			  splice->generation) < 0)
		return 0;
	judged = judgement();
	if (!judged || judged->upstream != splice->upstream)
		return 0;
	record->method = judged->method;
	return 1;
}

SEC("tc")
int carrick_arriving(struct __sk_buff *skb)
{
	struct packet_splice *splice;
	struct packet_response *record;
	struct plan plan = {};
	struct packet packet;
	__u32 direction;
	int is_judged = 0;
	__u64 now;

	if (skb->mark == own_mark) {
		skb->mark = 0;
		return TC_ACT_UNSPEC;
	}
	// What belongs to a VLAN comes in again at its own interface.
	if (skb->vlan_present || !read_packet(skb, &packet))
		return TC_ACT_UNSPEC;
	splice = find(&packet, &packet.flow, &direction);
	if (!splice || !read_tcp(skb, &packet))
		return TC_ACT_UNSPEC;
	record = find_record(splice);
	if (!record)
		return TC_ACT_SHOT;
	if (!(direction & 1) && splice->state == PACKET_RESPONSES && splice->table)
		is_judged = judge_packet(skb, &packet, splice, record);
	now = bpf_ktime_get_ns();
	if (is_forsaken(splice, now)) {
		bpf_map_delete_elem(&flows, &packet.flow);
		return TC_ACT_UNSPEC;
	}
	bpf_spin_lock(&splice->lock);
	judge_arriving(splice, record, direction & 1, &packet, is_judged, &plan);
	if (plan.fate == FATE_FORWARD)
		splice->seen_ns = now;
	bpf_spin_unlock(&splice->lock);
	if (plan.is_acknowledging)
		record->acked_ns = now;
	if (plan.is_told)
		tell(direction);
	switch (plan.fate) {
	case FATE_DROP:
		return TC_ACT_SHOT;
	case FATE_FORGET:
		bpf_map_delete_elem(&flows, &packet.flow);
		return TC_ACT_UNSPEC;
	case FATE_LOCAL:
		if (!changes(&packet, &plan.rewriting))
			return TC_ACT_UNSPEC;
		rewrite_tcp(&packet, &plan.rewriting);
		return write_tcp(skb, &packet) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
	case FATE_FORWARD:
		note_pulse(now);
		break;
	}
	if (plan.is_request)
		tell_request(direction >> 1, record->head_at, record->before_status);
	if (plan.is_head || plan.is_tail)
		record_payload(skb, &packet, &plan, record);
	if (!plan.flow)
		return TC_ACT_SHOT;
	if (plan.is_copied && !copy_to_local(skb, &packet, &splice->legs[direction & 1], &plan))
		return TC_ACT_SHOT;
	*(__u16 *)packet.headers->new = plan.flow->own_port;
	*(__u16 *)(packet.headers->new + 2) = plan.flow->peer_port;
	rewrite_tcp(&packet, &plan.rewriting);
	if (!write_tcp(skb, &packet) || !write_addresses(skb, &packet, plan.flow))
		return TC_ACT_SHOT;
	// So that it is not taken for a packet of the local socket, whose addresses it has. (That it belongs to no socket is no
	// sign: between namespaces of one host a packet keeps the one that sent it.)
	skb->mark = own_mark;
	return bpf_redirect_neigh(plan.ifindex, 0, 0, 0);
}

SEC("tc")
int carrick_leaving(struct __sk_buff *skb)
{
	__u32 direction, *received = 0;
	struct packet_splice *splice;
	struct packet_response *record;
	struct plan plan = {};
	struct packet packet;
	struct local client;
	struct flow flow;

	if (skb->mark == own_mark) {
		skb->mark = 0;
		return TC_ACT_UNSPEC;
	}
	if (skb->vlan_present || !read_packet(skb, &packet))
		return TC_ACT_UNSPEC;
	__builtin_memcpy(flow.own, packet.flow.peer, sizeof(flow.own));
	__builtin_memcpy(flow.peer, packet.flow.own, sizeof(flow.peer));
	flow.own_port = packet.flow.peer_port;
	flow.peer_port = packet.flow.own_port;
	splice = find(&packet, &flow, &direction);
	if (!splice || !read_tcp(skb, &packet))
		return TC_ACT_UNSPEC;
	if (is_forsaken(splice, bpf_ktime_get_ns())) {
		bpf_map_delete_elem(&flows, &flow);
		return TC_ACT_UNSPEC;
	}
	record = find_record(splice);
	if (!record)
		return TC_ACT_SHOT;
	// With a request, what has come of it.
	if (splice->state == PACKET_RESPONSES && direction & 1 && packet.payload_bytes) {
		look_at(skb, &splice->legs[0], &client);
		if (client.is_established)
			received = &client.rcv_nxt;
	}
	bpf_spin_lock(&splice->lock);
	judge_leaving(splice, record, direction & 1, &packet, skb->ifindex, received, &plan);
	bpf_spin_unlock(&splice->lock);
	switch (plan.fate) {
	case FATE_DROP:
		return TC_ACT_SHOT;
	case FATE_FORGET:
		bpf_map_delete_elem(&flows, &flow);
		return TC_ACT_UNSPEC;
	default:
		if (!changes(&packet, &plan.rewriting))
			return TC_ACT_UNSPEC;
		rewrite_tcp(&packet, &plan.rewriting);
		return write_tcp(skb, &packet) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
	}
}
