#include "nn/parameter.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "kernels/elementwise.h"

namespace cadre::nn {
namespace {

// Where element `local` of the box lies in the whole tensor; both count row by row.
int64_t index_in_whole(int64_t local, const Box& box, const Shape& whole) {
  int64_t index = 0;
  int64_t stride = 1;
  for (int d = whole.rank() - 1; d >= 0; --d) {
    index += (box.first[d] + local % box.size[d]) * stride;
    local /= box.size[d];
    stride *= whole[d];
  }
  return index;
}

// Elements [first, last) of the local part. Adjacent elements of a row come in blocks of four.
template <typename T>
void fill_normal(std::span<T> values, const ParameterSpec& spec, const RandomKey& key,
                 int64_t first) {
  const Box box = spec.box();
  const int64_t row = box.size[box.size.rank() - 1];
  std::array<float, 4> normals{};
  uint64_t block = ~uint64_t{0};
  int64_t index = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t local = first + static_cast<int64_t>(i);
    index = (i == 0 || local % row == 0) ? index_in_whole(local, box, spec.whole) : index + 1;
    const auto position = static_cast<uint64_t>(index);
    if (position / 4 != block) {
      block = position / 4;
      normals = normals_of_block(key, block);
    }
    values[i] = from_float<T>(spec.deviation * normals[position % 4]);
  }
}

template <typename T>
void initialize_values(ThreadPool& threads, std::span<T> values, const ParameterSpec& spec,
                       uint64_t seed) {
  if (spec.initial != Initial::kNormal) {
    std::ranges::fill(values, from_float<T>(spec.initial == Initial::kOnes ? 1.0f : 0.0f));
    return;
  }
  constexpr int64_t kTile = 1 << 14;
  const RandomKey key{.seed = seed, .stream = stream_of(spec.name)};
  const auto count = static_cast<int64_t>(values.size());
  threads.run((count + kTile - 1) / kTile, [&](int64_t tile, int) {
    const int64_t first = tile * kTile;
    const auto size = static_cast<size_t>(std::min(kTile, count - first));
    fill_normal(values.subspan(static_cast<size_t>(first), size), spec, key, first);
  });
}

Shape with_rows(Shape shape, int64_t rows) {
  shape[0] = rows;
  return shape;
}

// Rows [first, first + count) of a vector or a matrix.
Tensor row_range(const Tensor& whole, int64_t first, const Shape& size) {
  Box box = all_of(whole.shape);
  box.first[0] = first;
  box.size = size;
  return whole.slice(box);
}

}  // namespace

ConstTensor Parameter::value() const {
  CADRE_CHECK(acquired > 0, spec.name, " is used outside acquire() and release()");
  return copy.empty() ? master : copy;
}

ConstTensor ParameterStack::value() const {
  for (const Parameter* member : members) {
    static_cast<void>(member->value());  // checks that it is acquired
  }
  return whole_value;
}

Parameter* ParameterStore::find(std::string_view name) {
  const auto found =
      std::ranges::find_if(parameters_, [&](const Parameter& p) { return p.spec.name == name; });
  return found == parameters_.end() ? nullptr : &*found;
}

ParameterStack& ParameterStore::declare(const std::vector<ParameterSpec>& members) {
  CADRE_CHECK(!members.empty(), "a stack of nothing");
  if (const Parameter* known = find(members.front().name)) {
    CADRE_CHECK(members.size() == 1 && known->spec.whole == members.front().whole &&
                    known->spec.shard == members.front().shard,
                known->spec.name, " is declared twice, and differently");
    const auto stack = std::ranges::find_if(stacks_, [&](const ParameterStack& s) {
      return s.members.size() == 1 && s.members.front() == known;
    });
    CADRE_CHECK(stack != stacks_.end(), known->spec.name, " is stacked with others");
    return *stack;
  }
  ParameterStack& stack = stacks_.emplace_back();
  for (const ParameterSpec& spec : members) {
    CADRE_CHECK(find(spec.name) == nullptr, spec.name, " is declared twice");
    Parameter& parameter = parameters_.emplace_back();
    parameter.spec = spec;
    parameter.frozen = options_.is_frozen != nullptr && options_.is_frozen(spec.name);
    stack.members.push_back(&parameter);
  }
  return stack;
}

Tensor ParameterStore::take(Arena& arena, DType dtype, const Shape& shape) {
  return memory_.emplace_back(cadre::allocate(arena, dtype, shape)).view();
}

// Fused rows need one dtype and one piece of memory each for values, copies and gradients.
void ParameterStore::allocate_stack(ParameterStack& stack, const Arenas& arenas) {
  int64_t rows = 0;
  for (const Parameter* member : stack.members) {
    rows += member->spec.box().size[0];
  }
  const Shape shape = with_rows(stack.members.front()->spec.box().size, rows);
  const bool all_frozen =
      std::ranges::all_of(stack.members, [](const Parameter* member) { return member->frozen; });
  const bool has_copy = options_.compute != DType::kF32 && shape.rank() >= 2;

  Tensor master, copy, gradient;
  if (has_copy) {
    copy = take(arenas.parameters, options_.compute, shape);
  }
  if (!has_copy || !all_frozen) {
    master = take(has_copy ? arenas.optimizer : arenas.parameters, DType::kF32, shape);
  }
  if (!all_frozen) {
    gradient = take(arenas.gradients, DType::kF32, shape);
  }
  int64_t first = 0;
  for (Parameter* member : stack.members) {
    const Shape size = member->spec.box().size;
    member->master = master.empty() ? Tensor() : row_range(master, first, size);
    member->copy = copy.empty() ? Tensor() : row_range(copy, first, size);
    member->gradient =
        gradient.empty() || member->frozen ? Tensor() : row_range(gradient, first, size);
    first += size[0];
  }
  stack.whole_value = has_copy ? copy : master;
  stack.whole_gradient = gradient;
}

void ParameterStore::allocate(Context& context, const Arenas& arenas) {
  for (ParameterStack& stack : stacks_) {
    allocate_stack(stack, arenas);
    if (!stack.frozen()) {
      kernels::clear(context, stack.whole_gradient);
    }
  }
}

void ParameterStore::initialize(Context& context, uint64_t seed) {
  if (context.is_meta()) {
    return;
  }
  for (Parameter& parameter : parameters_) {
    const Tensor values = parameter.stored();
    if (values.dtype == DType::kF32) {
      initialize_values(context.threads, values.flat<float>(), parameter.spec, seed);
    } else if (values.dtype == DType::kBf16) {
      initialize_values(context.threads, values.flat<Bf16>(), parameter.spec, seed);
    } else {
      initialize_values(context.threads, values.flat<F16>(), parameter.spec, seed);
    }
  }
  refresh_copies(context);
}

void ParameterStore::refresh_copies(Context& context) {
  for (const Parameter& parameter : parameters_) {
    if (!parameter.copy.empty() && !parameter.master.empty()) {
      kernels::convert(context, parameter.copy, parameter.master);
    }
  }
}

int64_t ParameterStore::elements() const {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters_) {
    sum += parameter.spec.whole.elements();
  }
  return sum;
}

ParameterStack& ParameterUnit::declare(const std::vector<ParameterSpec>& members) {
  ParameterStack& stack = store_.declare(members);
  members_.insert(members_.end(), stack.members.begin(), stack.members.end());
  return stack;
}

bool ParameterUnit::frozen() const {
  return std::ranges::all_of(members_, [](const Parameter* member) { return member->frozen; });
}

void ParameterUnit::acquire() {
  for (Parameter* parameter : members_) {
    ++parameter->acquired;
  }
}

void ParameterUnit::release() {
  for (Parameter* parameter : members_) {
    CADRE_CHECK(parameter->acquired > 0, parameter->spec.name, " is released but not acquired");
    --parameter->acquired;
  }
}

}  // namespace cadre::nn
