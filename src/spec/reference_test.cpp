#include "spec/reference.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "spec/schema.h"

namespace cadre {
namespace {

TEST(Reference, TheCommittedFileIsWhatTheSchemaSays) {
  const std::filesystem::path data = CADRE_TEST_DATA;  // tests/data
  std::ifstream file(data.parent_path().parent_path() / "docs/configuration.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == configuration_reference())
      << "write it again: cadre config reference > docs/configuration.md";
}

TEST(Schema, EveryDescriptionIsASentence) {
  for (const Key* key : all_keys()) {
    EXPECT_FALSE(key->description.empty()) << key->path;
    const bool is_name = key->description == "llama3" || key->description == "yarn";
    EXPECT_TRUE(is_name || key->description.ends_with('.') || key->description.ends_with("…"))
        << key->path;
    EXPECT_EQ(key->description.find('|'), std::string::npos) << key->path;  // it stands in a table
  }
}

TEST(Schema, EverySynonymMeansAKeyAndIsNone) {
  std::set<std::string_view> seen;
  for (const Synonym& synonym : all_synonyms()) {
    EXPECT_NE(find_key(synonym.canonical), nullptr) << synonym.canonical;
    EXPECT_EQ(find_key(synonym.path), nullptr) << synonym.path;
    EXPECT_TRUE(seen.insert(synonym.path).second) << synonym.path;
  }
  for (const Alternatives& pair : all_alternatives()) {
    EXPECT_NE(find_key(pair.first), nullptr);
    EXPECT_NE(find_key(pair.second), nullptr);
  }
}

TEST(Schema, EveryDefaultPassesItsOwnBounds) {
  Draft draft;
  for (const Key* key : all_keys()) {
    if (key->slot == nullptr || !key->default_text.empty()) {
      continue;
    }
    const Json value = get_field(*key, &draft);
    if (value.is_number()) {
      EXPECT_GE(value.get<double>(), key->allowed.minimum) << key->path;
      EXPECT_LE(value.get<double>(), key->allowed.maximum) << key->path;
    }
    EXPECT_FALSE(value.is_null()) << key->path << " needs a text for its default";
  }
}

}  // namespace
}  // namespace cadre
