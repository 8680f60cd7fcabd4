/* The state RESPONSES: the server's packets (leg 1) go to the client (leg 0), the client's data to the local socket,
 * and its acknowledgements to the server. Included by machine.h. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_RESPONSES_H
#define CARRICK_TC_RESPONSES_H

#include "../http/status.h"

/* Both local sockets follow the client's acknowledgements: what it acknowledges counts as sent by the client's local
 * socket and received by the server's. So nothing is left to compute when the connections are returned. */
static __always_inline void note_acknowledged(struct packet_splice *splice, struct packet_response *record, __u32 acked)
{
	struct packet_leg *client = &splice->legs[0];
	struct packet_way *down = &splice->ways[1];
	__u32 bytes = acked - down->start;

	if (is_after(acked, down->acked))
		down->acked = acked;
	if (!is_after(acked, down->start))
		return;
	down->start = acked;
	down->bytes += bytes;
	down->has_moved = 1;
	client->send_offset += bytes;
	client->local_end += bytes;
	client->local_acked = client->local_end;
	splice->legs[1].receive_offset += bytes;
	record->acked_bytes += bytes;
	/* Sequence numbers wrap. */
	if (acked - splice->armed_at > 1u << 30)
		splice->armed_at = acked - (1u << 30);
}

/* When only the rest of one response is forwarded, the server may send at most this much beyond it, until it is
 * known what follows. */
#define HELD_BYTES (32 << 10)

static __always_inline __u32 limit_window(const struct packet_splice *splice, __u32 acked, __u32 window)
{
	__u32 room;

	if (splice->left_bytes > WINDOW_LIMIT)
		return window;
	room = splice->ways[1].end + splice->left_bytes + HELD_BYTES - acked;
	return window > room ? room : window;
}

/* Returns the connections to the local sockets. What the client has received but not acknowledged, its local socket
 * has yet to send. */
static __always_inline void end_responses(struct packet_splice *splice)
{
	struct packet_leg *client = &splice->legs[0];
	struct packet_way *down = &splice->ways[1];

	client->sent_end = down->end + down->delta;
	client->peer_next = expected_by_receiver(down);
	client->is_ahead = client->sent_end != client->local_end;
	client->had_end = 0;
	splice->legs[1].passed_end = down->start;
	splice->state = PACKET_PROCESS;
}

/* Whether to tell the process of the server's FIN, which is not forwarded to the client. Only once the client has
 * everything, since a FIN may overtake data. */
static __always_inline int is_end_due(const struct packet_way *down, struct packet_response *record)
{
	/* Unrequested data is not forwarded; what precedes it may need retransmission. */
	if (record->has_end & RESPONSE_SURPLUS ? record->acked_bytes < record->whole_end
					       : !down->has_end || down->acked != down->end_of_stream - 1)
		return 0;
	record->has_end |= RESPONSE_ALL;
	return 1;
}

/* Keeps timestamps of forwarded packets from going behind those of the local socket to the same peer. */
static __always_inline void keep_timestamps_behind(struct packet_way *way, struct packet_leg *receiver, const struct packet *packet)
{
	__u32 tsval = packet->headers->tsval + way->ts_delta;

	if (!packet->timestamps_at)
		return;
	if (receiver->has_tsval && is_before(tsval, receiver->local_tsval)) {
		way->ts_delta += receiver->local_tsval - tsval;
		tsval = receiver->local_tsval;
	}
	if (!receiver->has_tsval || is_after(tsval, receiver->last_tsval))
		receiver->last_tsval = tsval;
	receiver->has_tsval = 1;
}

/* Records a peer's latest timestamp. */
static __always_inline void note_time(struct packet_leg *leg, const struct packet *packet)
{
	if (packet->timestamps_at && is_after(packet->headers->tsval, leg->peer_tsval))
		leg->peer_tsval = packet->headers->tsval;
}

/* The difference that translates a packet's timestamp echo for the receiver. If the echo is of a timestamp of the
 * local socket's, whose clock is another one, the result is at most the receiver's latest timestamp. */
static __always_inline __u32 translate_echo(const struct packet_leg *receiver, const struct packet *packet, __u32 ts_delta)
{
	if (is_after(packet->headers->tsecr - ts_delta, receiver->peer_tsval))
		return receiver->peer_tsval - packet->headers->tsecr;
	return -ts_delta;
}

/* Whether the packet's numbers are acceptable to the client's local socket and to the server. */
static __always_inline int is_from_client(const struct packet_splice *splice, const struct packet *packet, __u32 acked)
{
	const struct packet_way *up = &splice->ways[0], *down = &splice->ways[1];

	return packet->flags & FLAG_ACK && is_acceptable(down, acked) &&
	       !is_after(packet->seq + sequence_length(packet), up->window_end + PROBE_BYTES) &&
	       !is_before(packet->seq, up->end - up->window_max - PROBE_BYTES);
}

/* Forwards a packet of the client's to the server. */
static __always_inline void forward_to_server(struct packet_splice *splice, const struct packet *packet, __u32 seq, __u32 window,
					      struct plan *plan)
{
	struct packet_leg *server = &splice->legs[1];
	struct packet_way *up = &splice->ways[0], *down = &splice->ways[1];

	if (is_forgotten(server)) {
		plan->fate = FATE_DROP;
		return;
	}
	keep_timestamps_behind(up, server, packet);
	plan->fate = FATE_FORWARD;
	plan->ifindex = server->ifindex;
	plan->rewriting.seq = seq - packet->seq;
	plan->rewriting.ack = plan->rewriting.sack = -down->delta;
	plan->rewriting.tsval = up->ts_delta;
	plan->rewriting.tsecr = translate_echo(server, packet, down->ts_delta);
	plan->rewriting.window = scale_window(window, server->own_shift);
	plan->rewriting.is_plain = 1;
	pace_see_window(&packet->headers->pace, packet->headers->ack - down->delta, window, server->own_shift);
	up->packets += 1;
}

/* Begins to keep the first bytes of a response. */
static __always_inline void forget_head(struct packet_response *record)
{
	record->head_at = record->sent_bytes;
	record->head_bytes = 0;
	record->early_end = 0;
	record->interim_bytes = 0;
	record->last_at = 0;
}

/* The status of the latest response, from the first line of its last head: HTTP/1.1, a space, three digits. 0 if it
 * is not known, as when the final head follows an interim one (1xx) in the same packet. */
static __always_inline __u32 latest_status(const struct packet_response *record)
{
	__u32 at = record->last_at, status;

	asm volatile("" : "+r"(at));
	if (at >= PACKET_PIECES_BYTES || record->head_bytes < at + STATUS_END)
		return 0;
	status = status_of(record->head + at);
	return is_interim(status) && record->sent_bytes - record->head_at != record->interim_bytes ? 0 : status;
}

/* Records the end of the latest response, as another request follows. */
static __always_inline void note_response_end(struct packet_response *record)
{
	if (record->told_end != PACKET_LATEST)
		return;
	record->told_status = latest_status(record);
	record->told_end = record->sent_bytes;
}

#include "requests.h"

/* Whether all that was received are interim heads, each in packets of its own, and this packet follows them. If a
 * packet has data behind an interim head, that may be the response's head already, and this packet its body, which
 * can look like a head. */
static __always_inline int follows_interim(const struct packet_splice *splice, const struct packet_response *record,
					   const struct packet *packet)
{
	__u32 bytes = record->head_bytes;

	return bytes && bytes < PACKET_PIECES_BYTES && bytes == record->interim_bytes && packet->seq - splice->response_start == bytes;
}

/* Whether a response, or another of its heads, begins in this packet. */
static __always_inline int begins(const struct packet_splice *splice, const struct packet_response *record, const struct packet *packet)
{
	return (packet->seq == splice->response_start && !record->head_bytes) || follows_interim(splice, record, packet);
}

/* Whether a packet has data that was sent before the server had received any of the latest request, and so is no
 * response to it. If requests follow a response of unknown end, it may be the rest of that response. */
static __always_inline int is_unasked(const struct packet_splice *splice, const struct packet_response *record,
				      const struct packet *packet)
{
	return !record->is_adrift && !is_after(packet->headers->ack, splice->request_start) &&
	       is_after(packet->seq + packet->payload_bytes, splice->response_start);
}

/* The value of sent_bytes at the end of the latest response, if known; `at` is its value before the packet. */
static __always_inline __u64 response_end(const struct packet_splice *splice, const struct packet_response *record,
					  const struct packet *packet, __u64 at)
{
	if (record->has_end & RESPONSE_SURPLUS)
		return record->whole_end;
	/* For the rest of one response, `left_bytes` says it. */
	if (record->is_adrift || !(splice->left_bytes >> 63))
		return PACKET_LATEST;
	if (is_unasked(splice, record, packet))
		return record->head_at;
	if (record->whole_end > record->head_at)
		return record->whole_end;
	return begins(splice, record, packet) && packet->headers->response_bytes ? at + packet->headers->response_bytes : PACKET_LATEST;
}

/* Whether a packet has unrequested data behind a response that is known to be whole. The client gets what precedes
 * it, and the server gets no more requests. */
static __always_inline int is_surplus(struct packet_splice *splice, struct packet_response *record, const struct packet *packet,
				      struct plan *plan)
{
	__u64 at = record->sent_bytes + (__s32)(packet->seq - splice->ways[1].end), end = response_end(splice, record, packet, at);

	/* The packet may precede, in order, data that was forwarded beyond the end. The client has not read that
	 * data without it. */
	int is_spilt = end < record->sent_bytes && begins(splice, record, packet);

	if (at + packet->payload_bytes <= end && !is_spilt)
		return 0;
	plan->fate = FATE_DROP;
	splice->table = 0;
	record->has_end |= RESPONSE_SURPLUS;
	record->whole_end = end;
	if (is_spilt) {
		record->has_end |= RESPONSE_ALL;
		plan->is_told = 1;
		return 1;
	}
	if (at < end) {
		plan->fate = FATE_CUT;
		plan->part = end - at;
	}
	plan->is_told = is_end_due(&splice->ways[1], record);
	return 1;
}

/* Records a part of a response that goes to the client. */
static __always_inline void note_response(struct packet_splice *splice, struct packet_response *record,
					  const struct packet *packet, struct plan *plan)
{
	struct packet_way *down = &splice->ways[1];
	__u32 end = packet->seq + packet->payload_bytes;

	plan->head_from = packet->seq - splice->response_start;
	plan->head_at = record->head_at;
	plan->is_head = plan->head_from < PACKET_PIECES_BYTES && record->head_bytes < PACKET_PIECES_BYTES;
	if (begins(splice, record, packet)) {
		record->last_at = record->head_bytes;
		if (packet->headers->interim_bytes == packet->payload_bytes)
			record->interim_bytes = record->head_bytes + packet->payload_bytes;
		if (packet->headers->response_bytes && !record->is_adrift)
			record->whole_end = record->head_at + record->last_at + packet->headers->response_bytes;
	}
	/* A single byte may be a window probe. A client that is gone acknowledges nothing: that is no loss. */
	if (packet->payload_bytes > 1 && is_before(packet->seq, down->end) && !splice->legs[0].has_reset)
		down->again += 1;
	if (is_after(end, down->end)) {
		record->sent_bytes += end - down->end;
		splice->left_bytes -= end - down->end;
		/* A shorter packet does not hold all of the last bytes. */
		if (packet->payload_bytes >= PACKET_TAIL_BYTES) {
			record->tail_at = record->sent_bytes;
			plan->is_tail = 1;
		}
	}
	pace_see_sent(&packet->headers->pace, down);
	note_sent(down, end, 0);
	down->packets += 1;
}

/* A packet from the server. */
static __always_inline void handle_server(struct packet_splice *splice, struct packet_response *record,
					  const struct packet *packet, struct plan *plan)
{
	struct packet_leg *client = &splice->legs[0], *server = &splice->legs[1];
	struct packet_way *up = &splice->ways[0], *down = &splice->ways[1];
	__u32 end = packet->seq + sequence_length(packet), expected = down->start - server->receive_offset;
	int is_news;

	plan->fate = FATE_LOCAL;
	plan->rewriting.window = packet->window;
	if (packet->flags & FLAG_SYN)
		return;
	if (is_forgotten(client) || !pace_allows(down, end) || is_after(end, down->window_end + PROBE_BYTES) || is_before(packet->seq, down->acked - down->window_max - PROBE_BYTES) ||
	    /* Retransmitted from before the splice: see is_plausible. */
	    (packet->payload_bytes && is_before(packet->seq, down->start) && is_before(down->acked, down->start)) ||
	    !(packet->flags & (FLAG_ACK | FLAG_RST)) ||
	    (packet->flags & FLAG_ACK &&
	     (is_after(packet->headers->ack, server->local_end) || is_before(packet->headers->ack, server->local_acked - ACKED_SLACK)))) {
		plan->fate = FATE_DROP;
		splice->refused += 1;
		return;
	}
	plan->rewriting.seq = -server->receive_offset;
	plan->rewriting.ack = plan->rewriting.sack = -server->send_offset;
	plan->rewriting.tsecr = -server->ts_offset;
	if (packet->flags & FLAG_RST) {
		/* A valid reset has this number even if the client has not acknowledged everything. */
		if (packet->seq == down->end)
			plan->rewriting.seq = expected - packet->seq;
		/* The local socket challenges one with another number (RFC 5961 section 3). */
		else
			server->may_ask = 1;
		return;
	}
	/* From before the splice: the data was another client's, and the server has missed the acknowledgement. The
	 * local socket repeats it. */
	if (packet->payload_bytes && is_before(packet->seq, splice->armed_at)) {
		server->may_ask = 1;
		if (is_after(packet->seq + packet->payload_bytes, splice->armed_at)) {
			plan->fate = FATE_CUT;
			plan->part = splice->armed_at - packet->seq;
		}
		return;
	}
	/* What the client does not get, or may drop for its options, must not be taken for the response: the server could send
	 * it another one with the same numbers. */
	if (packet->payload_bytes && packet->is_expiring) {
		plan->fate = FATE_FORWARD;
		return;
	}
	if (packet->payload_bytes && (packet->is_odd || (client->has_tsval && !packet->timestamps_at))) {
		plan->fate = FATE_DROP;
		splice->refused += 1;
		server->is_odd = 1;
		return;
	}
	if (is_after(packet->seq + packet->payload_bytes, down->end) &&
	    packet->seq + packet->payload_bytes - down->end > splice->left_bytes) {
		/* More than the rest of the response: the process decides what of it is the client's. */
		end_responses(splice);
		record->is_back = 1;
		note_given(server, packet);
		return;
	}
	if (is_surplus(splice, record, packet, plan))
		return;
	note_time(server, packet);
	acknowledge_locally(server, packet, 0, plan);
	is_news = note_request_acked(splice, record, packet);
	if (packet->flags & FLAG_FIN && !is_before(end - 1, down->end)) {
		down->has_end = 1;
		down->end_of_stream = end;
		record->has_end |= RESPONSE_ENDED;
	}
	plan->is_told = is_end_due(down, record);
	if (!packet->payload_bytes && !is_before(packet->seq, down->end) && (!is_news || packet->flags & FLAG_FIN)) {
		/* Nothing for the client. The packet itself brings the local socket the acknowledgement, and a FIN
		 * if it is the next number there. */
		plan->is_copied = 0;
		if (!(packet->flags & FLAG_FIN))
			plan->rewriting.seq = expected - packet->seq;
		else if (packet->seq != down->acked)
			plan->fate = FATE_DROP;
		return;
	}
	/* A part of a response; a probe of the client's window, which the client answers; or the acknowledgement of
	 * its request. */
	if (packet->payload_bytes)
		note_response(splice, record, packet, plan);
	keep_timestamps_behind(down, client, packet);
	plan->fate = FATE_FORWARD;
	plan->ifindex = client->ifindex;
	plan->rewriting.is_plain = 1;
	plan->rewriting.seq = down->delta;
	plan->rewriting.ack = client->received - packet->headers->ack;
	/* SACK blocks are about requests, which have other numbers at the client. */
	plan->rewriting.is_sackless = 1;
	plan->rewriting.tsval = down->ts_delta;
	/* Behind a later timestamp the client would drop it (RFC 7323 section 5.3): see above. */
	if (packet->timestamps_at && packet->payload_bytes)
		plan->rewriting.tsval = client->last_tsval - packet->headers->tsval;
	plan->rewriting.tsecr = translate_echo(client, packet, up->ts_delta);
	plan->rewriting.window = client->local_window;
	/* Forwarded requests do not fill the local socket's receive buffer. */
	note_window(up, client->received, (__u32)client->local_window << (client->own_shift & 15));
}

/* Whether a packet without data asks for an answer: its number is one lower than what was sent. */
static __always_inline int is_keepalive(const struct packet_leg *leg, const struct packet *packet)
{
	return is_before(packet->seq + leg->send_offset, leg->local_end);
}

/* A packet of the client's local socket, which sends only acknowledgements. If it is closed, the response may be
 * incomplete. */
static __always_inline void handle_local_client(struct packet_splice *splice, const struct packet *packet, struct plan *plan)
{
	struct packet_leg *client = &splice->legs[0];
	struct packet_way *up = &splice->ways[0], *down = &splice->ways[1];
	__u32 end = packet->headers->ack + client->receive_offset;

	client->local_window = packet->window;
	/* The server acknowledges a forwarded request. */
	if (is_request_outstanding(splice))
		plan->rewriting.ack = client->received - packet->headers->ack;
	else if (packet->flags & FLAG_ACK && is_after(end, client->received))
		client->received = end;
	note_window(up, end, (__u32)packet->window << (client->own_shift & 15));
	if (packet->payload_bytes) {
		/* A retransmission of what was sent before the splice and has arrived: its numbers have moved on
		 * since. */
		if (down->has_moved && !(packet->flags & (FLAG_FIN | FLAG_RST))) {
			plan->fate = FATE_DROP;
			return;
		}
		note_sent_locally(client, packet);
	}
	plan->rewriting.is_reset = !!(packet->flags & FLAG_FIN);
	/* A reset or a FIN gets the number that the client expects; a packet without data, one that it takes. */
	if (packet->flags & (FLAG_RST | FLAG_FIN)) {
		plan->rewriting.seq = expected_by_receiver(down) - packet->seq;
		end_responses(splice);
	} else if (!packet->payload_bytes) {
		plan->rewriting.seq = (has_overrun(down) ? down->offered_end : down->end) + down->delta - packet->seq;
		/* The local socket gets a copy of the answer. */
		if (is_keepalive(client, packet)) {
			plan->rewriting.seq = expected_by_receiver(down) - 1 - packet->seq;
			if (client->local_acked == client->local_end)
				client->local_acked -= 1;
		}
	}
}

/* A packet of the server's local socket, usually a request. The client's local socket has received everything before
 * `received`. */
static __always_inline void handle_local_server(struct packet_splice *splice, struct packet_response *record,
						const __u32 *received, const struct packet *packet, struct plan *plan)
{
	struct packet_leg *client = &splice->legs[0], *server = &splice->legs[1];
	struct packet_way *down = &splice->ways[1];
	__u32 acked = packet->headers->ack + server->receive_offset, window;

	/* It knows nothing of what is forwarded, but may acknowledge a FIN, challenge a reset, or ask whether the server is
	 * there. */
	if (!sequence_length(packet) && !(packet->flags & FLAG_RST) && !is_after(acked, down->acked)) {
		if (!server->may_ask && !is_keepalive(server, packet)) {
			plan->fate = FATE_DROP;
			return;
		}
		server->may_ask = 0;
	}
	/* The server may send what the client takes. */
	window = is_after(down->offered_end, acked) ? down->offered_end - acked : 0;
	plan->rewriting.window = scale_window(window, server->own_shift);
	pace_see_window(&packet->headers->pace, acked, window, server->own_shift);
	if (!sequence_length(packet))
		return;
	/* A FIN: there are no more requests. */
	if (!packet->payload_bytes) {
		note_sent_locally(server, packet);
		return;
	}
	/* The response acknowledges the client's request. */
	if (received && !is_request_outstanding(splice) &&
	    is_after(*received + client->receive_offset, client->received))
		client->received = *received + client->receive_offset;
	if (is_after(packet->seq + server->send_offset + packet->payload_bytes, server->local_end)) {
		/* A request may take several packets. */
		if (record->asked != splice->asked)
			splice->request_start = server->local_end;
		splice->asked = record->asked;
		splice->response_start = down->end;
		/* The rest of the last response would be taken for the beginning of this one. */
		if (record->sent_bytes != record->whole_end ||
		    (record->classified != record->classified_before && record->sent_bytes == record->head_at))
			record->is_adrift = 1;
		record->method = record->asked_method;
		note_response_end(record);
		forget_head(record);
		record->classified_before = record->classified;
	}
	note_sent_locally(server, packet);
}

#endif
