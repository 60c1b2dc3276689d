// Manifest: manifest.json, the last file of a checkpoint to be written: what the checkpoint holds.
// docs/checkpoint-format.md specifies it.

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/stored_type.h"
#include "tensor/shape.h"

namespace cadre {

inline constexpr int64_t kManifestVersion = 1;
inline constexpr std::string_view kManifestName = "manifest.json";

// Whether the folder has a manifest of ours, whole or damaged: a file of that name that others have
// put into a model folder is none of our business.
bool has_manifest(const std::filesystem::path& folder);

struct ManifestFile {
  std::string name = {};
  int64_t bytes = 0;
  uint64_t checksum = 0;  // storage/checksum.h

  bool operator==(const ManifestFile&) const = default;
};

struct ManifestPiece {
  std::string file = {};
  std::string entry = {};  // the name inside the file
  Box box = {};

  bool operator==(const ManifestPiece&) const = default;
};

struct ManifestTensor {
  std::string name = {};
  StoredType type = StoredType::kF32;
  Shape shape = {};
  std::vector<ManifestPiece> pieces = {};  // every element of `shape` is in exactly one

  bool operator==(const ManifestTensor&) const = default;
};

struct Manifest {
  int64_t step = 0;
  std::vector<ManifestFile> files = {};  // all but manifest.json
  std::vector<ManifestTensor> model = {};
  std::vector<ManifestTensor> optimizer = {};

  int64_t bytes() const;  // of all files

  bool operator==(const Manifest&) const = default;
};

std::string format_manifest(const Manifest& manifest);

// Refuses text that is not a whole and consistent manifest: a wrong checksum of its own, an unknown
// version, names that leave the folder, pieces that overlap, leave holes or name no file of it.
Result<Manifest> parse_manifest(std::string_view text, std::string_view source);

// Of a checkpoint's folder.
Result<Manifest> read_manifest(const std::filesystem::path& checkpoint);

// A name that stays in the folder it is looked up in.
bool is_plain_file_name(std::string_view name);

// What keeps `boxes` from covering every element of `shape` exactly once; empty: nothing.
std::string tiling_problem(const Shape& shape, std::span<const Box> boxes);

}  // namespace cadre
