/* feed_reader: counts the messages of a UDP feed on a lane, notes when each came, and finds gaps in their sequence. A
 * message is a datagram that begins with a sequence number of 8 bytes, network order. Everything else passes to the TUN.
 *
 * usage: feed_reader [-d LANE_DIR] [-p PORT] [-m spinning|interrupt] [-n MESSAGES] [-t SECONDS] */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "podlane.h"

#define BURST 32

static volatile sig_atomic_t stopped;
static void on_signal(int number) {
  (void)number;
  stopped = 1;
}

struct feed {
  uint64_t messages, bytes, gaps, lost, late;
  uint64_t next;                     /* Sequence number that should come next. */
  uint64_t first_ns, last_ns;        /* Of arrival, CLOCK_MONOTONIC. */
  uint64_t shortest_ns, longest_ns;  /* Between two messages. */
};

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint16_t be16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

static uint64_t be64(const uint8_t *at) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | at[i];
  return value;
}

/* The payload of a UDP datagram to our port; NULL when it is something else. */
static const uint8_t *payload_of(const struct podlane_frame *frame, uint16_t port, size_t *size) {
  const uint8_t *ip = frame->data + 14;
  size_t l4;
  if (frame->length < 14 + 20 + 8) return NULL;
  if (ip[0] >> 4 == 4 && ip[9] == 17 && (be16(ip + 6) & 0x3fff) == 0) l4 = (size_t)(ip[0] & 15) * 4;
  else if (ip[0] >> 4 == 6 && ip[6] == 17) l4 = 40;
  else return NULL;
  if (l4 < 20 || 14 + l4 + 8 > frame->length || be16(ip + l4 + 2) != port) return NULL;
  const size_t udp = be16(ip + l4 + 4);
  if (udp < 8 || 14 + l4 + udp > frame->length) return NULL;
  *size = udp - 8;
  return ip + l4 + 8;
}

static void take(struct feed *feed, uint64_t sequence, size_t size, uint64_t at_ns) {
  if (feed->messages == 0) {
    feed->next = sequence;
    feed->first_ns = at_ns;
    feed->shortest_ns = UINT64_MAX;
  } else {
    const uint64_t since = at_ns - feed->last_ns;
    if (since < feed->shortest_ns) feed->shortest_ns = since;
    if (since > feed->longest_ns) feed->longest_ns = since;
  }
  if (sequence > feed->next) {
    ++feed->gaps;
    feed->lost += sequence - feed->next;
  } else if (sequence < feed->next) {
    ++feed->late; /* Came twice, or after its gap was counted. */
  }
  if (sequence >= feed->next) feed->next = sequence + 1;
  feed->last_ns = at_ns;
  ++feed->messages;
  feed->bytes += size;
}

static int serve(podlane_lane *lane, struct feed *feed, uint16_t port) {
  struct podlane_frame frames[BURST], mine[BURST], others[BURST];
  unsigned mine_count = 0, other_count = 0;
  const int count = podlane_rx_burst(lane, frames, BURST);
  if (count == 0) return 0;
  const uint64_t at_ns = now_ns(); /* One time stamp a burst: they were there together. */
  for (int i = 0; i < count; ++i) {
    size_t size = 0;
    const uint8_t *payload = payload_of(&frames[i], port, &size);
    if (payload != NULL && size >= 8) {
      take(feed, be64(payload), size, at_ns);
      mine[mine_count++] = frames[i];
    } else {
      others[other_count++] = frames[i];
    }
  }
  podlane_free(lane, mine, mine_count);
  if (other_count != 0) podlane_pass_to_tun(lane, others, other_count);
  return count;
}

static void report(const struct feed *feed) {
  const double seconds = feed->messages > 1 ? (double)(feed->last_ns - feed->first_ns) / 1e9 : 0;
  printf("{\"messages\":%llu,\"bytes\":%llu,\"gaps\":%llu,\"lost\":%llu,\"late\":%llu,\"seconds\":%.6f,"
         "\"messagesPerSecond\":%.0f,\"shortestNs\":%llu,\"longestNs\":%llu}\n",
         (unsigned long long)feed->messages, (unsigned long long)feed->bytes, (unsigned long long)feed->gaps,
         (unsigned long long)feed->lost, (unsigned long long)feed->late, seconds,
         seconds > 0 ? (double)(feed->messages - 1) / seconds : 0,
         (unsigned long long)(feed->messages > 1 ? feed->shortest_ns : 0), (unsigned long long)feed->longest_ns);
}

int main(int argc, char **argv) {
  char path[256] = "", error[512] = "";
  const char *directory = NULL;
  struct podlane_options options = PODLANE_OPTIONS_INIT;
  unsigned long port = 14310;
  unsigned long long wanted = 0;
  double seconds = 0;
  struct feed feed;
  podlane_lane *lane = NULL;
  int result = 0;
  memset(&feed, 0, sizeof(feed));
  options.client_name = "feed_reader";
  options.deadline_ms = 60000;
  for (int option; (option = getopt(argc, argv, "d:p:m:n:t:")) != -1;) {
    switch (option) {
      case 'd': directory = optarg; break;
      case 'p': port = strtoul(optarg, NULL, 10); break;
      case 'm':
        options.mode = strcmp(optarg, "spinning") == 0 ? PODLANE_MODE_SPINNING : PODLANE_MODE_INTERRUPT;
        break;
      case 'n': wanted = strtoull(optarg, NULL, 10); break;
      case 't': seconds = strtod(optarg, NULL); break;
      default:
        fprintf(stderr, "usage: feed_reader [-d LANE_DIR] [-p PORT] [-m spinning|interrupt] [-n MESSAGES] [-t SECONDS]\n");
        return 2;
    }
  }
  if (directory == NULL) {
    extern char **environ;
    for (char **entry = environ; *entry != NULL && directory == NULL; ++entry) {
      const char *value = strchr(*entry, '=');
      if (strncmp(*entry, "PODLANE_LANES_", 14) != 0 || value == NULL) continue;
      snprintf(path, sizeof(path), "%s/0", value + 1);
      directory = path;
    }
  }
  if (directory == NULL || port == 0 || port > 65535) {
    fprintf(stderr, "feed_reader: needs -d LANE_DIR or PODLANE_LANES_<POOL>, and a port from 1 to 65535\n");
    return 2;
  }
  signal(SIGTERM, on_signal);
  signal(SIGINT, on_signal);
  if (podlane_open(directory, &options, &lane, error, sizeof(error)) != 0) {
    fprintf(stderr, "feed_reader: %s: %s\n", directory, error);
    return 4;
  }
  const struct podlane_info *info = podlane_describe(lane);
  fprintf(stderr, "feed_reader: %s (%s), UDP port %lu\n", info->device, info->ifname, port);
  const uint64_t start = now_ns();
  for (unsigned pass = 0; !stopped && result >= 0; ++pass) {
    const int received = serve(lane, &feed, (uint16_t)port);
    int pumped = 0;
    if (pass % 1024 == 0 || info->mode != PODLANE_MODE_SPINNING) result = pumped = podlane_pump_tun(lane, BURST);
    if (received == 0 && pumped == 0 && result >= 0) result = podlane_wait(lane, 10000);
    if (wanted != 0 && feed.messages >= wanted) break;
    if (seconds > 0 && (received == 0 || pass % 64 == 0) && (double)(now_ns() - start) > seconds * 1e9) break;
  }
  report(&feed);
  if (result < 0) fprintf(stderr, "feed_reader: %s\n", podlane_strerror(result));
  podlane_close(lane);
  return result < 0 ? 3 : 0;
}
