// One block with the options of every family: its backward passes against central differences of
// its forward pass, recomputation, micro-batches in flight, and what it sends in a group.

#include "model/block.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "model/block_test.h"
#include "model/rotary.h"

namespace cadre::model {
namespace {

using testing::expect_near;
using testing::values_of;

// A block of `layer` with its rotary angles.
struct BlockRig {
  explicit BlockRig(const BlockCase& c, const Device& device = testing::kCpu,
                    parallel::Mesh groups = parallel::single_process_mesh())
      : x(device), mesh(std::move(groups)), batch(x.rig, c.documents) {
    block = std::make_unique<Block>(c.spec, 0, x.store, mesh, table);
    x.allocate();
    if (device.kind != DeviceKind::kMeta) {
      disturb_vectors(x);
    }
    if (c.spec.positions == PositionKind::kRotary) {
      angles = x.rig.tensor({16, c.spec.head_dim}, rotary_table(c.spec, 16, 16));
      table = angles;
    }
    input = x.rig.random({14, c.spec.hidden_size}, 1);
    dy = x.rig.random({14, c.spec.hidden_size}, 2);
  }

  OwnedTensor copy(const Tensor& tensor) {
    OwnedTensor result = cadre::allocate(x.rig.activations, tensor.dtype, tensor.shape);
    if (!x.rig.context.is_meta()) {
      testing::set_values(result, values_of(tensor));
    }
    return result;
  }
  OwnedTensor forward(Block::Stash& stash, const Batch& of, Recompute recompute) {
    return block->forward(x.rig.context, x.rig.activations, stash, copy(input), of, recompute);
  }
  OwnedTensor backward(Block::Stash& stash, const Batch& of, Recompute recompute) {
    return block->backward_input(x.rig.context, x.rig.activations, stash, copy(dy), of, recompute);
  }

  nn::StoreRig x;
  parallel::Mesh mesh;
  SmallBatch batch;
  Tensor angles;
  ConstTensor table;
  Tensor input, dy;
  std::unique_ptr<Block> block;
};

class BlockTest : public ::testing::TestWithParam<BlockCase> {};

std::string name_of_case(const ::testing::TestParamInfo<BlockCase>& info_of_case) {
  return info_of_case.param.name;
}

INSTANTIATE_TEST_SUITE_P(Options, BlockTest, ::testing::ValuesIn(block_cases()), name_of_case);

TEST_P(BlockTest, BackwardMatchesCentralDifferences) {
  BlockRig rig(GetParam());
  const Batch batch = rig.batch.batch();
  Block::Stash stash;
  static_cast<void>(rig.forward(stash, batch, Recompute::kNone));
  const OwnedTensor dx = rig.backward(stash, batch, Recompute::kNone);
  rig.block->backward_weight(rig.x.rig.context, stash);
  const auto loss = [&] {
    Block::Stash again;
    return testing::dot(rig.forward(again, batch, Recompute::kNone), rig.dy);
  };
  expect_derivatives(dx, rig.input, loss);
  for (const nn::Parameter& parameter : rig.x.store.parameters()) {
    SCOPED_TRACE(parameter.spec.name);
    const std::vector<float> values = values_of(parameter.gradient);
    EXPECT_TRUE(std::ranges::any_of(values, [](float value) { return std::abs(value) > 1e-2f; }));
    expect_derivatives(parameter.gradient, parameter.master, loss);
  }
}

TEST_P(BlockTest, RecomputationKeepsEveryBitAndLeavesNothingBehind) {
  std::vector<std::vector<float>> results;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    BlockRig rig(GetParam());
    const Batch batch = rig.batch.batch();
    const int64_t before = rig.x.rig.activations.used_bytes();
    std::vector<float> all;
    {
      Block::Stash stash;
      const OwnedTensor y = rig.forward(stash, batch, recompute);
      const OwnedTensor dx = rig.backward(stash, batch, recompute);
      rig.block->backward_weight(rig.x.rig.context, stash);
      all = values_of(y);
      for (const float value : values_of(dx)) {
        all.push_back(value);
      }
      EXPECT_EQ(
          rig.x.rig.activations.used_bytes(),
          before + align_up(y.view().bytes()) + align_up(dx.view().bytes()));  // the stash is empty
    }
    for (const nn::Parameter& parameter : rig.x.store.parameters()) {
      for (const float value : values_of(parameter.gradient)) {
        all.push_back(value);
      }
    }
    results.push_back(all);
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

// q and k that were normalised and turned are made again; v stays beside what they were made of.
TEST(Block, RecomputesTheNormsOfQueriesAndKeys) {
  BlockCase c{.name = "qwen3", .spec = odd_llama()};
  const auto kept = [&c](bool norms) {
    c.spec.qk_norm = norms;
    BlockRig rig(c);
    const int64_t before = rig.x.rig.activations.used_bytes();
    Block::Stash stash;
    const OwnedTensor y = rig.forward(stash, rig.batch.batch(), Recompute::kSelective);
    return rig.x.rig.activations.used_bytes() - before;
  };
  EXPECT_EQ(kept(true), kept(false));
}

// As a zero-bubble pipeline has them: weights later, and in another order.
TEST_P(BlockTest, MicroBatchesMayBeInFlightTogether) {
  BlockRig one(GetParam()), two(GetParam());
  Batch first = one.batch.batch();
  Batch second = first;
  second.first_row += first.tokens();
  const auto sum = [](BlockRig& rig, const Batch& batch) {
    Block::Stash stash;
    static_cast<void>(rig.forward(stash, batch, Recompute::kNone));
    static_cast<void>(rig.backward(stash, batch, Recompute::kNone));
    rig.block->backward_weight(rig.x.rig.context, stash);
  };
  sum(one, first);
  sum(one, second);
  first = two.batch.batch();
  second = first;
  second.first_row += first.tokens();
  Block::Stash a, b;
  static_cast<void>(two.forward(a, first, Recompute::kNone));
  static_cast<void>(two.forward(b, second, Recompute::kSelective));
  static_cast<void>(two.backward(b, second, Recompute::kSelective));
  static_cast<void>(two.backward(a, first, Recompute::kNone));
  two.block->backward_weight(two.x.rig.context, a);
  two.block->backward_weight(two.x.rig.context, b);
  for (const nn::Parameter& parameter : one.x.store.parameters()) {
    SCOPED_TRACE(parameter.spec.name);
    expect_near(two.x.parameter(parameter.spec.name).gradient, parameter.gradient, 1e-6f);
  }
}

// What a token sees: the tokens before it, in its document, within the window.
TEST_P(BlockTest, ATokenReachesThoseThatMaySeeItAndNoOthers) {
  BlockRig rig(GetParam());
  Batch batch = rig.batch.batch();
  batch.training = false;
  const auto output = [&] {
    Block::Stash stash;
    return values_of(rig.forward(stash, batch, Recompute::kNone));
  };
  const std::vector<float> before = output();
  const int64_t window = GetParam().spec.window_of(0);
  const auto width = static_cast<size_t>(GetParam().spec.hidden_size);
  for (int64_t changed = 0; changed < 14; ++changed) {
    const std::vector<float> values = values_of(rig.input);
    testing::store(rig.input, changed * static_cast<int64_t>(width) + 2, 7.0f);
    const std::vector<float> after = output();
    testing::set_values(rig.input, values);
    for (int64_t t = 0; t < 14; ++t) {
      const auto at = static_cast<std::ptrdiff_t>(static_cast<size_t>(t) * width);
      const bool differs =
          !std::equal(before.begin() + at, before.begin() + at + static_cast<std::ptrdiff_t>(width),
                      after.begin() + at);
      const int64_t first =
          rig.batch.starts.empty()
              ? 0
              : static_cast<int64_t>(values_of(rig.batch.starts)[static_cast<size_t>(t)]);
      const bool sees = changed / 7 == t / 7 && changed <= t && changed % 7 >= first &&
                        (window == 0 || changed > t - window);
      EXPECT_EQ(differs, sees) << "token " << t << " when token " << changed << " changes";
    }
  }
}

TEST(Block, DropsNothingOutsideTraining) {
  const auto cases = block_cases();
  const auto dropping = std::ranges::find(cases, "gpt2_dropout", &BlockCase::name);
  BlockCase plain = *dropping;
  plain.spec.residual_dropout = plain.spec.attention_dropout = 0.0;
  BlockRig with(*dropping), without(plain);
  Batch batch = with.batch.batch();
  Block::Stash a, b, c;
  EXPECT_NE(values_of(with.forward(a, batch, Recompute::kNone)),
            values_of(without.forward(b, without.batch.batch(), Recompute::kNone)));
  batch.training = false;
  Block::Stash d;
  EXPECT_EQ(values_of(with.forward(c, batch, Recompute::kNone)),
            values_of(without.forward(d, without.batch.batch(), Recompute::kNone)));
}

// Tensor parallelism: two all-reduces in each direction, of what the block takes and gives.
TEST(Block, BooksTwoSumsInEachDirectionInAGroup) {
  BlockCase c{.name = "llama", .spec = odd_llama()};
  c.spec.num_attention_heads = 4;
  c.spec.num_key_value_heads = 2;
  c.spec.intermediate_size = 12;
  BlockRig rig(
      c, testing::kMeta,
      {.tensor = comm::make_recorded({.rank = 1, .size = 2}), .data = comm::make_recorded({})});
  const std::vector<BookedMessage> expected(2, {"all_reduce_sum", int64_t{4} * 14 * 15, 2});
  Block::Stash stash;
  const Batch batch = rig.batch.batch();
  rig.x.rig.trace.cut();
  static_cast<void>(rig.forward(stash, batch, Recompute::kNone));
  EXPECT_EQ(rig.x.rig.trace.cut().messages, expected);
  static_cast<void>(rig.backward(stash, batch, Recompute::kNone));
  EXPECT_EQ(rig.x.rig.trace.cut().messages, expected);
  rig.block->backward_weight(rig.x.rig.context, stash);
  EXPECT_TRUE(rig.x.rig.trace.cut().messages.empty());
}

}  // namespace
}  // namespace cadre::model
