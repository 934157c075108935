// Feeds each file of a corpus folder to a fuzz target: the corpus as an ordinary test, also under g++ and sanitizers.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "lib/base/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
    return 2;
  }
  int inputs = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1], error)) {
    const auto content = podlane::read_file(entry.path().string());
    if (!content) {
      std::fprintf(stderr, "%s\n", content.error().message().c_str());
      return 1;
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(content->data()), content->size());
    ++inputs;
  }
  std::printf("%d inputs replayed\n", inputs);
  return inputs > 0 ? 0 : 1;  // A corpus that is not found must not look like a pass.
}
