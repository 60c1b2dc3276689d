// TemporaryFolder: a folder of a test's own, removed with all it holds when the test ends.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/check.h"

namespace cadre::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "cadre-test-XXXXXX").string();
    CADRE_CHECK(mkdtemp(name.data()) != nullptr, name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;  // a test may have removed it itself
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace cadre::testing
