/* Pacing by windows: the window advertised to a sender is limited to what it may send now. No helper is called here,
 * since the splice's lock is held. Included by machine.h. */
/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef CARRICK_TC_PACING_H
#define CARRICK_TC_PACING_H

/* The default if the segment size is unknown. */
#define PACE_SEGMENT_BYTES 1460

/* Notes the window that a packet advertises. */
static __always_inline void pace_see_window(struct pace_view *view, __u32 acked, __u32 window, __u32 shift)
{
	view->acked = acked;
	view->window = window;
	view->shift = shift;
	view->says_window = 1;
}

/* Notes that something is sent along a way. */
static __always_inline void pace_see_sent(struct pace_view *view, const struct packet_way *way)
{
	view->sent_from = way->end;
	view->has_sent = 1;
}

/* Whether a packet only changes the window of this way. */
static __always_inline int is_stale(const struct packet *packet, const struct packet_way *way, __u32 acked, __u32 window)
{
	return acked == way->acked && acked + window != way->offered_end && !sequence_length(packet) && !packet->sack_blocks &&
	       !(packet->flags & ~FLAG_ACK) && !way->pace.is_due;
}

/* Whether the sender of a way may send up to `end`. Windows are advice, and one that ignored them would take what all share that are
 * paced with it. Nobody else is beyond them, but by a probe's byte: what rounding adds to them is in `told_end`. More than a byte
 * would be as much per packet, since `told_end` follows what was sent. */
static __always_inline int pace_allows(const struct packet_way *way, __u32 end)
{
	return !way->pace.handle || !is_after(end, way->pace.told_end + PROBE_BYTES);
}

/* Starts with what the sender may send already: up to `told_end`. */
static __always_inline void pace_begin(struct packet_way *way, __u64 handle, __u32 told_end, __u32 segment_bytes)
{
	way->pace.handle = handle;
	way->pace.told_end = told_end;
	way->pace.unpaid = (__s32)(told_end - way->end) > 0 ? told_end - way->end : 0;
	way->pace.segment_bytes = segment_bytes ? segment_bytes : PACE_SEGMENT_BYTES;
}

/* Records that a local socket has allowed the sender to send up to `end`. */
static __always_inline void pace_note_told(struct packet_way *way, __u32 end)
{
	if (!way->pace.handle || !is_after(end, way->pace.told_end))
		return;
	way->pace.unpaid += end - way->pace.told_end;
	way->pace.told_end = end;
}

#endif
