/* The state machine of a splice: decides what happens to a packet. It calls no helper, since the splice's lock is
 * held. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_MACHINE_H
#define CARRICK_TC_MACHINE_H

/* A window probe may go this far beyond the receiver's window. */
#define PROBE_BYTES 1

/* The largest window (RFC 7323 section 2.3). */
#define WINDOW_LIMIT (1U << 30)

static __always_inline int is_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline int is_after(__u32 a, __u32 b)
{
	return (__s32)(b - a) < 0;
}

/* The sequence numbers that a packet occupies. */
static __always_inline __u32 sequence_length(const struct packet *packet)
{
	return packet->payload_bytes + !!(packet->flags & FLAG_SYN) + !!(packet->flags & FLAG_FIN);
}

/* Whether only retransmissions are still to come. */
static __always_inline int is_over(const struct packet_splice *splice)
{
	return splice->state == PACKET_ENDED || splice->state == PACKET_RESET;
}

/* Whether a packet with this end is more than a retransmission, from a peer that has ended or reset its stream. The receiver
 * may have dropped that end, and what follows is noted nowhere. (The other peer of a reset learns of it by what it sends.) */
static __always_inline int is_behind_end(const struct packet_splice *splice, const struct packet_leg *leg, const struct packet_way *way,
					 __u32 end)
{
	return is_over(splice) && (splice->state == PACKET_ENDED || leg->has_reset) && is_after(end, way->end);
}

/* A sender that knew a larger window before the splice may send more than the receiver takes. The receiver drops what lies
 * beyond its window, and whatever else has a number there, a reset included. */
static __always_inline int has_overrun(const struct packet_way *way)
{
	return is_after(way->end, way->offered_end);
}

/* The number that the receiver expects behind everything on the way, as far as is known, in its own numbers. */
static __always_inline __u32 expected_by_receiver(const struct packet_way *way)
{
	return (has_overrun(way) ? way->acked : way->end) + way->delta;
}

static __always_inline int has_ended(const struct packet_way *way)
{
	return way->has_end && !is_before(way->acked, way->end_of_stream);
}

/* Records what was sent along a way; `end` is the number behind it. */
static __always_inline void note_sent(struct packet_way *way, __u32 end, __u8 flags)
{
	if (is_after(end, way->end))
		way->end = end;
	/* Nothing follows a FIN. A FIN inside what was sent is forged, or an error. */
	if (flags & FLAG_FIN && end == way->end) {
		way->has_end = 1;
		way->end_of_stream = end;
	}
}

/* Whether a leg that packets were forwarded to is no longer the splice's: its addresses are another connection's now, to which
 * nothing may go. */
static __always_inline int is_forgotten(const struct packet_leg *leg)
{
	return !leg->ifindex;
}

/* Whether packets of both connections were seen in both directions. */
static __always_inline int is_seen(const struct packet_splice *splice)
{
	const struct packet_leg *a = &splice->legs[0], *b = &splice->legs[1];

	return a->ifindex && b->ifindex && a->was_received && b->was_received;
}

/* Records a packet for the local socket. */
static __always_inline void note_given(struct packet_leg *leg, const struct packet *packet)
{
	__u32 end = packet->seq + sequence_length(packet);

	if (!leg->was_received || is_after(end, leg->passed_end))
		leg->passed_end = end;
	leg->was_received = 1;
	leg->is_odd |= packet->is_odd;
}

/* Acknowledgements may be this much older than the window makes them: when a splice begins, others are under way. */
#define ACKED_SLACK 0xffff

/* Whether the sender of a way would accept an acknowledgement. An older one is forged, or long out of date (RFC 5961 section
 * 5.2), which the sender may not see any more: what is forwarded can get a newer one. */
static __always_inline int is_acceptable(const struct packet_way *way, __u32 acked)
{
	return !is_after(acked, way->end) && !is_before(acked, way->acked - way->window_max - ACKED_SLACK);
}

/* Whether the packet's numbers are plausible. Otherwise it must change nothing, here or at the receiver. */
static __always_inline int is_plausible(const struct packet *packet, const struct packet_way *way,
					const struct packet_way *back, __u32 acked, int is_whole)
{
	__u32 end = packet->seq + sequence_length(packet);

	if (is_after(end, way->window_end + PROBE_BYTES) || is_before(packet->seq, way->acked - way->window_max))
		return 0;
	/* A retransmission from before the splice has the numbers of the local socket's data, but may hold other
	 * bytes. Once the receiver has that data, it discards such a packet as old, and acknowledges it. */
	if (is_whole && packet->payload_bytes && is_before(packet->seq, way->start) && is_before(way->acked, way->start))
		return 0;
	if (!(packet->flags & FLAG_ACK))
		return packet->flags & FLAG_RST;
	return is_acceptable(back, acked);
}

/* Passes an acknowledgement of its own data to the local socket, which would retransmit otherwise. `has_all`: the peer is known to
 * have all of it, also where 2 GiB behind it make its number look older. */
static __always_inline void acknowledge_locally(struct packet_leg *leg, const struct packet *packet, __u32 has_all, struct plan *plan)
{
	__u32 acked = has_all ? leg->local_end : packet->headers->ack;

	if (leg->local_acked == leg->local_end || !is_after(acked, leg->local_acked))
		return;
	leg->local_acked = is_after(acked, leg->local_end) ? leg->local_end : acked;
	plan->local_ack = leg->local_acked - leg->send_offset;
	plan->is_copied = 1;
}

/* Records what the local socket has sent. Returns the number behind it, on the wire. */
static __always_inline __u32 note_sent_locally(struct packet_leg *leg, const struct packet *packet)
{
	__u32 start = packet->seq + leg->send_offset, end = start + sequence_length(packet);

	if (is_after(end, leg->local_end))
		leg->local_end = end;
	/* A retransmission: it missed the acknowledgement, and is to get the next one. */
	if (is_before(start, leg->local_acked))
		leg->local_acked = start;
	return end;
}

/* A window as it is encoded in the header. */
static __always_inline __u16 scale_window(__u32 window, __u32 shift)
{
	window >>= shift & 15;
	return window > 0xffff ? 0xffff : window;
}

/* Records the window that the receiver of a way, or a local socket in its place, advertises to the sender. */
static __always_inline void note_window(struct packet_way *way, __u32 acked, __u32 window)
{
	if (is_after(acked + window, way->window_end))
		way->window_end = acked + window;
	if (window > way->window_max)
		way->window_max = window;
}

#include "pacing.h"

/* A packet from the peer of leg `side`, while the splice is in the kernel. */
static __always_inline void handle_spliced(struct packet_splice *splice, __u32 side, const struct packet *packet,
					   struct plan *plan)
{
	struct packet_leg *leg = &splice->legs[side & 1], *other = &splice->legs[~side & 1];
	struct packet_way *way = &splice->ways[side & 1], *back = &splice->ways[~side & 1];
	__u32 acked = packet->headers->ack - back->delta, window = (__u32)packet->window << (leg->peer_shift & 15), told = acked;
	struct pace_view *view = &packet->headers->pace;

	plan->fate = FATE_FORWARD;
	plan->ifindex = other->ifindex;
	plan->rewriting.seq = way->delta;
	plan->rewriting.ack = plan->rewriting.sack = -back->delta;
	plan->rewriting.tsval = way->ts_delta;
	plan->rewriting.tsecr = -back->ts_delta;
	plan->rewriting.window = packet->window;
	/* The peer has lost the connection. The other one answers with what it knows (RFC 9293 section 3.10.7.4),
	 * which leads to a reset. Data would pass by all checks. */
	if (packet->flags & FLAG_SYN && !packet->payload_bytes)
		return;
	if (packet->flags & FLAG_SYN || !is_plausible(packet, way, back, acked, splice->state == PACKET_SPLICED) ||
	    !pace_allows(way, packet->seq + sequence_length(packet)) ||
	    is_behind_end(splice, leg, way, packet->seq + sequence_length(packet))) {
		plan->fate = FATE_DROP;
		splice->refused += 1;
		return;
	}
	/* The receiver does not get it. */
	if (packet->is_expiring)
		return;
	if (packet->flags & FLAG_RST) {
		plan->rewriting.window = scale_window(window, other->own_shift);
		/* The receiver challenges a reset elsewhere in the window (RFC 5961 section 3), and it comes again
		 * with this number. */
		if (splice->state == PACKET_SPLICED && (packet->seq == way->end || packet->seq == way->acked)) {
			splice->state = PACKET_RESET;
			leg->has_reset = 1;
			plan->is_told = 1;
			/* Too early a number for a receiver whose acknowledgements are still under way. The sender
			 * answers these with another reset. */
			if (packet->seq == way->end)
				plan->rewriting.seq = expected_by_receiver(way) - packet->seq;
		}
		return;
	}
	/* The local socket has acknowledged more than the receiver has. A packet with a much older acknowledgement
	 * is dropped, payload included (RFC 5961 section 5.2). */
	if (sequence_length(packet) && is_before(acked, back->start)) {
		told = back->start;
		plan->rewriting.ack += told - acked;
	}
	/* A single byte may be a window probe. */
	if (packet->payload_bytes > 1 && is_before(packet->seq, way->end))
		way->again += 1;
	pace_see_sent(view, way);
	/* Without payload, its sequence number may lie beyond data that was lost on the way here. */
	if (sequence_length(packet))
		note_sent(way, packet->seq + sequence_length(packet), packet->flags);
	way->packets += 1;
	if (!is_before(acked, back->acked)) {
		if (back->pace.handle)
			view->is_stale = is_stale(packet, back, acked, window);
		back->offered_end = acked + window;
	}
	if (is_after(acked, back->acked))
		back->acked = acked;
	if (is_after(acked, back->start)) {
		back->bytes += acked - back->start - (back->has_end && acked == back->end_of_stream);
		back->start = acked;
		back->has_moved = 1;
	}
	/* What was allowed before may still come. */
	if (!is_over(splice))
		note_window(back, acked, window);
	window = is_after(acked + window, told) ? acked + window - told : 0;
	plan->rewriting.window = scale_window(window, other->own_shift);
	pace_see_window(view, told, window, other->own_shift);
	view->says_window = splice->state == PACKET_SPLICED;
	if (packet->timestamps_at) {
		__u32 tsval = packet->headers->tsval + way->ts_delta;

		if (!other->has_tsval || is_after(tsval, other->last_tsval))
			other->last_tsval = tsval;
		other->has_tsval = 1;
	}
	acknowledge_locally(leg, packet, back->has_moved, plan);
	if (splice->state == PACKET_SPLICED && has_ended(way) && has_ended(back)) {
		splice->state = PACKET_ENDED;
		plan->is_told = 1;
	}
}

#include "responses.h"
#include "due.h"

/* A reset from the peer of a leg that was returned, at the end of the stream that its local socket has received. A
 * peer that has closed and has acknowledged a forwarded FIN has forgotten the connection, and answers so whatever the
 * local socket still sends: an acknowledgement again, or what was forwarded before. That has arrived, and to the local
 * socket it is acknowledged. Its own FIN is the last of it. */
static __always_inline void calm_reset(const struct packet_leg *leg, const struct packet *packet, struct plan *plan)
{
	if (!(packet->flags & FLAG_RST) || sequence_length(packet) || !leg->is_ahead || !leg->had_end ||
	    leg->peer_next != leg->sent_end)
		return;
	plan->rewriting.is_calmed = 1;
	plan->rewriting.ack = leg->local_end - leg->send_offset - packet->headers->ack;
	plan->rewriting.window = 0xffff;
}

/* A fragment, or a packet behind IPv6 extension headers. It is for the local socket; where it would have to be forwarded, it is
 * lost, and the process is told: its sender sends it again, and by then the local socket has the connection. Whether that
 * was all. */
static __always_inline int handle_unforwardable(struct packet_splice *splice, struct packet_response *record, __u32 side,
						const struct packet *packet, struct plan *plan)
{
	struct packet_leg *leg = &splice->legs[side & 1];
	struct packet_way *way = &splice->ways[side & 1], *back = &splice->ways[~side & 1];
	__u32 end = packet->seq + packet->payload_bytes;

	switch (splice->state) {
	case PACKET_SPLICED:
		plan->is_told = is_plausible(packet, way, back, packet->headers->ack - back->delta, 1);
		break;
	case PACKET_RESPONSES:
		/* The next one, or the one that its sender sends again: anybody could send one with a number anywhere
		 * in the window. */
		if (side)
			plan->is_told = packet->flags & FLAG_ACK && (packet->seq == way->end || packet->seq == way->acked) &&
					!is_after(end, way->window_end) && !is_after(packet->headers->ack, leg->local_end) &&
					!is_before(packet->headers->ack, leg->local_acked - ACKED_SLACK);
		else
			plan->is_told = is_from_client(splice, packet, packet->headers->ack - back->delta);
		/* The client's local socket reads its requests, but those that were forwarded. Nothing behind it is
		 * classified: what the other fragments hold is not known. */
		if (!side && plan->is_told && !is_in_request(splice, packet) && !bytes_in_request(splice, packet)) {
			plan->is_told = 0;
			leg->is_unforwardable = 1;
			splice->table = 0;
			return 0;
		}
		/* The rest of one response: its local socket gets what the client lacks. */
		if (side && plan->is_told && !(splice->left_bytes >> 63)) {
			plan->is_told = 0;
			leg->is_unforwardable = 1;
			end_responses(splice);
			record->is_back = 1;
			return 0;
		}
		if (plan->is_told)
			record->is_stuck |= side ? STUCK_SERVER : STUCK_CLIENT;
		break;
	case PACKET_ENDED:
	case PACKET_RESET:
		break;
	default:
		leg->is_unforwardable = 1;
		return 0;
	}
	leg->is_unforwardable |= plan->is_told;
	splice->refused += 1;
	plan->fate = FATE_DROP;
	return 1;
}

/* Whether a connection is the leg's. Since it was looked up, its slot may have been given to others. The packet is then
 * dropped: the local socket's numbers may differ from those on the wire. Data is sent again; a lost reset or
 * acknowledgement is asked for by the next packet. */
static __always_inline int is_of_leg(const struct packet_leg *leg, __u16 own_port, __u16 peer_port, __u32 peer)
{
	return leg->flow.own_port == own_port && leg->flow.peer_port == peer_port && leg->flow.peer[3] == peer;
}

/* A packet from the peer of leg `side`. `is_confirmed`: what the kernel was asked about it, which depends on the state
 * and the packet, is so. */
static __always_inline void handle_arriving(struct packet_splice *splice, struct packet_response *record,
					    struct packet_request *kept, __u32 side, const struct packet *packet,
					    int is_confirmed, struct plan *plan)
{
	struct packet_leg *leg = &splice->legs[side & 1];
	const struct flow *flow = &packet->headers->flow;

	if (!is_of_leg(leg, flow->own_port, flow->peer_port, flow->peer[3])) {
		plan->fate = FATE_DROP;
		return;
	}
	if (packet->is_unforwardable && handle_unforwardable(splice, record, side, packet, plan))
		return;
	switch (splice->state) {
	case PACKET_PROCESS:
		plan->fate = FATE_LOCAL;
		plan->rewriting.window = packet->window;
		/* A new connection has numbers of its own. It is one when the local socket answers: until then, the
		 * SYN may be forged. */
		if (packet->flags & FLAG_SYN)
			return;
		note_given(leg, packet);
		plan->rewriting.seq = -leg->receive_offset;
		plan->rewriting.ack = plan->rewriting.sack = -leg->send_offset;
		/* The local socket has yet to send what its peer already has, and ignores acknowledgements of that. */
		if (leg->is_ahead && packet->flags & FLAG_ACK && !is_after(packet->headers->ack, leg->sent_end)) {
			/* Of a fragment the checksum is not known. */
			if (!packet->is_unforwardable)
				leg->peer_next = packet->headers->ack;
			if (is_after(packet->headers->ack, leg->local_end))
				plan->rewriting.ack = leg->local_end - leg->send_offset - packet->headers->ack;
		}
		plan->rewriting.tsecr = -leg->ts_offset;
		if (is_confirmed)
			calm_reset(leg, packet, plan);
		return;
	case PACKET_ENDED:
	case PACKET_RESET:
		/* A new connection. Or another one has the other leg's addresses, and what this peer sends can go
		 * nowhere: once its local socket is closed, the kernel answers with a reset that has the expected number. */
		if ((packet->flags & (FLAG_SYN | FLAG_ACK)) == FLAG_SYN || is_forgotten(&splice->legs[~side & 1])) {
			plan->fate = FATE_FORGET;
			leg->ifindex = 0;
			return;
		}
		break;
	case PACKET_SPLICED:
		break;
	case PACKET_DUE:
		if (side)
			handle_server_due(splice, record, packet, is_confirmed, plan);
		else
			handle_client_due(splice, packet, plan);
		return;
	case PACKET_RESPONSES:
		if (side)
			handle_server(splice, record, packet, plan);
		else
			handle_client(splice, record, kept, packet, is_confirmed, plan);
		return;
	default:
		plan->fate = FATE_LOCAL;
		plan->rewriting.window = packet->window;
		return;
	}
	handle_spliced(splice, side, packet, plan);
}

/* Netfilter lies between this hook and the local socket, and sees nothing of what is forwarded. So that connection
 * tracking keeps the connection, the socket gets an acknowledgement now and then that says nothing new. */
static __always_inline void show_life(struct packet_splice *splice, __u32 side, const struct packet *packet, __u64 now,
				      struct plan *plan)
{
	struct packet_leg *leg = &splice->legs[side & 1];
	__u32 shown_at = now >> PACKET_SHOW_SHIFT;

	if (plan->fate != FATE_FORWARD || packet->is_expiring || leg->shown_at == shown_at || is_over(splice) ||
	    (packet->flags & (FLAG_SYN | FLAG_RST | FLAG_ACK)) != FLAG_ACK)
		return;
	leg->shown_at = shown_at;
	if (!plan->is_copied)
		plan->local_ack = leg->local_acked - leg->send_offset;
	plan->is_copied = 1;
}

/* A packet of a local socket whose peer may have received more from the other peer than this socket has sent. */
static __always_inline void handle_behind(struct packet_leg *leg, const struct packet *packet, struct plan *plan)
{
	__u32 seq = packet->seq + leg->send_offset, end = seq + sequence_length(packet);

	/* The FIN of an incomplete stream, which the local socket does not know. */
	if (packet->flags & FLAG_FIN && is_before(end - 1, leg->sent_end - leg->had_end))
		plan->rewriting.is_reset = 1;
	/* To the peer, its numbers are old. A packet without data, or a reset, gets the number that the peer
	 * expects. */
	if ((plan->rewriting.is_reset || packet->flags & FLAG_RST || !sequence_length(packet)) &&
	    is_before(seq, leg->peer_next)) {
		plan->rewriting.seq = leg->peer_next - packet->seq;
		/* A number one lower asks for an answer: a window probe or a keep-alive. */
		if (!(packet->flags & FLAG_RST) && !plan->rewriting.is_reset && is_before(seq, leg->local_end))
			plan->rewriting.seq -= 1;
	}
	if (packet->flags & FLAG_RST || plan->rewriting.is_reset)
		return;
	if (is_after(end, leg->local_end))
		leg->local_end = end;
	leg->is_ahead = is_before(leg->local_end, leg->sent_end);
}

/* A packet that the local socket of leg `side` sends on interface `ifindex`. The other leg's local socket has
 * received everything before `received`, in its own numbers, if that is known. */
static __always_inline void handle_leaving(struct packet_splice *splice, struct packet_response *record, __u32 side,
					   const struct packet *packet, __u32 ifindex, const __u32 *received, struct plan *plan)
{
	struct packet_leg *leg = &splice->legs[side & 1];
	struct packet_way *way = &splice->ways[side & 1], *back = &splice->ways[~side & 1];
	const struct flow *flow = &packet->headers->flow;
	int is_spliced = splice->state == PACKET_SPLICED;
	__u32 seq, end, tsval;

	if (!is_of_leg(leg, flow->peer_port, flow->own_port, flow->own[3])) {
		plan->fate = FATE_DROP;
		return;
	}
	plan->fate = FATE_LOCAL;
	plan->rewriting.window = packet->window;
	if (packet->flags & FLAG_SYN) {
		/* While the peers use these addresses, nothing else on this host can: the sockets' process has died,
		 * and the kernel regards the port as free. */
		plan->fate = is_spliced ? FATE_DROP : FATE_FORGET;
		if (!is_spliced)
			leg->ifindex = 0;
		return;
	}
	/* The process closes the local sockets, or has died: the splice outlives that. */
	if (is_over(splice) ||
	    (is_spliced && (packet->flags & FLAG_RST || (packet->flags & FLAG_FIN && !leg->may_end)))) {
		plan->fate = FATE_DROP;
		return;
	}
	seq = packet->seq + leg->send_offset;
	if (is_spliced && !sequence_length(packet)) {
		if (is_before(seq, leg->local_acked)) {
			/* A window probe or keep-alive: it is to get the next answer. */
			leg->local_acked = seq;
		} else if (packet->sack_blocks || way->has_moved ||
			   is_before(packet->headers->ack + leg->receive_offset, way->acked)) {
			/* The local socket knows nothing of what is forwarded. (After 2 GB, an old acknowledgement
			 * looks new.) */
			plan->fate = FATE_DROP;
			return;
		}
	}
	leg->ifindex = ifindex;
	plan->rewriting.seq = leg->send_offset;
	plan->rewriting.ack = plan->rewriting.sack = leg->receive_offset;
	/* Its retransmissions would be dropped for an acknowledgement that is too old (RFC 5961 section 5.2). */
	if (is_spliced && (way->has_moved || is_after(way->acked, packet->headers->ack + leg->receive_offset)))
		plan->rewriting.ack = way->acked - packet->headers->ack;
	/* The peer may use the window it advertises. */
	end = packet->headers->ack + plan->rewriting.ack + ((__u32)packet->window << (leg->own_shift & 15));
	if (is_spliced && is_after(end, way->window_end))
		way->window_end = end;
	if (is_spliced)
		pace_note_told(way, end);
	/* What an earlier splice has advertised is used up: gigabytes later it would seem to be ahead. */
	if (splice->state == PACKET_PROCESS && packet->flags & FLAG_ACK && !is_before(packet->headers->ack + leg->receive_offset, way->window_end))
		way->window_max = 0;
	if (packet->timestamps_at) {
		tsval = packet->headers->tsval + leg->ts_offset;
		/* While spliced, the other peer's timestamps continue from here, and its clock may be slower than
		 * the local one. */
		if (leg->has_tsval && (is_spliced || is_before(tsval, leg->last_tsval))) {
			leg->ts_offset += leg->last_tsval - tsval;
			tsval = leg->last_tsval;
		}
		/* Timestamps must be kept in order only if another sender's were sent, too. */
		if (leg->has_tsval)
			leg->last_tsval = leg->local_tsval = tsval;
		plan->rewriting.tsval = leg->ts_offset;
	}
	if (splice->state == PACKET_PROCESS && leg->is_ahead)
		handle_behind(leg, packet, plan);
	if (splice->state == PACKET_DUE) {
		if (side)
			handle_local_server_due(splice, packet, plan);
		else
			handle_local_client_due(splice, packet);
	}
	if (splice->state == PACKET_RESPONSES) {
		if (side)
			handle_local_server(splice, record, received, packet, plan);
		else
			handle_local_client(splice, packet, plan);
	}
	if (is_spliced && sequence_length(packet)) {
		end = note_sent_locally(leg, packet);
		note_sent(back, end - back->delta, packet->flags);
		if (is_after(end - back->delta, back->start))
			back->start = end - back->delta;
	}
}

#endif
