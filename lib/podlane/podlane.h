/* libpodlane: a lane's AF_XDP rings and TUN in the application. C ABI, version 0.
 *
 * A lane is opened by its directory (PODLANE_LANES_<POOL> plus "/<n>"), without any capability: the device plugin hands
 * the finished socket over. Received frames lie in place in the shared packet memory; the application answers them in
 * place, frees them, or passes them to the lane's TUN, so that ARP-free control traffic - ping, TCP of ordinary programs -
 * goes on beside it. docs/libpodlane.md explains the whole.
 *
 * Threads: all functions of one lane are for one thread at a time, but podlane_stats() and podlane_counter_name(), which
 * any thread may call. Lanes do not share anything. podlane_open() starts one control thread for the lane, which sleeps:
 * it keeps the session with the device plugin, resolves next hops, and notices when the device goes.
 *
 * Errors: functions that can fail return a negative PODLANE_E… value; podlane_strerror() puts it into words. No function
 * but podlane_open() and podlane_close() allocates, locks or logs. */
#ifndef PODLANE_H
#define PODLANE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PODLANE_ABI_VERSION 0

enum podlane_error {
  PODLANE_EINVAL = -1,       /* An argument is wrong. */
  PODLANE_EAGAIN = -2,       /* Not now: no frame free, or next hop not known yet. */
  PODLANE_EGONE = -3,        /* The lane's device or TUN went away: close the lane and open it again. */
  PODLANE_EDENIED = -4,      /* The device plugin refused: another namespace, or not this container's lane. */
  PODLANE_EBUSY = -5,        /* The lane has a live owner. */
  PODLANE_ETIMEDOUT = -6,    /* The device plugin did not answer before the deadline. */
  PODLANE_EUNSUPPORTED = -7, /* Kernel, lane kind or mode cannot do it. */
  PODLANE_EPROTOCOL = -8,    /* The device plugin said something that is not understood. */
  PODLANE_EIO = -9,          /* A system call failed; podlane_open() has the words. */
  PODLANE_ENOROUTE = -10,    /* The address is in no subnet of the lane, and there is no gateway. */
};

enum podlane_mode {
  PODLANE_MODE_AS_GIVEN = 0, /* What the pod's annotation or the pool says. */
  PODLANE_MODE_SPINNING = 1, /* podlane_wait() returns at once. */
  PODLANE_MODE_INTERRUPT = 2 /* podlane_wait() sleeps until there is something to do. */
};

typedef struct podlane_lane podlane_lane;

struct podlane_options {
  size_t size;             /* sizeof(struct podlane_options): later versions add fields at the end. */
  const char *client_name; /* For the device plugin's log; NULL: "libpodlane". */
  int deadline_ms;         /* How long to wait for the lane; 0: 10000. */
  int mode;                /* enum podlane_mode */
  int control_cpu;         /* CPU of the control thread; -1: where the scheduler puts it. */
};
#define PODLANE_OPTIONS_INIT {sizeof(struct podlane_options), NULL, 0, PODLANE_MODE_AS_GIVEN, -1}

/* What a lane is. Strings and arrays belong to the lane and live until podlane_close(). */
struct podlane_info {
  const char *pool;
  uint32_t index;                /* n in the directory's name. */
  const char *device;            /* The kubelet's id: "feed-3". */
  const char *kind;              /* "queue" or "veth". */
  const char *ifname;            /* The lane's TUN in this pod. */
  uint32_t mtu;                  /* Bytes of an IP packet. */
  uint8_t mac[6];                /* Source address on the wire. */
  const char *const *addresses;  /* "10.9.0.5/24", …; NULL at the end. Likewise: */
  const char *const *subnets;
  const char *const *gateways;
  const char *netdev;            /* Device and queue of the socket, as the device plugin calls them. */
  uint32_t queue;
  uint32_t frames, frame_size;   /* Of the packet memory; bytes. */
  int mode;                      /* In force: PODLANE_MODE_SPINNING or PODLANE_MODE_INTERRUPT. */
  int zero_copy, native_xdp, busy_poll; /* In force: 0 or 1. */
};

/* A frame that the application holds: from podlane_rx_burst() or podlane_tx_reserve(), until it is freed, submitted or
 * passed to the TUN. data is the Ethernet header. capacity: bytes from data to the frame's end. */
struct podlane_frame {
  uint8_t *data;
  uint32_t length;
  uint32_t capacity;
};

/* Opens the lane of a directory. options may be NULL. On failure *lane stays as it was, and `error`, when it is not NULL,
 * gets the reason in words, cut to error_size bytes. Blocks until the deadline at most. Raises the TUN's carrier. */
int podlane_open(const char *directory, const struct podlane_options *options, podlane_lane **lane, char *error,
                 size_t error_size);

/* Drops the carrier, ends the session, gives the lane back. Frames of the lane are void then. NULL is allowed. */
void podlane_close(podlane_lane *lane);

const struct podlane_info *podlane_describe(const podlane_lane *lane);

/* Takes up to max (at most 64) received frames. Never blocks. Returns how many. */
int podlane_rx_burst(podlane_lane *lane, struct podlane_frame *frames, unsigned max);

/* Gives frames back unsent. PODLANE_EINVAL when one of them is not held by the application; the others are freed. */
int podlane_free(podlane_lane *lane, const struct podlane_frame *frames, unsigned count);

/* Takes up to max empty frames for sending; length is 0. Returns how many there were: 0 when none is free now. */
int podlane_tx_reserve(podlane_lane *lane, struct podlane_frame *frames, unsigned max);

/* Sends frames of podlane_tx_reserve(), or received ones changed in place, and kicks the kernel. data may have been moved
 * within the frame. Returns how many were taken, from the first on; the rest stays the application's: call again.
 * A frame longer than Ethernet header and MTU, or not held by the application, ends the burst: PODLANE_EINVAL when it is
 * the first. PODLANE_EGONE when the device is gone. */
int podlane_tx_burst(podlane_lane *lane, const struct podlane_frame *frames, unsigned count);

/* Copies one Ethernet frame and sends it. 0, PODLANE_EAGAIN (no frame free), PODLANE_EINVAL (length), PODLANE_EGONE. */
int podlane_tx_copy(podlane_lane *lane, const void *frame, uint32_t length);

/* Passes received frames to the lane's TUN: L2 stripped, checked, counted. All frames are the library's afterwards.
 * Returns how many the TUN took; the others are dropped and counted by reason. */
int podlane_pass_to_tun(podlane_lane *lane, const struct podlane_frame *frames, unsigned count);

/* Takes up to budget (at most 32) packets that programs sent into the TUN, and sends them on the lane: L2 added,
 * checksums completed, GSO packets cut. Costs one system call when there is nothing. Returns the number of reads that
 * brought something; PODLANE_EGONE. Also takes in what the control thread has learnt about next hops. */
int podlane_pump_tun(podlane_lane *lane, unsigned budget);

/* Waits by mode until frames or TUN packets may be there, timeout_us passes, or the device goes. Spinning: returns at
 * once. Returns 1 when there may be something, 0 after the timeout, PODLANE_EGONE. */
int podlane_wait(podlane_lane *lane, unsigned timeout_us);

/* The descriptors that podlane_wait() sleeps on, for an event loop of the application's own (level-triggered POLLIN).
 * Fills at most max; returns how many there are. */
int podlane_fds(const podlane_lane *lane, int *fds, unsigned max);

/* The MAC address for a destination: 4 or 16 bytes of address, network order. 0 and mac is filled; PODLANE_EAGAIN: asked
 * for, try again later (podlane_pump_tun() or podlane_wait() take the answer in); PODLANE_ENOROUTE; PODLANE_EINVAL. */
int podlane_resolve(podlane_lane *lane, const void *address, unsigned address_size, uint8_t mac[6]);

/* Counters since opening, in the order of podlane_counter_name(0 …). Fills at most max; returns how many there are. */
int podlane_stats(const podlane_lane *lane, uint64_t *values, unsigned max);
const char *podlane_counter_name(unsigned index); /* NULL beyond the last. */

/* The debug check: 0 when each frame of the packet memory has exactly one place, PODLANE_EINVAL when not. Slow. */
int podlane_check_frames(const podlane_lane *lane);

const char *podlane_strerror(int error);
const char *podlane_version(void); /* "0.1.0" */

#ifdef __cplusplus
}
#endif
#endif
