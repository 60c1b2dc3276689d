// In a group of one the forms are the plain layer, bit for bit; for a larger group: which part a
// rank holds, and which messages it books.

#include "parallel/tensor_linear.h"

#include <memory>
#include <type_traits>
#include <vector>

#include "testing/test_support.h"

namespace cadre::parallel {
namespace {

using testing::kCpu;
using testing::kMeta;
using testing::Rig;
using testing::values_of;

constexpr int64_t kRows = 7;
constexpr int64_t kInput = 12;
constexpr int64_t kOutput = 8;

nn::LinearSpec spec_of(bool transposed, bool bias = true) {
  nn::LinearSpec spec{.transposed = transposed};
  spec.weights = {{.name = "w",
                   .whole = transposed ? Shape{kInput, kOutput} : Shape{kOutput, kInput},
                   .deviation = 0.5f}};
  if (bias) {
    spec.biases = {
        {.name = "b", .whole = {kOutput}, .deviation = 0.5f, .role = nn::ParameterRole::kVector}};
  }
  return spec;
}

// A store with one layer, of any of the three forms.
template <typename Layer>
struct Holder {
  template <typename... Group>
  Holder(const Device& device, const nn::LinearSpec& spec, Group&... group)
      : rig(device), unit(store), layer(unit, spec, group...) {
    store.allocate(rig.context, {rig.parameters, rig.gradients, optimizer});
    store.initialize(rig.context, 1);
    unit.acquire();
  }
  ~Holder() { unit.release(); }

  Rig rig;
  Arena optimizer{*rig.source, rig.trace, rig.arena(MemoryCategory::kOptimizer)};
  nn::ParameterStore store{{}};
  nn::ParameterUnit unit;
  Layer layer;
  typename Layer::Stash stash;
};

// All passes of a layer; what they leave, in a row.
template <typename Layer>
std::vector<float> run(Holder<Layer>& x) {
  const Tensor y = x.rig.tensor({kRows, kOutput});
  const Tensor dx = x.rig.tensor({kRows, kInput});
  const Tensor input = x.rig.random({kRows, kInput}, 1);
  const Tensor dy = x.rig.random({kRows, kOutput}, 2);
  const auto finish = [](auto&& call) {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
    } else {
      call().wait();
    }
  };
  finish([&] { return x.layer.forward(x.rig.context, y, input, x.stash); });
  finish([&] { return x.layer.backward_input(x.rig.context, dx, dy, x.stash); });
  x.layer.backward_weight(x.rig.context, x.stash);
  std::vector<float> all = values_of(y);
  for (const ConstTensor& tensor : {ConstTensor(dx), ConstTensor(x.store.parameters()[0].gradient),
                                    ConstTensor(x.store.parameters()[1].gradient)}) {
    const std::vector<float> values = values_of(tensor);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(TensorLinear, IsThePlainLayerInAGroupOfOne) {
  const std::unique_ptr<comm::Collective> alone = comm::make_recorded({});
  for (const bool transposed : {false, true}) {
    Holder<nn::Linear> plain(kCpu, spec_of(transposed));
    Holder<ColumnParallelLinear> columns(kCpu, spec_of(transposed), *alone);
    Holder<RowParallelLinear> rows(kCpu, spec_of(transposed), *alone);
    const std::vector<float> expected = run(plain);
    EXPECT_EQ(run(columns), expected);
    EXPECT_EQ(run(rows), expected);
    EXPECT_TRUE(columns.rig.trace.cut().messages.empty());
    EXPECT_TRUE(rows.rig.trace.cut().messages.empty());
    EXPECT_EQ(columns.layer.output_width(), kOutput);
  }
}

TEST(TensorLinear, ColumnParallelHoldsOutputsAndSendsTheGradientOfItsInput) {
  const std::unique_ptr<comm::Collective> group = comm::make_recorded({.rank = 2, .size = 4});
  for (const bool transposed : {false, true}) {
    Holder<ColumnParallelLinear> x(kMeta, spec_of(transposed), *group);
    const Box weight = x.store.parameters()[0].spec.box();
    const int outputs = transposed ? 1 : 0;
    EXPECT_EQ(weight.first[outputs], 4);
    EXPECT_EQ(weight.size[outputs], 2);
    EXPECT_EQ(weight.first[1 - outputs], 0);
    EXPECT_EQ(weight.size[1 - outputs], kInput);
    EXPECT_EQ(x.store.parameters()[1].spec.box(), (Box{.first = {4}, .size = {2}}));
    EXPECT_EQ(x.layer.output_width(), 2);
    EXPECT_EQ(x.store.elements(), kInput * kOutput + kOutput);  // of the whole tensors

    const Tensor y = x.rig.tensor({kRows, 2});
    const Tensor input = x.rig.tensor({kRows, kInput});
    x.rig.trace.cut();
    x.layer.forward(x.rig.context, y, input, x.stash);
    EXPECT_TRUE(x.rig.trace.cut().messages.empty());
    x.layer.backward_input(x.rig.context, input, y, x.stash).wait();
    const std::vector<BookedMessage> expected = {{"all_reduce_sum", 4 * kRows * kInput, 4}};
    EXPECT_EQ(x.rig.trace.cut().messages, expected);
    x.layer.backward_weight(x.rig.context, x.stash);
    EXPECT_TRUE(x.rig.trace.cut().messages.empty());
  }
}

TEST(TensorLinear, RowParallelHoldsInputsAndSendsItsOutput) {
  const std::unique_ptr<comm::Collective> group = comm::make_recorded({.rank = 1, .size = 3});
  for (const bool transposed : {false, true}) {
    Holder<RowParallelLinear> x(kMeta, spec_of(transposed, false), *group);
    const Box weight = x.store.parameters()[0].spec.box();
    const int inputs = transposed ? 0 : 1;
    EXPECT_EQ(weight.first[inputs], 4);
    EXPECT_EQ(weight.size[inputs], 4);
    EXPECT_EQ(weight.size[1 - inputs], kOutput);

    const Tensor y = x.rig.tensor({kRows, kOutput}, DType::kF32);
    const Tensor part = x.rig.tensor({kRows, 4});
    x.rig.trace.cut();
    x.layer.forward(x.rig.context, y, part, x.stash).wait();
    const std::vector<BookedMessage> expected = {{"all_reduce_sum", 4 * kRows * kOutput, 3}};
    const Segment forward = x.rig.trace.cut();
    EXPECT_EQ(forward.messages, expected);
    ASSERT_EQ(forward.ops.size(), 1u);
    EXPECT_EQ(forward.ops[0].flops, 2 * kRows * kOutput * 4);  // its own inputs alone
    x.layer.backward_input(x.rig.context, part, y, x.stash);
    x.layer.backward_weight(x.rig.context, x.stash);
    EXPECT_TRUE(x.rig.trace.cut().messages.empty());
    x.layer.infer(x.rig.context, y, part).wait();
    EXPECT_EQ(x.rig.trace.cut().messages, expected);
  }
}

TEST(TensorLinear, StartsWithThePartOfTheWholeThatItHolds) {
  Holder<nn::Linear> whole(kCpu, spec_of(false));
  const std::unique_ptr<comm::Collective> group = comm::make_recorded({.rank = 3, .size = 4});
  Holder<ColumnParallelLinear> columns(kCpu, spec_of(false), *group);
  Holder<RowParallelLinear> rows(kCpu, spec_of(false, false), *group);
  const Tensor all = whole.store.parameters()[0].master;
  EXPECT_EQ(values_of(columns.store.parameters()[0].master), values_of(all.rows(6, 2)));
  EXPECT_EQ(values_of(rows.store.parameters()[0].master), values_of(all.columns(9, 3)));
}

TEST(TensorLinear, RefusesWhatItCannotCut) {
  const std::unique_ptr<comm::Collective> five = comm::make_recorded({.rank = 0, .size = 5});
  const std::unique_ptr<comm::Collective> two = comm::make_recorded({.rank = 0, .size = 2});
  nn::ParameterStore store({});
  nn::ParameterUnit unit(store);
  EXPECT_DEATH(ColumnParallelLinear(unit, spec_of(false), *five), "w: width 8 over 5 ranks");
  EXPECT_DEATH(RowParallelLinear(unit, spec_of(false, false), *five), "w: width 12 over 5 ranks");
  EXPECT_DEATH(RowParallelLinear(unit, spec_of(false), *two), "a bias of a row-parallel layer");
}

}  // namespace
}  // namespace cadre::parallel
