// The forms that are cut over ranks, as 1, 2 and 4 threads, against the plain layers on one.

#include <string_view>
#include <type_traits>
#include <vector>

#include "nn/embedding.h"
#include "nn/linear.h"
#include "parallel/tensor_linear.h"
#include "parallel/vocabulary.h"
#include "testing/spawn.h"
#include "testing/test_support.h"

namespace cadre::parallel {
namespace {

using testing::expect_near;
using testing::kCpu;
using testing::Rig;
using testing::spawn;
using testing::values_of;

constexpr int64_t kRows = 7;
constexpr int64_t kInput = 12;
constexpr int64_t kHidden = 8;
constexpr int64_t kOutput = 5;
constexpr float kTolerance = 1e-6f;  // the sum over the hidden width is taken in N parts

nn::LinearSpec spec_of(std::string_view name, const Shape& rows_by_columns, bool transposed) {
  const Shape whole = transposed ? Shape{rows_by_columns[1], rows_by_columns[0]} : rows_by_columns;
  nn::LinearSpec spec{.transposed = transposed};
  spec.weights = {{.name = concat(name, ".weight"), .whole = whole, .deviation = 0.5f}};
  return spec;
}

nn::LinearSpec up_spec(bool transposed) {
  nn::LinearSpec spec = spec_of("up", {kHidden, kInput}, transposed);
  spec.biases = {{.name = "up.bias",
                  .whole = {kHidden},
                  .deviation = 0.5f,
                  .role = nn::ParameterRole::kVector}};
  return spec;
}

struct Storage {
  void fill() {
    store.allocate(rig.context, {rig.parameters, rig.gradients, optimizer});
    store.initialize(rig.context, 1);
    unit.acquire();
  }

  Rig rig{kCpu};
  Arena optimizer{*rig.source, rig.trace, rig.arena(MemoryCategory::kOptimizer)};
  nn::ParameterStore store{{}};
  nn::ParameterUnit unit{store};
};

// Two layers in a row, whole or cut; run() fills all below it.
template <typename Up, typename Down>
struct Pair {
  template <typename... Group>
  explicit Pair(bool transposed, Group&... group)
      : up(storage.unit, up_spec(transposed), group...),
        down(storage.unit, spec_of("down", {kOutput, kHidden}, transposed), group...) {
    storage.fill();
  }
  ~Pair() { storage.unit.release(); }

  void run(int64_t hidden_width) {
    Rig& rig = storage.rig;
    Context& context = rig.context;
    const Tensor x = rig.random({kRows, kInput}, 1);
    const Tensor dy = rig.random({kRows, kOutput}, 2);
    const Tensor hidden = rig.tensor({kRows, hidden_width});
    const Tensor dhidden = rig.tensor({kRows, hidden_width});
    y = rig.tensor({kRows, kOutput});
    dx = rig.tensor({kRows, kInput});
    typename Up::Stash up_stash;
    typename Down::Stash down_stash;
    up.forward(context, hidden, x, up_stash);
    finish([&] { return down.forward(context, y, hidden, down_stash); });
    down.backward_input(context, dhidden, dy, down_stash);
    down.backward_weight(context, down_stash);
    finish([&] { return up.backward_input(context, dx, dhidden, up_stash); });
    up.backward_weight(context, up_stash);
  }

  template <typename Call>
  static void finish(const Call& call) {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
    } else {
      call().wait();
    }
  }

  Storage storage;
  Up up;
  Down down;
  Tensor y;
  Tensor dx;
};

std::vector<float> outputs_of(ConstTensor y, ConstTensor dx) {
  std::vector<float> all = values_of(y);
  const std::vector<float> more = values_of(dx);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Every rank's share of each gradient is that part of the whole one, not a multiple of it.
void expect_shares(const nn::ParameterStore& shares, const nn::ParameterStore& whole) {
  ASSERT_EQ(shares.parameters().size(), whole.parameters().size());
  for (size_t i = 0; i < shares.parameters().size(); ++i) {
    SCOPED_TRACE(whole.parameters()[i].spec.name);
    const Box box = shares.parameters()[i].spec.box();
    expect_near(shares.parameters()[i].gradient, whole.parameters()[i].gradient.slice(box),
                kTolerance);
  }
}

TEST(Ranks, RunAColumnAndARowParallelLayerAsOneRankDoes) {
  for (const bool transposed : {false, true}) {
    Pair<nn::Linear, nn::Linear> whole(transposed);
    whole.run(kHidden);
    for (const int size : {1, 2, 4}) {
      SCOPED_TRACE(concat(size, " ranks, transposed ", transposed));
      std::vector<std::vector<float>> outputs(static_cast<size_t>(size));
      spawn(size, [&](comm::Collective& group) {
        Pair<ColumnParallelLinear, RowParallelLinear> cut(transposed, group);
        cut.run(cut.up.output_width());
        expect_near(cut.y, whole.y, kTolerance);
        expect_near(cut.dx, whole.dx, kTolerance);
        expect_shares(cut.storage.store, whole.storage.store);
        outputs[static_cast<size_t>(group.rank())] = outputs_of(cut.y, cut.dx);
      });
      for (const std::vector<float>& of_rank : outputs) {
        EXPECT_EQ(of_rank, outputs.front());  // what every rank has, it has in the same bits
      }
    }
  }
}

template <typename Layer>
struct Table {
  template <typename... Group>
  explicit Table(Group&... group)
      : layer(storage.unit,
              {.name = "embed.weight",
               .whole = {10, 3},
               .deviation = 1.0f,
               .role = nn::ParameterRole::kEmbedding},
              group...) {
    storage.fill();
    x = storage.rig.tensor({6, 3});
    ids = storage.rig.ids({6}, {9, 0, 9, 4, 5, 2});
    dx = storage.rig.random({6, 3}, 2);
  }
  ~Table() { storage.unit.release(); }

  void backward() {
    layer.backward_input(dx, stash);
    layer.backward_weight(storage.rig.context, stash);
  }

  Storage storage;
  Layer layer;
  nn::Embedding::Stash stash;
  Tensor x;
  Tensor ids;
  Tensor dx;
};

// A row has one owner, and the others add zeros: the same bits as one rank.
TEST(Ranks, LookUpACutVocabularyAsOneRankDoes) {
  Table<nn::Embedding> whole;
  whole.layer.forward(whole.storage.rig.context, whole.x, whole.ids, whole.stash);
  whole.backward();
  const nn::Parameter& table = whole.storage.store.parameters()[0];
  for (const int size : {1, 2, 3, 4}) {
    spawn(size, [&](comm::Collective& group) {
      Table<VocabularyEmbedding> cut(group);
      cut.layer.forward(cut.storage.rig.context, cut.x, cut.ids, cut.stash).wait();
      cut.backward();
      EXPECT_EQ(values_of(cut.x), values_of(whole.x)) << size << " ranks";
      const nn::Parameter& share = cut.storage.store.parameters()[0];
      EXPECT_EQ(values_of(share.gradient), values_of(table.gradient.slice(share.spec.box())))
          << "rank " << group.rank() << " of " << size;
    });
  }
}

}  // namespace
}  // namespace cadre::parallel
