// Mixed text for comparing tokenizers: the same on every machine, from a seed.

// xorshift32
export function randomNumbers(seed) {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}

const WORDS = (
  "the of and to in is that it was for on are as with his they at be this from have or by one had " +
  "not but what all were when we there can an your which their said if do will each about how up " +
  "out them then she many some so these would other into has more her two like him see time could " +
  "no make than first been its who now people my made over did down only way find use may water " +
  "long little very after words called just where most know language tokenizer internationalization " +
  "straightforward unbelievable counterrevolutionary HTTPServer camelCase snake_case SCREAMING_CASE"
).split(" ");
const CONTRACTIONS = [
  "don't", "DON'T", "I'm", "I'M", "we'll", "WE'LL", "they've", "you're", "YOU'RE", "he'd", "it's",
  "IT'S", "'tis", "rock'n'roll", "o'clock", "y'all'd've", "I'ſ", "'Ll", "'rE", "'VE", "''s", "can’t",
];
const CODE = [
  "for (int i = 0; i < n; ++i) {", "    return x->y[i] * 0x1F + 1e-9f;", "\tif (a && !b || c) {",
  "def f(self, *args, **kwargs) -> None:", "# TODO(me): fix\n", "}\n\n", "};\r\n", "/* c */ // d",
  "std::vector<std::pair<int, float>> v{};", "SELECT * FROM t WHERE a <> 'b''c';", "\\u00e9\\n\\t",
  "https://example.org/a/b?c=d&e=%20f#g", "<div class=\"a\">&nbsp;</div>", "a://b//c///\n///d", "$x = @$y[0];",
  "let s = `${a}${b}`;", "fn main() -> Result<(), Box<dyn Error>> {", "x ^= y << 13; ~z", "--flag=value -v",
];
const SPECIAL = [
  "<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<s>", "</s>", "<unk>",
  "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<bos>", "<eos>", "<pad>", "<start_of_turn>",
  "<|endofprompt|>", "<|fim_prefix|>", "<EOT>", "<｜begin▁of▁sentence｜>", "<｜User｜>", "<0x0A>", "<|endoftext",
  "<|", "|>", "<<|endoftext|>>", "< s>", "<|reserved_special_token_0|>", "<h1>", "</code>", "<|start|>",
];
const SPACES = [" ", "  ", "   ", "    ", "        ", "\n", "\n\n", "\n\n\n\n", "\r\n", "\r\n\r\n", "\t", "\t\t", " \n",
  "\n ", " \t ", "\u00a0", "\u2003", "\u3000", "\u2028", "\u200b", "\u0085", "\ufeff", "\u1680", "\u202f", "\v", "\f",
  "\u180e", "\u2029", "\u205f", "\u001c", "\u0000"];
const NUMBERS = ["1", "12", "123", "1234", "12345", "1234567890", "3.14159", "1,000,000", "0x1F", "1e-5", "½", "²³", "Ⅷ",
  "①②③", "٣٤٥", "१२३", "１２３", "𝟏𝟐𝟑", "๑๒๓", "2024-01-31T23:59:59Z", "+1 (555) 010-9999"];
const MARKS = ["\u0301", "\u0308", "\u0327", "\u0323", "\u0331", "\u0345", "\u0334", "\u20dd", "\u0e49", "\u093f", "\u05b4",
  "\u0654", "\u3099", "\u309a", "\u11a8", "\u1161", "\ufe0f", "\u200d"];
const EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇯🇵", "❤️", "☃", "🧑🏿‍🚀", "👩‍❤️‍💋‍👨", "1️⃣", "🫠", "🫨", "🫩", "🪾"];
const SENTENCES = [
  "我能吞下玻璃而不伤身体。", "機械学習モデルを訓練する", "こんにちは世界！カタカナｶﾀｶﾅ", "나는 유리를 먹을 수 있어요.", "ᄒᆞᆫ글 옛한글",
  "أنا قادر على أكل الزجاج", "אני יכול לאכול זכוכית וזה לא מזיק לי", "مرحبا بالعالم ١٢٣", "שָׁלוֹם עֲלֵיכֶם", "Я могу есть стекло",
  "Μπορῶ νὰ φάω σπασμένα γυαλιά ΣΊΣΥΦΟΣ", "ฉันกินกระจกได้", "मैं काँच खा सकता हूँ", "আমি কাঁচ খেতে পারি", "நான் கண்ணாடி சாப்பிடுவேன்",
  "Je peux manger du verre, ça ne me fait pas mal", "Größe STRASSE ẞ ß", "İstanbul ıI Dž ǅ ǆ", "Tiếng Việt có dấu", "ქართული ᲥᲐᲠᲗᲣᲚᲘ",
  "ꮳꮃꭹ ᏣᎳᎩ", "မြန်မာ", "ខ្មែរ", "ລາວ", "አማርኛ", "தமிழ்", "ﬁ ﬂ ﬃ Å Ω K ℵ", "ｆｕｌｌ　ｗｉｄｔｈ", "𐐷𐑊 𝒜𝓁𝒷 𝔘𝔫𝔦", "e\u0301le\u0300ve n\u0303",
];
// Letters, marks, digits and symbols that came with Unicode 14 to 17, and what is still unassigned.
const RECENT = [
  [0x0c5d, 0x0c5d], [0x1e030, 0x1e06d], [0x11f00, 0x11f59], [0x1e4d0, 0x1e4f9], [0x31350, 0x323af],
  [0x2ebf0, 0x2ee5d], [0x105c0, 0x105f3], [0x10d40, 0x10d8f], [0x11380, 0x113e2], [0x11bc0, 0x11be9],
  [0x13460, 0x143fa], [0x16100, 0x16139], [0x16d40, 0x16d79], [0x1e5d0, 0x1e5fa], [0x1cc00, 0x1ceb3],
  [0x1fbcb, 0x1fbef], [0xa7cb, 0xa7dc], [0x1c89, 0x1c8a], [0x10940, 0x10959], [0x11db0, 0x11de9],
  [0x16ea0, 0x16ed3], [0x323b0, 0x33479], [0x1e6c0, 0x1e6ff], [0x18d80, 0x18df2], [0x1ada, 0x1aeb],
  [0x2fe0, 0x2fef], [0x0378, 0x0379], [0xe0100, 0xe01ef], [0xf0000, 0xf0010],
];

export function makeTexts(count, seed = 1) {
  const below = randomNumbers(seed);
  const pick = (list) => list[below(list.length)];
  const repeat = (most, make) => {
    let text = "";
    for (let i = below(most) + 1; i > 0; --i) text += make();
    return text;
  };
  const anyCase = (word) => {
    const kind = below(8);
    if (kind === 0) return word.toUpperCase();
    if (kind === 1) return word[0].toUpperCase() + word.slice(1);
    return word;
  };
  const codePoint = () => {
    for (;;) {
      const point = pick([0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000]);
      const value = below(point);
      if (value < 0xd800 || value > 0xdfff) return String.fromCodePoint(value);
    }
  };
  const recent = () => {
    const [first, last] = pick(RECENT);
    return String.fromCodePoint(first + below(last - first + 1));
  };
  const part = () => {
    switch (below(16)) {
      case 0: return pick(CODE);
      case 1: return pick(SPECIAL);
      case 2: return repeat(4, () => pick(SPACES));
      case 3: return pick(NUMBERS);
      case 4: return pick(EMOJI);
      case 5: return pick(SENTENCES);
      case 6: return pick(WORDS) + repeat(3, () => pick(MARKS));
      case 7: return pick(CONTRACTIONS);
      case 8: return repeat(6, codePoint);
      case 9: return repeat(4, recent);
      case 10: return repeat(3, () => String.fromCharCode(33 + below(94)));
      case 11: return repeat(5, () => Array.from(pick(WORDS.concat(SENTENCES))).slice(0, 1 + below(6)).join(""));
      default: return repeat(8, () => anyCase(pick(WORDS)) + pick([" ", " ", " ", ", ", ". ", "\n", ""]));
    }
  };
  const texts = [];
  for (let i = 0; i < count; ++i) {
    const kind = below(50);
    if (kind === 0) texts.push(pick(SPACES).repeat(1 + below(300)));
    else if (kind === 1) texts.push(pick(["a", "A", "é", "字", "0", "!", "'", "=", "-", "ab", "▁", " a"]).repeat(1 + below(400)));
    else texts.push(repeat(10, () => part() + pick(["", "", " ", "\n"])));
  }
  return texts;
}
