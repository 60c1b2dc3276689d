// JsonMembers: reads the members of one object; the first that is wrong becomes problem().

#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/json.h"

namespace cadre::data {

// Null and missing are the same. `object` outlives this.
class JsonMembers {
 public:
  // `place` names the object in messages.
  JsonMembers(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object_.is_object()) {
      fail(concat(place_, " is ", object_.type_name(), ", not an object"));
    }
  }

  const Json* find(const char* name) const {
    if (!object_.is_object()) {
      return nullptr;
    }
    const auto member = object_.find(name);
    return member == object_.end() || member->is_null() ? nullptr : &*member;
  }
  bool flag(const char* name, bool absent) {
    const Json* member = find(name);
    if (member == nullptr) {
      return absent;
    }
    if (!member->is_boolean()) {
      fail(concat(place_, ".", name, " is ", member->type_name(), ", not true or false"));
      return absent;
    }
    return member->get<bool>();
  }
  std::optional<std::string> text(const char* name) {
    const Json* member = find(name);
    if (member == nullptr) {
      return std::nullopt;
    }
    if (!member->is_string()) {
      fail(concat(place_, ".", name, " is ", member->type_name(), ", not text"));
      return std::nullopt;
    }
    return member->get<std::string>();
  }
  std::string required_text(const char* name) {
    const std::optional<std::string> member = text(name);
    if (!member) {
      fail(concat(place_, " has no \"", name, "\""));
    }
    return member.value_or("");
  }
  int64_t integer(const char* name, int64_t absent) {
    const Json* member = find(name);
    if (member == nullptr) {
      return absent;
    }
    if (!member->is_number_integer()) {
      fail(concat(place_, ".", name, " is ", member->type_name(), ", not a whole number"));
      return absent;
    }
    return member->get<int64_t>();
  }
  const Json& array(const char* name) {
    static const Json kEmpty = Json::array();
    const Json* member = find(name);
    if (member == nullptr || !member->is_array()) {
      fail(concat(place_, ".", name, " is not an array"));
      return kEmpty;
    }
    return *member;
  }

  void fail(std::string what) {
    if (problem_.empty()) {
      problem_ = std::move(what);
    }
  }
  const std::string& place() const { return place_; }
  const std::string& problem() const { return problem_; }  // empty: nothing was wrong

 private:
  const Json& object_;
  std::string place_;
  std::string problem_;
};

}  // namespace cadre::data
