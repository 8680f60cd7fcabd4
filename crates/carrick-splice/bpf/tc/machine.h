/* The state machine of a spliced pair of connections: what happens to a packet. No helper is called here: its lock is held. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_MACHINE_H
#define CARRICK_TC_MACHINE_H

/* Beyond the window that the receiver has offered: the byte with which some look whether a closed window has opened. */
#define PROBE_BYTES 1

/* A window cannot be larger (RFC 7323 section 2.3). An acknowledgement that is older than that is none. */
#define WINDOW_LIMIT (1U << 30)

static __always_inline int is_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline int is_after(__u32 a, __u32 b)
{
	return (__s32)(b - a) < 0;
}

/* Sequence numbers that a packet takes. */
static __always_inline __u32 sequence_length(const struct packet *packet)
{
	return packet->payload_bytes + !!(packet->flags & FLAG_SYN) + !!(packet->flags & FLAG_FIN);
}

/* Whether nothing but what is sent again is to come. */
static __always_inline int is_over(const struct packet_splice *splice)
{
	return splice->state == PACKET_ENDED || splice->state == PACKET_RESET;
}

static __always_inline int has_ended(const struct packet_way *way)
{
	return way->has_end && !is_before(way->acked, way->end_of_stream);
}

/* Takes note of what was sent along a way: `end` is the number behind it. */
static __always_inline void note_sent(struct packet_way *way, __u32 end, __u8 flags)
{
	if (is_after(end, way->end))
		way->end = end;
	/* Nothing is behind an end. One that is in the midst of what was sent is forged, or an error. */
	if (flags & FLAG_FIN && end == way->end) {
		way->has_end = 1;
		way->end_of_stream = end;
	}
}

/* Whether both connections' packets have been seen coming in and going out. */
static __always_inline int is_seen(const struct packet_splice *splice)
{
	const struct packet_leg *a = &splice->legs[0], *b = &splice->legs[1];

	return a->ifindex && b->ifindex && a->was_received && b->was_received;
}

/* Takes note of a packet that goes to the local socket. */
static __always_inline void note_given(struct packet_leg *leg, const struct packet *packet)
{
	__u32 end = packet->seq + sequence_length(packet);

	if (!leg->was_received || is_after(end, leg->passed_end))
		leg->passed_end = end;
	leg->was_received = 1;
	leg->is_odd |= packet->is_odd;
}

/* Whether a receiver could want this: whatever is not plausible must change nothing, here or there. */
static __always_inline int is_plausible(const struct packet *packet, const struct packet_way *way,
					const struct packet_way *back, __u32 acked, int is_whole)
{
	__u32 end = packet->seq + sequence_length(packet);

	if (is_after(end, way->window_end + PROBE_BYTES) || is_before(packet->seq, way->acked - way->window_max))
		return 0;
	/* What was sent again from before the splice has the numbers of what the local socket has sent, but may be something else.
	 * Once the receiver has the latter, it knows the former as old; and once it is gone, it says so. */
	if (is_whole && packet->payload_bytes && is_before(packet->seq, way->start) && is_before(way->acked, way->start))
		return 0;
	if (!(packet->flags & FLAG_ACK))
		return packet->flags & FLAG_RST;
	return !is_after(acked, back->end) && !is_before(acked, back->acked - WINDOW_LIMIT);
}

/* What the local socket has sent must be acknowledged to it, or it sends it again. */
static __always_inline void acknowledge_locally(struct packet_leg *leg, const struct packet *packet, struct plan *plan)
{
	if (leg->local_acked == leg->local_end || !is_after(packet->ack, leg->local_acked))
		return;
	leg->local_acked = is_after(packet->ack, leg->local_end) ? leg->local_end : packet->ack;
	plan->local_ack = leg->local_acked - leg->send_offset;
	plan->is_copied = 1;
}

/* Takes note of what the local socket has sent; the number behind it, on the wire. */
static __always_inline __u32 note_sent_locally(struct packet_leg *leg, const struct packet *packet)
{
	__u32 start = packet->seq + leg->send_offset, end = start + sequence_length(packet);

	if (is_after(end, leg->local_end))
		leg->local_end = end;
	/* It has not got the acknowledgement, and sends again: it is to get the next one. */
	if (is_before(start, leg->local_acked))
		leg->local_acked = start;
	return end;
}

/* A window as it stands in the header. */
static __always_inline __u16 scale_window(__u32 window, __u32 shift)
{
	window >>= shift & 15;
	return window > 0xffff ? 0xffff : window;
}

/* What a peer says of the window that it offers to the sender of `back`. */
static __always_inline void note_window(struct packet_way *back, __u32 acked, __u32 window)
{
	if (is_after(acked + window, back->window_end))
		back->window_end = acked + window;
	if (window > back->window_max)
		back->window_max = window;
}

#include "pacing.h"

/* A packet from the peer of leg `side`, while the splice is in the kernel. */
static __always_inline void judge_spliced(struct packet_splice *splice, __u32 side, const struct packet *packet,
					  struct plan *plan)
{
	struct packet_leg *leg = &splice->legs[side & 1], *other = &splice->legs[~side & 1];
	struct packet_way *way = &splice->ways[side & 1], *back = &splice->ways[~side & 1];
	__u32 acked = packet->ack - back->delta, window = (__u32)packet->window << (leg->peer_shift & 15), told = acked;
	struct pace_view *view = &packet->headers->pace;

	plan->fate = FATE_FORWARD;
	plan->ifindex = other->ifindex;
	plan->rewriting.seq = way->delta;
	plan->rewriting.ack = plan->rewriting.sack = -back->delta;
	plan->rewriting.tsval = way->ts_delta;
	plan->rewriting.tsecr = -back->ts_delta;
	plan->rewriting.window = packet->window;
	/* Its peer has forgotten the connection. The other one says what it knows (RFC 9293 section 3.10.7.4), which is answered by a reset. */
	if (packet->flags & FLAG_SYN)
		return;
	if (!is_plausible(packet, way, back, acked, splice->state == PACKET_SPLICED)) {
		plan->fate = FATE_DROP;
		splice->refused += 1;
		return;
	}
	if (packet->flags & FLAG_RST) {
		plan->rewriting.window = scale_window(window, other->own_shift);
		/* Others in the window are asked about by the receiver (RFC 5961 section 3), and sent again with this number. */
		if (splice->state == PACKET_SPLICED && (packet->seq == way->end || packet->seq == way->acked)) {
			splice->state = PACKET_RESET;
			plan->is_told = 1;
		}
		return;
	}
	/* The local socket has acknowledged more, which the receiver does not have yet. With an acknowledgement that is much older
	 * a packet is thrown away, and what it carries with it (RFC 5961 section 5.2). */
	if (sequence_length(packet) && is_before(acked, back->start)) {
		told = back->start;
		plan->rewriting.ack += told - acked;
	}
	/* A single byte may be a probe. */
	if (packet->payload_bytes > 1 && is_before(packet->seq, way->end))
		way->again += 1;
	pace_see_sent(view, way);
	/* What goes before an acknowledgement may have been lost on the way here. */
	if (sequence_length(packet))
		note_sent(way, packet->seq + sequence_length(packet), packet->flags);
	way->packets += 1;
	if (back->pace.handle && !is_before(acked, back->acked)) {
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
	note_window(back, acked, window);
	window = is_after(acked + window, told) ? acked + window - told : 0;
	plan->rewriting.window = scale_window(window, other->own_shift);
	pace_see_window(view, told, window, other->own_shift);
	view->says_window = splice->state == PACKET_SPLICED;
	if (packet->timestamps_at) {
		__u32 tsval = packet->tsval + way->ts_delta;

		if (!other->has_tsval || is_after(tsval, other->last_tsval))
			other->last_tsval = tsval;
		other->has_tsval = 1;
	}
	acknowledge_locally(leg, packet, plan);
	if (splice->state == PACKET_SPLICED && has_ended(way) && has_ended(back)) {
		splice->state = PACKET_ENDED;
		plan->is_told = 1;
	}
}

#include "responses.h"
#include "due.h"

/* A packet from the peer of leg `side`. */
static __always_inline void judge_arriving(struct packet_splice *splice, struct packet_response *record,
					   struct packet_request *kept, __u32 side, const struct packet *packet,
					   int is_judged, struct plan *plan)
{
	struct packet_leg *leg = &splice->legs[side & 1];

	switch (splice->state) {
	case PACKET_PROCESS:
		plan->fate = FATE_LOCAL;
		plan->rewriting.window = packet->window;
		/* A connection that begins has numbers of its own. That it does shows when the local socket answers it; until
		 * then, anybody could have sent this. */
		if (packet->flags & FLAG_SYN)
			return;
		note_given(leg, packet);
		plan->rewriting.seq = -leg->receive_offset;
		plan->rewriting.ack = plan->rewriting.sack = -leg->send_offset;
		/* The local socket will send that again, and does not listen to whoever has it already. */
		if (leg->is_ahead && packet->flags & FLAG_ACK && !is_after(packet->ack, leg->sent_end)) {
			leg->peer_next = packet->ack;
			if (is_after(packet->ack, leg->local_end))
				plan->rewriting.ack = leg->local_end - leg->send_offset - packet->ack;
		}
		plan->rewriting.tsecr = -leg->ts_offset;
		return;
	case PACKET_ENDED:
	case PACKET_RESET:
		if ((packet->flags & (FLAG_SYN | FLAG_ACK)) == FLAG_SYN) {
			plan->fate = FATE_FORGET;
			return;
		}
		break;
	case PACKET_SPLICED:
		break;
	case PACKET_DUE:
		if (side)
			judge_server_due(splice, record, packet, is_judged, plan);
		else
			judge_client_due(splice, packet, plan);
		return;
	case PACKET_RESPONSES:
		if (side)
			judge_server(splice, record, packet, plan);
		else
			judge_client(splice, record, kept, packet, is_judged, plan);
		return;
	default:
		plan->fate = FATE_LOCAL;
		plan->rewriting.window = packet->window;
		return;
	}
	judge_spliced(splice, side, packet, plan);
}

/* A packet of a local socket whose peer may have got more from the other peer than this socket has sent. */
static __always_inline void judge_behind(struct packet_leg *leg, const struct packet *packet, struct plan *plan)
{
	__u32 seq = packet->seq + leg->send_offset, end = seq + sequence_length(packet);

	/* The end of a stream that is not whole. The local socket does not know that. */
	if (packet->flags & FLAG_FIN && is_before(end - 1, leg->sent_end - leg->had_end))
		plan->rewriting.is_reset = 1;
	/* To the peer, its numbers are old. What counts by itself gets those that the peer expects. */
	if ((plan->rewriting.is_reset || packet->flags & FLAG_RST || !sequence_length(packet)) &&
	    is_before(seq, leg->peer_next)) {
		plan->rewriting.seq = leg->peer_next - packet->seq;
		/* One number less asks for an answer: a probe of a closed window, or whether somebody is there. */
		if (!(packet->flags & FLAG_RST) && !plan->rewriting.is_reset && is_before(seq, leg->local_end))
			plan->rewriting.seq -= 1;
	}
	if (packet->flags & FLAG_RST || plan->rewriting.is_reset)
		return;
	if (is_after(end, leg->local_end))
		leg->local_end = end;
	leg->is_ahead = is_before(leg->local_end, leg->sent_end);
}

/* A packet that the local socket of leg `side` sends by interface `ifindex`. The other leg's local socket has received what is
 * before `received`, in its own numbers, if that is known. */
static __always_inline void judge_leaving(struct packet_splice *splice, struct packet_response *record, __u32 side,
					  const struct packet *packet, __u32 ifindex, const __u32 *received, struct plan *plan)
{
	struct packet_leg *leg = &splice->legs[side & 1];
	struct packet_way *way = &splice->ways[side & 1], *back = &splice->ways[~side & 1];
	int is_spliced = splice->state == PACKET_SPLICED;
	__u32 seq, end, tsval;

	plan->fate = FATE_LOCAL;
	plan->rewriting.window = packet->window;
	if (splice->state == PACKET_FREE)
		return;
	if (packet->flags & FLAG_SYN) {
		/* While the peers use these addresses, nobody else can: the process of the local sockets has died, and the kernel
		 * believes that the port is free. */
		plan->fate = is_spliced ? FATE_DROP : FATE_FORGET;
		return;
	}
	/* The local sockets are closed by and by, or their process has died: the connections do not end with that. */
	if (is_over(splice) ||
	    (is_spliced && (packet->flags & FLAG_RST || (packet->flags & FLAG_FIN && !leg->may_end)))) {
		plan->fate = FATE_DROP;
		return;
	}
	seq = packet->seq + leg->send_offset;
	if (is_spliced && !sequence_length(packet)) {
		if (is_before(seq, leg->local_acked)) {
			/* It asks whether a window is open, or somebody is there: it is to get the next answer. */
			leg->local_acked = seq;
		} else if (packet->sack_blocks || way->has_moved ||
			   is_before(packet->ack + leg->receive_offset, way->acked)) {
			/* It has nothing to say about what passes it by. (After 2 GB, an old acknowledgement looks new.) */
			plan->fate = FATE_DROP;
			return;
		}
	}
	leg->ifindex = ifindex;
	plan->rewriting.seq = leg->send_offset;
	plan->rewriting.ack = plan->rewriting.sack = leg->receive_offset;
	/* What it sends again would be dropped for an acknowledgement that is too old (RFC 5961 section 5.2). */
	if (is_spliced && (way->has_moved || is_after(way->acked, packet->ack + leg->receive_offset)))
		plan->rewriting.ack = way->acked - packet->ack;
	/* What it allows its peer is allowed. */
	end = packet->ack + plan->rewriting.ack + ((__u32)packet->window << (leg->own_shift & 15));
	if (is_spliced && is_after(end, way->window_end))
		way->window_end = end;
	if (is_spliced)
		pace_note_told(way, end);
	if (packet->timestamps_at) {
		tsval = packet->tsval + leg->ts_offset;
		/* While spliced, the clock of the other peer goes on from there, and it may be slower than the local one. */
		if (leg->has_tsval && (is_spliced || is_before(tsval, leg->last_tsval))) {
			leg->ts_offset += leg->last_tsval - tsval;
			tsval = leg->last_tsval;
		}
		/* Only where somebody else has sent timestamps, too, do they have to be followed. */
		if (leg->has_tsval)
			leg->last_tsval = leg->local_tsval = tsval;
		plan->rewriting.tsval = leg->ts_offset;
	}
	if (splice->state == PACKET_PROCESS && leg->is_ahead)
		judge_behind(leg, packet, plan);
	if (splice->state == PACKET_DUE) {
		if (side)
			judge_local_server_due(splice, packet, plan);
		else
			judge_local_client_due(splice, packet);
	}
	if (splice->state == PACKET_RESPONSES) {
		if (side)
			judge_local_server(splice, record, received, packet, plan);
		else
			judge_local_client(splice, packet, plan);
	}
	if (is_spliced && sequence_length(packet)) {
		end = note_sent_locally(leg, packet);
		note_sent(back, end - back->delta, packet->flags);
		if (is_after(end - back->delta, back->start))
			back->start = end - back->delta;
	}
}

#endif
