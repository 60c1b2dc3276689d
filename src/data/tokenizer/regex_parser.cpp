// Regex::parse: from the text of a pattern to a tree, and from the tree to a program.

#include <algorithm>
#include <map>
#include <string>

#include "data/tokenizer/regex.h"
#include "data/tokenizer/regex_class.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

constexpr int kDepthMax = 32;
constexpr int kRepetitionsMax = 1000;
constexpr size_t kPatternBytesMax = 4096;
constexpr size_t kStepsMax = 5000;
constexpr int kUnbounded = -1;

struct Node {
  enum class Kind { kClass, kSequence, kAlternatives, kRepeat, kAhead, kNotAhead, kAtomic };
  Kind kind = Kind::kSequence;
  std::vector<Node> children = {};
  CodePointSet set = {};  // kClass
  int minimum = 0;        // kRepeat
  int maximum = 0;        // kRepeat
  bool lazy = false;      // kRepeat
};

bool can_be_empty(const Node& node) {
  const auto is_empty = [](const Node& child) { return can_be_empty(child); };
  switch (node.kind) {
    case Node::Kind::kClass:
      return false;
    case Node::Kind::kAlternatives:
      return std::any_of(node.children.begin(), node.children.end(), is_empty);
    case Node::Kind::kRepeat:
      return node.minimum == 0 || can_be_empty(node.children[0]);
    case Node::Kind::kAhead:
    case Node::Kind::kNotAhead:
      return true;
    case Node::Kind::kSequence:
    case Node::Kind::kAtomic:
      break;
  }
  return std::all_of(node.children.begin(), node.children.end(), is_empty);
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  Result<Node> parse() {
    if (pattern_.size() > kPatternBytesMax) {
      return input_error("a regular expression of ", pattern_.size(), " bytes is not supported (",
                         kPatternBytesMax, " at most)");
    }
    Result<Node> node = alternatives(false, 0);
    if (node && at_ < pattern_.size()) {
      return refused("a ) without (");
    }
    if (node && can_be_empty(*node)) {
      return input_error("regular expression \"", pattern_,
                         "\": a pattern that can match nothing is not supported");
    }
    return node;
  }

 private:
  Error refused(std::string_view what) const {
    return input_error("regular expression \"", pattern_, "\": ", what, " at byte ", at_);
  }
  bool sees(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool takes(std::string_view text) {
    const bool seen = sees(text);
    at_ += seen ? text.size() : 0;
    return seen;
  }

  // Up to the end or to a ) that is not taken.
  Result<Node> alternatives(bool any_case, int depth) {
    if (depth > kDepthMax) {
      return refused("groups nested too deep");
    }
    Node choice{.kind = Node::Kind::kAlternatives};
    do {
      Node sequence{.kind = Node::Kind::kSequence};
      while (at_ < pattern_.size() && !sees("|") && !sees(")")) {
        Result<Node> item = quantified(any_case, depth);
        if (!item) {
          return item;
        }
        sequence.children.push_back(std::move(*item));
      }
      choice.children.push_back(std::move(sequence));
    } while (takes("|"));
    return choice.children.size() == 1 ? std::move(choice.children[0]) : std::move(choice);
  }

  Result<Node> atom(bool any_case, int depth) {
    if (sees("(")) {
      return group(any_case, depth);
    }
    Result<CodePointSet> set = CodePointSet{};
    if (sees("[")) {
      set = parse_class(pattern_, at_);
    } else if (sees("\\")) {
      set = parse_escape(pattern_, at_);
    } else if (takes(".")) {
      set = inverted({{'\n', '\n'}});
    } else if (sees("^") || sees("$") || sees("*") || sees("+") || sees("?")) {
      return refused(concat("\"", pattern_[at_], "\" is not supported here"));
    } else {
      const CodePoint point = code_point_at(pattern_, at_);
      at_ += point.size;
      set = CodePointSet{{point.value, point.value}};
    }
    if (!set) {
      return set.error();
    }
    return Node{.kind = Node::Kind::kClass,
                .set = any_case ? with_both_ascii_cases(*set) : std::move(*set)};
  }

  Result<Node> group(bool any_case, int depth) {
    Node::Kind kind = Node::Kind::kSequence;
    if (takes("(?i:")) {
      any_case = true;
    } else if (takes("(?=")) {
      kind = Node::Kind::kAhead;
    } else if (takes("(?!")) {
      kind = Node::Kind::kNotAhead;
    } else if (takes("(?>")) {
      kind = Node::Kind::kAtomic;
    } else if (!takes("(?:")) {
      takes("(");
      if (sees("?")) {
        return refused(concat("the group (", pattern_.substr(at_, 2), "...) is not supported"));
      }
    }
    Result<Node> inside = alternatives(any_case, depth + 1);
    if (!inside) {
      return inside;
    }
    if (!takes(")")) {
      return refused("a ( without )");
    }
    Node node{.kind = kind};
    node.children.push_back(std::move(*inside));
    return node;
  }

  // {n}, {n,}, {n,m}, {,m}; false, with nothing taken, if this is a literal brace.
  bool braces(int& minimum, int& maximum) {
    const size_t start = at_;
    const auto count = [this](int& value) {
      const size_t first = at_;
      value = 0;
      for (; at_ < pattern_.size() && pattern_[at_] >= '0' && pattern_[at_] <= '9'; ++at_) {
        value = std::min(value * 10 + (pattern_[at_] - '0'), kRepetitionsMax + 1);
      }
      return at_ > first;
    };
    takes("{");
    const bool has_minimum = count(minimum);
    maximum = minimum;
    bool has_maximum = has_minimum;
    if (takes(",")) {
      has_maximum = count(maximum);
      maximum = has_maximum ? maximum : kUnbounded;
    }
    if ((has_minimum || has_maximum) && takes("}")) {
      return true;
    }
    at_ = start;
    return false;
  }

  Result<Node> quantified(bool any_case, int depth) {
    Result<Node> item = atom(any_case, depth);
    bool repeated = item.ok();
    while (repeated) {
      int minimum = 0;
      int maximum = kUnbounded;
      bool in_braces = false;
      if (takes("*")) {
      } else if (takes("+")) {
        minimum = 1;
      } else if (takes("?")) {
        maximum = 1;
      } else if (sees("{") && braces(minimum, maximum)) {
        in_braces = true;
      } else {
        break;
      }
      item = repeat(std::move(*item), minimum, maximum);
      if (item && takes("?")) {
        item->lazy = true;
      } else if (item && !in_braces && takes("+")) {  // behind braces, + repeats once more
        Node atomic{.kind = Node::Kind::kAtomic};
        atomic.children.push_back(std::move(*item));
        item = std::move(atomic);
      }
      repeated = item.ok();
    }
    return item;
  }

  Result<Node> repeat(Node item, int minimum, int maximum) {
    const bool is_look = item.kind == Node::Kind::kAhead || item.kind == Node::Kind::kNotAhead;
    if (is_look || (maximum == kUnbounded && can_be_empty(item))) {
      return refused("repeating what can match nothing is not supported");
    }
    if (std::max(minimum, maximum) > kRepetitionsMax) {
      return refused(concat("more than ", kRepetitionsMax, " repetitions"));
    }
    if (maximum != kUnbounded && maximum < minimum) {
      return refused("a repetition that ends below its start");
    }
    Node node{.kind = Node::Kind::kRepeat, .minimum = minimum, .maximum = maximum};
    node.children.push_back(std::move(item));
    return node;
  }

  std::string_view pattern_;
  size_t at_ = 0;
};

class Compiler {
 public:
  Result<RegexProgram> compile(const Node& node, std::string_view pattern) {
    emit(node);
    add({.kind = RegexStep::Kind::kEnd});
    if (program_.steps.size() > kStepsMax) {
      return input_error("regular expression \"", pattern, "\": too large, more than ", kStepsMax,
                         " steps when its repetitions are written out");
    }
    return std::move(program_);
  }

 private:
  using Kind = RegexStep::Kind;

  // Nothing is added beyond the limit, so that nested repetitions cannot fill the memory.
  int32_t add(const RegexStep& step) {
    if (program_.steps.size() <= kStepsMax) {
      program_.steps.push_back(step);
    }
    return static_cast<int32_t>(program_.steps.size()) - 1;
  }
  int32_t next() const { return static_cast<int32_t>(program_.steps.size()); }
  RegexStep& step(int32_t number) { return program_.steps[static_cast<size_t>(number)]; }
  bool is_full() const { return program_.steps.size() > kStepsMax; }

  void emit(const Node& node) {
    if (is_full()) {
      return;
    }
    switch (node.kind) {
      case Node::Kind::kClass:
        emit_class(node);
        return;
      case Node::Kind::kSequence:
        for (const Node& child : node.children) {
          emit(child);
        }
        return;
      case Node::Kind::kAlternatives:
        emit_alternatives(node);
        return;
      case Node::Kind::kRepeat:
        emit_repeat(node);
        return;
      case Node::Kind::kAhead:
        return emit_enclosed(Kind::kAhead, node);
      case Node::Kind::kNotAhead:
        return emit_enclosed(Kind::kNotAhead, node);
      case Node::Kind::kAtomic:
        return emit_enclosed(Kind::kAtomic, node);
    }
  }

  // A class that is repeated is emitted often but kept once.
  void emit_class(const Node& node) {
    const auto next_class = static_cast<int32_t>(program_.classes.size());
    const auto [known, is_new] = class_of_.try_emplace(&node, next_class);
    if (is_new) {
      program_.classes.emplace_back(node.set);
    }
    add({.kind = Kind::kClass, .target = known->second});
  }

  void emit_enclosed(Kind kind, const Node& node) {
    const int32_t begin = add({.kind = kind});
    emit(node.children[0]);
    add({.kind = Kind::kEnd});
    step(begin).target = next();
  }

  void emit_alternatives(const Node& node) {
    std::vector<int32_t> jumps;
    for (size_t i = 0; i + 1 < node.children.size(); ++i) {
      const int32_t split = add({.kind = Kind::kSplit});
      step(split).target = next();
      emit(node.children[i]);
      jumps.push_back(add({.kind = Kind::kJump}));
      step(split).other = next();
    }
    emit(node.children.back());
    for (const int32_t jump : jumps) {
      step(jump).target = next();
    }
  }

  // The step that tries one round more, before the round is emitted.
  int32_t emit_split(bool lazy) {
    const int32_t split = add({.kind = Kind::kSplit});
    (lazy ? step(split).other : step(split).target) = next();
    return split;
  }
  void set_exit(int32_t split, bool lazy, int32_t exit) {
    (lazy ? step(split).target : step(split).other) = exit;
  }

  void emit_repeat(const Node& node) {
    for (int round = 0; round < node.minimum; ++round) {
      emit(node.children[0]);
    }
    if (node.maximum == kUnbounded) {
      const int32_t split = emit_split(node.lazy);
      emit(node.children[0]);
      add({.kind = Kind::kJump, .target = split});
      set_exit(split, node.lazy, next());
      return;
    }
    std::vector<int32_t> splits;
    for (int round = node.minimum; round < node.maximum; ++round) {
      splits.push_back(emit_split(node.lazy));
      emit(node.children[0]);
    }
    for (const int32_t split : splits) {
      set_exit(split, node.lazy, next());
    }
  }

  RegexProgram program_;
  std::map<const Node*, int32_t> class_of_;
};

}  // namespace

Result<Regex> Regex::parse(std::string_view pattern) {
  Result<Node> node = Parser(pattern).parse();
  if (!node) {
    return node.error();
  }
  Result<RegexProgram> program = Compiler().compile(*node, pattern);
  if (!program) {
    return program.error();
  }
  return Regex(std::move(*program));
}

Regex Regex::literal(std::string_view text) {
  CADRE_CHECK(!text.empty(), "a literal pattern is not empty");
  RegexProgram program;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const auto number = static_cast<int32_t>(program.classes.size());
    program.steps.push_back({.kind = RegexStep::Kind::kClass, .target = number});
    program.classes.emplace_back(CodePointSet{{point.value, point.value}});
    at += point.size;
  }
  program.steps.push_back({.kind = RegexStep::Kind::kEnd});
  return Regex(std::move(program));
}

}  // namespace cadre::data
