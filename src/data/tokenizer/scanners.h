// The pre-tokenizer patterns of the large model families, scanned by hand: ten times as fast as the
// general matcher, and the same pieces (scanners_test.cpp holds them to that).

#pragma once

#include <memory>
#include <string_view>

#include "data/tokenizer/pieces.h"

namespace cadre::data {

// What ByteLevel uses if use_regex is set. There \s is ECMAScript's white space, with U+FEFF and
// without U+0085, because the npm package takes it so; in the patterns of tokenizer.json it is
// White_Space.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// GPT-3.5, GPT-4, Llama 3
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Qwen 2 and 3: every digit for itself
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// GPT-4o, gpt-oss
inline constexpr std::string_view kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// `ecma_space` says which \s the pattern of ByteLevel has.
std::unique_ptr<Splitter> make_gpt2_scanner(bool ecma_space);

// The scanner of a pattern that is spelled exactly as one of these; null for any other. All of them
// match every character, so that it makes no difference what is done with what lies between.
std::unique_ptr<Splitter> make_scanner(std::string_view pattern);

}  // namespace cadre::data
