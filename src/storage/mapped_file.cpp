#include "storage/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "storage/file.h"

namespace cadre {

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts = {};
  if (!file.is_open() || fstat(file.number(), &facts) != 0) {
    return file_error("open", path, errno);
  }
  if (!S_ISREG(facts.st_mode)) {
    return input_error("cannot map \"", path.string(), "\" into memory: it is not a regular file");
  }
  MappedFile mapped;
  if (facts.st_size > 0) {  // mmap refuses a length of 0
    const auto bytes = static_cast<size_t>(facts.st_size);
    void* const pages = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.number(), 0);
    if (pages == MAP_FAILED) {
      return file_error("map into memory", path, errno);
    }
    mapped.bytes_ = {static_cast<const std::byte*>(pages), bytes};
  }
  return mapped;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

}  // namespace cadre
