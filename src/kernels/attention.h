// Causal attention with online softmax (Dao, 2023): the scores are never in memory as a whole.
//
// Legend: B sequences, Q query positions, K key positions, H query heads, G key/value heads (G
// divides H; query head h reads key/value head h / (H/G)), D head width. Views may be strided (they
// lie inside fused qkv rows); D is packed.
//
// Query i of a sequence stands at position K - Q + i of its keys, so that generation may ask with a
// few new queries against a longer cache; in training Q = K. It sees key j if and only if
//   j <= position,   j > position - window (if window > 0),   j >= start[b, position]
// where start is the first position of the document that the position belongs to.

#pragma once

#include <cstdint>

#include "base/random.h"
#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

// Which numbers decide what is dropped: the same for every layout of the run. A key j is dropped
// for a query at `position` of sequence b and head h if word j mod 4 of block
//   ((first_row + b K + position) heads + first_head + h) ceil(K / 4) + floor(j / 4)
// of `key` is below probability 2^32.
struct AttentionDropout {
  float probability = 0.0f;  // below 1; 0: none, and nothing else here counts
  RandomKey key = {};        // of the seed; the stream holds optimizer step, layer and place
  int64_t first_row = 0;     // sequence 0 begins at this row of the global batch: slot * K
  int64_t heads = 0;         // query heads of the layer, on all ranks
  int64_t first_head = 0;    // which of them is head 0 here
};

struct AttentionOptions {
  float scale = 1.0f;  // of the scores, above 0; 1 / sqrt(D) as a rule
  int64_t window = 0;  // keys a query sees, itself included; 0: all before it
  AttentionDropout dropout = {};
};

//   s = scale q k^T (masked),  lse = log sum exp(s),  p = exp(s - lse),  o = (m p) v
//
// m is 0 where a key is dropped and else 1 / (1 - probability of that); lse does not know of it.
//
// q, k, v, o are f32, bf16 or f16, all the same; lse is f32 and kept for the backward pass.
// `start_BK` is i32, or empty: all of a sequence is one document.
void attention_forward(Context& context, Tensor o_BQHD, Tensor lse_BHQ, ConstTensor q_BQHD,
                       ConstTensor k_BKGD, ConstTensor v_BKGD, ConstTensor start_BK,
                       const AttentionOptions& options);

//   p  = exp(s - lse),  dp = m (do v^T),  delta = sum over D of do * o
//   ds = p (dp - delta),  dq = scale ds k,  dk = scale ds^T q,  dv = (m p)^T do
//
// Overwrites dq, dk, dv, which lie apart from all inputs. Q = K here. dk and dv sum over the H / G
// query heads that share them, in an order that depends on shapes only.
void attention_backward(Context& context, Tensor dq_BQHD, Tensor dk_BKGD, Tensor dv_BKGD,
                        ConstTensor do_BQHD, ConstTensor o_BQHD, ConstTensor lse_BHQ,
                        ConstTensor q_BQHD, ConstTensor k_BKGD, ConstTensor v_BKGD,
                        ConstTensor start_BK, const AttentionOptions& options);

}  // namespace cadre::kernels
