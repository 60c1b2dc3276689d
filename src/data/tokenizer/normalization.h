// Unicode normalization forms (UAX 15), of the version that unicode_normalization.inc names.

#pragma once

#include <string>
#include <string_view>

namespace cadre::data {

struct NormalizationForm {
  bool compose = true;         // NFC, NFKC; otherwise NFD, NFKD
  bool compatibility = false;  // NFKC, NFKD
};

// `text`, which is valid UTF-8, in the form: `text` itself if it is already, otherwise `storage`.
std::string_view normalized(std::string_view text, const NormalizationForm& form,
                            std::string& storage);

}  // namespace cadre::data
