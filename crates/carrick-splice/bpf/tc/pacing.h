/* Pacing by windows: a sender is told of no more than it may send by now. No helper is called here: the splice's lock is held. Included by
 * machine.h. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_PACING_H
#define CARRICK_TC_PACING_H

/* If nobody has said how long they are. */
#define PACE_SEGMENT_BYTES 1460

/* What a packet says of the window: as far as its sender is to be told. */
static __always_inline void pace_see_window(struct pace_view *view, __u32 acked, __u32 window, __u32 shift)
{
	view->acked = acked;
	view->window = window;
	view->shift = shift;
	view->says_window = 1;
}

/* Something is sent along a way. */
static __always_inline void pace_see_sent(struct pace_view *view, const struct packet_way *way)
{
	view->sent_from = way->end;
	view->has_sent = 1;
}

/* Whether a packet says nothing but that its sender takes another number of bytes of this way than before. */
static __always_inline int is_stale(const struct packet *packet, const struct packet_way *way, __u32 acked, __u32 window)
{
	return acked == way->acked && acked + window != way->offered_end && !sequence_length(packet) && !packet->sack_blocks &&
	       !(packet->flags & ~FLAG_ACK) && !way->pace.is_due;
}

/* Begins anew with what the sender may send: up to `told_end`. */
static __always_inline void pace_begin(struct packet_way *way, __u64 handle, __u32 told_end, __u32 segment_bytes)
{
	way->pace.handle = handle;
	way->pace.told_end = told_end;
	way->pace.unpaid = (__s32)(told_end - way->end) > 0 ? told_end - way->end : 0;
	way->pace.segment_bytes = segment_bytes ? segment_bytes : PACE_SEGMENT_BYTES;
}

/* Somebody else has told the sender that it may send up to `end`. */
static __always_inline void pace_note_told(struct packet_way *way, __u32 end)
{
	if (!way->pace.handle || !is_after(end, way->pace.told_end))
		return;
	way->pace.unpaid += end - way->pace.told_end;
	way->pace.told_end = end;
}

#endif
