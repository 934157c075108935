/* echo_direct: answers UDP datagrams to one port of a lane in the rings, in place. Everything else - ping, TCP, the UDP of
 * other programs - goes to and from the lane's TUN, so that ordinary programs of the pod work beside it.
 *
 * usage: echo_direct [-d LANE_DIR] [-p PORT] [-m spinning|interrupt]
 * LANE_DIR: one lane's directory, holding handover.sock; default: lane 0 of the first PODLANE_LANES_<POOL> variable. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "podlane.h"

#define BURST 32

static volatile sig_atomic_t stopped;
static void on_signal(int number) {
  (void)number;
  stopped = 1;
}

/* Lane 0 of the first pool that the device plugin named to this container. */
static const char *default_lane(char *path, size_t size) {
  extern char **environ;
  for (char **entry = environ; *entry != NULL; ++entry) {
    const char *value = strchr(*entry, '=');
    if (strncmp(*entry, "PODLANE_LANES_", 14) == 0 && value != NULL) {
      snprintf(path, size, "%s/0", value + 1);
      return path;
    }
  }
  return NULL;
}

static uint16_t be16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

static void swap_bytes(uint8_t *a, uint8_t *b, size_t count) {
  uint8_t keep[16];
  memcpy(keep, a, count);
  memcpy(a, b, count);
  memcpy(b, keep, count);
}

/* Turns a UDP datagram to our port round, in place. Exchanging source and destination leaves every checksum right.
 * 0: not for us. */
static int turn_round(struct podlane_frame *frame, uint16_t port) {
  uint8_t *ethernet = frame->data, *ip = ethernet + 14;
  size_t l4, address_size, source;
  if (frame->length < 14 + 20 + 8) return 0;
  if (be16(ethernet + 12) == 0x0800 && ip[0] >> 4 == 4) {
    if (ip[9] != 17 || (be16(ip + 6) & 0x3fff) != 0 || (ip[0] & 15) < 5) return 0; /* UDP, no fragment. */
    l4 = (size_t)(ip[0] & 15) * 4;
    source = 12;
    address_size = 4;
  } else if (be16(ethernet + 12) == 0x86dd && ip[0] >> 4 == 6) {
    if (frame->length < 14 + 40 + 8 || ip[6] != 17) return 0;
    l4 = 40;
    source = 8;
    address_size = 16;
  } else {
    return 0;
  }
  if (14 + l4 + 8 > frame->length || be16(ip + l4 + 2) != port) return 0;
  swap_bytes(ethernet, ethernet + 6, 6);
  swap_bytes(ip + source, ip + source + address_size, address_size);
  swap_bytes(ip + l4, ip + l4 + 2, 2);
  return 1;
}

/* One pass over what came. Returns the number of frames. */
static int serve(podlane_lane *lane, uint16_t port) {
  struct podlane_frame frames[BURST], answers[BURST], others[BURST];
  unsigned answer_count = 0, other_count = 0;
  int count = podlane_rx_burst(lane, frames, BURST);
  for (int i = 0; i < count; ++i) {
    if (turn_round(&frames[i], port)) answers[answer_count++] = frames[i];
    else others[other_count++] = frames[i];
  }
  if (answer_count != 0) {
    int sent = podlane_tx_burst(lane, answers, answer_count);
    if (sent < 0) sent = 0;
    podlane_free(lane, answers + sent, answer_count - (unsigned)sent); /* The TX ring is full: as a wire would. */
  }
  if (other_count != 0) podlane_pass_to_tun(lane, others, other_count);
  return count;
}

int main(int argc, char **argv) {
  char path[256], error[512] = "";
  const char *directory = NULL;
  struct podlane_options options = PODLANE_OPTIONS_INIT;
  unsigned long port = 7;
  podlane_lane *lane = NULL;
  int result = 0;
  options.client_name = "echo_direct";
  options.deadline_ms = 60000;
  for (int option; (option = getopt(argc, argv, "d:p:m:")) != -1;) {
    switch (option) {
      case 'd': directory = optarg; break;
      case 'p': port = strtoul(optarg, NULL, 10); break;
      case 'm':
        options.mode = strcmp(optarg, "spinning") == 0 ? PODLANE_MODE_SPINNING : PODLANE_MODE_INTERRUPT;
        break;
      default: fprintf(stderr, "usage: echo_direct [-d LANE_DIR] [-p PORT] [-m spinning|interrupt]\n"); return 2;
    }
  }
  if (directory == NULL) directory = default_lane(path, sizeof(path));
  if (directory == NULL || port == 0 || port > 65535) {
    fprintf(stderr, "echo_direct: needs -d LANE_DIR or PODLANE_LANES_<POOL>, and a port from 1 to 65535\n");
    return 2;
  }
  signal(SIGTERM, on_signal);
  signal(SIGINT, on_signal);
  if (podlane_open(directory, &options, &lane, error, sizeof(error)) != 0) {
    fprintf(stderr, "echo_direct: %s: %s\n", directory, error);
    return 4;
  }
  const struct podlane_info *info = podlane_describe(lane);
  fprintf(stderr, "echo_direct: %s (%s), UDP port %lu, %s\n", info->device, info->ifname, port,
          info->mode == PODLANE_MODE_SPINNING ? "spinning" : "interrupt");
  /* An empty look at the TUN is a system call, an empty look at the ring is none: while datagrams keep coming, the TUN is
   * looked at once in 1024 passes. */
  for (unsigned pass = 0; !stopped && result >= 0; ++pass) {
    const int received = serve(lane, (uint16_t)port);
    int pumped = 0;
    if (pass % 1024 == 0 || info->mode != PODLANE_MODE_SPINNING) result = pumped = podlane_pump_tun(lane, BURST);
    if (received == 0 && pumped == 0) result = podlane_wait(lane, 100000);
  }
  uint64_t values[64];
  const int counters = podlane_stats(lane, values, 64);
  for (int i = 0; i < counters && i < 64; ++i) {
    if (values[i] != 0) fprintf(stderr, "%s=%llu ", podlane_counter_name((unsigned)i), (unsigned long long)values[i]);
  }
  fprintf(stderr, "\n");
  if (result < 0) fprintf(stderr, "echo_direct: %s\n", podlane_strerror(result));
  podlane_close(lane);
  return result < 0 ? 3 : 0;
}
