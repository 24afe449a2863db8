// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
// DCTCP as RFC 8257 describes it, for kernels that lack it: a congestion control that halves its window
// only when all packets are marked, and takes the less off the fewer are.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang diagnostic ignored "-Wunused-parameter" // BPF_PROG hands a context to all

#define ALL 1024u    // a share of one, in the units that alpha is kept in
#define GAIN_SHIFT 4 // g = 1/16 (section 4.2)
#define LEAST 2u     // segments of a window
enum { NEEDS_ECN = 2 };			     // flags of a congestion control
enum { ECN_OK = 1, DEMAND_CWR = 4 };	     // ecn_flags: negotiated; acknowledgements carry ECE
enum { TIMER_RUNS = 2, SEND_AT_ONCE = 16 }; // of a delayed acknowledgement

struct dctcp {
	__u32 alpha;	  // the share of marked segments, smoothed
	__u32 window_end; // the observation window ends when this is acknowledged
	__u32 delivered;  // at its beginning, segments
	__u32 marked;	  // of them
	__u32 before;	  // the window before the last reduction
	__u8 ce;	  // DCTCP.CE: the last segment that came was marked
	__u8 state;
};

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static __always_inline struct tcp_sock *tcp(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *connection(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static __always_inline struct dctcp *own(struct sock *sk)
{
	return (struct dctcp *)connection(sk)->icsk_ca_priv;
}

static __always_inline void observe(struct tcp_sock *tp, struct dctcp *d)
{
	d->window_end = tp->snd_nxt;
	d->delivered = tp->delivered;
	d->marked = tp->delivered_ce;
}

// At first all counts as marked, so that the first mark halves the window (section 4.2).
SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct dctcp *d = own(sk);
	d->alpha = ALL;
	d->before = 0;
	d->ce = 0;
	d->state = TCP_CA_Open;
	observe(tcp(sk), d);
}

// Once a window: alpha moves by a sixteenth towards the share that was marked (section 3.3). Without
// ECN at the peer it stays at one, and what is left is Reno.
SEC("struct_ops")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	(void)flags;
	struct tcp_sock *tp = tcp(sk);
	struct dctcp *d = own(sk);
	if (!(tp->ecn_flags & ECN_OK) || (__s32)(tp->snd_una - d->window_end) < 0)
		return;
	__u32 delivered = tp->delivered - d->delivered;
	__u32 marked = tp->delivered_ce - d->marked;
	__u32 alpha = d->alpha, step = alpha >> GAIN_SHIFT;
	alpha -= step ? step : alpha; // a shift alone would never reach zero
	if (marked && delivered)
		alpha += (__u32)((__u64)marked * (ALL >> GAIN_SHIFT) / delivered);
	d->alpha = alpha < ALL ? alpha : ALL;
	observe(tp, d);
}

// cwnd * (1 - alpha / 2) when there were marks (section 3.3).
SEC("struct_ops")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct dctcp *d = own(sk);
	__u32 cwnd = tcp(sk)->snd_cwnd;
	d->before = cwnd;
	__u32 less = cwnd - (__u32)((__u64)cwnd * d->alpha / (2 * ALL));
	return less > LEAST ? less : LEAST;
}

// Loss weighs as it always did (section 3.5).
static __always_inline void halve(struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);
	__u32 half = tp->snd_cwnd / 2;
	own(sk)->before = tp->snd_cwnd;
	tp->snd_ssthresh = half > LEAST ? half : LEAST;
}

SEC("struct_ops")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 state)
{
	struct dctcp *d = own(sk);
	if (state == TCP_CA_Recovery && d->state != TCP_CA_Recovery)
		halve(sk);
	d->state = state;
}

// The receiver: each acknowledgement says whether what it is for was marked (section 3.2).
static __always_inline void echo(struct sock *sk, __u8 ce)
{
	struct tcp_sock *tp = tcp(sk);
	struct dctcp *d = own(sk);
	if (d->ce != ce) {
		// What came before is acknowledged in the state that it came in.
		if (connection(sk)->icsk_ack.pending & TIMER_RUNS)
			bpf_tcp_send_ack(tp, tp->rcv_nxt);
		connection(sk)->icsk_ack.pending |= SEND_AT_ONCE;
		d->ce = ce;
	}
	__u8 flags = tp->ecn_flags & ~DEMAND_CWR;
	tp->ecn_flags = ce ? flags | DEMAND_CWR : flags;
}

SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_IS_CE))
		echo(sk, 1);
	else if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_NO_CE))
		echo(sk, 0);
	else if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_LOSS))
		halve(sk);
}

// Growth is Reno's (section 3.4).
SEC("struct_ops")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	__u32 cwnd = tcp(sk)->snd_cwnd, before = own(sk)->before;
	return cwnd > before ? cwnd : before;
}

// The name is a placeholder: each holder registers under its own.
SEC(".struct_ops.link")
struct tcp_congestion_ops dctcp = {
	.init = (void *)dctcp_init,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.ssthresh = (void *)dctcp_ssthresh,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.flags = NEEDS_ECN,
	.name = "wm_dctcp",
};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
