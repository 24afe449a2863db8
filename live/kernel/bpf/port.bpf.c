// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
// A port of a switch that is a Linux interface: data leaves through it, acknowledgements return.
//
// On the way out: a virtual queue with thresholds (SDTCP, section 3.2), CE marks, classes of HTB.
// On the way in: windows of acknowledgements are capped (section 3.5), by how congested the port is,
// and acknowledgements are spaced, by a device that drops those that find its queue full.
// Nothing else drops a packet.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "watermaster.h"
#include "lease.h"

#define DEFAULT_SEGMENT 536 // RFC 9293, section 3.7.1
#define MAX_SHIFT 14	    // RFC 7323, section 2.3

enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wm_port);
} port SEC(".maps");

// A packet in the virtual queue, or what the kernel handles as one.
struct queued {
	__u64 leaves; // when its last bit does
	__u32 packets; // that were queued in all, with it
};

struct queue {
	struct bpf_spin_lock lock;
	__u32 level;
	__u64 above; // until when the queue has L or more
	__u64 seen; // when a packet was offered last
	__u64 recovered; // when the port last did
	__u64 recoveries; // how often
	__u64 due; // when it looks next whether it does
	__u32 first, end; // of what is queued; before the first one stands the last that left
	struct queued ring[WM_ROOM];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct queue);
} queues SEC(".maps");

struct recovery {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct recovery);
} recoveries SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wm_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct wm_connection);
	__type(value, struct wm_flow);
} flows SEC(".maps");

// The entry for a connection of zeros is for all that have none of their own.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, struct wm_connection);
	__type(value, struct wm_window);
} windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, struct wm_connection);
	__type(value, struct wm_class);
} classes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wm_space);
} spaces SEC(".maps");

struct departures {
	struct bpf_spin_lock lock;
	__u32 unused;
	__u64 last; // when the last acknowledgement that was sent to wait may go
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct departures);
} departures SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

static const struct wm_connection everyone;
static const __u32 zero;

static __always_inline void tell(__u32 number, __u32 kind, __u64 queue, const struct wm_connection *connection)
{
	struct wm_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		struct wm_counters *count = bpf_map_lookup_elem(&counters, &zero);
		if (count)
			count->lost++;
		return;
	}
	event->at = bpf_ktime_get_ns();
	event->queue = queue;
	event->port = number;
	event->kind = kind;
	event->connection = *connection;
	event->unused = 0;
	bpf_ringbuf_submit(event, 0);
}

struct packet {
	struct wm_connection connection; // as the packet is addressed
	__u32 tcp;			 // where its header starts
	__u32 options;			 // octets
	__u32 payload;			 // octets
	__u16 window;
	__u8 flags;
};

struct ipv4 {
	__u8 version_length;
	__u8 service;
	__be16 total;
	__be16 identification;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__sum16 sum;
	__u8 source[4];
	__u8 destination[4];
};

struct ipv6 {
	__u8 version;
	__u8 label[3];
	__be16 payload;
	__u8 next;
	__u8 hops;
	__u8 source[16];
	__u8 destination[16];
};

struct tcp {
	__be16 source;
	__be16 destination;
	__be32 sequence;
	__be32 acknowledged;
	__u8 length;
	__u8 flags;
	__be16 window;
	__sum16 sum;
	__be16 urgent;
};

enum { NOT_TCP, MALFORMED, IS_TCP };

// TCP over IPv4, or over IPv6 without extension headers; the first fragment of several isn't taken.
static __always_inline int parse(struct __sk_buff *skb, __u32 at, struct packet *packet)
{
	__u32 end = skb->len;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct ipv4 ip;
		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)))
			return MALFORMED;
		__u32 length = (ip.version_length & 15) * 4;
		__u32 total = bpf_ntohs(ip.total);
		if (ip.version_length >> 4 != 4 || length < sizeof(ip))
			return MALFORMED;
		if (ip.protocol != IPPROTO_TCP || ip.fragment & bpf_htons(0x3fff))
			return NOT_TCP;
		// Zero is what packets too long for the field have before they are cut.
		if (total && at + total < end)
			end = at + total;
		packet->tcp = at + length;
		__builtin_memset(packet->connection.source, 0, 10);
		__builtin_memset(packet->connection.source + 10, 0xff, 2);
		__builtin_memcpy(packet->connection.source + 12, ip.source, 4);
		__builtin_memset(packet->connection.destination, 0, 10);
		__builtin_memset(packet->connection.destination + 10, 0xff, 2);
		__builtin_memcpy(packet->connection.destination + 12, ip.destination, 4);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6 ip;
		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)) || ip.version >> 4 != 6)
			return MALFORMED;
		if (ip.next != IPPROTO_TCP)
			return NOT_TCP;
		__u32 total = bpf_ntohs(ip.payload);
		packet->tcp = at + sizeof(ip);
		if (total && packet->tcp + total < end)
			end = packet->tcp + total;
		__builtin_memcpy(packet->connection.source, ip.source, 16);
		__builtin_memcpy(packet->connection.destination, ip.destination, 16);
	} else {
		return NOT_TCP;
	}
	struct tcp tcp;
	if (packet->tcp + sizeof(tcp) > end || bpf_skb_load_bytes(skb, packet->tcp, &tcp, sizeof(tcp)))
		return MALFORMED;
	__u32 length = (tcp.length >> 4) * 4;
	if (length < sizeof(tcp) || packet->tcp + length > end)
		return MALFORMED;
	packet->options = length - sizeof(tcp);
	packet->payload = end - packet->tcp - length;
	packet->connection.source_port = bpf_ntohs(tcp.source);
	packet->connection.destination_port = bpf_ntohs(tcp.destination);
	packet->flags = tcp.flags;
	packet->window = bpf_ntohs(tcp.window);
	return IS_TCP;
}

struct offer {
	__u8 options[64];
	__u32 length;
	__u32 at;
	__u16 segment; // 0: not said
	__u8 scale;
	bool scales;
	bool broken;
};

// Takes one option; returns whether it was the last.
static long read_option(__u32 round, struct offer *offer)
{
	(void)round;
	__u32 at = offer->at, length = offer->length;
	if (at >= length || at >= 40)
		return 1;
	__u8 kind = offer->options[at];
	if (kind == 0)
		return 1;
	if (kind == 1) {
		offer->at = at + 1;
		return 0;
	}
	__u8 size = at + 1 < length ? offer->options[at + 1] : 0;
	if (size < 2 || at + size > length) {
		offer->broken = true;
		return 1;
	}
	if (kind == 2 && size == 4)
		offer->segment = offer->options[at + 2] << 8 | offer->options[at + 3];
	if (kind == 3 && size == 3) {
		__u8 scale = offer->options[at + 2];
		offer->scale = scale < MAX_SHIFT ? scale : MAX_SHIFT;
		offer->scales = true;
	}
	offer->at = at + size;
	return 0;
}

// The options of a SYN. A list that breaks off says nothing: hosts too drop what they can't read.
static __always_inline void read_options(struct __sk_buff *skb, const struct packet *packet, struct offer *offer)
{
	offer->length = packet->options;
	if (offer->length == 0)
		return;
	if (offer->length > 40 ||
	    bpf_skb_load_bytes(skb, packet->tcp + sizeof(struct tcp), offer->options, offer->length)) {
		offer->broken = true;
		return;
	}
	bpf_loop(40, read_option, offer, 0);
}

static __always_inline void reverse(const struct wm_connection *from, struct wm_connection *to)
{
	__builtin_memcpy(to->source, from->destination, 16);
	__builtin_memcpy(to->destination, from->source, 16);
	to->source_port = from->destination_port;
	to->destination_port = from->source_port;
}

// The flow of a packet, known or not until now, after what its flags say. It is opened by its sender: by a SYN, or where
// the other end has made the connection, by its first payload. The other direction has a flow of its own.
static __always_inline struct wm_flow *follow(struct __sk_buff *skb, const struct wm_port *config,
					      const struct wm_connection *name, const struct packet *packet,
					      bool from_sender)
{
	__u64 now = bpf_ktime_get_ns();
	struct wm_flow *flow = bpf_map_lookup_elem(&flows, name);
	if (!flow) {
		struct wm_flow fresh = { .first = now };
		bpf_map_update_elem(&flows, name, &fresh, BPF_ANY);
		flow = bpf_map_lookup_elem(&flows, name);
		if (!flow)
			return 0;
	}
	flow->last = now;
	if (packet->flags & SYN) {
		struct offer offer = {};
		read_options(skb, packet, &offer);
		if (!(packet->flags & ACK)) { // a new connection, whatever had these numbers before
			flow->first = now;
			flow->flags = 0;
			flow->told = 0;
			flow->segment = 0;
		}
		if (!offer.broken) {
			__u32 bits = from_sender ? WM_SENDER_SYN : WM_RECEIVER_SYN;
			if (offer.scales)
				bits |= from_sender ? WM_SENDER_SCALE : WM_RECEIVER_SCALE;
			flow->flags |= bits;
			if (!from_sender) {
				flow->scale = offer.scale;
				flow->segment = offer.segment ? offer.segment : DEFAULT_SEGMENT;
			}
		}
	}
	bool opens = from_sender && (packet->payload || (packet->flags & (SYN | ACK)) == SYN);
	// Under another watch somebody else may listen: it is told again, when it sends again.
	if (opens && config->punt && flow->told != config->punt && !(flow->flags & WM_CLOSED)) {
		flow->told = config->punt;
		tell(config->port, WM_OPENED, 0, name);
	}
	bool closes = packet->flags & RST || (from_sender && packet->flags & FIN);
	if (closes && !(flow->flags & WM_CLOSED)) {
		flow->flags |= WM_CLOSED;
		if (config->punt)
			tell(config->port, WM_CLOSED_FLOW, 0, name);
	}
	return flow;
}

static __always_inline __u64 to_octets(const struct wm_port *config, __u64 wait)
{
	return wait * config->rate / 1000000000;
}

static __always_inline struct queued *place(struct queue *queue, __u32 number)
{
	return &queue->ring[number % WM_ROOM];
}

// The number of the first entry that leaves after `time`, or whose count of all packets so far exceeds `most`.
static __always_inline __u32 first_after(struct queue *queue, __u64 time, __u32 most)
{
	__u32 at = queue->first;
	for (__u32 step = WM_ROOM; step; step /= 2) {
		const struct queued *last = place(queue, at + step - 1);
		if (queue->end - at >= step && last->leaves <= time && (__s32)(most - last->packets) >= 0)
			at += step;
	}
	return at;
}

// Takes out what has left by now.
static __always_inline void drain(struct queue *queue, __u64 now)
{
	const struct queued *last = place(queue, queue->end - 1);
	if (last->leaves <= now)
		queue->first = queue->end;
	else if (place(queue, queue->first)->leaves <= now)
		queue->first = first_after(queue, now, last->packets);
}

static int recover(void *map, __u32 *key, struct recovery *recovery)
{
	(void)map, (void)key;
	struct wm_port *config = bpf_map_lookup_elem(&port, &zero);
	struct queue *queue = bpf_map_lookup_elem(&queues, &zero);
	if (!config || !queue)
		return 0;
	__u64 now = bpf_ktime_get_ns(), again = 0, wait;
	bpf_spin_lock(&queue->lock);
	if (queue->above + config->recovery > now) {
		queue->due = queue->above + config->recovery;
		again = queue->due - now;
	} else {
		queue->level = WM_RECOVERED;
		queue->recovered = now;
		queue->recoveries++;
	}
	__u64 busy = place(queue, queue->end - 1)->leaves;
	wait = busy > now ? busy - now : 0;
	bpf_spin_unlock(&queue->lock);
	if (again)
		bpf_timer_start(&recovery->timer, again, 0);
	else
		tell(config->port, WM_RECOVERED, to_octets(config, wait), &everyone);
	return 0;
}

// Puts packets into the virtual queue; returns how many are in it then.
static __always_inline __u32 enqueue(const struct wm_port *config, __u32 octets, __u32 packets,
				     struct wm_counters *count)
{
	struct queue *queue = bpf_map_lookup_elem(&queues, &zero);
	if (!queue || !config->rate)
		return 0;
	__u64 cost = (__u64)octets * 1000000000 / config->rate;
	__u64 now = bpf_ktime_get_ns(), wait;
	__u32 level, before, length;
	bool full;
	bpf_spin_lock(&queue->lock);
	queue->seen = now;
	drain(queue, now);
	struct queued last = *place(queue, queue->end - 1);
	wait = last.leaves > now ? last.leaves - now : 0;
	length = last.packets - place(queue, queue->first - 1)->packets;
	full = wait + cost > config->limit || length >= config->room || queue->end - queue->first >= WM_ROOM - 1;
	if (!full) { // as in the real one, what finds no room takes none
		wait += cost;
		length += packets;
		last.leaves = now + wait;
		last.packets += packets;
		*place(queue, queue->end++) = last;
	}
	before = queue->level;
	level = length >= config->threshold[2] ? WM_HIGH :
		length >= config->threshold[1] ? WM_MEDIUM :
		length >= config->threshold[0] ? WM_LOW :
						 WM_RECOVERED;
	if (level) {
		__u32 below = first_after(queue, last.leaves, last.packets - config->threshold[0]);
		queue->above = place(queue, below)->leaves;
	}
	if (level > before)
		queue->level = level;
	if (level && !before)
		queue->due = now + config->recovery;
	__u64 due = queue->due;
	bpf_spin_unlock(&queue->lock);
	count->over += full;
	if (level > before) {
		tell(config->port, level, to_octets(config, wait), &everyone);
		if (!before) {
			struct recovery *recovery = bpf_map_lookup_elem(&recoveries, &zero);
			if (recovery) {
				bpf_timer_init(&recovery->timer, &recoveries, CLOCK_MONOTONIC);
				bpf_timer_set_callback(&recovery->timer, recover);
				bpf_timer_start(&recovery->timer, due - now, 0);
			}
		}
	}
	return length;
}

SEC("tcx/egress")
int leaving(struct __sk_buff *skb)
{
	struct wm_port *config = bpf_map_lookup_elem(&port, &zero);
	struct wm_counters *count = bpf_map_lookup_elem(&counters, &zero);
	if (!config || !count)
		return TC_ACT_UNSPEC;
	__u32 packets = skb->gso_segs ? skb->gso_segs : 1;
	__u32 length = skb->wire_len ? skb->wire_len : skb->len;
	__u32 headers = packets * config->link_header;
	__u32 octets = length > headers ? length - headers : 0;
	count->packets += packets;
	count->octets += octets;
	if (enqueue(config, octets, packets, count) > config->mark && bpf_skb_ecn_set_ce(skb))
		count->marked++;

	struct packet packet = {};
	int kind = parse(skb, config->link_header, &packet);
	if (kind == MALFORMED)
		count->malformed++;
	if (kind != IS_TCP)
		return TC_ACT_UNSPEC;
	follow(skb, config, &packet.connection, &packet, true);
	struct wm_class *class = bpf_map_lookup_elem(&classes, &packet.connection);
	if (class && holds(class->epoch)) {
		skb->priority = class->class; // HTB takes a class's own number before it asks its filters
		count->classed++;
	}
	return TC_ACT_UNSPEC;
}

// Caps the window of an acknowledgement.
static __always_inline void cap(struct __sk_buff *skb, const struct wm_port *config, const struct packet *packet,
				const struct wm_connection *name, const struct wm_flow *flow, struct wm_counters *count)
{
	struct wm_window *entry = bpf_map_lookup_elem(&windows, name);
	if (!entry || !holds(entry->epoch))
		entry = bpf_map_lookup_elem(&windows, &everyone);
	struct queue *queue = bpf_map_lookup_elem(&queues, &zero);
	if (!entry || !holds(entry->epoch) || !queue)
		return;
	// The program on the way out changes it as soon as it sees a threshold passed: no lock is needed to read a number.
	struct wm_cap *chosen = &entry->caps[*(volatile __u32 *)&queue->level % WM_SEVERITIES];
	if (chosen->octets == WM_UNCAPPED)
		return;

	__u32 both = WM_SENDER_SYN | WM_RECEIVER_SYN;
	if (!flow || (flow->flags & both) != both) {
		count->unscaled++;
		return;
	}
	both = WM_SENDER_SCALE | WM_RECEIVER_SCALE;
	bool scaled = (flow->flags & both) == both && !(packet->flags & SYN);
	__u32 scale = scaled ? flow->scale & 15 : 0;
	__u32 segment = flow->segment < config->segment ? flow->segment : config->segment;
	__u64 floor = (__u64)chosen->floor * segment;
	__u64 cap = chosen->octets > floor ? chosen->octets : floor;
	__u64 units = cap >> scale;
	if (units << scale < floor)
		units++;
	if (!units)
		units = 1; // a closed window would stop the flow
	if (units >= packet->window)
		return;
	__be16 old = bpf_htons(packet->window), new = bpf_htons(units);
	if (bpf_l4_csum_replace(skb, packet->tcp + __builtin_offsetof(struct tcp, sum), old, new, sizeof(new)) ||
	    bpf_skb_store_bytes(skb, packet->tcp + __builtin_offsetof(struct tcp, window), &new, sizeof(new), 0))
		return;
	count->rewritten++;
	if (!entry->first)
		entry->first = bpf_ktime_get_ns();
}

// Sends an acknowledgement to wait for its turn, in a device that sends one in each gap and has it come in here again,
// past these programs. One that carries payload is data of the other direction, which no link here is full of.
static __always_inline int space(const struct packet *packet, struct wm_counters *count)
{
	struct wm_space *entry = bpf_map_lookup_elem(&spaces, &zero);
	struct departures *turns = bpf_map_lookup_elem(&departures, &zero);
	if (!entry || !turns || packet->payload || !holds(entry->epoch))
		return TC_ACT_UNSPEC;
	__u64 gap = entry->gap, most = entry->most, now = bpf_ktime_get_ns();
	bpf_spin_lock(&turns->lock);
	__u64 turn = turns->last + gap;
	if (turn < now)
		turn = now;
	bool waits = turn - now <= most;
	if (waits)
		turns->last = turn;
	bpf_spin_unlock(&turns->lock);
	if (!waits)
		return TC_ACT_UNSPEC;
	count->spaced++;
	return bpf_redirect(entry->device, 0);
}

SEC("tcx/ingress")
int returning(struct __sk_buff *skb)
{
	struct wm_port *config = bpf_map_lookup_elem(&port, &zero);
	struct wm_counters *count = bpf_map_lookup_elem(&counters, &zero);
	if (!config || !count)
		return TC_ACT_UNSPEC;
	struct packet packet = {};
	int kind = parse(skb, config->link_header, &packet);
	if (kind == MALFORMED)
		count->malformed++;
	if (kind != IS_TCP)
		return TC_ACT_UNSPEC;
	struct wm_connection name;
	reverse(&packet.connection, &name);
	struct wm_flow *flow = follow(skb, config, &name, &packet, false);
	if (!(packet.flags & ACK) || packet.flags & RST)
		return TC_ACT_UNSPEC;
	count->acknowledgements++;
	cap(skb, config, &packet, &name, flow, count);
	return space(&packet, count);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
