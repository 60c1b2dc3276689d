#include "storage/page_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace cadre {

PageBuffer::PageBuffer(int64_t bytes) {
  if (bytes == 0) {
    return;
  }
  void* const pages = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CADRE_CHECK(pages != MAP_FAILED, bytes, " bytes: ", std::strerror(errno));
  bytes_ = {static_cast<std::byte*>(pages), static_cast<size_t>(bytes)};
}

PageBuffer::~PageBuffer() {
  if (!bytes_.empty()) {
    munmap(bytes_.data(), bytes_.size());
  }
}

}  // namespace cadre
