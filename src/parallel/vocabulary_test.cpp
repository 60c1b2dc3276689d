#include "parallel/vocabulary.h"

#include <memory>
#include <vector>

#include "testing/test_support.h"

namespace cadre::parallel {
namespace {

using testing::kCpu;
using testing::kMeta;
using testing::Rig;
using testing::values_of;

const nn::ParameterSpec kTable{.name = "embed.weight",
                               .whole = {10, 3},
                               .deviation = 1.0f,
                               .role = nn::ParameterRole::kEmbedding};

template <typename Layer>
struct Holder {
  template <typename... Group>
  explicit Holder(const Device& device, Group&... group)
      : rig(device), unit(store), layer(unit, kTable, group...) {
    store.allocate(rig.context, {rig.parameters, rig.gradients, optimizer});
    store.initialize(rig.context, 1);
    unit.acquire();
  }
  ~Holder() { unit.release(); }

  const Tensor& gradient() const { return store.parameters()[0].gradient; }

  Rig rig;
  Arena optimizer{*rig.source, rig.trace, rig.arena(MemoryCategory::kOptimizer)};
  nn::ParameterStore store{{}};
  nn::ParameterUnit unit;
  Layer layer;
};

TEST(VocabularyEmbedding, IsThePlainLayerInAGroupOfOne) {
  const std::unique_ptr<comm::Collective> alone = comm::make_recorded({});
  Holder<nn::Embedding> plain(kCpu);
  Holder<VocabularyEmbedding> parallel(kCpu, *alone);
  const auto run = [](auto& x, const auto& forward) {
    const Tensor y = x.rig.tensor({4, 3});
    const Tensor ids = x.rig.ids({4}, {9, 0, 9, 4});
    nn::Embedding::Stash stash;
    forward(y, ids, stash);
    x.layer.backward_input(x.rig.random({4, 3}, 2), stash);
    x.layer.backward_weight(x.rig.context, stash);
    std::vector<float> all = values_of(y);
    const std::vector<float> gradient = values_of(x.gradient());
    all.insert(all.end(), gradient.begin(), gradient.end());
    return all;
  };
  const auto expected = run(plain, [&](Tensor y, ConstTensor ids, nn::Embedding::Stash& stash) {
    plain.layer.forward(plain.rig.context, y, ids, stash);
  });
  const auto actual = run(parallel, [&](Tensor y, ConstTensor ids, nn::Embedding::Stash& stash) {
    parallel.layer.forward(parallel.rig.context, y, ids, stash).wait();
  });
  EXPECT_EQ(actual, expected);
  EXPECT_TRUE(parallel.rig.trace.cut().messages.empty());
}

TEST(VocabularyEmbedding, HoldsRowsAndSendsItsOutput) {
  // 10 rows over 4 ranks: 2, 3, 2, 3.
  std::vector<int64_t> firsts, sizes;
  for (int rank = 0; rank < 4; ++rank) {
    const std::unique_ptr<comm::Collective> group = comm::make_recorded({.rank = rank, .size = 4});
    Holder<VocabularyEmbedding> x(kMeta, *group);
    const Box box = x.store.parameters()[0].spec.box();
    firsts.push_back(box.first[0]);
    sizes.push_back(box.size[0]);
    EXPECT_EQ(box.size[1], 3);
    const Tensor y = x.rig.tensor({6, 3});
    const Tensor ids = x.rig.tensor({6}, DType::kI32);
    nn::Embedding::Stash stash;
    x.rig.trace.cut();
    x.layer.forward(x.rig.context, y, ids, stash).wait();
    const std::vector<BookedMessage> expected = {{"all_reduce_sum", 4 * 6 * 3, 4}};
    EXPECT_EQ(x.rig.trace.cut().messages, expected);
    x.layer.backward_input(y, stash);
    x.layer.backward_weight(x.rig.context, stash);
    EXPECT_TRUE(x.rig.trace.cut().messages.empty());
  }
  EXPECT_EQ(firsts, (std::vector<int64_t>{0, 2, 5, 7}));
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 3, 2, 3}));
}

TEST(VocabularyLossHead, IsThePlainLayerInAGroupOfOne) {
  const std::unique_ptr<comm::Collective> alone = comm::make_recorded({});
  Holder<nn::LossHead> plain(kCpu);
  Holder<VocabularyLossHead> parallel(kCpu, *alone);
  const auto run = [](auto& x, const auto& both) {
    const Tensor input = x.rig.random({5, 3}, 1);
    const Tensor targets = x.rig.ids({5}, {9, 0, -100, 4, 4});
    const Tensor dx = x.rig.tensor({5, 3});
    const Tensor sums = x.rig.tensor({3});
    const auto one = [&](int64_t i) { return sums.slice({.first = {i}, .size = {1}}); };
    both(nn::LossSums{.loss_1 = one(0), .z_1 = one(1), .count_1 = one(2)}, dx, input, targets);
    std::vector<float> all = values_of(sums);
    for (const ConstTensor& tensor : {ConstTensor(dx), ConstTensor(x.gradient())}) {
      const std::vector<float> values = values_of(tensor);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const nn::LossHead::Options options{.gradient_scale = 2.0f, .z_loss = 0.1f};
  const auto expected =
      run(plain, [&](const nn::LossSums& sums, Tensor dx, ConstTensor x, ConstTensor targets) {
        plain.layer.forward_backward(plain.rig.context, plain.rig.activations, sums, dx, x, targets,
                                     options, [](Context&, Tensor, Tensor, Tensor) {});
      });
  const auto actual =
      run(parallel, [&](const nn::LossSums& sums, Tensor dx, ConstTensor x, ConstTensor targets) {
        parallel.layer
            .forward_backward(parallel.rig.context, parallel.rig.activations, sums, dx, x, targets,
                              options)
            .wait();
      });
  EXPECT_EQ(actual, expected);
  EXPECT_EQ(expected[2], 4.0f);
  EXPECT_TRUE(parallel.rig.trace.cut().messages.empty());
}

TEST(VocabularyLossHead, RefusesAGroupThatItCannotAgreeIn) {
  const std::unique_ptr<comm::Collective> group = comm::make_recorded({.rank = 0, .size = 2});
  Holder<VocabularyLossHead> x(kMeta, *group);
  EXPECT_EQ(x.store.parameters()[0].spec.box().size[0], 5);
  EXPECT_DEATH(x.layer.forward(x.rig.context, x.rig.activations, {}, x.rig.tensor({5, 3}),
                               x.rig.tensor({5}, DType::kI32)),
               "the loss over 2 parts of a vocabulary");
}

}  // namespace
}  // namespace cadre::parallel
