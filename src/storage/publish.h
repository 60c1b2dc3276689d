// FolderPublisher: a folder that appears complete or not at all.
//
// It is built under a hidden temporary name beside its final one. publish() makes every file and
// the folder durable and then takes the final name by one rename. A process that is killed leaves
// only a folder whose name begins with kTemporaryPrefix, which readers pass over.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cadre {

inline constexpr std::string_view kTemporaryPrefix = ".tmp-";

class FolderPublisher {
 public:
  // Starts `.tmp-NAME` beside `target`; what an earlier process left under that name is removed.
  // The folder above is made if need be.
  static Result<FolderPublisher> begin(const std::filesystem::path& target);
  FolderPublisher(FolderPublisher&& other) noexcept;
  FolderPublisher& operator=(FolderPublisher&&) = delete;
  ~FolderPublisher();  // removes the temporary folder unless it was published

  // Where the files are written. Flat: no folders inside.
  const std::filesystem::path& folder() const { return temporary_; }

  // A folder that already has the final name is exchanged in the same instant (where the file
  // system can: local ones of Linux) and then removed.
  Status publish();

 private:
  FolderPublisher(std::filesystem::path target, std::filesystem::path temporary);

  std::filesystem::path target_;
  std::filesystem::path temporary_;  // empty: published, or moved from
};

// Removes a folder so that no half of it is ever seen under its name: it is renamed to a temporary
// name first.
Status remove_folder(const std::filesystem::path& folder);

}  // namespace cadre
