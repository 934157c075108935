/* install-cni SOURCE DIRECTORY: puts the CNI binary into the runtime's directory. Writes a neighbour and renames it over
 * the old one, so that a runtime that starts the plugin at this moment gets the old or the new program, never a part, and
 * so that a running one is not disturbed (ETXTBSY). The init container of the DaemonSet. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(const char *what, const char *path) {
  fprintf(stderr, "install-cni: %s %s: %s\n", what, path, strerror(errno));
  return 1;
}

static int copy(int from, int to, off_t size) {
  while (size > 0) {
    const ssize_t sent = sendfile(to, from, NULL, (size_t)size);
    if (sent <= 0) return -1;
    size -= sent;
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: install-cni SOURCE DIRECTORY\n");
    return 2;
  }
  const char *source = argv[1];
  const char *base = strrchr(source, '/') != NULL ? strrchr(source, '/') + 1 : source;
  char target[4096], fresh[4096];
  /* The fresh name starts with a dot and has no meaning to a runtime, which looks plugins up by their exact name. */
  if (snprintf(target, sizeof(target), "%s/%s", argv[2], base) >= (int)sizeof(target) ||
      snprintf(fresh, sizeof(fresh), "%s/.%s.new", argv[2], base) >= (int)sizeof(fresh)) {
    fprintf(stderr, "install-cni: path too long: %s\n", argv[2]);
    return 2;
  }
  const int from = open(source, O_RDONLY | O_CLOEXEC);
  if (from < 0) return failed("open", source);
  struct stat facts;
  if (fstat(from, &facts) != 0) return failed("stat", source);
  if (unlink(fresh) != 0 && errno != ENOENT) return failed("remove", fresh);
  const int to = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
  if (to < 0) return failed("create", fresh);
  if (copy(from, to, facts.st_size) != 0) return failed("write", fresh);
  if (fchmod(to, 0755) != 0) return failed("chmod", fresh);
  /* On disk before it has its name: a power cut must not leave a node with an empty plugin. */
  if (fsync(to) != 0 || close(to) != 0) return failed("sync", fresh);
  if (rename(fresh, target) != 0) return failed("rename", target);
  printf("installed %s\n", target);
  return 0;
}
