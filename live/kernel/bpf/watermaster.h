/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the programs and the library share: the layout of keys, values and records. src/layout.rs says
 * the same in Rust; sizes are compared at every load. Times are CLOCK_MONOTONIC in ns, host byte order.
 */
#ifndef WATERMASTER_H
#define WATERMASTER_H

/* A direction of a TCP connection, as its data packets name it. IPv4 as ::ffff:a.b.c.d. */
struct wm_connection {
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port;
	__u16 destination_port;
};

/* Until when what was granted under an epoch holds. */
struct wm_lease {
	__u64 epoch;
	__u64 expires;
};

/* How many epochs can have a lease at a time; that of an epoch is in place epoch % WM_LEASES. */
enum { WM_LEASES = 8 };

/* How fast a connection may send. */
struct wm_limit {
	__u64 rate; /* frame octets per second, IP header included */
	__u64 epoch;
};

/* What is known of a socket beyond its own state. */
struct wm_socket {
	__u32 applied;	    /* what we have set, payload octets per second; 0: nothing */
	__u32 under;	    /* what we had set when somebody set less; 0: nobody did */
	__u32 before;	    /* what stood there before `applied` */
	__u32 under_before; /* what stood there before `under` */
	__u32 timeouts;
	__u32 unused;
};

/* A line of statistics. */
struct wm_statistics {
	struct wm_connection connection;
	__u32 namespace; /* inode */
	__u64 delivered; /* octets acknowledged */
	__u64 received;
	__u64 pacing; /* payload octets per second; 0: not held by us */
	__u64 inode; /* of the socket, as /proc/PID/fd shows it; 0: no process has it */
	__u64 cgroup; /* inode of the control group that it was made in */
	__u32 unsent;
	__u32 in_flight;
	__u32 unread; /* received, not yet taken by the application */
	__u32 srtt_us;
	__u32 retransmissions;
	__u32 timeouts;
	__u32 window; /* congestion window, segments */
	__u32 segment; /* octets of payload */
	__u32 scale; /* of the window that this end advertises */
	__u32 state;
};

/* A connection that has ended. */
struct wm_ended {
	struct wm_connection connection;
	__u32 namespace; /* inode */
	__u64 sent; /* octets, what was sent again once */
	__u64 cgroup; /* inode of the control group that it was made in */
};

/* Places for packets of a virtual queue: Thresholds::MOST_LIVE, and one that stays free. A power of two. */
enum { WM_ROOM = 4096 };

/* How a port is watched. */
struct wm_port {
	__u64 rate;  /* octets per second of the virtual queue; 0: none */
	__u64 limit; /* of a buffer of octets: how long what fits takes to leave */
	__u64 recovery;
	__u32 room;	    /* of a buffer of packets: how many fit */
	__u32 threshold[3]; /* L, M, H, packets */
	__u32 mark;	    /* CE above so many packets */
	__u32 link_header; /* octets before the IP header */
	__u32 segment; /* most payload of a packet on this interface */
	__u32 port; /* the number in events */
	__u32 punt; /* number of the watch that openings and endings are told to; 0: to nobody */
	__u32 unused;
};

enum {
	WM_SEVERITIES = 4, /* from WM_RECOVERED to WM_HIGH */
	WM_UNCAPPED = 0xffffffff, /* octets of no cap */
};

/* A cap; of a window by how congested the port is. */
struct wm_cap {
	__u32 octets;
	__u32 floor; /* segments that always fit */
};

struct wm_window {
	__u64 epoch;
	__u64 first; /* when one was first written into a packet; 0: not yet */
	struct wm_cap caps[WM_SEVERITIES];
};

/* How acknowledgements that come back are spaced. */
struct wm_space {
	__u64 epoch;
	__u64 gap; /* least time between two */
	__u64 most; /* that one waits; later ones pass */
	__u32 device; /* where they wait */
	__u32 unused;
};

struct wm_class {
	__u64 epoch;
	__u32 class; /* as tc writes it: 1:10 is 0x10010 */
	__u32 unused;
};

enum {
	WM_SENDER_SYN = 1,
	WM_SENDER_SCALE = 2,
	WM_RECEIVER_SYN = 4,
	WM_RECEIVER_SCALE = 8,
	WM_CLOSED = 16,
};

/* A flow through a port, in the direction of its data. */
struct wm_flow {
	__u64 first;
	__u64 last;
	__u32 told; /* the watch that was told of its opening */
	__u16 segment; /* most payload that the receiver takes */
	__u8 scale; /* of the receiver's window */
	__u8 flags;
};

enum {
	WM_RECOVERED,
	WM_LOW,
	WM_MEDIUM,
	WM_HIGH,
	WM_OPENED,
	WM_CLOSED_FLOW,
};

struct wm_event {
	__u64 at;
	__u64 queue; /* octets */
	__u32 port;
	__u32 kind;
	struct wm_connection connection;
	__u32 unused;
};

/* Counters of a port; one set per CPU. */
struct wm_counters {
	__u64 packets;
	__u64 octets;
	__u64 over; /* packets that found the virtual queue full */
	__u64 marked;
	__u64 classed;
	__u64 acknowledgements;
	__u64 rewritten;
	__u64 unscaled; /* to be rewritten, but the scale isn't known */
	__u64 malformed;
	__u64 lost; /* events that found no room */
	__u64 spaced; /* acknowledgements that were sent to wait */
};

#endif
