// The packet engine: forwards the packets of two connections from one to the other, as if they were one connection.
//
// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>
#include "../pacing/pacing.h"
#include "tc.h"
#include "headers.h"
#include "checksum.h"
#include "local.h"
#include "next_hop.h"
#include "machine.h"
#include "icmp.h"
#include "../http/classifier.h"
#include "pulse.h"

char _license[] SEC("license") = "GPL";

// The mark of a packet between two of these programs. Set at load time: other carrick programs on the same
// interface use another mark, and ignore this one.
const volatile __u32 own_mark = 0x63617273;

// The mark of copies for local sockets.
#define COPY_MARK (own_mark ^ 1)

// Puts these enums into the generated types: their values are in tc.h only.
const volatile enum packet_state state_numbers = PACKET_FREE;
const volatile enum packet_command command_numbers = PACKET_LOOK;
const volatile enum packet_answer answer_numbers = PACKET_DONE;

// The process only reads `flows` and `splices`; the programs write them. So even a compromised process cannot
// splice other connections of the host. `flows` is frozen once loaded. The kernel cannot freeze a map that
// contains a lock: for `splices`, the process gets a read-only descriptor.
#ifndef PROCESS_ACCESS
#define PROCESS_ACCESS BPF_F_RDONLY
#endif

// Connections and their slots. The process sets the sizes of the maps when it loads them.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2);
	__type(key, struct flow);
	__type(value, struct place);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, PROCESS_ACCESS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet_splice);
} splices SEC(".maps");

// State of forwarded responses; mapped into the process.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet_response);
} responses SEC(".maps");

// The latest forwarded request, for each record of `responses`.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet_request);
} requests SEC(".maps");

// The splice's record. Splices of other kinds do not use it.
static __always_inline struct packet_response *find_record(const struct packet_splice *splice)
{
	__u32 record = splice->record;

	return bpf_map_lookup_elem(&responses, &record);
}

// Likewise, the latest forwarded request.
static __always_inline struct packet_request *find_request(const struct packet_splice *splice)
{
	__u32 record = splice->record;

	return bpf_map_lookup_elem(&requests, &record);
}

// Splices that the process must check.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} packet_events SEC(".maps");

#include "slot.h"
#include "command.h"
#include "grant.h"

// Executes a command of the process (`enum packet_command`). Returns an `enum packet_answer`.
SEC("tc")
int carrick_command(struct __sk_buff *skb)
{
	struct packet_splice *splice;
	struct request request;
	struct local a = {}, b = {};

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
	if (request.command == PACKET_FORGET) {
		forget(splice, request.number);
		return PACKET_DONE;
	}
	if (request.command == PACKET_GO_BY) {
		if (!is_own_interface(request.argument))
			return PACKET_NOT_OURS;
		bpf_spin_lock(&splice->lock);
		// A connection that was forgotten has none (is_forgotten).
		if (splice->legs[request.side & 1].ifindex || splice->state == PACKET_PROCESS)
			splice->legs[request.side & 1].ifindex = request.argument;
		bpf_spin_unlock(&splice->lock);
		return PACKET_DONE;
	}
	look_at(skb, &splice->legs[0], &a);
	look_at(skb, &splice->legs[1], &b);
	if (request.command == PACKET_ARM || request.command == PACKET_ARM_RESPONSES || request.command == PACKET_ARM_BODY) {
		if (a.is_there && b.is_there && !(is_own(skb, &splice->legs[0].flow) && is_own(skb, &splice->legs[1].flow)))
			return PACKET_NOT_OURS;
		splice->seen_ns = splice->noted_ns = bpf_ktime_get_ns();
		splice->pending_ns = 0;
		// TCP's timestamps are in milliseconds.
		a.tsval += splice->seen_ns / 1000000;
		b.tsval += splice->seen_ns / 1000000;
		return has_flows(splice, request.number) ? arm(splice, &request, &a, &b) : PACKET_NO_PLACE;
	}
	if (request.command == PACKET_LOOK) {
		// A connection that a later splice has is that one's.
		int has_a = a.is_there && has_flow(splice, request.number, 0), has_b = b.is_there && has_flow(splice, request.number, 1);

		if ((has_a && a.snd_una != a.write_seq) || (has_b && b.snd_una != b.write_seq))
			return PACKET_BUSY;
		return has_a || has_b ? PACKET_DONE : PACKET_NO_SOCKET;
	}
	if (request.command == PACKET_DISARM || request.command == PACKET_TAKE_CLIENT)
		return disarm(splice, &request, &a, &b);
	return PACKET_NO_PLACE;
}

// Puts two connections into a slot (`struct packet_placing`). Returns an `enum packet_answer`.
SEC("tc")
int carrick_place(struct __sk_buff *skb)
{
	struct packet_placing placing;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &placing, sizeof(placing)))
		return PACKET_NO_PLACE;
	if (!is_own(skb, &placing.flows[0]) || !is_own(skb, &placing.flows[1]))
		return PACKET_NOT_OURS;
	return place(&placing);
}

// Serves ways that wait for a grant, at most as many as the word behind the Ethernet header says. Returns how
// many still wait.
SEC("tc")
int carrick_grant(struct __sk_buff *skb)
{
	struct granting granting = { .skb = skb, .now = bpf_ktime_get_ns() };
	__u32 zero = 0, most = 0;
	struct holding *holding = bpf_map_lookup_elem(&holdings, &zero);

	if (!holding || bpf_skb_load_bytes(skb, ETH_HLEN, &most, sizeof(most)))
		return 0;
	holding->visited_ns = granting.now;
	bpf_loop(most < GRANTS_MAX ? most : GRANTS_MAX, grant_next, &granting, 0);
	return *(volatile __u32 *)&holding->count;
}

// Tells the process to check a splice.
static __always_inline void tell(__u32 direction)
{
	bpf_ringbuf_output(&packet_events, &direction, sizeof(direction), 0);
}

#include "beside.h"
#include "cut.h"
#include "kept.h"

// The splice and number of the packet's connection; 0 if it is in no splice.
static __always_inline struct packet_splice *find(const struct flow *flow, __u32 *direction)
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
	       rewriting->window != packet->window || rewriting->is_reset || rewriting->is_calmed;
}

// Whether a local socket has nothing to send or retransmit, so that its numbers can move, and its peer takes
// segments of `bytes`, TCP options included. Not inlined, since the stack has no room for its frame beside
// the classifier's.
static __attribute__((noinline)) int is_silent(struct __sk_buff *skb, const struct packet_leg *leg, __u32 bytes)
{
	struct local *local = look_for(skb, leg);

	return local && local->is_established && local->is_empty && local->snd_una == local->write_seq && bytes <= local->segment_bytes;
}

// Copies the payload, which may be a request. First makes it private to the packet: a local sender could
// change a file or page that is still shared after it was classified (sendfile(2), MSG_ZEROCOPY).
static __attribute__((noinline)) int take_payload(struct __sk_buff *skb, __u32 at, __u32 bytes)
{
	__u32 zero = 0;
	struct headers *headers_of = bpf_map_lookup_elem(&headers, &zero);

	if (!headers_of || !IS_WITHIN(bytes, 1, PACKET_REQUEST_BYTES) || bpf_skb_pull_data(skb, at + bytes))
		return 0;
	return !bpf_skb_load_bytes(skb, at, headers_of->payload.words, bytes);
}

// Whether the packet is a request for the same upstream as the last. The process gets whatever is uncertain.
static __always_inline int classify_packet(struct __sk_buff *skb, const struct packet *packet, const struct packet_splice *splice,
					   struct packet_response *record, __u64 now)
{
	struct parsed_head *parsed;

	// Data that the server's local socket has yet to send or retransmit would get numbers already in use.
	if (!is_next_request(splice, record, packet) || now >= splice->requests_until_ns ||
	    choices_of(splice->upstream) != splice->choices ||
	    !is_silent(skb, &splice->legs[1], packet->payload_bytes + packet->header_bytes - TCP_HEADER_MIN + record->fields.bytes))
		return 0;
	if (classify_request(skb, packet->tcp_at + packet->header_bytes, packet->payload_bytes, splice->table - 1,
			     splice->generation) < 0)
		return 0;
	parsed = parsed_head();
	if (!parsed || parsed->upstream != splice->upstream || !is_for_host(parsed, &record->fields))
		return 0;
	packet->headers->method = parsed->method;
	packet->headers->left_out_at = parsed->connection_at;
	return 1;
}

// Measures the response that begins in a packet of the server's, if one does.
static __attribute__((noinline)) int measure(struct __sk_buff *skb, const struct packet *packet, const struct packet_splice *splice,
					     const struct packet_response *record)
{
	struct parsed_head *parsed;
	int is_known;

	packet->headers->response_bytes = 0;
	packet->headers->interim_bytes = 0;
	if (splice->state != PACKET_RESPONSES || !packet->payload_bytes || !begins(splice, record, packet))
		return 0;
	is_known = measure_response(skb, packet->tcp_at + packet->header_bytes, packet->payload_bytes, record->method);
	parsed = parsed_head();
	if (parsed && is_known)
		packet->headers->response_bytes = parsed->response_bytes;
	else if (parsed)
		packet->headers->interim_bytes = parsed->interim_bytes;
	return 0;
}

// Whether the local socket has everything before `seq`, and nothing behind it. Not inlined for the same
// reason.
static __attribute__((noinline)) int is_next(struct __sk_buff *skb, const struct packet_leg *leg, __u32 seq)
{
	struct local *local = look_for(skb, leg);

	return local && local->is_established && local->is_in_order && local->rcv_nxt + leg->receive_offset == seq;
}

// Whether the local socket has its peer's whole stream, which ends at `seq`, and has not ended its own. Not inlined for
// the same reason.
static __attribute__((noinline)) int is_half_closed(struct __sk_buff *skb, const struct packet_leg *leg, __u32 seq)
{
	struct local *local = look_for(skb, leg);

	return local && local->is_half_closed && local->rcv_nxt + leg->receive_offset == seq;
}

// Tells the process of a forwarded request, before the server receives it.
static __always_inline void tell_of_request(struct packet_response *record, __u32 place, __u64 now)
{
	struct telling telling = {
		.time_ns = now,
		.sent_bytes = record->head_at,
		.told_end = record->told_end,
		.told_as = record->told_as,
		.place = place,
		.told_status = record->told_status,
	};

	if (tell_request(&telling))
		record->told_end = PACKET_LATEST;
}

// Handles a packet that is not TCP: a message about a spliced packet goes to that packet's sender.
static __attribute__((noinline)) int pass_message(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct message *message = bpf_map_lookup_elem(&messages, &zero);
	struct packet_splice *splice;
	enum fate fate;

	if (!message || !read_message(skb, message))
		return TC_ACT_UNSPEC;
	splice = find(&message->flow, &message->direction);
	if (!splice)
		return TC_ACT_UNSPEC;
	bpf_spin_lock(&splice->lock);
	fate = fate_of_message(splice, message);
	bpf_spin_unlock(&splice->lock);
	if (fate == FATE_LOCAL) {
		if (!message->difference || write_quoted(skb, message, message->tcp.source_port, message->tcp.destination_port))
			return TC_ACT_UNSPEC;
		return TC_ACT_SHOT;
	}
	if (fate == FATE_DROP || !turn_message(skb, message))
		return TC_ACT_SHOT;
	skb->mark = own_mark;
	return bpf_redirect_neigh(message->ifindex, 0, 0, 0);
}

// An empty plan for a packet.
static __always_inline struct plan *begin_plan(const struct packet *packet)
{
	struct plan *plan = &packet->headers->plan;

	forget_pace(&packet->headers->pace);
	__builtin_memset(plan, 0, sizeof(*plan));
	return plan;
}

// Limits the advertised window to what was granted to the sender of the way `told`.
static __always_inline void settle(const struct packet *packet, __u32 number, __u32 told, struct plan *plan)
{
	struct pace_view *view = &packet->headers->pace;

	settle_pace(number, told);
	if (view->taken[0])
		pay_pace(number, 0);
	if (view->taken[1])
		pay_pace(number, 1);
	if (view->is_held)
		hold_pace(number, told, view->now);
	if (!view->told_way || !view->says_window)
		return;
	plan->rewriting.window = view->field;
	// It would count as a duplicate acknowledgement (RFC 5681 section 2).
	if (view->is_idle && !plan->is_copied && plan->fate == FATE_FORWARD)
		plan->fate = FATE_DROP;
}

// Adds up for how long the peers have had data in flight, until a packet arrives. Whether its acknowledgement
// ends that shows with the next packet, as readers know.
static __always_inline void note_active(struct packet_splice *splice, __u64 now)
{
	const struct packet_way *up = &splice->ways[0], *down = &splice->ways[1];
	__u64 pause = now - splice->noted_ns;

	if (up->bytes + down->bytes != splice->noted_bytes) {
		splice->noted_bytes = up->bytes + down->bytes;
		splice->active_ns += splice->pending_ns;
		splice->pending_ns = 0;
	}
	if (up->end == up->acked && down->end == down->acked && pause > PACKET_PAUSE_NS)
		pause = PACKET_PAUSE_NS;
	splice->pending_ns += pause;
	splice->noted_ns = now;
	// Forces values to be read again: clang 19 would keep them, on more stack than a program may use.
	asm volatile("" ::: "memory");
}

SEC("tc")
int carrick_arriving(struct __sk_buff *skb)
{
	struct packet_splice *splice;
	struct packet_response *record;
	struct packet_request *kept;
	struct plan *plan;
	struct packet packet;
	__u32 direction;
	int is_confirmed = 0, known;
	__u64 now;

	if (skb->mark == COPY_MARK) {
		skb->mark = 0;
		// A bond that balances arriving packets has its members' addresses in them, which the kernel takes for another host's.
		bpf_skb_change_type(skb, PACKET_HOST);
		return strip_payload(skb) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
	}
	// A VLAN's packet enters again at the VLAN's interface. With number 0 the tag is only a priority; there may be another one behind it.
	if (skb->vlan_present && (skb->vlan_tci & 0xfff || bpf_skb_vlan_pop(skb)))
		return TC_ACT_UNSPEC;
	// The kernel would take off the second, too, and give the local socket a packet with the peer's numbers.
	if (skb->vlan_present)
		return skb->vlan_tci & 0xfff ? TC_ACT_UNSPEC : TC_ACT_SHOT;
	own_headers(skb);
	known = read_packet(skb, &packet);
	if (known < 0)
		return TC_ACT_SHOT;
	if (!known)
		return pass_message(skb);
	splice = find(&packet.headers->flow, &direction);
	// The local stack drops packets with bad checksums, and counts them.
	if (!splice || !read_tcp(skb, &packet) || !is_right(skb, &packet))
		return TC_ACT_UNSPEC;
	// What is sent on is cut by the packet's own length: more would leave than was read. A virtual machine can say so.
	if (skb->gso_size && packet.tcp_at + packet.header_bytes + packet.payload_bytes != skb->len)
		return TC_ACT_SHOT;
	record = find_record(splice);
	kept = find_request(splice);
	if (!record || !kept)
		return TC_ACT_SHOT;
	now = bpf_ktime_get_ns();
	if (is_forsaken(splice, now)) {
		bpf_map_delete_elem(&flows, &packet.headers->flow);
		return TC_ACT_UNSPEC;
	}
	if (direction & 1)
		measure(skb, &packet, splice, record);
	if (!(direction & 1) && splice->state == PACKET_RESPONSES && packet.payload_bytes && !packet.is_unforwardable)
		packet.has_payload = take_payload(skb, packet.tcp_at + packet.header_bytes, packet.payload_bytes);
	// Merged segments (GRO) may be retransmitted one by one. A retransmission is compared in any case.
	if (packet.has_payload && splice->table && !skb->gso_size)
		is_confirmed = classify_packet(skb, &packet, splice, record, now);
	if (direction & 1 && splice->state == PACKET_DUE && packet.payload_bytes && packet.seq == splice->legs[1].passed_end &&
	    !packet.is_unforwardable)
		is_confirmed = is_next(skb, &splice->legs[1], packet.seq);
	if (packet.flags & FLAG_RST && !packet.is_unforwardable && splice->state == PACKET_PROCESS && splice->legs[direction & 1].is_ahead)
		is_confirmed = is_half_closed(skb, &splice->legs[direction & 1], packet.seq);
	blur(&packet);
	plan = begin_plan(&packet);
	if (is_paced(splice))
		look_up_pace(direction >> 1, ~direction & 1, now);
	bpf_spin_lock(&splice->lock);
	note_active(splice, now);
	handle_arriving(splice, record, kept, direction & 1, &packet, is_confirmed, plan);
	if (plan->fate == FATE_FORWARD) {
		splice->seen_ns = now;
		// Without the lock, the slot may be given to others, whose addresses the packet must not get.
		packet.headers->to = splice->legs[~direction & 1].flow;
	}
	bpf_spin_unlock(&splice->lock);
	if (is_paced(splice))
		settle(&packet, direction >> 1, ~direction & 1, plan);
	show_life(splice, direction, &packet, now, plan);
	if (plan->is_acknowledging)
		record->acked_ns = now;
	if (plan->is_told)
		tell(direction);
	switch (plan->fate) {
	case FATE_DROP:
		return TC_ACT_SHOT;
	case FATE_FORGET:
		bpf_map_delete_elem(&flows, &packet.headers->flow);
		return TC_ACT_UNSPEC;
	case FATE_LOCAL:
		if (!changes(&packet, &plan->rewriting))
			return TC_ACT_UNSPEC;
		rewrite_tcp(&packet, &plan->rewriting);
		return write_tcp(skb, &packet) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
	case FATE_CUT:
		// What is cut is no longer merged (GRO): without a segment's length, it would leave as one packet of any size.
		if (skb->gso_size && plan->part > skb->gso_size)
			plan->part = skb->gso_size;
		// A jumbo packet (RFC 2675) would keep its option.
		if (packet.is_ipv6 && packet.tcp_at != ETH_HLEN + sizeof(struct ipv6hdr))
			return TC_ACT_SHOT;
		return cut_payload(skb, &packet, plan->part) ? bpf_redirect(skb->ifindex, BPF_F_INGRESS) : TC_ACT_SHOT;
	case FATE_FORWARD:
		note_pulse(now);
		break;
	}
	if (plan->is_request)
		tell_of_request(record, direction >> 1, now);
	if (plan->is_head || plan->is_tail)
		record_payload(skb, &packet, plan, direction >> 1, record);
	if (packet.is_expiring)
		return answer_expired(skb, &packet) ? bpf_redirect(skb->ifindex, 0) : TC_ACT_SHOT;
	if (plan->is_copied && !copy_to_local(skb, &packet, &splice->legs[direction & 1], plan))
		return TC_ACT_SHOT;
	*(__u16 *)packet.headers->new = packet.headers->to.own_port;
	*(__u16 *)(packet.headers->new + 2) = packet.headers->to.peer_port;
	rewrite_tcp(&packet, &plan->rewriting);
	if (!write_tcp(skb, &packet) || !write_ip(skb, &packet, &packet.headers->to))
		return TC_ACT_SHOT;
	if (plan->is_changed && !change_payload(skb, &packet, plan, &record->fields))
		return TC_ACT_SHOT;
	// Keeps it from being taken for a packet of the local socket whose addresses it has. (Having no socket is no
	// criterion: between namespaces of one host, a packet keeps its sender's.)
	skb->mark = own_mark;
	return send_on(skb, &packet, &splice->legs[~direction & 1], plan->ifindex);
}

SEC("tc")
int carrick_leaving(struct __sk_buff *skb)
{
	__u32 direction, *received = 0;
	struct packet_splice *splice;
	struct packet_response *record;
	struct plan *plan;
	struct packet packet;
	struct local client = {};
	struct flow flow;

	if (skb->mark == own_mark) {
		skb->mark = 0;
		return TC_ACT_UNSPEC;
	}
	// What has come in by an interface is forwarded by this host as a router, whatever its addresses say: no socket has sent it.
	if (skb->ingress_ifindex || skb->vlan_present || read_packet(skb, &packet) <= 0)
		return TC_ACT_UNSPEC;
	__builtin_memcpy(flow.own, packet.headers->flow.peer, sizeof(flow.own));
	__builtin_memcpy(flow.peer, packet.headers->flow.own, sizeof(flow.peer));
	flow.own_port = packet.headers->flow.peer_port;
	flow.peer_port = packet.headers->flow.own_port;
	splice = find(&flow, &direction);
	if (!splice || !read_tcp(skb, &packet))
		return TC_ACT_UNSPEC;
	if (is_forsaken(splice, bpf_ktime_get_ns())) {
		bpf_map_delete_elem(&flows, &flow);
		return TC_ACT_UNSPEC;
	}
	record = find_record(splice);
	if (!record)
		return TC_ACT_SHOT;
	// With a request, reads how much of it the client's local socket has received.
	if (splice->state == PACKET_RESPONSES && direction & 1 && packet.payload_bytes) {
		look_at(skb, &splice->legs[0], &client);
		if (client.is_established)
			received = &client.rcv_nxt;
	}
	blur(&packet);
	plan = begin_plan(&packet);
	if (is_paced(splice))
		look_up_pace(direction >> 1, direction & 1, bpf_ktime_get_ns());
	bpf_spin_lock(&splice->lock);
	handle_leaving(splice, record, direction & 1, &packet, skb->ifindex, received, plan);
	bpf_spin_unlock(&splice->lock);
	if (is_paced(splice))
		settle(&packet, direction >> 1, direction & 1, plan);
	switch (plan->fate) {
	case FATE_DROP:
		return TC_ACT_SHOT;
	case FATE_FORGET:
		bpf_map_delete_elem(&flows, &flow);
		return TC_ACT_UNSPEC;
	default:
		if (!changes(&packet, &plan->rewriting))
			return TC_ACT_UNSPEC;
		rewrite_tcp(&packet, &plan->rewriting);
		return write_tcp(skb, &packet) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
	}
}
