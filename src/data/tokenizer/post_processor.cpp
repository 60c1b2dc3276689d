#include "data/tokenizer/post_processor.h"

#include <string>

#include "data/tokenizer/json_members.h"

namespace cadre::data {
namespace {

class Parser {
 public:
  explicit Parser(const PostProcessor::IdOfToken& id_of_token) : id_of_token_(id_of_token) {}

  Status add(const Json& json, const std::string& place, PostProcessor& result) {
    JsonMembers members(json, place);
    const std::string type = members.required_text("type");
    if (type == "Sequence") {
      const Json& list = members.array("processors");
      for (size_t i = 0; i < list.size(); ++i) {
        if (Status status = add(list[i], concat(place, ".processors[", i, "]"), result); !status) {
          return status;
        }
      }
    } else if (type == "TemplateProcessing") {
      add_template(members, result);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      const Json* first = members.find("cls");
      const Json* last = members.find("sep");
      if (first == nullptr || last == nullptr || !first->is_array() || !last->is_array() ||
          first->empty() || last->empty()) {
        members.fail(concat(place, " has no \"cls\" and \"sep\""));
      } else {
        result.before.insert(result.before.begin(), id_of((*first)[0], members));
        result.behind.push_back(id_of((*last)[0], members));
      }
    } else if (type != "ByteLevel" && members.problem().empty()) {
      members.fail(concat(place, ": the type \"", type,
                          "\" is not supported (only TemplateProcessing, ByteLevel, "
                          "BertProcessing, RobertaProcessing and Sequence)"));
    }
    return members.problem().empty() ? Status() : Status(input_error(members.problem()));
  }

 private:
  int32_t id_of(const Json& token, JsonMembers& members) const {
    const std::optional<int32_t> id =
        token.is_string() ? id_of_token_(token.get<std::string>()) : std::nullopt;
    if (!id) {
      members.fail(concat(members.place(), " names the token ", token.dump(),
                          ", which the vocabulary does not have"));
    }
    return id.value_or(0);
  }

  // [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, ...]
  void add_template(JsonMembers& members, PostProcessor& result) const {
    std::vector<int32_t> before;
    std::vector<int32_t> behind;
    int texts = 0;
    for (const Json& item : members.array("single")) {
      const bool is_token = item.is_object() && item.contains("SpecialToken");
      const bool is_text = item.is_object() && item.contains("Sequence");
      const Json& what = is_token ? item["SpecialToken"] : is_text ? item["Sequence"] : item;
      const Json name = what.is_object() && what.contains("id") ? what["id"] : Json(nullptr);
      if (is_token) {
        (texts == 0 ? before : behind).push_back(id_of(name, members));
      } else {
        texts += is_text && name == "A" ? 1 : 2;
      }
    }
    if (texts != 1) {
      members.fail(concat(members.place(), ".single does not hold the sequence A exactly once"));
    }
    result.before.insert(result.before.begin(), before.begin(), before.end());
    result.behind.insert(result.behind.end(), behind.begin(), behind.end());
  }

  const PostProcessor::IdOfToken& id_of_token_;
};

}  // namespace

Result<PostProcessor> PostProcessor::parse(const Json& json, const IdOfToken& id_of_token) {
  PostProcessor result;
  if (!json.is_null()) {
    if (Status status = Parser(id_of_token).add(json, "post_processor", result); !status) {
      return status.error();
    }
  }
  return result;
}

}  // namespace cadre::data
